"""Drain a queue to Parquet with Spark: nothing is acked before its batch is written and committed.

    pip install "leveret[spark]"
    python docs/examples/spark_drain_to_parquet.py amqp://guest:guest@localhost/ orders ./orders

Run it again and again, by hand or by cron: each run takes what the queue holds when it begins, adds
it to `./orders/rows` and ends. Kill it at any time: the next run goes on where the last commit
was. What was written and not yet committed is then written a second time; its `message_id` tells.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import leveret.spark
from pyspark.sql import SparkSession


def drain(spark: SparkSession, uri: str, queue: str, directory: Path) -> int:
    """Take what the queue holds; give how many rows were written."""
    leveret.spark.register(spark)
    messages = (
        spark.readStream.format("amqp")
        .option("uri", uri)
        .option("queue", queue)
        .option("maxRecordsPerTrigger", 20_000)
        .load()
    )
    query = (
        messages.selectExpr(
            "message_id", "routing_key", "redelivered", "decode(body, 'utf-8') as body"
        )
        .writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)


def main() -> None:
    """Drain the queue that the command line names."""
    if len(sys.argv) != 4:
        sys.exit("usage: spark_drain_to_parquet.py URI QUEUE DIRECTORY")
    uri, queue, directory = sys.argv[1:]
    # The workers run this Python, not the first python3 in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("drain").getOrCreate()
    written = drain(spark, uri, queue, Path(directory))
    print(f"{written} messages of {queue} are in {Path(directory) / 'rows'}")


if __name__ == "__main__":
    main()
