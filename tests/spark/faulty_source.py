"""The data source with a fault in its tasks; importable by Spark's workers, by its bare name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from leveret.spark.data_source import AmqpDataSource
from leveret.spark.sink.sink import AmqpBatchWriter, PartitionReport, batch_writer
from pyspark import TaskContext


class KilledWriter(AmqpBatchWriter):
    """The process of each partition's first try is killed when its first batch is on its way."""

    def write(self, iterator: Iterator[Any]) -> PartitionReport:
        return super().write(_killed_after_one(iterator))


def _killed_after_one(iterator: Iterator[Any]) -> Iterator[Any]:
    context = TaskContext.get()
    assert context is not None
    for number, batch in enumerate(iterator):
        if number and not context.attemptNumber():
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


class KilledSource(AmqpDataSource):
    """`format("amqp-killed")`."""

    @classmethod
    def name(cls) -> str:
        return "amqp-killed"

    def writer(self, schema: Any, overwrite: bool) -> KilledWriter:
        return KilledWriter(batch_writer(self.options, schema, overwrite).options)
