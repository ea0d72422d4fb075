"""Several saves of one micro-batch: each is a job of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from target_brokers import Target


def test_what_a_batch_saves_twice_is_no_repeat_unless_both_have_one_scope(
    spark: SparkSession, leveret_target: Target, queue: str, tmp_path: Path
) -> None:
    scoped = f"{queue}.scoped"
    for name in (queue, scoped):
        leveret_target.declare(name, x_dedup_window=100)
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "1.txt").write_text("a\nb\n")

    def save(frame: DataFrame, batch: int) -> None:
        for options in (
            {"routingKey": queue},
            {"routingKey": queue},
            {"routingKey": scoped, "dedupScope": f"orders {batch}"},
            {"routingKey": scoped, "dedupScope": f"orders {batch}"},
        ):
            writer = frame.selectExpr("value AS body").write.format("amqp")
            writer.options(exchange="", **leveret_target.options, **options).mode("append").save()

    writer = spark.readStream.text(str(lines)).writeStream.foreachBatch(save)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    in_queues = {name: leveret_target.drain(name) for name in (queue, scoped)}
    bodies = {name: sorted(each.body for each in found) for name, found in in_queues.items()}
    assert bodies == {queue: [b"a", b"a", b"b", b"b"], scoped: [b"a", b"b"]}
