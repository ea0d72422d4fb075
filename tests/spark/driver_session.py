"""The session of a driver that tests start, and kill, in a process of its own."""

from __future__ import annotations

import os
import sys

import leveret.spark
from pyspark.sql import SparkSession


def driver_session() -> SparkSession:
    """Silent, with the format of this checkout; small by the settings in the environment."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    leveret.spark.register(spark)
    return spark
