"""Submitted to a cluster: rows into a queue, the queue into Parquet, and what is there then.

spark-submit cluster_job.py URI QUEUE DIRECTORY ROWS MAY_END_WRITING MAY_END_READING

The last two are files. Without them neither writing nor reading gets past the rows of the last
partition, so neither is over before the test has killed a worker, however slow test or machine is.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import leveret.spark
import pyarrow
import pyarrow.compute
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

PARTITIONS = 8
BATCHES = 5
POLL_SECONDS = 0.05

Batches = Iterator[pyarrow.RecordBatch]


def gated(file: Path, first: int) -> Callable[[Batches], Batches]:
    """Passes rows on; those whose `id` is at or above `first` only when `file` is there."""

    def pass_on(batches: Batches) -> Batches:
        pause = threading.Event()
        for batch in batches:
            if (
                batch.num_rows
                and pyarrow.compute.max(batch["id"].cast(pyarrow.int64())).as_py() >= first
            ):
                while not file.exists():
                    pause.wait(POLL_SECONDS)
            yield batch

    return pass_on


def main() -> None:
    uri, queue, directory, rows = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    may_end_writing, may_end_reading = map(Path, sys.argv[5:7])
    spark = SparkSession.builder.appName("cluster job").getOrCreate()
    leveret.spark.register(spark)
    body = sql.lpad(sql.col("id").cast("string"), 200, "x")
    last_partition = rows - rows // PARTITIONS
    may_write = gated(may_end_writing, last_partition)
    numbers = spark.range(rows, numPartitions=PARTITIONS).mapInArrow(may_write, "id long")
    frame = numbers.select(body.alias("body"))
    options = {"uri": uri, "exchange": "", "routingKey": queue}
    frame.write.format("amqp").options(**options).mode("append").save()
    (directory / "written").touch()
    stream = spark.readStream.format("amqp").options(
        uri=uri, queue=queue, maxRecordsPerTrigger=str(rows // BATCHES), numPartitions="4"
    )
    read = stream.load().select(sql.ltrim(sql.decode("body", "utf-8"), sql.lit("x")).alias("id"))
    may_read = gated(may_end_reading, last_partition)
    query = (
        read.mapInArrow(may_read, "id string")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .option("path", str(directory / "parquet"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(str(directory / "parquet"))
    (counts,) = found.agg(
        sql.count("*").alias("rows"),
        sql.countDistinct("id").alias("distinct"),
        sql.sum(sql.col("id").cast("long")).alias("sum"),
    ).collect()
    print(json.dumps(counts.asDict()))
    spark.stop()


if __name__ == "__main__":
    main()
