"""The source of a stream as Spark asks it, without Spark: its answers need no JVM."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.options import OptionError
from leveret.spark.schema import SchemaError, read_schema
from leveret.spark.source.source import stream_reader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, ask_until_it_fails, logged, next_batch, rows
from target_brokers import RestartableLeveret


def test_messages_stay_unacked_until_their_batch_is_the_next_ones_start(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(5))
    first = reader(source)
    end, found = next_batch(first, FIRST, messages=5)
    assert [row["body"] for row in found] == [b"0", b"1", b"2", b"3", b"4"]
    first.stop()
    source.wait_for(5)

    second = reader(source)
    end, found = next_batch(second, FIRST, messages=5)
    assert [row["redelivered"] for row in found] == [True] * 5
    assert second.latestOffset(end, second.getDefaultReadLimit()) == end
    second.stop()
    assert source.drained() == []


def test_commit_acks_as_well(source: SourceQueue, reader: ReaderOf) -> None:
    source.publish(range(3))
    stream = reader(source)
    end, _ = next_batch(stream, FIRST, messages=3)
    stream.commit(end)
    stream.stop()
    assert source.drained() == []


@pytest.mark.parametrize("prefetch", [10, 7, 20])
def test_a_window_as_small_as_a_batch_never_stalls(
    source: SourceQueue, reader: ReaderOf, prefetch: int
) -> None:
    source.publish(range(55))
    stream = reader(source, maxRecordsPerTrigger=10, prefetch=prefetch)
    start, seen = FIRST, []
    while len(seen) < 55:
        start, found = next_batch(stream, start)
        seen += [int(row["body"]) for row in found]
        assert len(found) <= 10
    assert seen == list(range(55))


def test_a_batch_has_no_more_bytes_than_asked_for(source: SourceQueue, reader: ReaderOf) -> None:
    source.publish(range(10), size_bytes=1000)
    stream = reader(source, maxBytesPerTrigger=3500)
    _, found = next_batch(stream, FIRST, messages=10)
    assert len(found) == 3


def test_a_limit_of_everything_takes_what_the_prefetch_holds(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(30))
    stream = reader(source, maxRecordsPerTrigger=5, prefetch=20, pollTimeoutMs=5000)
    assert stream.latestOffset(FIRST, ReadAllAvailable()) == {"n": 20}


def test_a_batch_that_another_process_began_is_empty_and_offsets_go_on(
    source: SourceQueue, reader: ReaderOf, capfd: pytest.CaptureFixture[str]
) -> None:
    source.publish(range(3))
    stream = reader(source)
    assert stream.partitions({"n": 40}, {"n": 50}) == []
    [line] = logged(capfd, "spark.source.replayed")
    assert (line["start"], line["end"]) == (40, 50)
    end, found = next_batch(stream, {"n": 50}, messages=3)
    assert end == {"n": 53}
    assert [row["_seq"] for row in found] == [50, 51, 52]


def test_a_batch_is_parted_and_every_row_is_in_one_part(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(1600))
    stream = reader(source, numPartitions=3, pollTimeoutMs=5000, maxRecordsPerTrigger=1600)
    end = stream.latestOffset(FIRST, stream.getDefaultReadLimit())
    parts = stream.partitions(FIRST, end)
    assert [part.count for part in parts] == [533, 533, 534]
    assert [int(row["body"]) for row in rows(stream, FIRST, end)] == list(range(1600))


def test_a_queue_that_is_not_there_is_said_at_once(source: SourceQueue, reader: ReaderOf) -> None:
    said = ask_until_it_fails(reader(source, queue="nowhere"), FIRST)
    assert "closed the channel: 404 NOT_FOUND - no queue 'nowhere' in vhost '/'" in said


def test_a_deleted_queue_ends_the_stream(source: SourceQueue, reader: ReaderOf) -> None:
    source.publish(range(3))
    stream = reader(source)
    next_batch(stream, FIRST)
    source.delete()
    # Nothing is to be acked: what asks whether an ack has come might hear first that it is gone.
    said = ask_until_it_fails(stream, FIRST)
    assert f"cancelled the consumer of the queue {source.name!r}" in said


def test_a_refused_login_is_said_at_once_and_without_the_password(
    source: SourceQueue, reader: ReaderOf
) -> None:
    uri = f"amqp://guest:hush-hush@127.0.0.1:{source.port}/"
    said = ask_until_it_fails(reader(source, uri=uri), FIRST)
    assert f"127.0.0.1:{source.port} refuses the login: 403 ACCESS_REFUSED - Login was" in said
    assert "hush" not in said


def test_nobody_there_is_said_after_the_timeout(reader: ReaderOf, tmp_path: Path) -> None:
    broker = RestartableLeveret(tmp_path)
    source = SourceQueue(broker.port)
    broker.kill()
    said = ask_until_it_fails(reader(source, reconnectTimeoutMs=300), FIRST)
    assert f"no connection to 127.0.0.1:{broker.port} for 300 ms (reconnectTimeoutMs)" in said
    assert "Connection refused" in said


def test_one_of_several_brokers_that_stays_away_ends_a_stream_that_is_to_fail_then(
    source: SourceQueue, reader: ReaderOf
) -> None:
    source.publish(range(3))
    uri = f"amqp://127.0.0.1:{source.port},127.0.0.1:1"
    stream = reader(source, uri=uri, reconnectTimeoutMs=300, failOnUnreachable=True)
    stream.prepareForTriggerAvailableNow()
    said = ask_until_it_fails(stream, FIRST)
    assert said.startswith("no connection to 127.0.0.1:1 for 300 ms (reconnectTimeoutMs): Conn")


def test_a_broker_killed_and_started_again_in_the_middle_of_a_batch_loses_nothing(
    reader: ReaderOf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = RestartableLeveret(tmp_path)
    source = SourceQueue(broker.port)
    source.publish(range(30))
    stream = reader(source, maxRecordsPerTrigger=10)
    start, found = next_batch(stream, FIRST, messages=10)
    seen = [int(row["body"]) for row in found]
    broker.kill()
    broker.start()
    # The batch under way has its rows all the same.
    assert [int(row["body"]) for row in rows(stream, FIRST, start)] == seen
    while set(seen) != set(range(30)) or len(seen) < 40:
        start, found = next_batch(stream, start)
        seen += [int(row["body"]) for row in found]
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == start
    stream.stop()
    source.connect()
    assert source.drained() == []
    # The ten that could not be acked came twice, and were said to.
    assert sorted(seen) == sorted([*range(30), *range(10)])
    [lost] = logged(capfd, "spark.source.unacked_lost")
    assert lost["rows"] == 10
    broker.kill()


def test_heartbeats_go_on_while_spark_asks_nothing(source: SourceQueue, reader: ReaderOf) -> None:
    source.publish(range(3))
    stream = reader(source, heartbeat=3)
    end, _ = next_batch(stream, FIRST, messages=3)
    # The broker would close a connection that is silent for six seconds.
    threading.Event().wait(7.5)
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
    stream.stop()
    assert source.drained() == []


def test_a_reader_is_pickled_before_it_is_used(source: SourceQueue, reader: ReaderOf) -> None:
    source.publish(range(2))
    stream = pickle.loads(pickle.dumps(reader(source)))
    _, found = next_batch(stream, FIRST, messages=2)
    stream.stop()
    assert len(found) == 2


@pytest.mark.parametrize("mode", ["peek", "drain"])
def test_a_stream_acks_after_the_commit_and_in_no_other_way(mode: str) -> None:
    with pytest.raises(OptionError, match=f"a stream acks after the commit; {mode} is for batches"):
        stream_reader({"queue": "source", "ackMode": mode}, read_schema())


def test_a_schema_of_the_users_is_refused() -> None:
    with pytest.raises(SchemaError, match='"body" is binary: leave out schema'):
        stream_reader({"queue": "source"}, StructType().add("body", "string"))


def test_a_stream_has_no_limit() -> None:
    with pytest.raises(OptionError, match="limit is not for this way of reading"):
        stream_reader({"queue": "source", "limit": "1"}, read_schema())
