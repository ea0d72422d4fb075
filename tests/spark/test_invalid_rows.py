"""Rows that cannot be published: what becomes of them, and of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

import pyarrow as pa
from leveret.spark.options import write_options
from leveret.spark.sink.message_ids import Place
from leveret.spark.sink.publishes import FinalError
from leveret.spark.sink.publishing import PartitionPublisher
from target_brokers import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5_000
INVALID = {"body": [b"0", None, b"2"], "priority": [1, 2, 300]}


def wait_never(_seconds: float) -> None:
    pytest.fail("there is nothing to wait for")


def publish_columns(
    target: Target, queue: str, columns: dict[str, Any], **options: object
) -> PartitionPublisher:
    named = {"routingKey": queue} | {name: str(value) for name, value in options.items()}
    publisher = PartitionPublisher(
        write_options(named | target.options), Place("scope", None, 4), "test", wait_never
    )
    batch = pa.RecordBatch.from_pydict(columns)
    try:
        publisher.publish([batch.slice(0, 1), batch.slice(1)])
    except FinalError as error:
        publisher.error = str(error)  # type: ignore[attr-defined]
    return publisher


def test_an_invalid_row_ends_the_partition_and_what_was_published_before_is_known(
    leveret_target: Target, queue: str
) -> None:
    leveret_target.declare(queue)
    publisher = publish_columns(leveret_target, queue, INVALID)
    said = "row 1 of partition 4: body is null (onInvalid=fail)"
    assert publisher.error == said  # type: ignore[attr-defined]
    assert (publisher.tally.rows, publisher.tally.confirmed) == (1, 1)
    assert [message.body for message in leveret_target.drain(queue)] == [b"0"]


@pytest.mark.parametrize("on_invalid", ["deadletter", "count", "ignore"])
def test_on_invalid_decides_on_invalid_rows(
    leveret_target: Target, queue: str, on_invalid: str
) -> None:
    leveret_target.declare(queue)
    leveret_target.declare(f"{queue}.buried")
    dead = {"deadLetterExchange": "", "deadLetterRoutingKey": f"{queue}.buried"}
    publisher = publish_columns(leveret_target, queue, INVALID, onInvalid=on_invalid, **dead)
    tally = publisher.tally
    assert (tally.rows, tally.confirmed, tally.invalid) == (3, 1, 2)
    assert [message.body for message in leveret_target.drain(queue)] == [b"0"]
    letters = leveret_target.drain(f"{queue}.buried")
    if on_invalid == "deadletter":
        assert tally.deadlettered == 2
        assert [(letter.body, letter.headers["x-invalid-column"]) for letter in letters] == [
            (b"", "body"),
            (b"2", "priority"),
        ]
    else:
        assert letters == []
    named = [(each.partition, each.row, each.column) for each in tally.invalid_samples]
    assert named == ([] if on_invalid == "ignore" else [(4, 1, "body"), (4, 2, "priority")])


@pytest.mark.spark
@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_a_bad_row_fails_the_job_at_once_in_one_sentence_and_publishes_nothing_twice(
    spark: SparkSession, target: Target, queue: str
) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sql

    target.declare(queue)
    is_bad = sql.col("id") == 2000
    frame = spark.range(ROWS, numPartitions=2).select(
        sql.col("id").cast("string").alias("body"),
        sql.when(is_bad, 300).alias("priority"),
        sql.create_map(sql.lit("key"), sql.lit("geheim")).alias("headers"),
    )
    writer = frame.write.format("amqp").options(**target.options, routingKey=queue).mode("append")
    with pytest.raises(PySparkException) as caught:
        writer.save()
    messages = [message.body for message in target.drain(queue)]
    # A task may fail twice: each of its tries would have published what stands before the row.
    assert len(set(messages)) == len(messages) < ROWS
    text = str(caught.value)
    said = "row 2000 of partition 0: priority is not from 0 to 255 (onInvalid=fail); "
    assert said + f"{len(messages)} of the job's rows are confirmed and stay" in text.split("\n")[0]
    assert "Traceback" not in text
    assert "geheim" not in text
