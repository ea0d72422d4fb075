"""The source of a stream with a spool as Spark asks it, without Spark."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from holding import parts

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.errors import SourceError
from leveret.spark.source import spooled_source
from leveret.spark.source.consumers import Consumers
from leveret.spark.spool.spool_files import DriverFiles
from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, batches, logged, next_batch, rows
from target_brokers import RestartableLeveret
from timeouts import TIMEOUT_SECONDS

# What is the spool's alone, whoever delivers.
ONE_BROKER = pytest.mark.parametrize("target", ["leveret"], indirect=True)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def files(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.glob("*.arrow"))


class Killed(BaseException):
    """The driver's process ends here. Not an Exception: nothing may handle it."""


def test_a_batch_is_acked_before_it_is_processed_and_read_again_by_another_process(
    source: SourceQueue, reader: ReaderOf, spool: Path
) -> None:
    source.publish(range(1600))
    options = {"spoolLocation": spool, "maxRecordsPerTrigger": 1600, "pollTimeoutMs": 60_000}
    first = reader(source, **options, numPartitions=3)
    end, found = next_batch(first, FIRST)
    assert [int(row["body"]) for row in found] == list(range(1600))
    assert [part.count for part in first.partitions(FIRST, end)] == [533, 533, 534]
    first.stop()
    # The broker has none of them any more.
    assert source.drained() == []

    # Spark runs the batch again, and asks for its partitions first.
    second = reader(source, spoolLocation=spool, numPartitions=2)
    assert rows(second, FIRST, end) == found
    assert second.latestOffset(end, second.getDefaultReadLimit()) == end
    # What is passed is removed when there is something newer.
    [passed] = files(spool)
    source.publish([1600], waits=False)
    next_batch(second, end)
    assert passed in files(spool)
    second.commit(end)
    assert len(files(spool)) == 1
    assert passed not in files(spool)


