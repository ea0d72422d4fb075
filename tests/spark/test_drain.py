"""Draining queues, as Spark's tasks do it, without Spark."""

from __future__ import annotations

import threading
from itertools import islice

import pytest
from holding import part, parts

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from batch_reading import reader, rows
from insides import wait_until
from leveret.spark.errors import SourceError
from leveret.spark.options import read_options
from leveret.spark.source import drain
from leveret.spark.source.broker_connections import Share, parameters_by_address
from leveret.spark.source.deliveries import Deliveries
from leveret.spark.source.received import FETCH_LIMITS, FetchLimits, Received
from source_queue import SourceQueue


def test_drain_empties_the_queue_in_parts_that_share_nothing(source: SourceQueue) -> None:
    source.publish(range(1200))
    draining = reader(source, ackMode="drain", numPartitions=4)
    assert len(draining.partitions()) == 2
    found = rows(draining)
    assert [int(row["body"]) for row in found] == list(range(1200))
    assert [row["_seq"] for row in found] == list(range(1200))
    assert source.drained() == []


def test_a_drain_that_ends_early_acks_nothing(source: SourceQueue) -> None:
    # More than one read of a socket gives.
    source.publish(range(400), size_bytes=10_000)
    draining = reader(source, FetchLimits(batch_rows=10), ackMode="drain")
    [partition] = draining.partitions()
    batches = draining.read(partition)
    assert len(list(islice(batches, 2))) == 2
    batches.close()  # type: ignore[attr-defined]
    source.wait_for(400)


def held(drained: drain.Drain) -> list[Received]:
    return part(drained, Deliveries).held


def draining(
    source: SourceQueue, messages: int, limits: FetchLimits = FETCH_LIMITS, **options: object
) -> drain.Drain:
    """A drain of so many messages, whether there are so many or not."""
    share = Share(f"127.0.0.1:{source.port}", source.name, 0, messages)
    address = {"uri": source.options["uri"], "queue": source.name}
    given = address | {"idleTimeoutMs": "30000"}
    read = read_options(given | {name: str(value) for name, value in options.items()})
    return drain.Drain(parameters_by_address(read)[share.address], share, read, limits)


def test_a_connection_is_kept_while_spark_works_on_the_last_rows(source: SourceQueue) -> None:
    # More than one read of a socket gives.
    source.publish(range(400), size_bytes=10_000)
    drained = draining(source, 400, FetchLimits(batch_rows=10))
    batches = drained.rows()
    found = [next(batches)]
    wait_until(lambda: len(held(drained)) == 400 - found[0].num_rows)
    found += batches
    assert [int(row["body"]) for batch in found for row in batch.to_pylist()] == list(range(400))
    assert source.drained() == []


def test_a_connection_lost_behind_the_last_row_of_a_drain_is_an_error(source: SourceQueue) -> None:
    source.publish(range(2))
    drained = draining(source, 2)
    batches = drained.rows()
    assert next(batches).num_rows == 2
    source.delete()
    wait_until(lambda: bool(parts(drained, Exception)))
    with pytest.raises(SourceError, match="no queue 'test_drain"):
        next(batches)


def test_a_drain_that_does_not_find_what_was_counted_is_an_error_and_acks_nothing(
    source: SourceQueue,
) -> None:
    source.publish(range(5))
    few = reader(source, ackMode="drain", idleTimeoutMs=2000)
    [partition] = few.partitions()
    assert source.channel.basic_get(source.name, auto_ack=True)[2] == b"0"
    said = "gave 4 of the 5 messages that were counted in it, and no more for 2000 ms"
    with pytest.raises(SourceError, match=said):
        list(few.read(partition))
    source.wait_for(4)
    # Nor does a second scan of what is drained give nothing without a word.
    source.drained()
    with pytest.raises(SourceError, match="gave 0 of the 5 messages"):
        list(few.read(partition))


def test_a_queue_deleted_in_the_middle_is_an_error(source: SourceQueue) -> None:
    source.publish(range(5))
    fetched = reader(source, FetchLimits(batch_rows=1), ackMode="drain", idleTimeoutMs=30_000)
    [partition] = fetched.partitions()
    partition.messages = 6
    batches = fetched.read(partition)
    next(batches)
    source.delete()
    with pytest.raises(SourceError, match="cancelled the consumer of the queue 'test_drain"):
        list(batches)


@pytest.mark.soak
def test_a_connection_lasts_however_long_spark_works_on_some_rows(source: SourceQueue) -> None:
    """RabbitMQ drops one that takes none of what it sends for fifteen seconds."""
    source.publish(range(300), size_bytes=1 << 20)
    drained = draining(source, 300)
    batches = drained.rows()
    found = [next(batches)]
    threading.Event().wait(75.0)
    found += batches
    assert [int(row["body"]) for batch in found for row in batch.to_pylist()] == list(range(300))
    assert source.drained() == []
