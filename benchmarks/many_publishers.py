"""Many connections that publish and wait for each confirm, as programs do: one thread, one epoll.

Each has few messages unconfirmed, one as a rule, and sends the next when one is confirmed. The
messages were encoded before. A turn of a connection costs this thread some 10 microseconds, most of
it in the two system calls that a client cannot do without, so a broker that spends more than that
on a message is not held up by it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from time import perf_counter

from benchmarks import wire
from benchmarks.client import Client
from benchmarks.poll import STALLED_SECONDS, Poll, drain_samples, plain_socket, received, send_all

_ACK_HEAD = wire.answer_marker(1, wire.ACK)
_ack_frame = struct.Struct(">11sQ?B")


class Publisher:
    """One connection; `messages` is shared by all, and goes round."""

    def __init__(self, client: Client, messages: Messages, window: int) -> None:
        self.socket = plain_socket(client)
        self.sent = 0
        self.confirmed = 0
        self.latencies: list[float] = []
        self._messages = messages
        self._window = window
        # When each message on its way was sent, by its number; the oldest first.
        self._on_the_way: dict[int, float] = {}
        self._unread = b""

    def publish(self) -> None:
        """Send as many messages as the window has room for."""
        count = self._window - len(self._on_the_way)
        if not count:
            return
        data = self._messages.next(count)
        now = perf_counter()
        for _ in range(count):
            self.sent += 1
            self._on_the_way[self.sent] = now
        send_all(self.socket, data)

    def turn(self, publishing: bool) -> None:
        """Take the confirms that have come, and publish."""
        data = self._unread + received(self.socket)
        whole = len(data) - len(data) % _ack_frame.size
        now = perf_counter()
        for head, tag, multiple, _end in _ack_frame.iter_unpack(data[:whole]):
            if head != _ACK_HEAD:
                raise ValueError(f"instead of a confirm: {data.hex()}")
            self._confirm(tag, multiple, now)
        self._unread = data[whole:]
        if publishing:
            self.publish()

    def _confirm(self, tag: int, multiple: bool, now: float) -> None:
        on_the_way = self._on_the_way
        tags = [each for each in on_the_way if each <= tag] if multiple else [tag]
        if not tags or tag > self.sent:
            raise ValueError(f"{tag} is confirmed, which is not on its way")
        for each in tags:
            self.latencies.append(now - on_the_way.pop(each))
        self.confirmed += len(tags)


class Messages:
    """A pool of encoded messages that all connections take their next ones from."""

    def __init__(self, pool: Sequence[bytes]) -> None:
        self._pool = pool
        self._next = 0

    def next(self, count: int) -> bytes:
        """Give the next `count` messages as one piece."""
        pool, begin = self._pool, self._next
        self._next = (begin + count) % len(pool)
        if count == 1:
            return pool[begin]
        return b"".join(pool[(begin + each) % len(pool)] for each in range(count))


class ManyPublishers:
    """The load of all publishers."""

    def __init__(self, publishers: Sequence[Publisher]) -> None:
        self._publishers = publishers
        self._poll = Poll()
        self._is_publishing = True
        for publisher in publishers:
            self._poll.add(publisher.socket.fileno(), self._turn_of(publisher))

    def _turn_of(self, publisher: Publisher) -> Callable[[int], None]:
        return lambda _events: publisher.turn(self._is_publishing)

    @property
    def confirmed(self) -> int:
        """Publishes confirmed so far."""
        return sum(each.confirmed for each in self._publishers)

    @property
    def sent(self) -> int:
        """Publishes sent so far."""
        return sum(each.sent for each in self._publishers)

    @property
    def messages_back(self) -> int:
        """Nothing is consumed or returned."""
        return 0

    def latencies(self) -> list[float]:
        """Give the times from a publish to its confirm since this was asked last."""
        return drain_samples([each.latencies for each in self._publishers])

    def run(self, seconds: float) -> None:
        """Publish for this long."""
        self._is_publishing = True
        for publisher in self._publishers:
            publisher.publish()
        self._poll.run_until(perf_counter() + seconds)

    def drain(self) -> None:
        """Publish no more; go on until every publish is confirmed."""
        self._is_publishing = False
        while self.confirmed < self.sent:
            self._poll.turn(STALLED_SECONDS)
