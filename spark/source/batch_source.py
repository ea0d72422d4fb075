"""`spark.read.format("amqp")`: the messages that a queue has now.

    ackMode=peek     the default: delivered, never acked, and put back (peek.py)
    ackMode=drain    acked once all rows of the partition have been handed to Spark (drain.py)

Spark asks a DataFrame once for its partitions, in the driver. A peek is made there and then, and
its rows travel in the partitions. A drain is only counted there: each partition says how many
messages its task fetches.

Draining loses messages when anything fails after a partition's last row was handed over: a later
stage, another partition, the write, the driver. Spark does not say when a batch job has committed;
readStream with trigger(availableNow=True) does not have that gap.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...logs.configure import service_log
from ...logs.events import SPARK_SOURCE_PASSED_OVER
from ..errors import plainly
from ..options import DRAIN, ReadOptions
from .broker_connections import Share, parameters_by_address
from .received import FETCH_LIMITS, FetchLimits, RowSlice, unpacked

if TYPE_CHECKING:
    import pyarrow


# Fewer messages than this are not worth a task of their own.
PARTITION_MESSAGES_MIN: Final = 500


class BatchReader(DataSourceReader):
    """Reads queues once."""

    def __init__(self, options: ReadOptions, limits: FetchLimits = FETCH_LIMITS) -> None:
        self._options = options
        self._limits = limits

    @plainly()
    def partitions(self) -> list[InputPartition]:
        """Peek, or count and part the messages; SourceError if a broker cannot be read."""
        partitions: list[InputPartition] = []
        if self._options.ack_mode == DRAIN:
            from .drain import Count

            count = Count(self._options)
            self._visit(count.count)
            for address, queue, first, messages in count.found:
                partitions += self._shares(address, queue, first, messages)
        else:
            from .peek import Peek

            peek = Peek(self._options, self._limits)
            self._visit(peek.look)
            partitions += peek.slices
        return partitions

    def _visit(self, visit: Callable[..., None]) -> None:
        """Visit every broker, each once; wait for those that cannot be reached."""
        from ..errors import SourceError
        from ..outages import wait_out

        options = self._options
        brokers = parameters_by_address(options)
        away = wait_out(
            brokers,
            lambda address: visit(address, brokers[address]),
            options.reconnect_timeout_ms,
        )
        reasons = "; ".join(f"{address}: {reason}" for address, reason in away.items())
        waited = f"for {options.reconnect_timeout_ms} ms (reconnectTimeoutMs)"
        if len(away) == len(brokers):
            raise SourceError(f"no connection to {reasons}, {waited}")
        if away and options.fail_on_unreachable:
            raise SourceError(
                f"no connection to {reasons}, {waited}; failOnUnreachable=false reads what the "
                "other brokers have"
            )
        for address, reason in away.items():
            service_log("warning", "json").warning(
                SPARK_SOURCE_PASSED_OVER, broker=address, reason=reason
            )

    def _shares(self, address: str, queue: str, first: int, messages: int) -> Iterator[Share]:
        """Part the messages of a queue; none of them is asked of two."""
        most = self._options.num_partitions or os.cpu_count() or 1
        count = max(1, min(most, messages // PARTITION_MESSAGES_MIN))
        edges = [messages * place // count for place in range(count + 1)]
        for low, high in itertools.pairwise(edges):
            if low < high:
                yield Share(address, queue, first + low, high - low)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Give a partition's rows; in a worker."""
        if isinstance(partition, RowSlice):
            yield from unpacked(partition)
        elif isinstance(partition, Share):
            from .drain import Drain

            way = parameters_by_address(self._options)[partition.address]
            with plainly():
                yield from Drain(way, partition, self._options, self._limits).rows()
        # Otherwise there is no partition: Spark makes one of its own then.
