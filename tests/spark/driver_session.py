"""The session of a driver that tests start, and kill, in a process of its own."""

from __future__ import annotations

import os
import sys

import leveret.spark
from pyspark.sql import SparkSession


def driver_session() -> SparkSession:
    """Small, silent, and with the format of this checkout."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "1g")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    leveret.spark.register(spark)
    return spark
