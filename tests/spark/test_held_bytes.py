"""Reading holds a bounded number of bytes, however large the messages are; see intake.py."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from insides import wait_until
from leveret.spark.source.intake import MessageSizes
from leveret.spark.source.stream_source import StreamReader
from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, next_batch, wait_for_deliveries
from target_brokers import Target

MIB = 1 << 20


def held_bytes(reader: StreamReader) -> int:
    """The messages' bytes that the process of Spark's source keeps."""
    consumers = reader.consume()
    with consumers.changed:
        return sum(map(consumers.ranges.held_bytes, consumers.ranges.channels))


def is_at_rest(reader: StreamReader) -> bool:
    """Has everything come that is let in?"""
    consumers = reader.consume()
    with consumers.changed:
        return bool(consumers.intakes) and all(
            consumers.is_full(name) and (intake.is_exhausted or not intake.window)
            for name, intake in consumers.intakes.items()
        )


def drained(reader: StreamReader, messages: int, bytes_max: int) -> Iterator[int]:
    """The numbers of all messages, batch by batch, each committed before the next."""
    start, count = FIRST, 0
    while count < messages:
        start, found = next_batch(reader, start)
        assert held_bytes(reader) <= bytes_max
        count += len(found)
        yield from (int(row["body"]) for row in found)
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start


def test_a_stream_holds_no_more_bytes_than_it_may_and_reads_everything(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(40), size_bytes=MIB)
    stream = reader(source, maxHeldBytes=16 * MIB, maxBytesPerTrigger=4 * MIB)
    stream.latestOffset(FIRST, stream.getDefaultReadLimit())
    wait_until(lambda: held_bytes(stream) > 8 * MIB and is_at_rest(stream))
    assert held_bytes(stream) <= 16 * MIB
    assert list(drained(stream, 40, 17 * MIB)) == list(range(40))
    stream.stop()
    assert source.drained() == []


def test_small_messages_are_bounded_by_the_prefetch_alone(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(3000))
    stream = reader(source, maxRecordsPerTrigger=1000)
    # Not so few as are let in before their size is known.
    wait_for_deliveries(stream, 2000)
    assert is_at_rest(stream)


def test_a_window_of_one_batch_gives_whole_batches_and_waits_for_nothing(
    source: SourceQueue, reader: ReaderOf
) -> None:
    """A first intake above the limit, before sizes were known, is made up for after its ack."""
    source.publish(range(800))
    stream = reader(source, maxRecordsPerTrigger=200, prefetch=200, pollTimeoutMs=600_000)
    start, batches = FIRST, []
    while sum(batches) < 800:
        start, found = next_batch(stream, start)
        batches.append(len(found))
    assert batches == [200] * 4


def test_messages_that_become_large_all_at_once_are_left_in_the_queue(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(400))
    source.publish(range(400, 440), size_bytes=MIB)
    stream = reader(source, maxHeldBytes=8 * MIB, maxRecordsPerTrigger=200, prefetch=1000)
    assert list(drained(stream, 440, 10 * MIB)) == list(range(440))


def test_a_message_larger_than_may_be_held_is_read_alone(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(4), size_bytes=3 * MIB)
    stream = reader(source, maxHeldBytes=MIB)
    assert list(drained(stream, 4, 4 * MIB)) == [0, 1, 2, 3]


def test_a_quorum_queue_is_let_in_by_windows_as_well(
    target: Target, queue: str, reader: ReaderOf
) -> None:
    quorum = SourceQueue(target.port, f"{queue}.quorum", {"x-queue-type": "quorum"})
    quorum.publish(range(40), size_bytes=MIB)
    stream = reader(quorum, maxHeldBytes=8 * MIB, maxBytesPerTrigger=2 * MIB)
    numbers = list(drained(stream, 40, 10 * MIB))
    assert numbers == list(range(40))
    quorum.delete()
    quorum.close()


@pytest.mark.parametrize("large_share", [0.0, 0.3])
def test_windows_hold_what_they_are_meant_to(large_share: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    def size() -> int:
        return 1_000_000 if chance.random() < large_share else chance.randrange(1000, 2000)

    sizes = MessageSizes()
    assert sizes.fitting(100 * MIB) == 50
    for _ in range(5000):
        sizes.add(size())
    sums = [sum(size() for _ in range(sizes.fitting(16 * MIB))) / (16 * MIB) for _ in range(50)]
    assert sum(each > 1 for each in sums) <= 5
    assert sum(sums) / len(sums) > 0.3


def test_one_message_larger_than_all_room_fits() -> None:
    sizes = MessageSizes()
    sizes.add(1 << 30)
    assert sizes.fitting(1) == 1
