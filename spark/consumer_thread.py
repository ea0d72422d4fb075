"""The thread that consumes at one address, with a connection of its own; see consumers.py.

Pika's connections belong to one thread: this one reads, sends heartbeats and acks, and Spark's side
only leaves it notes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pika
from pika import exceptions

from ..logs.events import SPARK_SOURCE_UNACKED_LOST
from .broker_errors import SourceError, told
from .consumers import ChannelName
from .reading_connection import ReadingConnection
from .received import Received

if TYPE_CHECKING:
    from .consumers import Consumers

RECONNECT_BACKOFF_S: Final = 0.1
RECONNECT_BACKOFF_MAX_S: Final = 5.0
# How long one turn waits for the socket; a note wakes it at once.
TURN_S: Final = 1.0


class _Ask(NamedTuple):
    """An ack that Spark's side wants; `done`: the broker has it, or it cannot be."""

    channel: ChannelName
    tag: int
    done: threading.Event


class ConsumerThread(threading.Thread):
    """One address."""

    def __init__(
        self, shared: Consumers, address: str, way: Callable[[], pika.ConnectionParameters]
    ) -> None:
        super().__init__(name=f"consumer {address}", daemon=True)
        self._shared = shared
        self._address = address
        self._way = way
        self._number = 0
        self._connection: ReadingConnection | None = None
        self._channels: dict[ChannelName, Any] = {}
        self._remaining: dict[str, int] = {}
        self._asked: deque[_Ask] = deque()
        self._stopped = threading.Event()

    def run(self) -> None:
        """Consume until told to stop, or until it is hopeless."""
        backoff_s = RECONNECT_BACKOFF_S
        try:
            while not self._stopped.is_set():
                reason = self._connect_and_consume()
                if self._stopped.is_set():
                    break
                backoff_s = RECONNECT_BACKOFF_S if self._channels else backoff_s * 2
                self._forget_channels()
                self._shared.disconnected(self._address, reason)
                self._stopped.wait(min(backoff_s, RECONNECT_BACKOFF_MAX_S))
        except SourceError as error:
            self._shared.failed(error)
        except Exception as error:
            # Whatever it is: a query whose source has died must not wait for ever.
            self._shared.failed(SourceError(f"reading from {self._address} failed: {error!r}"))
        finally:
            self._stopped.set()
            self._close()
            self._release()

    def stop(self) -> None:
        """Make the thread end."""
        self._stopped.set()
        self._wake()

    def ask(self, channel: ChannelName, tag: int) -> threading.Event:
        """Have deliveries acked up to this tag."""
        asked = _Ask(channel, tag, threading.Event())
        self._asked.append(asked)
        self._wake()
        if self._stopped.is_set():
            asked.done.set()
        return asked.done

    def _wake(self) -> None:
        connection = self._connection
        if connection is not None:
            try:
                connection.add_callback_threadsafe(_nothing)
            except exceptions.ConnectionWrongStateError:
                # It has just been lost, which wakes the thread as well.
                return

    def _connect_and_consume(self) -> str:
        """Consume while the connection lasts; give why it ended, for people."""
        try:
            self._connection = ReadingConnection(self._way())
            self._number += 1
            for queue in self._shared.consuming.queues:
                self._open_channel(self._connection, queue)
            self._shared.connected(self._address)
            while not self._stopped.is_set():
                self._connection.process_data_events(TURN_S)
                self._answer()
                with self._shared.changed:
                    self._shared.changed.notify_all()
        except (exceptions.AMQPError, OSError) as error:
            if self._connection is not None:
                self._connection.check()
            return told(self._address, error)
        return "stopped"

    def _open_channel(self, connection: pika.BlockingConnection, queue: str) -> None:
        """Consume a queue on a channel of its own: `multiple` acks are for one queue then."""
        name = ChannelName(self._address, self._number, queue)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=self._shared.consuming.prefetch)
        depth = channel.queue_declare(queue, passive=True).method.message_count
        channel.add_on_cancel_callback(_cancelled(self._address, queue))
        may_cut = self._may_cut(connection, queue, depth)
        if may_cut == 0:
            # None of it is to be read here, and what is unacked here nobody else could read.
            return
        with self._shared.changed:
            self._shared.ranges.open(name, may_cut)
        self._channels[name] = channel
        channel.basic_consume(queue, self._receiver(name))

    def _may_cut(self, connection: pika.BlockingConnection, queue: str, depth: int) -> int | None:
        """How many messages the queue may give; None if it is not bounded."""
        if not self._shared.consuming.only_present:
            return None
        if queue not in self._remaining:
            # Brokers of one cluster hold the same queues: what is there counts once.
            cluster = cluster_name(connection) or self._address
            with self._shared.changed:
                counted = self._shared.clusters.setdefault(cluster, self._address)
            self._remaining[queue] = depth if counted == self._address else 0
        return self._remaining[queue]

    def _receiver(self, name: ChannelName) -> Callable[..., None]:
        shared, hold = self._shared, self._shared.ranges.hold

        def receive(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
            message = Received(
                name.queue,
                method.exchange,
                method.routing_key,
                method.redelivered,
                properties,
                body,
            )
            with shared.changed:
                hold(name, method.delivery_tag, message.size_bytes, message)
                shared.arrived_at_s = time.monotonic()

        return receive

    def _answer(self) -> None:
        """Ack what was asked for; the declare's answer says that the broker has read the ack."""
        while self._asked:
            asked = self._asked.popleft()
            try:
                channel = self._channels.get(asked.channel)
                if channel is not None:
                    channel.basic_ack(asked.tag, multiple=True)
                    channel.queue_declare(asked.channel.queue, passive=True)
            finally:
                asked.done.set()

    def _forget_channels(self) -> None:
        """Drop what came by a connection that is gone: the broker delivers it again."""
        channels, self._channels = self._channels, {}
        for name in channels:
            with self._shared.changed:
                twice, remaining = self._shared.ranges.close(name)
            if remaining is not None:
                self._remaining[name.queue] = remaining
            if twice:
                self._shared.warn(
                    SPARK_SOURCE_UNACKED_LOST, broker=self._address, queue=name.queue, rows=twice
                )
        self._close()
        self._release()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            try:
                connection.close()
            except exceptions.AMQPError:
                # It is gone, one way or another.
                return

    def _release(self) -> None:
        """Let nobody wait for an ack that cannot be."""
        while self._asked:
            self._asked.popleft().done.set()


def cluster_name(connection: pika.BlockingConnection) -> str | None:
    """What RabbitMQ calls its cluster; None of a broker that has none."""
    # A blocking connection shows only some of what the broker said of itself.
    said = connection._impl.server_properties or {}
    return said.get("cluster_name")


def _cancelled(address: str, queue: str) -> Callable[[Any], None]:
    def on_cancel(_method: Any) -> None:
        raise SourceError(
            f"{address} cancelled the consumer of the queue {queue!r}: it has been deleted, "
            "or the broker that held it is gone"
        )

    return on_cancel


def _nothing() -> None:
    """What wakes a connection that waits for its socket."""
