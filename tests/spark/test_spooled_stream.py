"""Streams of Spark's with a spool, into a sink that skips the batch ids it knows."""

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
from idempotent_sink import IdempotentSink
from pyspark.errors import StreamingQueryException
from source_queue import SourceQueue
from starting import started
from timeouts import JOB_SECONDS_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

BATCH = 300


class Job:
    """A query that can be started again where it was, and fails where it is told to."""

    def __init__(self, spark: SparkSession, source: SourceQueue, directory: Path) -> None:
        leveret.spark.register(spark)
        self._spark, self._source, self._directory = spark, source, directory
        self.spool = directory / "spool"
        self.sink = IdempotentSink(directory / "rows")
        # The batch in which, once it is written, the source is killed and the sink raises.
        self.fails_in: int | None = None

    def start(self) -> StreamingQuery:
        options = self._source.options | {
            "spoolLocation": str(self.spool),
            "maxRecordsPerTrigger": str(BATCH),
            "prefetch": str(BATCH),
        }
        frame = self._spark.readStream.format("amqp").options(**options).load()
        writer = frame.writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", str(self._directory / "checkpoint"))
        return started(writer.trigger(availableNow=True))

    def _write(self, batch: DataFrame, number: int) -> None:
        self.sink.write(batch, number)
        if number == self.fails_in:
            self.fails_in = None
            os.kill(self._source_process().pid, signal.SIGKILL)
            raise RuntimeError("the sink raises after it has written")

    def _source_process(self) -> psutil.Process:
        """The process of Spark's that is connected to the broker."""
        found = []
        for process in psutil.Process().children(recursive=True):
            # A worker of Spark's may end while it is looked at.
            with suppress(psutil.NoSuchProcess):
                ends = [each.raddr for each in process.net_connections("tcp") if each.raddr]
                found += [process] if self._source.port in [end.port for end in ends] else []
        [only] = found
        return only


@pytest.mark.parametrize("target", ["leveret"], indirect=True)
def test_a_sink_that_raises_and_a_source_that_is_killed_give_it_each_message_once(
    spark: SparkSession, source: SourceQueue, tmp_path: Path
) -> None:
    source.publish(range(1000))
    job = Job(spark, source, tmp_path)
    job.fails_in = 1
    with pytest.raises(StreamingQueryException, match="the sink raises after it has written"):
        job.start().awaitTermination(JOB_SECONDS_MAX)
    assert job.start().awaitTermination(JOB_SECONDS_MAX)
    # Nothing was between a sync and its ack when it happened: none comes twice.
    assert job.sink.seen() == Counter(range(1000))
    # The batch that had been written had the same rows when it was read again.
    assert job.sink.replayed == [1]
    assert source.drained() == []
    assert len(list(job.spool.glob("*.arrow"))) == 1
