"""Looking into queues: what they hold is delivered to the driver, never acked, and put back.

Spark asks a DataFrame for its partitions once, however often and in whatever actions it is scanned
(PySpark 4.2 and 4.3; `PythonDataSourceV2.getOrCreateReadInfo`). So the rows travel in the
partitions: every scan of a DataFrame has the same ones, whatever happens in the queue meanwhile.
Were they fetched by the tasks, two scans at the same time would take the messages from each other,
because what one consumer holds the other does not see, and two scans one after the other could find
different messages.

The driver's memory bounds what can be looked at: `maxHeldBytes`, beyond which nothing is read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pika import exceptions

from ..errors import SourceError, UnreachableError, describe
from .deliveries import Deliveries
from .reading_connection import ReadingConnection
from .received import FETCH_LIMITS, FetchLimits, RowSlice, sliced

if TYPE_CHECKING:
    from collections.abc import Callable

    import pika

    from ..options import ReadOptions


class Peek:
    """One look into the queues of several brokers."""

    def __init__(self, options: ReadOptions, limits: FetchLimits = FETCH_LIMITS) -> None:
        self._options = options
        self._limits = limits
        self.slices: list[RowSlice] = []
        self._rows = 0
        self._bytes = 0
        # Brokers of one cluster hold the same queues: one of them is enough.
        self._clusters: set[str] = set()

    def look(self, address: str, way: Callable[[], pika.ConnectionParameters]) -> None:
        """Read the queues at one address.

        UnreachableError, with nothing kept of them, if there is no connection or it is lost;
        SourceError if they cannot be read, or not all of them.
        """
        connection = None
        try:
            connection = ReadingConnection(way())
            try:
                self._read(connection, address)
            finally:
                # Nothing is acked: it all goes back.
                if connection.is_open:
                    with suppress(exceptions.AMQPError):
                        connection.close()
        except (exceptions.AMQPError, OSError) as error:
            if connection is not None:
                connection.check()
            raise UnreachableError(describe(address, error)) from None

    def _read(self, connection: ReadingConnection, address: str) -> None:
        cluster = connection.cluster_name
        if cluster in self._clusters:
            return
        slices: list[RowSlice] = []
        rows, size_bytes = self._rows, self._bytes
        for queue in self._options.queue:
            counted = connection.channel().queue_declare(queue, passive=True).method.message_count
            if self._options.limit is not None:
                counted = min(counted, self._options.limit - rows)
            deliveries = Deliveries(
                connection, address, queue, counted, prefetch_max=self._limits.prefetch_max
            )
            while not deliveries.are_complete or deliveries.held:
                if not deliveries.are_complete:
                    deliveries.wait(self._options.idle_timeout_ms)
                self._check(address, queue, size_bytes + deliveries.held_bytes)
                if self._is_enough(deliveries):
                    messages = deliveries.dequeue()
                    made = sliced(rows, messages, 1)
                    slices += made
                    # As Arrow has them, which is less.
                    size_bytes += sum(len(each.rows) for each in made)
                    rows += len(messages)
        self.slices += slices
        self._rows, self._bytes = rows, size_bytes
        self._clusters.update({cluster} if cluster else ())

    def _is_enough(self, deliveries: Deliveries) -> bool:
        """Is a slice full, or the last one there?"""
        return (
            deliveries.are_complete
            or len(deliveries.held) >= self._limits.batch_rows
            or deliveries.held_bytes >= self._limits.slice_bytes
        )

    def _check(self, address: str, queue: str, size_bytes: int) -> None:
        most = self._options.max_held_bytes
        if size_bytes > most:
            raise SourceError(
                f"{address}: there are more than {most} bytes (maxHeldBytes) of messages up to the "
                f"queue {queue!r}, and the driver holds what is peeked at: look at fewer "
                "messages (limit), give driver and option more memory, or read the queue with "
                "readStream"
            )
