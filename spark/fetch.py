"""Fetching a number of messages, once: what a task of a batch read does.

Messages come by consumers whose prefetch is exactly what is wanted, not by basic.get, which would
be a round trip for each; more than one channel where a prefetch cannot say the number. None is
acked before Spark has taken the last row, and a fetch that ends early, or fails, acks nothing at
all.

Spark takes the next rows when it has worked on the last ones, which may be long after. Meanwhile a
thread keeps the connection's heartbeats; it reads next to nothing, so that the socket still holds
back the broker. No two threads are ever in pika at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pika
from pika import exceptions

from ..logs.configure import service_log
from ..logs.events import SPARK_SOURCE_NOT_DRAINED
from .broker_errors import SourceError, told
from .consumer_thread import cluster_name
from .options import SHORT_MAX
from .reading_connection import ReadingConnection
from .received import ARROW_BATCH_ROWS, Received, record_batch

if TYPE_CHECKING:
    import pyarrow

    from .batch_source import Share
    from .options import ReadOptions

Way = Callable[[], pika.ConnectionParameters]

# Rows are handed to Spark when there are so many, or so much of them.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
TURN_S: Final = 0.1
# While Spark works: how long the connection is without a turn (of up to 100 KB, which is pika's
# measure), and how many turns it has at least in the interval in which two heartbeats are due.
KEPT_S_MAX: Final = 5.0
KEPT_TURNS_MIN: Final = 4


class Depths(NamedTuple):
    """The cluster that a broker is of, if any, and its queues' depths, or why it is unreachable."""

    cluster: str | None
    found: dict[str, int] | str


def depths(address: str, way: Way, queues: Sequence[str]) -> Depths:
    """Ask a broker how many messages its queues have; SourceError if one does not exist."""
    try:
        connection = pika.BlockingConnection(way())
        try:
            channel = connection.channel()
            found = {
                queue: channel.queue_declare(queue, passive=True).method.message_count
                for queue in queues
            }
            return Depths(cluster_name(connection), found)
        finally:
            if connection.is_open:
                connection.close()
    except (exceptions.AMQPError, OSError) as error:
        return Depths(None, told(address, error))


class Fetch:
    """One partition's messages."""

    def __init__(self, way: Way, share: Share, options: ReadOptions) -> None:
        self._way = way
        self._share = share
        self._idle_s = options.idle_timeout_ms / 1000
        self._held: list[Received] = []
        self._held_bytes = 0
        self._fetched = 0
        self._arrived_at_s = time.monotonic()
        # The last tag of each channel.
        self._tags: dict[Any, int] = {}
        self._kept_s = min(KEPT_S_MAX, (options.heartbeat_s or SHORT_MAX) / KEPT_TURNS_MIN)
        # What ended the connection while Spark worked.
        self._failure: Exception | None = None

    def rows(self, acks: bool) -> Iterator[pyarrow.RecordBatch]:
        """Give the rows, and ack them all after the last if `acks`; otherwise they go back."""
        try:
            connection = ReadingConnection(self._way())
            try:
                self._open_channels(connection)
                yield from self._batches(connection)
                if acks:
                    self._ack()
            finally:
                # Whatever is unacked is put back by this, or was when the connection went.
                if connection.is_open:
                    with suppress(exceptions.AMQPError):
                        connection.close()
        except (exceptions.AMQPError, OSError) as error:
            raise SourceError(
                f"{self._share.address}: {told(self._share.address, error)}"
            ) from None

    def _open_channels(self, connection: pika.BlockingConnection) -> None:
        wanted = self._share.messages
        while wanted:
            prefetch = min(wanted, SHORT_MAX)
            wanted -= prefetch
            channel = connection.channel()
            channel.basic_qos(prefetch_count=prefetch)
            channel.add_on_cancel_callback(self._cancelled)
            channel.basic_consume(self._share.queue, self._receive)

    def _receive(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._tags[channel] = method.delivery_tag
        message = Received(
            self._share.queue,
            method.exchange,
            method.routing_key,
            method.redelivered,
            properties,
            body,
        )
        self._held.append(message)
        self._held_bytes += message.size_bytes
        self._arrived_at_s = time.monotonic()

    def _cancelled(self, _method: Any) -> None:
        raise SourceError(
            f"{self._share.address} cancelled the consumer of the queue {self._share.queue!r}: "
            "it has been deleted, or the broker that held it is gone"
        )

    def _batches(self, connection: pika.BlockingConnection) -> Iterator[pyarrow.RecordBatch]:
        self._arrived_at_s = time.monotonic()
        while self._fetched + len(self._held) < self._share.messages:
            if self._failure is not None:
                raise self._failure
            connection.process_data_events(TURN_S)
            if len(self._held) >= ARROW_BATCH_ROWS or self._held_bytes >= BATCH_BYTES_MAX:
                yield from self._handed(connection)
                # Next to nothing could arrive while Spark had its turn.
                self._arrived_at_s = time.monotonic()
            elif time.monotonic() - self._arrived_at_s >= self._idle_s:
                # Somebody else has taken them, or they expired.
                missing = self._share.messages - self._fetched - len(self._held)
                service_log("warning", "json").warning(
                    SPARK_SOURCE_NOT_DRAINED, queue=self._share.queue, messages=missing
                )
                break
        # More may come while Spark works on the last ones, and would be acked with them.
        while self._held:
            yield from self._handed(connection)

    def _handed(self, connection: pika.BlockingConnection) -> Iterator[pyarrow.RecordBatch]:
        """Hand over what is held, and keep the connection until Spark comes back for more."""
        batch = self._batch()
        is_back = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(connection, is_back), daemon=True)
        keeper.start()
        try:
            yield batch
        finally:
            is_back.set()
            keeper.join()

    def _keep(self, connection: pika.BlockingConnection, is_back: threading.Event) -> None:
        try:
            while not is_back.wait(self._kept_s):
                connection.process_data_events(0)
        except (exceptions.AMQPError, OSError, SourceError) as error:
            self._failure = error

    def _batch(self) -> pyarrow.RecordBatch:
        held, self._held, self._held_bytes = self._held, [], 0
        first = self._share.first + self._fetched
        self._fetched += len(held)
        return record_batch(first, held)

    def _ack(self) -> None:
        """Ack all of it; the declare's answer says that the broker has read the ack."""
        for channel, tag in self._tags.items():
            channel.basic_ack(tag, multiple=True)
            channel.queue_declare(self._share.queue, passive=True)
