"""A driver of its own that streams files to a broker, for tests that kill it.

python stream_job.py PORT EXCHANGE INPUT CHECKPOINT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def files_to_broker(
    spark: SparkSession, port: int, exchange: str, folder: str, checkpoint: str
) -> DataStreamWriter:
    """One file of lines is one batch; each line is one row."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(folder)
    options = {
        "uri": f"amqp://127.0.0.1:{port}",
        "exchange": exchange,
        "routingKey": "",
        "checkpointLocation": checkpoint,
    }
    frame = lines.repartition(2).withColumnRenamed("value", "body")
    return frame.writeStream.format("amqp").options(**options).trigger(availableNow=True)


def main() -> None:
    from pyspark.sql import SparkSession

    port, exchange, folder, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.master("local[2,3]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    files_to_broker(spark, int(port), exchange, folder, checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
