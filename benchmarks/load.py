"""The load itself: sockets, blocks of bytes that were encoded before, and counting.

One thread and one epoll over all connections. No work is done per message: a block of publishes is
one `memoryview`, confirms are read by `Confirms`, deliveries and returns are counted by the marker
at the end of every body. The time from handing over a block to its last confirm is a sample of
latency.
"""

from __future__ import annotations

import selectors
import socket
import sys
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from time import perf_counter, sleep

from benchmarks import wire
from benchmarks.confirms import ACK_FRAME_BYTES, Confirms
from benchmarks.scenarios import ACK_EVERY
from benchmarks.tag_frames import TagFrames
from benchmarks.tls import TlsSocket

_READ_BYTES = 1 << 20
_PIECES_MAX = 64
_STALLED_SECONDS = 15.0
# A broker that writes every few messages would be read as often: 10,000 reads a second take a third
# of a core from it. This pause, small beside any window's time, gathers them.
_PAUSE_SECONDS = 0.0001


class StalledError(Exception):
    """The broker stopped answering, or answered with something else than confirms."""


class Publisher:
    """Blocks of publishes on one connection, sent in turn as long as the window has room."""

    def __init__(
        self, blocks: Sequence[bytes], messages: int, channels: list[int], window: int
    ) -> None:
        """`messages` are in each block."""
        self._blocks = cycle([memoryview(block) for block in blocks])
        self.messages = messages
        self.window = window
        self.confirms = [Confirms(channel) for channel in channels]
        self.sent = 0
        self.latencies: list[float] = []
        # Per block on its way: the seq_no on each channel that ends it, and when it was sent.
        self._on_the_way: deque[tuple[int, float]] = deque()

    @property
    def confirmed(self) -> int:
        """How many publishes are confirmed, on all channels."""
        return sum(confirms.count for confirms in self.confirms)

    def feed(self, data: bytes) -> None:
        """Take the confirms in `data` and note the latency of blocks that are through."""
        for confirms in self.confirms:
            confirms.feed(data)
        if self._on_the_way:
            base = min(confirms.base for confirms in self.confirms)
            now = perf_counter()
            while self._on_the_way and self._on_the_way[0][0] <= base:
                self.latencies.append(now - self._on_the_way.popleft()[1])

    def publish(self, output: deque[memoryview], messages_max: int) -> None:
        """Add as many blocks as the window has room for, of at most this many messages."""
        room = min(self.window - (self.sent - self.confirmed), messages_max)
        for _ in range(room // self.messages):
            output.append(next(self._blocks))
            self.mark(self.messages)

    def mark(self, messages: int) -> None:
        """Note that so many publishes are on their way from now."""
        self.sent += messages
        self._on_the_way.append((self.sent // len(self.confirms), perf_counter()))


class Consumer:
    """Counts deliveries on one connection and acks them, many at a time or one by one."""

    def __init__(self, channel: int, one_by_one: TagFrames | None = None) -> None:
        self._channel = channel
        self._one_by_one = one_by_one
        self.delivered = 0
        self.acked = 0

    def answer(self, output: deque[memoryview]) -> None:
        """Add the acks that are due."""
        if self._one_by_one is not None:
            output.extend(self._one_by_one.between(self.acked + 1, self.delivered))
            self.acked = self.delivered
        while self.delivered - self.acked >= ACK_EVERY:
            self.acked += ACK_EVERY
            output.append(memoryview(wire.ack(self._channel, self.acked, multiple=True)))


class LoadedConnection:
    """One socket with a publisher, a consumer, or both on it."""

    def __init__(
        self,
        connected: socket.socket | TlsSocket,
        publisher: Publisher | None,
        consumer: Consumer | None,
        republishing: bool = False,
    ) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.publisher = publisher
        self.consumer = consumer
        self.republishing = republishing
        self.messages_back = 0  # deliveries or returns: whole bodies that came
        self._output: deque[memoryview] = deque()
        # The bytes read, behind the rest of the read before; always the same memory.
        self._buffer = bytearray(_READ_BYTES + ACK_FRAME_BYTES)
        self._view = memoryview(self._buffer)
        self._tail_bytes = 0

    def read(self) -> None:
        """Read the received frames, and count them."""
        tail = self._tail_bytes
        try:
            received = self.socket.recv_into(self._view[tail:])
        except BlockingIOError:
            return
        if not received:
            raise StalledError("the broker closed the socket")
        end = tail + received
        bodies = self._buffer.count(wire.BODY_MARKER, max(tail - len(wire.BODY_MARKER) + 1, 0), end)
        self.messages_back += bodies
        if self.consumer is not None:
            self.consumer.delivered += bodies
        if self.publisher is not None:
            self.publisher.feed(bytes(self._view[:end]))
        self._tail_bytes = min(end, ACK_FRAME_BYTES - 1)
        self._view[: self._tail_bytes] = bytes(self._view[end - self._tail_bytes : end])

    def answer(self) -> None:
        """Ack the deliveries; republishing, each ack stands behind a publish."""
        if self.consumer is not None:
            unanswered = self.consumer.delivered - self.consumer.acked
            if self.republishing and self.publisher is not None and unanswered:
                self.publisher.mark(unanswered)
            self.consumer.answer(self._output)

    def publish(self, messages_max: int = sys.maxsize) -> None:
        """Fill the publisher's window, with so many messages at most."""
        if self.publisher is not None and not self.republishing:
            self.publisher.publish(self._output, messages_max)

    def flush(self) -> bool:
        """Send what the socket takes; say whether some is left."""
        output = self._output
        while output:
            pieces = [output[i] for i in range(min(len(output), _PIECES_MAX))]
            try:
                sent = self.socket.sendmsg(pieces)
            except BlockingIOError:
                return True
            for piece in pieces:
                if sent < len(piece):
                    output[0] = piece[sent:]
                    break
                sent -= len(piece)
                output.popleft()
        return False


class Load:
    """All connections of one scenario, driven until a moment or until all is confirmed."""

    def __init__(self, connections: list[LoadedConnection]) -> None:
        self.connections = connections
        self._selector = selectors.DefaultSelector()
        self._wanted: dict[LoadedConnection, int] = {}
        for connection in connections:
            self._wanted[connection] = selectors.EVENT_READ
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    @property
    def confirmed(self) -> int:
        """Publishes confirmed so far, on all connections."""
        return sum(c.publisher.confirmed for c in self.connections if c.publisher)

    @property
    def sent(self) -> int:
        """Publishes sent so far, on all connections."""
        return sum(c.publisher.sent for c in self.connections if c.publisher)

    @property
    def messages_back(self) -> int:
        """Deliveries and returns so far, on all connections."""
        return sum(connection.messages_back for connection in self.connections)

    def latencies(self) -> list[float]:
        """Give the times from a block to its last confirm since this was asked last."""
        publishers = [each.publisher for each in self.connections if each.publisher is not None]
        samples = [sample for publisher in publishers for sample in publisher.latencies]
        for publisher in publishers:
            publisher.latencies.clear()
        return samples

    def run(self, seconds: float) -> None:
        """Publish and consume for this long."""
        end = perf_counter() + seconds
        for connection in self.connections:
            connection.publish()
            self._flush(connection)
        while (now := perf_counter()) < end:
            if not self._turn(end - now, publishing=True) and perf_counter() < end:
                raise StalledError(self._state())
            sleep(_PAUSE_SECONDS)

    def drain(self) -> None:
        """Publish no more; go on until every publish is confirmed."""
        while self.confirmed < self.sent:
            if not self._turn(_STALLED_SECONDS, publishing=False):
                raise StalledError(self._state())

    def _turn(self, wait_seconds: float, publishing: bool) -> bool:
        events = self._selector.select(min(wait_seconds, _STALLED_SECONDS))
        for key, mask in events:
            connection: LoadedConnection = key.data
            if mask & selectors.EVENT_READ:
                connection.read()
                if publishing or not connection.republishing:
                    connection.answer()
                if publishing:
                    connection.publish()
            self._flush(connection)
        return bool(events)

    def _flush(self, connection: LoadedConnection) -> None:
        wanted = selectors.EVENT_READ
        if connection.flush():
            wanted |= selectors.EVENT_WRITE
        if wanted != self._wanted[connection]:
            self._wanted[connection] = wanted
            self._selector.modify(connection.socket, wanted, connection)

    def _state(self) -> str:
        return f"stalled: {self.sent} sent, {self.confirmed} confirmed, {self.messages_back} back"
