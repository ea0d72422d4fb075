"""Move the messages of a queue into Parquet: acked only when Spark has committed the files.

.venv/bin/python docs/examples/spark_drain_to_parquet.py QUEUE DIRECTORY CHECKPOINT
"""

from __future__ import annotations

import os
import sys

import leveret.spark
from pyspark.sql import SparkSession

HOST, PORT = "127.0.0.1", int(os.environ.get("LEVERET_PORT", "5672"))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """All messages that are there at the start."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    queue, directory, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("queue to Parquet").getOrCreate()
    leveret.spark.register(spark)
    messages = (
        spark.readStream.format("amqp").options(uri=f"amqp://{HOST}:{PORT}/", queue=queue).load()
    )
    query = (
        # The body as it is: decoded here, a body that is no text would stop the drain for good.
        messages.select("body", "message_id", "redelivered")
        .writeStream.format("parquet")
        .option("path", directory)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{spark.read.parquet(directory).count()} messages are in {directory}")


if __name__ == "__main__":
    main()
