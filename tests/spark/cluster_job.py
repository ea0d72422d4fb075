"""Submitted to a cluster: rows into a queue, the queue into Parquet, and what is there then.

spark-submit cluster_job.py URI QUEUE DIRECTORY ROWS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import leveret.spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

PARTITIONS = 8
BATCHES = 5


def main() -> None:
    uri, queue, directory, rows = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    spark = SparkSession.builder.appName("cluster job").getOrCreate()
    leveret.spark.register(spark)
    body = sql.lpad(sql.col("id").cast("string"), 200, "x")
    frame = spark.range(rows, numPartitions=PARTITIONS).select(body.alias("body"))
    options = {"uri": uri, "exchange": "", "routingKey": queue}
    frame.write.format("amqp").options(**options).mode("append").save()
    (directory / "written").touch()
    stream = spark.readStream.format("amqp").options(
        uri=uri, queue=queue, maxRecordsPerTrigger=str(rows // BATCHES), numPartitions="4"
    )
    read = stream.load().select(sql.ltrim(sql.decode("body", "utf-8"), sql.lit("x")).alias("id"))
    query = (
        read.writeStream.format("parquet")
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
