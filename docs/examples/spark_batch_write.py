"""Write a DataFrame to a queue; when `save()` comes back, every row is confirmed.

make run                                             # in one terminal
.venv/bin/pip install -e ".[spark]"                  # in another, once; Java 17 or later
.venv/bin/python docs/examples/spark_batch_write.py
"""

from __future__ import annotations

import os
import sys

import leveret.spark
import pika
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

HOST, PORT = "127.0.0.1", int(os.environ.get("LEVERET_PORT", "5672"))
# Workers run another Python than this one unless they are told.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """Ten thousand rows to the durable queue `readings`."""
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT)) as connection:
        connection.channel().queue_declare("readings", durable=True)
    spark = SparkSession.builder.appName("batch write").getOrCreate()
    leveret.spark.register(spark)
    readings = spark.range(10_000).select(
        sql.to_json(sql.struct("id", (sql.rand(7) * 100).alias("celsius"))).alias("body"),
        sql.lit("application/json").alias("content_type"),
    )
    readings.write.format("amqp").options(
        uri=f"amqp://{HOST}:{PORT}/", exchange="", routingKey="readings"
    ).mode("append").save()
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT)) as connection:
        queue = connection.channel().queue_declare("readings", durable=True, passive=True)
    print(f"all rows are confirmed; the queue holds {queue.method.message_count} messages")


if __name__ == "__main__":
    main()
