"""Draining: counting in the driver, and taking a number of messages, once, in a task.

None is acked before Spark has taken the last row, and a drain that ends early, or fails, acks
nothing at all. One that does not find as many messages as were counted fails, too: the task before,
which failed after its ack, may have taken them, or another scan of the same DataFrame; that they
are missing would be seen nowhere else.

Spark takes the next rows when it has worked on the last ones, which may be long after. Meanwhile a
thread reads the connection, for its heartbeats and because RabbitMQ drops a connection that is not
read. The rest of a window (deliveries.py) bounds how much can arrive and so how much is held. No
two threads are ever in pika at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import pika
from pika import exceptions

from ..errors import SourceError, UnreachableError, describe
from ..outages import wait_out
from .deliveries import Deliveries
from .reading_connection import ReadingConnection
from .received import FETCH_LIMITS, FetchLimits, record_batch

if TYPE_CHECKING:
    import pyarrow

    from ..options import ReadOptions
    from .broker_connections import Share


Way = Callable[[], pika.ConnectionParameters]

# Rows are handed to Spark when there are so many, or so much of them, or of half of maxHeldBytes.
# The other half is for messages that arrive while Spark works.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
# While Spark works: how long one turn waits for the socket; Spark's return ends it.
KEPT_TURN_S: Final = 1.0


class Counted(NamedTuple):
    """Messages of one queue at one address, numbered from `first`."""

    address: str
    queue: str
    first: int
    messages: int


class Count:
    """How many messages there are to drain."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.found: list[Counted] = []
        # Brokers of one cluster hold the same queues: one of them is enough.
        self._clusters: set[str] = set()

    def count(self, address: str, way: Way) -> None:
        """Ask the broker at this address; UnreachableError if there is no connection."""
        try:
            connection = ReadingConnection(way())
            try:
                cluster = connection.cluster_name
                if cluster in self._clusters:
                    return
                channel = connection.channel()
                depths = {
                    queue: channel.queue_declare(queue, passive=True).method.message_count
                    for queue in self._options.queue
                }
            finally:
                if connection.is_open:
                    connection.close()
        except (exceptions.AMQPError, OSError) as error:
            raise UnreachableError(describe(address, error)) from None
        self._clusters.update({cluster} if cluster else ())
        for queue, depth in depths.items():
            first = sum(each.messages for each in self.found)
            if self._options.limit is not None:
                depth = min(depth, self._options.limit - first)
            self.found.append(Counted(address, queue, first, depth))


class Drain:
    """One partition's messages."""

    def __init__(
        self, way: Way, share: Share, options: ReadOptions, limits: FetchLimits = FETCH_LIMITS
    ) -> None:
        self._way = way
        self._limits = limits
        self._share = share
        self._options = options
        self._batch_bytes_max = max(1, min(BATCH_BYTES_MAX, options.max_held_bytes // 2))
        self._deliveries: Deliveries | None = None
        self._handed = 0
        # What ended the connection while Spark worked.
        self._failure: Exception | None = None

    def rows(self) -> Iterator[pyarrow.RecordBatch]:
        """Give the rows, and ack them all after the last."""
        connection = self._connected()
        try:
            try:
                share = self._share
                self._deliveries = Deliveries(
                    connection,
                    share.address,
                    share.queue,
                    share.messages,
                    self._batch_bytes_max,
                    self._limits.prefetch_max,
                )
                yield from self._batches(connection, self._deliveries)
                self._deliveries.ack()
            finally:
                # Whatever is unacked is put back by this, or was when the connection went.
                if connection.is_open:
                    with suppress(exceptions.AMQPError):
                        connection.close()
        except (exceptions.AMQPError, OSError) as error:
            connection.check()
            address = self._share.address
            raise SourceError(f"{address}: {describe(address, error)}") from None

    def _connected(self) -> ReadingConnection:
        """Connect, and wait until it can be done."""
        connections = []

        def connect(address: str) -> None:
            try:
                connections.append(ReadingConnection(self._way()))
            except (exceptions.AMQPError, OSError) as error:
                raise UnreachableError(describe(address, error)) from None

        timeout_ms = self._options.reconnect_timeout_ms
        away = wait_out([self._share.address], connect, timeout_ms)
        for address, reason in away.items():
            raise SourceError(
                f"no connection to {address} for {timeout_ms} ms (reconnectTimeoutMs): {reason}"
            )
        return connections[0]

    def _batches(
        self, connection: ReadingConnection, deliveries: Deliveries
    ) -> Iterator[pyarrow.RecordBatch]:
        while not deliveries.are_complete:
            if self._failure is not None:
                raise self._failure
            deliveries.wait(self._options.idle_timeout_ms)
            if (
                len(deliveries.held) >= self._limits.batch_rows
                or deliveries.held_bytes >= self._batch_bytes_max
            ):
                yield from self._hand_over(connection, deliveries)
                deliveries.forget_silence()
        if deliveries.held:
            yield from self._hand_over(connection, deliveries)

    def _hand_over(
        self, connection: ReadingConnection, deliveries: Deliveries
    ) -> Iterator[pyarrow.RecordBatch]:
        """Hand over the held messages, and keep the connection alive until Spark asks for more."""
        messages = deliveries.dequeue()
        first = self._share.first + self._handed
        self._handed += len(messages)
        batch = record_batch(first, messages)
        is_back = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(deliveries, is_back), daemon=True)
        keeper.start()
        try:
            yield batch
        finally:
            is_back.set()
            connection.wake()
            keeper.join()

    def _keep(self, deliveries: Deliveries, is_back: threading.Event) -> None:
        try:
            while not is_back.is_set():
                deliveries.read(KEPT_TURN_S)
        except (exceptions.AMQPError, OSError, SourceError) as error:
            self._failure = error
