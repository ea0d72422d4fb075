"""Publish every line of the files that come into a folder, each once, whatever is killed between.

    .venv/bin/python docs/examples/spark_stream_files.py INBOX CHECKPOINT

It takes the files that are there and ends; without `availableNow` it would wait for more. Run it
again with the same checkpoint and it goes on where it was. A batch that was cut off is published
again under the same ids, and the queue, which has a window for repeats, takes each only once.
"""

from __future__ import annotations

import os
import sys

import leveret.spark
import pika
from pyspark.sql import SparkSession

HOST, PORT = "127.0.0.1", int(os.environ.get("LEVERET_PORT", "5672"))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """From the folder into the durable queue `lines`."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    inbox, checkpoint = sys.argv[1:]
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT)) as connection:
        # Leveret's own; on RabbitMQ leave the argument out: it is at least once then.
        window = {"x-dedup-window": 1_000_000}
        connection.channel().queue_declare("lines", durable=True, arguments=window)
    spark = SparkSession.builder.appName("files to the broker").getOrCreate()
    leveret.spark.register(spark)
    lines = spark.readStream.text(inbox).withColumnRenamed("value", "body")
    query = (
        lines.writeStream.format("amqp")
        .options(uri=f"amqp://{HOST}:{PORT}/", exchange="", routingKey="lines")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("all lines of all files are confirmed")


if __name__ == "__main__":
    main()
