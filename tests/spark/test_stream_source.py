"""Streams of Spark's that read a queue: sinks that raise, processes that die, what is left."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import leveret
import psutil
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

import leveret.spark
import pika
from driver_process import Driver
from insides import wait_until
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from source_queue import SourceQueue
from starting import started
from target_brokers import Target
from timeouts import JOB_SECONDS_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

# The status of a query that has asked for more, and there is none: by then all is acked.
WAITS = "Waiting for data to arrive"


class Job:
    """A query that writes what it reads to Parquet, and can be started again where it was."""

    def __init__(self, spark: SparkSession, source: SourceQueue, directory: Path) -> None:
        leveret.spark.register(spark)
        self._spark = spark
        self._source = source
        self.rows = directory / "rows"
        self._checkpoint = directory / "checkpoint"
        # The batches in which the sink raises, before or after it has written.
        self.raises: list[tuple[int, str]] = []

    def start(self, drains: bool = False, **options: object) -> StreamingQuery:
        reader = self._spark.readStream.format("amqp").options(**self._source.options)
        writer = reader.options(**options).load().writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return started(writer.trigger(availableNow=True) if drains else writer)

    def _write(self, batch: DataFrame, number: int) -> None:
        for when in ("before", "after"):
            if when == "after":
                batch.write.mode("append").parquet(str(self.rows))
            if (number, when) in self.raises:
                self.raises.remove((number, when))
                raise RuntimeError(f"the sink raises {when} it has written batch {number}")

    def seen(self) -> Counter[int]:
        """How often each number has been written; without Spark, which takes its time."""
        files = self.rows.glob("*.parquet")
        tables = [parquet.read_table(file, columns=["body"]) for file in files]
        return Counter(int(body) for table in tables for body in table["body"].to_pylist())

    def wait_until_seen(self, query: StreamingQuery, messages: int) -> None:
        """Return when so many numbers have been written, once or more often."""
        while len(self.seen()) < messages:
            assert query.isActive, query.exception()
            query.awaitTermination(0.05)


@pytest.fixture
def job(spark: SparkSession, source: SourceQueue, tmp_path: Path) -> Job:
    return Job(spark, source, tmp_path)


def failure(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(JOB_SECONDS_MAX)
    return str(raised.value)


def source_process(port: int) -> psutil.Process:
    """The process of Spark's that is connected to the broker."""
    found = []
    for process in psutil.Process().children(recursive=True):
        # A worker of Spark's may end while it is looked at.
        with suppress(psutil.NoSuchProcess):
            ends = [each.raddr for each in process.net_connections("tcp") if each.raddr]
            found += [process] if port in [end.port for end in ends] else []
    [only] = found
    return only


