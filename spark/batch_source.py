"""`spark.read.format("amqp")`: the messages that a queue has now.

    ackMode=peek     the default: delivered, never acked, and put back when the read ends
    ackMode=drain    acked once all rows of the partition have been handed to Spark

The driver notes how many messages there are, and partitions say who reads how many; they are
fetched by the tasks themselves. Spark plans again for every action: `count()` and then `show()`
read twice.

Peeking needs one consumer per queue: with two, what one has put back would be seen by the other as
well. What was peeked at is marked as redelivered, and a queue that limits deliveries counts it.

Draining loses messages when anything fails after a partition's last row was handed over: a later
stage, another partition, the write, the driver. Spark does not say when a batch job has committed;
readStream with trigger(availableNow=True) does not have that gap.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..logs.configure import service_log
from ..logs.events import SPARK_SOURCE_PASSED_OVER
from .options import ReadOptions
from .source import DRAIN, ways

if TYPE_CHECKING:
    import pyarrow

# Fewer messages than this are not worth a task of their own.
PARTITION_MESSAGES_MIN: Final = 500


class Share(InputPartition):
    """What one task fetches: so many messages of one queue, numbered from `first`."""

    def __init__(self, address: str, queue: str, first: int, messages: int) -> None:
        super().__init__(None)
        self.address = address
        self.queue = queue
        self.first = first
        self.messages = messages


class BatchReader(DataSourceReader):
    """Reads queues once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Ask the brokers how many messages there are, and part them."""
        from .broker_errors import SourceError
        from .fetch import depths

        shares: list[InputPartition] = []
        clusters: set[str] = set()
        reasons: list[str] = []
        first = 0
        for address, way in ways(self._options).items():
            cluster, found = depths(address, way, self._options.queue)
            if isinstance(found, str):
                reasons.append(f"{address}: {found}")
            elif cluster is None or cluster not in clusters:
                # Brokers of one cluster hold the same queues: one of them is enough.
                clusters.update({cluster} if cluster else ())
                for queue, depth in found.items():
                    left = depth if self._options.limit is None else self._options.limit - first
                    shares += self._shares(address, queue, first, min(depth, left))
                    first += min(depth, left)
        if len(reasons) == len(self._options.brokers.addresses):
            raise SourceError(f"no connection to {'; '.join(reasons)}")
        for reason in reasons:
            service_log("warning", "json").warning(SPARK_SOURCE_PASSED_OVER, reason=reason)
        return shares

    def _shares(self, address: str, queue: str, first: int, messages: int) -> Iterator[Share]:
        """Part the messages of a queue; none of them is asked of two."""
        count = 1
        if self._options.ack_mode == DRAIN:
            most = self._options.num_partitions or os.cpu_count() or 1
            count = max(1, min(most, messages // PARTITION_MESSAGES_MIN))
        edges = [messages * place // count for place in range(count + 1)]
        for low, high in itertools.pairwise(edges):
            if low < high:
                yield Share(address, queue, first + low, high - low)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Fetch a partition's rows; in a worker."""
        # Spark makes a partition of its own when there is none.
        if not isinstance(partition, Share):
            return
        from .fetch import Fetch

        fetch = Fetch(ways(self._options)[partition.address], partition, self._options)
        yield from fetch.rows(acks=self._options.ack_mode == DRAIN)
