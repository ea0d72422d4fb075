"""The source of a batch as Spark asks it, without Spark: its answers need no JVM."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from insides import wait_until
from leveret.spark import fetch
from leveret.spark.batch_source import BatchReader, Share
from leveret.spark.broker_errors import SourceError
from leveret.spark.options import OptionError, read_options
from leveret.spark.schema import SchemaError, read_schema
from leveret.spark.source import batch_reader, ways
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType
from source_queue import SourceQueue
from stream_reading import logged
from target_brokers import RestartableLeveret

ReaderOf = Callable[..., BatchReader]


def reader(source: SourceQueue, /, **options: object) -> BatchReader:
    named = {name: str(value) for name, value in options.items()}
    # On a busy machine a broker may be silent for longer than the default's second.
    given = source.options | {"idleTimeoutMs": "30000"} | named
    del given["pollTimeoutMs"]
    return pickle.loads(pickle.dumps(batch_reader(given, read_schema())))


def rows(reader: BatchReader) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def numbers(reader: BatchReader) -> list[int]:
    return [int(row["body"]) for row in rows(reader)]


def test_peek_gives_all_messages_and_leaves_the_queue_as_it_was(source: SourceQueue) -> None:
    source.publish(range(1200))
    found = rows(reader(source))
    assert [int(row["body"]) for row in found] == list(range(1200))
    assert [row["_seq"] for row in found] == list(range(1200))
    source.wait_for(1200)
    assert source.drained() == list(range(1200))


def test_what_was_peeked_at_is_marked_as_redelivered(source: SourceQueue) -> None:
    source.publish(range(2))
    assert [row["redelivered"] for row in rows(reader(source))] == [False, False]
    source.wait_for(2)
    assert [row["redelivered"] for row in rows(reader(source))] == [True, True]


def test_drain_empties_the_queue_in_parts_that_share_nothing(source: SourceQueue) -> None:
    source.publish(range(1200))
    drain = reader(source, ackMode="drain", numPartitions=4)
    assert len(drain.partitions()) == 2
    found = rows(drain)
    assert [int(row["body"]) for row in found] == list(range(1200))
    assert [row["_seq"] for row in found] == list(range(1200))
    assert source.drained() == []


def test_a_drain_that_ends_early_acks_nothing(source: SourceQueue, monkeypatch: Any) -> None:
    monkeypatch.setattr(fetch, "ARROW_BATCH_ROWS", 10)
    # More than one read of a socket gives.
    source.publish(range(400), size_bytes=10_000)
    drain = reader(source, ackMode="drain")
    [partition] = drain.partitions()
    batches = drain.read(partition)
    assert len(list(islice(batches, 2))) == 2
    batches.close()  # type: ignore[attr-defined]
    source.wait_for(400)


def fetching(source: SourceQueue, messages: int, **options: object) -> fetch.Fetch:
    """A fetch of so many messages, whose connection has its turns all the time."""
    share = Share(f"127.0.0.1:{source.port}", source.name, 0, messages)
    given = {"uri": source.options["uri"], "queue": source.name}
    read = read_options(given | {name: str(value) for name, value in options.items()})
    made = fetch.Fetch(ways(read)[share.address], share, read)
    made._kept_s = 0.001
    return made


def test_a_connection_is_kept_while_spark_works_on_the_last_rows(
    source: SourceQueue, monkeypatch: Any
) -> None:
    monkeypatch.setattr(fetch, "ARROW_BATCH_ROWS", 10)
    # More than one read of a socket gives.
    source.publish(range(400), size_bytes=10_000)
    fetched = fetching(source, 400)
    batches = fetched.rows(acks=True)
    found = [next(batches)]
    wait_until(lambda: len(fetched._held) == 400 - found[0].num_rows)
    found += batches
    assert [int(row["body"]) for batch in found for row in batch.to_pylist()] == list(range(400))
    assert source.drained() == []


def test_what_comes_while_spark_works_on_the_last_rows_is_read_before_it_is_acked(
    source: SourceQueue,
) -> None:
    source.publish(range(2))
    fetched = fetching(source, 4, idleTimeoutMs=50)
    batches = fetched.rows(acks=True)
    assert next(batches).num_rows == 2
    source.publish([2], waits=False)
    wait_until(lambda: bool(fetched._held))
    assert [row["body"] for batch in batches for row in batch.to_pylist()] == [b"2"]
    assert source.drained() == []


def test_a_connection_lost_behind_the_last_row_of_a_peek_does_no_harm(source: SourceQueue) -> None:
    source.publish(range(2))
    fetched = fetching(source, 2)
    batches = fetched.rows(acks=False)
    assert next(batches).num_rows == 2
    source.delete()
    wait_until(lambda: fetched._failure is not None)
    assert list(batches) == []


@pytest.mark.parametrize("mode", ["peek", "drain"])
def test_a_limit_is_the_most_that_is_read(source: SourceQueue, mode: str) -> None:
    source.publish(range(10))
    assert numbers(reader(source, ackMode=mode, limit=4)) == [0, 1, 2, 3]
    source.wait_for(10 if mode == "peek" else 6)


def test_a_limit_above_the_depth_does_not_wait(source: SourceQueue) -> None:
    source.publish(range(3))
    assert numbers(reader(source, limit=1000, idleTimeoutMs=600_000)) == [0, 1, 2]


def test_more_than_one_prefetch_can_say_is_fetched_by_several_channels(
    source: SourceQueue, monkeypatch: Any
) -> None:
    monkeypatch.setattr(fetch, "SHORT_MAX", 10)
    source.publish(range(35))
    assert sorted(numbers(reader(source, limit=32))) == list(range(32))
    source.wait_for(35)
    assert sorted(numbers(reader(source, ackMode="drain"))) == list(range(35))
    assert source.drained() == []


def test_an_empty_queue_gives_no_rows(source: SourceQueue) -> None:
    assert rows(reader(source)) == []
    # What Spark makes when there is no partition.
    assert list(reader(source).read(InputPartition(None))) == []


def test_messages_that_somebody_else_took_are_not_waited_for(
    source: SourceQueue, capfd: pytest.CaptureFixture[str]
) -> None:
    source.publish(range(5))
    peek = reader(source, idleTimeoutMs=100)
    [partition] = peek.partitions()
    source.drained()
    assert list(peek.read(partition)) == []
    [line] = logged(capfd, "spark.source.not_drained")
    assert (line["queue"], line["messages"]) == (source.name, 5)


def test_several_queues_and_brokers_are_all_read(
    source: SourceQueue, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = RestartableLeveret(tmp_path)
    others = [SourceQueue(broker.port, name) for name in (source.name, "more")]
    source.publish(range(3))
    more = SourceQueue(source.port, "more")
    others[0].publish([3])
    others[1].publish([4, 5])
    uri = f"amqp://127.0.0.1:{source.port},127.0.0.1:{broker.port}"
    both = reader(source, uri=uri, queue=f"{source.name},more")
    assert sorted(numbers(both)) == [0, 1, 2, 3, 4, 5]
    broker.kill()
    source.wait_for(3)
    assert sorted(numbers(both)) == [0, 1, 2]
    assert len(logged(capfd, "spark.source.passed_over")) == 1
    more.delete()
    more.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "404 NOT_FOUND - no queue 'nowhere' in vhost '/'"),
        ({"uri": "amqp://guest:hush@127.0.0.1:1/"}, "no connection to 127.0.0.1:1: Connection"),
    ],
)
def test_what_cannot_be_read_is_said_before_any_task(
    source: SourceQueue, options: dict[str, str], said: str
) -> None:
    with pytest.raises(SourceError) as raised:
        reader(source, **options).partitions()
    assert said in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_queue_deleted_in_the_middle_is_an_error(source: SourceQueue, monkeypatch: Any) -> None:
    monkeypatch.setattr(fetch, "ARROW_BATCH_ROWS", 1)
    source.publish(range(5))
    peek = reader(source, idleTimeoutMs=10_000)
    [partition] = peek.partitions()
    partition.messages = 6
    batches = peek.read(partition)
    next(batches)
    source.delete()
    with pytest.raises(SourceError, match="cancelled the consumer of the queue 'test_batch"):
        list(batches)


def test_a_batch_cannot_ack_after_a_commit() -> None:
    with pytest.raises(OptionError, match="Spark does not say when a batch job has committed"):
        batch_reader({"queue": "source", "ackMode": "after-commit"}, read_schema())


@pytest.mark.parametrize("name", ["prefetch", "maxRecordsPerTrigger", "reconnectTimeoutMs"])
def test_what_says_nothing_to_a_batch_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is not for this way of reading"):
        batch_reader({"queue": "source", name.lower(): "1"}, read_schema())


def test_a_schema_of_the_users_is_refused() -> None:
    with pytest.raises(SchemaError, match='"extra" is not there'):
        batch_reader({"queue": "source"}, read_schema_with("extra"))


def read_schema_with(name: str) -> StructType:
    return read_schema().add(name, "string")
