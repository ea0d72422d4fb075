"""A DataFrame that peeks is one look: all its scans, in all actions, have the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

import leveret.spark
from source_queue import SourceQueue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def frame_of(spark: SparkSession, source: SourceQueue, **options: object) -> DataFrame:
    leveret.spark.register(spark)
    named = {name: str(value) for name, value in options.items()}
    given = {name: each for name, each in source.options.items() if name != "pollTimeoutMs"}
    return spark.read.format("amqp").options(**given, **named).load()


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_a_frame_that_is_read_twice_in_one_action_has_the_same_rows_both_times(
    spark: SparkSession, source: SourceQueue
) -> None:
    source.publish(range(5000), size_bytes=1000)
    frame = frame_of(spark, source).where("not redelivered").select("body")
    assert frame.union(frame).count() == 10_000
    assert frame.join(frame, "body").count() == 5000
    # One task reads both sides.
    assert frame.union(frame).coalesce(1).distinct().count() == 5000
    # Nor does it matter what happens in the queue between two actions.
    assert source.drained() == list(range(5000))
    source.publish(range(10))
    assert frame.count() == 5000
    assert frame_of(spark, source).count() == 10
