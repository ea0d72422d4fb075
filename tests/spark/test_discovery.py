from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_format_is_found_without_being_registered(spark: SparkSession) -> None:
    columns = spark.read.format("AMQP").option("queue", "any").load().schema.names
    assert columns[:3] == ["body", "exchange", "routing_key"]