def test_a_batch_is_on_the_disk_before_it_is_acked(
    source: SourceQueue, reader: ReaderOf, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fsync before ack: killed at the sync, the broker still has all of it."""
    source.publish(range(5))
    for operation in ("create", "write", "sync_data", "rename", "sync_directory"):
        stream = reader(source, spoolLocation=spool)
        stream.joined(0, None)

        def killed(*_: object) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(DriverFiles, operation, killed)
            with pytest.raises(Killed):
                next_batch(stream, FIRST, messages=5)
        stream.stop()
        source.wait_for(5)
    # Only at the last of them was the range there: it is read, and its messages come again.
    last = reader(source, spoolLocation=spool)
    end, found = next_batch(last, FIRST)
    assert [int(row["body"]) for row in found] == list(range(5))
    _, again = next_batch(last, end, messages=5)
    assert [(int(row["body"]), row["redelivered"]) for row in again] == [
        (number, True) for number in range(5)
    ]


def test_a_range_that_spark_had_not_logged_is_the_next_batch(
    source: SourceQueue, reader: ReaderOf, spool: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source.publish(range(30))
    options = {"spoolLocation": spool, "maxRecordsPerTrigger": 10, "pollTimeoutMs": 60_000}
    first = reader(source, **options)
    start, _ = next_batch(first, FIRST)
    unlogged, found = next_batch(first, start)
    assert [int(row["body"]) for row in found] == list(range(10, 20))
    first.stop()
    (spool / f"{files(spool)[0]}.partial").write_bytes(b"torn")

    second = reader(source, **options)
    assert next_batch(second, start) == (unlogged, found)
    [resumed] = logged(capfd, "spark.source.spool_resumed")
    assert (resumed["start"], resumed["end"]) == (10, 20)
    assert [path.name for path in spool.iterdir() if path.name.endswith(".partial")] == []
    _, rest = next_batch(second, unlogged)
    assert [int(row["body"]) for row in rest] == list(range(20, 30))


def test_available_now_reads_what_is_in_the_spool_and_what_is_in_the_queue(
    source: SourceQueue, reader: ReaderOf, spool: Path
) -> None:
    source.publish(range(25))
    options = {"spoolLocation": spool, "maxRecordsPerTrigger": 10, "pollTimeoutMs": 60_000}
    first = reader(source, **options)
    next_batch(first, FIRST)
    first.stop()
    source.wait_for(15)

    stream = reader(source, spoolLocation=spool, maxRecordsPerTrigger=10)
    stream.prepareForTriggerAvailableNow()
    seen = []
    for batch in batches(stream):
        source.publish([100 + len(seen)], waits=False)
        seen.append(batch)
    assert seen[0] == list(range(10))
    assert [number for batch in seen for number in batch] == list(range(25))
    assert len(files(spool)) == 1
    stream.stop()
    source.wait_for(len(seen))
    assert source.drained() == [100 + number for number in range(len(seen))]


@pytest.mark.parametrize("prefetch", [10, 7, 20])
def test_a_window_as_small_as_a_batch_never_stalls(
    source: SourceQueue,
    reader: ReaderOf,
    spool: Path,
    prefetch: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source.publish(range(55))
    stream = reader(source, spoolLocation=spool, maxRecordsPerTrigger=10, prefetch=prefetch)
    start, seen = FIRST, []
    while len(seen) < 55:
        start, found = next_batch(stream, start)
        seen += [int(row["body"]) for row in found]
        assert len(found) <= min(10, prefetch)
    assert seen == list(range(55))
    # What is processed is acked: one batch is enough to read ahead.
    assert len(logged(capfd, "spark.source.small_prefetch")) == (prefetch < 10)


def test_a_broker_killed_between_write_and_ack_delivers_again_and_nothing_is_lost(
    reader: ReaderOf,
    spool: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = RestartableLeveret(tmp_path)
    source = SourceQueue(broker.port)
    source.publish(range(30))
    stream = reader(source, spoolLocation=spool, maxRecordsPerTrigger=10)
    stream.joined(0, None)
    rename = DriverFiles.rename

    def rename_and_kill(files: DriverFiles, *names: Any) -> None:
        """The range is in its place, and the broker is gone before the ack."""
        rename(files, *names)
        broker.kill()
        consumers = stream.consume()
        with consumers.changed:
            is_lost = consumers.changed.wait_for(
                lambda: not consumers.ranges.channels, TIMEOUT_SECONDS
            )
        assert is_lost

    with monkeypatch.context() as patch:
        patch.setattr(DriverFiles, "rename", rename_and_kill)
        start, found = next_batch(stream, FIRST)
    broker.start()
    first = [int(row["body"]) for row in found]
    seen = list(first)
    while len(seen) < 30 + len(first):
        start, found = next_batch(stream, start)
        seen += [int(row["body"]) for row in found]
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == start
    assert sorted(seen) == sorted([*range(30), *first])
    # They were said to come again.
    [lost] = logged(capfd, "spark.source.unacked_lost")
    assert lost["rows"] == len(first)
    stream.stop()
    broker.kill()


@ONE_BROKER
def test_a_second_query_on_one_spool_waits_a_moment_and_is_refused(
    source: SourceQueue, reader: ReaderOf, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.publish(range(5))
    first = reader(source, spoolLocation=spool)
    next_batch(first, FIRST, messages=5)
    monkeypatch.setattr(spooled_source, "LOCK_WAIT_S", 0.1)
    second = reader(source, spoolLocation=spool)
    with pytest.raises(SourceError, match=f"the spool {spool} is in use by another running query"):
        second.latestOffset(FIRST, second.getDefaultReadLimit())
    with pytest.raises(SourceError, match="in use by another running query"):
        second.prepareForTriggerAvailableNow()
    first.stop()
    assert second.latestOffset(FIRST, second.getDefaultReadLimit())["n"] == 5


@ONE_BROKER
def test_a_damaged_range_is_an_error_before_spark_logs_that_there_is_one(
    source: SourceQueue, reader: ReaderOf, spool: Path
) -> None:
    source.publish(range(5))
    first = reader(source, spoolLocation=spool)
    end, _ = next_batch(first, FIRST)
    first.stop()
    [name] = files(spool)
    content = bytearray((spool / name).read_bytes())
    content[len(content) // 2] ^= 1
    (spool / name).write_bytes(content)
    for ask in (
        lambda stream: stream.latestOffset(FIRST, stream.getDefaultReadLimit()),
        lambda stream: stream.partitions(FIRST, end),
    ):
        stream = reader(source, spoolLocation=spool)
        with pytest.raises(SourceError, match=f"^{spool}/{name} is damaged"):
            ask(stream)
        stream.stop()
    assert files(spool) == [name]


def test_a_query_that_had_no_spool_may_get_one(
    source: SourceQueue, reader: ReaderOf, spool: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source.publish(range(5))
    without = reader(source)
    end, _ = next_batch(without, FIRST, messages=5)
    without.stop()
    source.wait_for(5)
    # Its last batch was never acked: it is empty when it is run again, and its messages come.
    stream = reader(source, spoolLocation=spool)
    assert rows(stream, FIRST, end) == []
    assert len(logged(capfd, "spark.source.replayed")) == 1
    further, found = next_batch(stream, end, messages=5)
    assert further["n"] == 10
    assert [(int(row["body"]), row["_seq"]) for row in found] == [(n, 5 + n) for n in range(5)]
    stream.commit(end)
    assert len(files(spool)) == 1


@ONE_BROKER
def test_a_query_that_had_a_spool_does_not_go_on_without(
    source: SourceQueue, reader: ReaderOf, spool: Path
) -> None:
    source.publish(range(5))
    stream = reader(source, spoolLocation=spool)
    end, _ = next_batch(stream, FIRST)
    stream.stop()
    without = reader(source)
    said = f"the checkpoint goes on in the spool {end['spool']}: give the spoolLocation"
    with pytest.raises(SourceError, match=said):
        without.partitions(FIRST, end)
    with pytest.raises(SourceError, match=said):
        without.latestOffset(end, without.getDefaultReadLimit())


@ONE_BROKER
def test_another_querys_spool_is_an_error_before_anything_is_connected_to(
    source: SourceQueue, reader: ReaderOf, spool: Path
) -> None:
    source.publish(range(5))
    stream = reader(source, spoolLocation=spool)
    next_batch(stream, FIRST)
    stream.stop()
    before = files(spool)
    for start in ({"n": 5}, {"n": 5, "spool": "other"}):
        other = reader(source, spoolLocation=spool)
        with pytest.raises(SourceError, match=f"{spool}.* give"):
            other.latestOffset(start, other.getDefaultReadLimit())
        assert not parts(other, Consumers)
        other.stop()
    assert files(spool) == before


@ONE_BROKER
def test_what_is_in_the_spool_only_its_user_can_read(
    source: SourceQueue, reader: ReaderOf, tmp_path: Path
) -> None:
    source.publish(range(5))
    spool = tmp_path / "made" / "spool"
    next_batch(reader(source, spoolLocation=spool), FIRST)
    assert stat.S_IMODE(os.stat(spool).st_mode) == 0o700
    modes = {stat.S_IMODE(os.stat(path).st_mode) for path in spool.iterdir()}
    assert modes == {0o600}
