"""A million rows, beside one publish at a time and beside RabbitMQ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.brokers import RABBITMQ_SERVER, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def test_a_million_rows_arrive_many_times_as_fast_as_one_by_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    from benchmarks import spark_sink

    names = ["leveret", *(["rabbitmq"] if RABBITMQ_SERVER.exists() else [])]
    found = []
    for name in names:
        with running([name], tmp_path) as [broker]:
            found.append(spark_sink.rates(spark, broker, 1_000_000, 20_000))
    print("\n" + spark_sink.table(found))
    assert found[0].times >= spark_sink.TIMES_MIN
    assert found[0].one_partition >= spark_sink.ONE_PARTITION_MIN
