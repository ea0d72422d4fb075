"""`spark.readStream.format("amqp")`: messages stay unacked until Spark has committed their batch.

Spark keeps one Python process per run of a query, on the driver, and asks it in turn:

    latestOffset(start)     start is the end of the last batch in the commit log: ack up to there,
                            and cut the next range of the delivered messages
    partitions(start, end)  the range's rows, inside the partitions: tasks need no broker, and a
                            task that is tried again has the same rows
    commit(end)             comes only when the next batch has been found; acks as well

`start` rather than commit() says that a batch is done: on a quiet queue commit() would leave the
last batch unacked for ever, and with prefetch = batch size nothing more would be delivered.

A batch that another process began (the driver was killed) is tried again by Spark with the same
offsets: it has no rows here, and its messages, unacked, come back in later batches. So each message
is processed at least once. It is twice if the driver dies, or the connection is lost, between a
batch's write and its ack. With `spoolLocation` it is otherwise: spooled_source.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ...logs.configure import service_log
from ...logs.events import (
    SPARK_SOURCE_NOT_DRAINED,
    SPARK_SOURCE_REPLAYED,
    SPARK_SOURCE_SMALL_PREFETCH,
)
from ..errors import SourceError, plainly
from ..options import SHORT_MAX, ReadOptions
from .broker_connections import parameters_by_address
from .received import RowSlice, sliced, unpacked

if TYPE_CHECKING:
    import pyarrow

    from .consumers import Consumers


OFFSET: Final = "n"
# In the offsets of a query with spoolLocation: the spool that they go on in (spooled_source.py).
SPOOL: Final = "spool"
Offset = dict[str, Any]
# Trigger.Once asks for everything: what the prefetch holds.
UNBOUNDED: Final = 1 << 62


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one run of a streaming query."""

    # How many batches are held at once: one is processed, one is delivered.
    _batches_held = 2

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Pickled before it is used: nothing is connected to until Spark asks.
        self._consumers: Consumers | None = None
        self._drains = False

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Give the offset of a query that has no checkpoint."""
        return {OFFSET: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Give the most rows of a batch; the bytes are bounded in latestOffset."""
        return ReadMaxRows(self._options.max_records_per_trigger)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how many messages there are: that many are read, then the query ends."""
        self._drains = True
        self.consume().wait_until_tried()

    @plainly()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Ack the committed messages, and return the end of the next batch."""
        number = _number(start)
        self.passed(number)
        return {OFFSET: self._cut(number, limit)}

    def _cut(self, start: int, limit: ReadLimit) -> int:
        """Wait for a batch, and give its end."""
        consumers, options = self.consume(), self._options
        records, size_bytes = options.max_records_per_trigger, options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            records = limit.max_rows
        elif isinstance(limit, ReadAllAvailable):
            records = size_bytes = UNBOUNDED
        with consumers.changed:
            consumers.wait_for(
                lambda: consumers.has_batch(records, size_bytes), options.poll_timeout_ms / 1000
            )
            consumers.check()
            if self._drains and not consumers.ranges.available:
                self._wait_for_rest(consumers)
            return consumers.ranges.cut(start, records, size_bytes)

    def _wait_for_rest(self, consumers: Consumers) -> None:
        """Wait for a message, or until no more of the counted messages will come; lock held."""
        ranges, idle_s = consumers.ranges, self._options.idle_timeout_ms / 1000

        def is_decided() -> bool:
            return ranges.available > 0 or (consumers.are_settled and ranges.remaining == 0)

        while not is_decided():
            silent_s = time.monotonic() - consumers.arrived_at_s
            if consumers.are_settled and silent_s >= idle_s:
                # Somebody else has taken them, or they expired.
                consumers.warn(SPARK_SOURCE_NOT_DRAINED, messages=ranges.remaining)
                return
            consumers.wait_for(is_decided, idle_s)
            consumers.check()

    @plainly()
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Give the rows of a range, the same as often as it is asked for."""
        low, high = _number(start), _number(end)
        if low == high:
            return []
        consumers = self.consume()
        with consumers.changed:
            known = consumers.ranges.rows(low, high)
        if known is None:
            consumers.warn(SPARK_SOURCE_REPLAYED, start=low, end=high)
            return []
        first, messages = known
        slices: list[InputPartition] = []
        slices += sliced(first, messages, self._slices_max)
        return slices

    @property
    def _slices_max(self) -> int:
        return self._options.num_partitions or os.cpu_count() or 1

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Give a partition's rows; in a worker."""
        assert isinstance(partition, RowSlice)
        return unpacked(partition)

    def commit(self, end: Offset) -> None:
        """Ack the committed messages."""
        self.passed(end[OFFSET])

    def stop(self) -> None:
        """Close the connections; Spark kills the process rather than call this."""
        if self._consumers is not None:
            self._consumers.stop()
            self._consumers = None

    def passed(self, offset: int) -> None:
        """Ack the messages up to this offset, because Spark has committed them."""
        if self._consumers is None:
            return
        with self._consumers.changed:
            tags = self._consumers.ranges.passed(offset)
        self._consumers.ack(tags)

    def consume(self) -> Consumers:
        """Give the consumers, which begin with the first question."""
        if self._consumers is None:
            from .consumers import Consumers, Consuming

            options = self._options
            warn = service_log("warning", "json").warning
            prefetch = _prefetch(options)
            held = self._batches_held
            if prefetch < held * min(options.max_records_per_trigger, SHORT_MAX // held):
                # It works, but reads only while nothing is processed.
                warn(SPARK_SOURCE_SMALL_PREFETCH, prefetch=prefetch)
            consuming = Consuming(
                options.queue,
                prefetch,
                options.max_held_bytes,
                options.reconnect_timeout_ms,
                options.fail_on_unreachable,
                only_present=self._drains,
            )
            self._consumers = Consumers(parameters_by_address(options), consuming, warn)
        return self._consumers


def _number(offset: Offset) -> int:
    """Give how many messages there were up to this offset."""
    if SPOOL in offset:
        # Some of its messages may be acked and in the spool alone.
        raise SourceError(
            f"the checkpoint goes on in the spool {offset[SPOOL]}: give the spoolLocation that "
            "this query had, or, once it is drained (trigger availableNow), a new checkpoint"
        )
    number: int = offset[OFFSET]
    return number


def _prefetch(options: ReadOptions) -> int:
    """Twice a batch, so that the next is delivered while one is processed."""
    if options.prefetch is not None:
        return options.prefetch
    return min(2 * options.max_records_per_trigger, SHORT_MAX)
