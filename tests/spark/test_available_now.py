"""Streams that end, and streams of several queues and brokers; without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, batches, logged, next_batch
from target_brokers import RestartableLeveret, Target


def test_available_now_ends_on_a_queue_that_is_still_published_to(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(25))
    stream = reader(source, maxRecordsPerTrigger=10)
    stream.prepareForTriggerAvailableNow()
    seen, published = [], []
    for batch in batches(stream):
        published.append(100 + len(seen))
        source.publish(published[-1:], waits=False)
        seen += batch
    assert seen == list(range(25))
    stream.stop()
    source.wait_for(len(published))
    assert source.drained() == published


def test_available_now_ends_at_once_on_an_empty_queue(
    source: SourceQueue, reader: ReaderOf
) -> None:
    stream = reader(source, idleTimeoutMs=60_000)
    stream.prepareForTriggerAvailableNow()
    assert list(batches(stream)) == []


def test_available_now_ends_when_somebody_else_takes_the_messages(
    source: SourceQueue, reader: ReaderOf, capfd: pytest.CaptureFixture[str]
) -> None:
    source.publish(range(10))
    stream = reader(source, maxRecordsPerTrigger=2, prefetch=2, idleTimeoutMs=2000)
    stream.prepareForTriggerAvailableNow()
    others: list[int] = []
    seen = []
    for batch in batches(stream):
        seen += batch
        others += [] if others else source.drained()
    assert sorted(seen + others) == list(range(10))
    [line] = logged(capfd, "spark.source.not_drained")
    assert line["messages"] == len(others)


def test_several_queues_are_read_side_by_side_and_all_acked(
    source: SourceQueue, reader: ReaderOf
) -> None:
    other = SourceQueue(source.port, "other")
    source.publish(range(5))
    other.publish(range(5, 8))
    stream = reader(source, queue=f"{source.name}, other")
    stream.prepareForTriggerAvailableNow()
    assert sorted(number for batch in batches(stream) for number in batch) == list(range(8))
    stream.stop()
    assert (source.drained(), other.drained()) == ([], [])
    other.delete()
    other.close()


def test_several_brokers_are_all_read_and_one_that_is_away_is_passed_over(
    source: SourceQueue, reader: ReaderOf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = RestartableLeveret(tmp_path)
    other = SourceQueue(broker.port, source.name)
    source.publish(range(5))
    other.publish(range(5, 8))
    uri = f"amqp://127.0.0.1:{source.port},127.0.0.1:{broker.port}"
    stream = reader(source, uri=uri, reconnectTimeoutMs=500)
    start, seen = FIRST, []
    while len(seen) < 8:
        start, found = next_batch(stream, start)
        seen += [int(row["body"]) for row in found]
    assert sorted(seen) == list(range(8))
    broker.kill()
    source.publish([8, 9], waits=False)
    start, found = next_batch(stream, start, messages=2)
    assert [int(row["body"]) for row in found] == [8, 9]
    again = reader(source, uri=uri, reconnectTimeoutMs=500)
    again.prepareForTriggerAvailableNow()
    assert list(batches(again)) == []
    assert f"127.0.0.1:{broker.port}" in {
        line["broker"] for line in logged(capfd, "spark.source.passed_over")
    }


@pytest.mark.parametrize("target", ["rabbitmq"], indirect=True)
def test_two_addresses_of_one_cluster_do_not_take_from_each_other(
    source: SourceQueue, reader: ReaderOf
) -> None:
    """A stream's unacked messages could not be drained by the task whose share they are."""
    source.publish(range(40))
    uri = f"amqp://127.0.0.1:{source.port},localhost:{source.port}"
    stream = reader(source, uri=uri, maxRecordsPerTrigger=2, prefetch=4)
    stream.prepareForTriggerAvailableNow()
    seen = [number for batch in batches(stream) for number in batch]
    assert sorted(seen) == list(range(40))


def test_a_quorum_queue_says_how_often_a_message_came_back(
    target: Target, queue: str, reader: ReaderOf
) -> None:
    source = SourceQueue(target.port, f"{queue}.quorum", {"x-queue-type": "quorum"})
    source.publish([1])
    counts = []
    for _ in range(3):
        stream = reader(source)
        _, [row] = next_batch(stream, FIRST)
        counts.append(row["delivery_count"])
        stream.stop()
    assert counts == [None, 1, 2]
    source.delete()
    source.close()
