"""The source of a batch as Spark asks it, without Spark: its answers need no JVM."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from batch_reading import numbers, reader, rows
from leveret.spark import outages
from leveret.spark.errors import SourceError
from leveret.spark.options import OptionError
from leveret.spark.schema import SchemaError, read_schema
from leveret.spark.source import peek
from leveret.spark.source.batch_source import BatchReader
from leveret.spark.source.received import FetchLimits
from leveret.spark.source.source import batch_reader
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType
from source_queue import SourceQueue
from stream_reading import logged
from target_brokers import RestartableLeveret


def reader_of(source: SourceQueue, given: dict[str, str]) -> BatchReader:
    """One whose address is given in parts, if it is not in `given`."""
    address = {} if "uri" in given else {"host": "127.0.0.1", "port": str(source.port)}
    return batch_reader({"queue": source.name, **address, **given}, read_schema())


def test_peek_gives_all_messages_and_leaves_the_queue_as_it_was(source: SourceQueue) -> None:
    source.publish(range(1200))
    found = rows(reader(source))
    assert [int(row["body"]) for row in found] == list(range(1200))
    assert [row["_seq"] for row in found] == list(range(1200))
    source.wait_for(1200)
    assert source.drained() == list(range(1200))


def test_peeked_messages_are_marked_as_redelivered(source: SourceQueue) -> None:
    source.publish(range(2))
    assert [row["redelivered"] for row in rows(reader(source))] == [False, False]
    source.wait_for(2)
    assert [row["redelivered"] for row in rows(reader(source))] == [True, True]


@pytest.mark.parametrize("mode", ["peek", "drain"])
def test_a_limit_is_the_most_that_is_read(source: SourceQueue, mode: str) -> None:
    source.publish(range(10))
    assert numbers(reader(source, ackMode=mode, limit=4)) == [0, 1, 2, 3]
    source.wait_for(10 if mode == "peek" else 6)


def test_a_limit_above_the_depth_does_not_wait(source: SourceQueue) -> None:
    source.publish(range(3))
    assert numbers(reader(source, limit=1000, idleTimeoutMs=600_000)) == [0, 1, 2]


def test_more_than_one_prefetch_can_say_is_fetched_by_several_consumers(
    source: SourceQueue,
) -> None:
    limits = FetchLimits(prefetch_max=10)
    source.publish(range(35))
    assert sorted(numbers(reader(source, limits, limit=32))) == list(range(32))
    source.wait_for(35)
    assert sorted(numbers(reader(source, limits, ackMode="drain"))) == list(range(35))
    assert source.drained() == []


def test_an_empty_queue_gives_no_rows(source: SourceQueue) -> None:
    assert rows(reader(source)) == []
    # What Spark makes when there is no partition.
    assert list(reader(source).read(InputPartition(None))) == []


def test_a_peek_that_ends_short_is_an_error(source: SourceQueue, monkeypatch: Any) -> None:
    source.publish(range(5))
    wanted_more = peek.Deliveries

    def of_one_more(connection: Any, address: str, queue: str, wanted: int, **limits: int) -> Any:
        return wanted_more(connection, address, queue, wanted + 1, **limits)

    monkeypatch.setattr(peek, "Deliveries", of_one_more)
    with pytest.raises(SourceError, match="gave 5 of the 6 messages that were counted in it"):
        reader(source, idleTimeoutMs=2000).partitions()
    source.wait_for(5)


def test_a_peek_is_read_as_often_as_asked_for_without_the_broker(source: SourceQueue) -> None:
    source.publish(range(25), size_bytes=1000)
    look = reader(source)
    partitions = pickle.loads(pickle.dumps(look.partitions()))
    source.wait_for(25)
    source.delete()
    for _ in range(2):
        found = [row for each in partitions for part in look.read(each) for row in part.to_pylist()]
        assert [int(row["body"]) for row in found] == list(range(25))


def test_a_peek_holds_no_more_bytes_than_it_may(source: SourceQueue) -> None:
    source.publish(range(10), size_bytes=10_000)
    with pytest.raises(SourceError, match=r"more than 60000 bytes \(maxHeldBytes\) of messages"):
        reader(source, maxHeldBytes=60_000).partitions()
    source.wait_for(10)
    assert numbers(reader(source, maxHeldBytes=60_000, limit=4)) == [0, 1, 2, 3]


def test_peeked_messages_are_handed_to_tasks_in_slices_of_bounded_size(source: SourceQueue) -> None:
    source.publish(range(20), size_bytes=100_000)
    parts = reader(source, FetchLimits(slice_bytes=200_000)).partitions()
    # One turn of pika's reads 100 KB more.
    assert max(len(part.rows) for part in parts) < 400_000
    assert sum(part.count for part in parts) == 20


def test_a_peek_waits_for_a_broker_that_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = RestartableLeveret(tmp_path)
    try:
        queue = SourceQueue(broker.port)
        queue.channel.confirm_delivery()
        queue.publish(range(3))
        broker.kill()
        look = reader(queue)
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: broker.start())
        monkeypatch.setattr(outages, "time", clock)
        assert numbers(look) == [0, 1, 2]
    finally:
        broker.kill()
    assert len(logged(capfd, "spark.source.waits")) == 1


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
    away = {"uri": uri, "queue": f"{source.name},more", "reconnectTimeoutMs": 200}
    with pytest.raises(SourceError) as raised:
        reader(source, **away).partitions()
    said = f"no connection to 127.0.0.1:{broker.port}: ConnectionRefusedError"
    assert str(raised.value).startswith(said)
    assert "for 200 ms (reconnectTimeoutMs); failOnUnreachable=false reads" in str(raised.value)
    assert len(logged(capfd, "spark.source.waits")) == 1
    assert sorted(numbers(reader(source, **away, failOnUnreachable=False))) == [0, 1, 2]
    assert len(logged(capfd, "spark.source.passed_over")) == 1
    more.delete()
    more.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "404 NOT_FOUND - no queue 'nowhere' in vhost '/'"),
        (
            {"uri": "amqp://guest:hush@127.0.0.1:1/", "reconnectTimeoutMs": "0"},
            "no connection to 127.0.0.1:1: Connection",
        ),
        ({"user": "guest", "password": "hush"}, "refuses the login: 403 ACCESS_REFUSED - Login"),
        ({"vhost": "nowhere"}, "refuses the login: 530 NOT_ALLOWED - vhost nowhere not found"),
    ],
)
def test_what_cannot_be_read_is_said_before_any_task(
    source: SourceQueue, options: dict[str, str], said: str
) -> None:
    with pytest.raises(SourceError) as raised:
        reader_of(source, options).partitions()
    assert said in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_batch_cannot_ack_after_a_commit() -> None:
    with pytest.raises(OptionError, match="Spark does not say when a batch job has committed"):
        batch_reader({"queue": "source", "ackMode": "after-commit"}, read_schema())


@pytest.mark.parametrize("name", ["prefetch", "maxRecordsPerTrigger", "pollTimeoutMs"])
def test_what_says_nothing_to_a_batch_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is not for this way of reading"):
        batch_reader({"queue": "source", name.lower(): "1"}, read_schema())


def test_a_schema_of_the_users_is_refused() -> None:
    with pytest.raises(SchemaError, match='"extra" is not there'):
        batch_reader({"queue": "source"}, read_schema_with("extra"))


def read_schema_with(name: str) -> StructType:
    return read_schema().add(name, "string")