def test_a_sink_that_raises_and_a_source_that_is_killed_lose_nothing(
    job: Job, source: SourceQueue
) -> None:
    source.publish(range(2000))
    job.raises = [(1, "before"), (2, "after")]
    options = {"maxRecordsPerTrigger": 400, "prefetch": 400}
    assert "the sink raises before it has written batch 1" in failure(job.start(**options))
    assert "the sink raises after it has written batch 2" in failure(job.start(**options))

    running = job.start(**options)
    source.publish(range(2000, 2100), waits=False)
    job.wait_until_seen(running, 2100)
    wait_until(lambda: running.status["message"] == WAITS)
    os.kill(source_process(source.port).pid, signal.SIGKILL)
    source.publish(range(2100, 2200), waits=False)
    failure(running)

    query = job.start(drains=True, **options)
    assert query.awaitTermination(JOB_SECONDS_MAX)
    seen = job.seen()
    assert seen.keys() == set(range(2200))
    # Only batch 2 was written and then not committed.
    assert sum(seen.values()) <= 2200 + 400
    assert source.total() == 0


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_a_driver_killed_in_the_middle_is_continued_from_its_checkpoint(
    job: Job, source: SourceQueue, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    source.publish(range(2000))
    options = source.options | {"maxRecordsPerTrigger": "100", "prefetch": "100"}
    driver = Driver(tmp_path, spark_environment, options=options)
    driver.batches(2)
    driver.kill()
    before = job.seen()
    assert len(before) < 2000

    query = job.start(maxRecordsPerTrigger=1000)
    job.wait_until_seen(query, 2000)
    wait_until(lambda: query.status["message"] == WAITS)
    query.stop()
    # One batch may have been written and not committed.
    assert sum(job.seen().values()) <= 2000 + 100
    assert source.drained() == []


def test_the_last_batch_is_acked_on_a_queue_that_has_become_idle(
    job: Job, source: SourceQueue
) -> None:
    source.publish(range(50))
    query = job.start()
    job.wait_until_seen(query, 50)
    wait_until(lambda: query.status["message"] == WAITS)
    query.stop()
    assert source.drained() == []


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_a_deleted_queue_ends_the_query_with_what_the_broker_said(
    job: Job, source: SourceQueue
) -> None:
    source.publish(range(5))
    query = job.start()
    job.wait_until_seen(query, 5)
    source.delete()
    said = failure(query)
    assert f"cancelled the consumer of the queue {source.name!r}" in said
    assert "guest:guest" not in said


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_available_now_drains_a_queue_that_is_still_published_to_and_ends(
    job: Job, source: SourceQueue
) -> None:
    source.publish(range(300))
    query = job.start(drains=True, maxRecordsPerTrigger=100)
    number = 300
    while not query.awaitTermination(0.05):
        source.publish([number], waits=False)
        number += 1
    seen = job.seen()
    # Whatever was published before Spark had started the source was there as well.
    assert 300 <= len(seen) < number
    assert seen == Counter(range(len(seen)))
    source.wait_for(number - len(seen))


def test_a_batch_read_peeks_drains_and_shows_no_password(
    spark: SparkSession, source: SourceQueue
) -> None:
    leveret.spark.register(spark)
    source.publish(range(1000))
    given = source.options
    del given["pollTimeoutMs"]
    frame = spark.read.format("amqp").options(**given).load()
    assert frame.where("redelivered").count() == 0
    # A DataFrame is one look; the next one sees that there was one.
    again = spark.read.format("amqp").options(**given).load()
    assert again.where("redelivered").count() == 1000
    plan = frame._jdf.queryExecution().toString()
    assert "guest:guest" not in plan
    source.wait_for(1000)
    drained = spark.read.format("amqp").options(**given, ackMode="drain").load()
    assert sorted(int(row.body) for row in drained.collect()) == list(range(1000))
    assert source.drained() == []


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_what_was_read_can_be_written_as_it_is(
    spark: SparkSession, source: SourceQueue, target: Target
) -> None:
    leveret.spark.register(spark)
    copies = target.declare(f"{source.name}.copies")
    headers = {"text": "a", "number": 5, "big": 1 << 40, "CC": ["nowhere"], "in": [{"at": True}]}
    properties = pika.BasicProperties(message_id="m1", headers=headers, timestamp=1_700_000_000)
    source.channel.basic_publish("", source.name, b"\x00\xff", properties)
    source.wait_for(1)
    options = {name: each for name, each in source.options.items() if name != "pollTimeoutMs"}
    read = spark.read.format("amqp").options(**options).load()
    writer = read.write.format("amqp").mode("append").options(**target.options)
    writer.option("routingKey", copies).save()
    [copy] = target.drain(copies)
    assert copy.body == b"\x00\xff"
    assert (copy.properties.message_id, copy.properties.timestamp) == ("m1", 1_700_000_000)
    assert {name: copy.headers[name] for name in headers} == headers
    assert source.drained_bodies() == [b"\x00\xff"]


@pytest.mark.parametrize(
    ("options", "shows"),
    [
        ({"uri": "amqp://guest:hush@127.0.0.1:1/"}, True),
        ({"port": "1", "password": "hush"}, False),
    ],
)
def test_sparks_plan_shows_a_password_in_a_uri_unless_it_is_told(
    spark: SparkSession,
    options: dict[str, str],
    shows: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leveret.spark.register(spark)
    setting = "spark.sql.redaction.options.regex"
    stream = spark.readStream.format("amqp").options(queue="q", **options).load()
    stream.explain(True)
    assert ("hush" in capsys.readouterr().out) == shows
    spark.conf.set(setting, "(?i)url|uri")
    try:
        spark.readStream.format("amqp").options(queue="q", **options).load().explain(True)
    finally:
        spark.conf.unset(setting)
    found = capsys.readouterr().out
    assert "StreamingRelation" in found
    assert "hush" not in found
