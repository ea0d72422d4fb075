"""The consumers of one run of a streaming query: a thread per broker address.

The threads live in the process that Spark keeps for a query's source on the driver. Each keeps its
connection's heartbeats whatever the query does, and holds deliveries unacked (`prefetch` and
`maxHeldBytes` bound how many) in `HeldRanges`, under one lock. Spark's side waits here for
messages, and has ranges acked. Executors could not ack: a delivery can only be acked on the channel
it came by.

A connection that breaks is made again for as long as `reconnect_timeout_ms` allows without any
connection at all, or, with `fail_on_unreachable`, without this one; its unacked messages come back
redelivered. What a new connection would not mend ends the query, loudly: a deleted queue (the
consumer is cancelled, or the queue is not found), a refused login, a channel that the broker closes
(such as its limit for unacked deliveries).

Pika's connections belong to one thread: each address has a thread with a connection of its own,
which reads, sends heartbeats and acks. Spark's side only leaves it notes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pika
from pika import exceptions

from ...logs.events import (
    SPARK_SOURCE_CONNECTION_LOST,
    SPARK_SOURCE_PASSED_OVER,
    SPARK_SOURCE_UNACKED_LOST,
)
from ..errors import SourceError, describe
from .held_ranges import HeldRanges
from .intake import Intake, MessageSizes
from .reading_connection import ReadingConnection
from .received import Received

# How long Spark waits until the broker has acks; later they are sent all the same.
ACK_TIMEOUT_S: Final = 10.0


class ChannelName(NamedTuple):
    """One queue on one connection; a new connection to the same address has another number."""

    address: str
    connection: int
    queue: str


@dataclass(frozen=True)
class Consuming:
    """The queues to consume; `only_present`: no more than they hold at the time of connecting."""

    queues: tuple[str, ...]
    prefetch: int
    # How much may be held: unacked, or in ranges that Spark has not committed.
    bytes_max: int
    reconnect_timeout_ms: int
    fail_on_unreachable: bool = False
    only_present: bool = False


Ways = Mapping[str, Callable[[], "pika.ConnectionParameters"]]
Warn = Callable[..., object]


class Consumers:
    """All threads of one query, and what they share."""

    def __init__(self, ways: Ways, consuming: Consuming, warn: Warn) -> None:
        """Take how to reach each address, and how to log."""
        self.ranges: HeldRanges[ChannelName, Received] = HeldRanges()
        self.changed = threading.Condition()
        self.consuming = consuming
        self.warn = warn
        # The bytes that may be held of one queue on one connection.
        self.share_bytes = max(1, consuming.bytes_max // (len(ways) * len(consuming.queues)))
        # How much of each queue is let in; each is its thread's, and looked at with the lock held.
        self.intakes: dict[ChannelName, Intake] = {}
        # Which address counts for a cluster of brokers, by the cluster's name.
        self.clusters: dict[str, str] = {}
        self.arrived_at_s = time.monotonic()
        self._failure: SourceError | None = None
        self._connected: set[str] = set()
        self._tried: set[str] = set()
        self._parted_at_s = dict.fromkeys(ways, time.monotonic())
        self._passed_over: set[str] = set()
        self._threads = {
            address: ConsumerThread(self, address, way) for address, way in ways.items()
        }
        for thread in self._threads.values():
            thread.start()

    def check(self) -> None:
        """Raise if reading cannot go on."""
        if self._failure is not None:
            raise self._failure

    def wait_until_tried(self) -> None:
        """Return when every address has been connected to once, or could not be."""
        with self.changed:
            self.changed.wait_for(lambda: self._failure or len(self._tried) == len(self._threads))

    def wait_for(self, enough: Callable[[], bool], seconds: float) -> None:
        """Wait until `enough`, a failure or the time is up; with the lock held."""
        self.changed.wait_for(lambda: self._failure is not None or enough(), seconds)

    def has_batch(self, records: int, size_bytes: int) -> bool:
        """Is there a whole batch, or all that there can be before an ack? With the lock held."""
        if self.ranges.has(records, size_bytes):
            return True
        return self.ranges.available > 0 and (
            self.ranges.available == self.ranges.remaining
            or all(self.is_full(each) for each in self.ranges.channels)
        )

    def is_full(self, channel: ChannelName) -> bool:
        """Does the channel get no more messages before an ack? With the lock held."""
        intake = self.intakes[channel]
        # A queue without room, or closed until there is some, gets no more before an ack.
        if not intake.window or intake.is_overfull:
            return True
        return intake.is_exhausted and not self.next_window(channel)

    def next_window(self, channel: ChannelName) -> int:
        """Give how many messages more are to be let in; 0: as it is. With the lock held."""
        intake = self.intakes[channel]
        more = self.allowed(intake) - self.ranges.unacked(channel)
        if not intake.window:
            has_room = self.ranges.held_bytes(channel) <= self.share_bytes // 2
            return max(0, more) if has_room else 0
        # Not for a few: the consumer would begin anew again and again.
        return more if intake.is_exhausted and more >= max(1, intake.window // 2) else 0

    def allowed(self, intake: Intake) -> int:
        """How many messages of a queue may be unacked: as many as are expected to have room."""
        return min(self.consuming.prefetch, intake.sizes.fitting(self.share_bytes))

    @property
    def are_settled(self) -> bool:
        """Is every address connected to, or away for so long that it is passed over?"""
        return all(
            address in self._connected
            or (self._is_overdue(address) and not self.consuming.fail_on_unreachable)
            for address in self._threads
        )

    def ack(self, tags: Mapping[ChannelName, int]) -> None:
        """Ack up to these tags, and return when the brokers have them; not with the lock held.

        Spark may kill this process right after its last question: an ack that is only in a buffer
        by then would be lost, and the last batch be delivered again.
        """
        done = [self._threads[each.address].ask(each, tag) for each, tag in tags.items()]
        deadline_s = time.monotonic() + ACK_TIMEOUT_S
        for each in done:
            each.wait(max(0.0, deadline_s - time.monotonic()))

    def stop(self) -> None:
        """Close the connections; unacked messages go back to their queues."""
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            thread.join()

    def connected(self, address: str) -> None:
        """Note that an address has been connected to; called by its thread, as are the next two."""
        with self.changed:
            self._connected.add(address)
            self._passed_over.discard(address)
            self._tried.add(address)
            self.arrived_at_s = time.monotonic()
            self.changed.notify_all()

    def disconnected(self, address: str, reason: str) -> None:
        """Note that an address has no connection; raise if there has been none at all for long."""
        with self.changed:
            if address in self._connected:
                self._connected.discard(address)
                self._parted_at_s[address] = time.monotonic()
                self.warn(SPARK_SOURCE_CONNECTION_LOST, broker=address, reason=reason)
            self._tried.add(address)
            self.changed.notify_all()
            if not self._is_overdue(address):
                return
            is_all = not self._connected and self.are_settled
            if is_all or self.consuming.fail_on_unreachable:
                raise SourceError(
                    f"no connection to {', '.join(self._threads) if is_all else address} for "
                    f"{self.consuming.reconnect_timeout_ms} ms (reconnectTimeoutMs): {reason}"
                )
            if address not in self._passed_over:
                self._passed_over.add(address)
                self.warn(SPARK_SOURCE_PASSED_OVER, broker=address, reason=reason)

    def failed(self, error: SourceError) -> None:
        """Note that reading cannot go on."""
        with self.changed:
            self._failure = self._failure or error
            self.changed.notify_all()

    def _is_overdue(self, address: str) -> bool:
        parted_s = time.monotonic() - self._parted_at_s[address]
        return parted_s * 1000 > self.consuming.reconnect_timeout_ms


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
        self._intakes: dict[ChannelName, Intake] = {}
        # Of each queue, over all connections.
        self._sizes: dict[str, MessageSizes] = {}
        self._remaining: dict[str, int] = {}
        self._asked: deque[_Ask] = deque()
        # Sent, and perhaps not read by the broker.
        self._unanswered: deque[_Ask] = deque()
        self._stopped = threading.Event()

    def run(self) -> None:
        """Consume until told to stop, or until it is hopeless."""
        backoff_s = RECONNECT_BACKOFF_S
        try:
            while not self._stopped.is_set():
                reason = self._connect_and_consume()
                if self._stopped.is_set():
                    break
                backoff_s = RECONNECT_BACKOFF_S if self._intakes else backoff_s * 2
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
            connection.wake()

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
                self._adjust()
                with self._shared.changed:
                    self._shared.changed.notify_all()
        except (exceptions.AMQPError, OSError) as error:
            if self._connection is not None:
                self._connection.check()
            return describe(self._address, error)
        return "stopped"

    def _open_channel(self, connection: ReadingConnection, queue: str) -> None:
        """Consume a queue on a channel of its own: `multiple` acks are for one queue then."""
        name = ChannelName(self._address, self._number, queue)
        channel = connection.channel()
        depth = channel.queue_declare(queue, passive=True).method.message_count
        channel.add_on_cancel_callback(_cancelled(self._address, queue))
        may_cut = self._may_cut(connection, queue, depth)
        if may_cut == 0:
            # None of it is to be read here, and messages unacked here would be hidden from other
            # readers.
            return
        sizes = self._sizes.setdefault(queue, MessageSizes())
        intake = Intake(channel, queue, self._receiver(name, sizes), sizes)
        with self._shared.changed:
            self._shared.ranges.open(name, may_cut)
            self._shared.intakes[name] = intake
        self._intakes[name] = intake
        intake.open(self._shared.allowed(intake))

    def _adjust(self) -> None:
        """Let in as much as maxHeldBytes allows, now that more is known of the messages' sizes."""
        for name, intake in self._intakes.items():
            if intake.failure is not None:
                raise intake.failure
            if intake.is_overfull:
                intake.close()
            with self._shared.changed:
                window = self._shared.next_window(name)
            if window:
                intake.open(window)

    def _may_cut(self, connection: ReadingConnection, queue: str, depth: int) -> int | None:
        """How many messages the queue may give; None if it is not bounded."""
        if not self._shared.consuming.only_present:
            return None
        if queue not in self._remaining:
            # Brokers of one cluster hold the same queues: their messages count once.
            cluster = connection.cluster_name or self._address
            with self._shared.changed:
                counted = self._shared.clusters.setdefault(cluster, self._address)
            self._remaining[queue] = depth if counted == self._address else 0
        return self._remaining[queue]

    def _receiver(self, name: ChannelName, sizes: MessageSizes) -> Callable[..., bool]:
        shared, hold = self._shared, self._shared.ranges.hold

        def receive(method: Any, properties: Any, body: bytes) -> bool:
            message = Received(
                name.queue,
                method.exchange,
                method.routing_key,
                method.redelivered,
                properties,
                body,
            )
            held_bytes = message.held_bytes
            with shared.changed:
                sizes.add(held_bytes)
                shared.arrived_at_s = time.monotonic()
                before = shared.ranges.held_bytes(name)
                if before and before + held_bytes > shared.share_bytes:
                    return False
                hold(name, method.delivery_tag, message.size_bytes, message, held_bytes)
            return True

        return receive

    def _answer(self) -> None:
        """Carry out the requested acks."""
        while self._unanswered and self._unanswered[0].done.is_set():
            self._unanswered.popleft()
        while self._asked:
            asked = self._asked.popleft()
            intake = self._intakes.get(asked.channel)
            if intake is None:
                asked.done.set()
            else:
                self._unanswered.append(asked)
                if intake.is_exhausted and intake.window < self._shared.allowed(intake):
                    # With nothing on its way, the next window may be as large as it can be.
                    intake.close_before(asked.tag)
                intake.ack(asked.tag, asked.done.set)

    def _forget_channels(self) -> None:
        """Drop messages of a connection that is gone: the broker delivers it again."""
        intakes, self._intakes = self._intakes, {}
        for name in intakes:
            with self._shared.changed:
                del self._shared.intakes[name]
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
        for asked in (self._asked, self._unanswered):
            while asked:
                asked.popleft().done.set()


def _cancelled(address: str, queue: str) -> Callable[[Any], None]:
    def on_cancel(_method: Any) -> None:
        raise SourceError(
            f"{address} cancelled the consumer of the queue {queue!r}: it has been deleted, "
            "or the broker that held it is gone"
        )

    return on_cancel
