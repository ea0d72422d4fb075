"""Clients that keep the broker busy, each a thread with connections of its own.

A thread ends when the broker does; whatever else ends it is kept in `failure`.
"""

from __future__ import annotations

import random
import struct
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

import frames_by_hand as wire
from frames_by_hand import Frame
from numbered_messages import body_of, key_in, key_of
from queue_ledger import QueueLedger
from socket_client import EndedError, SocketClient, raise_if_close

# The routing key of a message, and the ledgers of the queues that it leads to.
Route = Callable[[int], tuple[str, Sequence[QueueLedger]]]

# Takes the messages whose confirms say how far the journal has come.
MARKERS = "markers"


class LoadThread(threading.Thread):
    """Runs `work` until the broker is gone."""

    def __init__(self, name: str, port: int, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.random = random.Random(seed)
        self.port = port
        # It has its first connection, or will never have one.
        self.has_begun = threading.Event()

    def run(self) -> None:
        """Work, and keep what goes wrong."""
        try:
            self.work()
        except EndedError:
            pass
        except BaseException as error:
            self.failure = error
        finally:
            self.has_begun.set()

    def connect(self, frame_max: int = 131_072) -> SocketClient:
        """A connection of this thread's."""
        client = SocketClient(self.port, frame_max=frame_max)
        self.has_begun.set()
        return client

    @abstractmethod
    def work(self) -> None:
        """Until EndedError."""


class Publisher(LoadThread):
    """Publishes numbered messages in confirm mode, a window of them at a time."""

    def __init__(
        self, port: int, seed: int, publisher: int, exchange: str, route: Route, first_number: int
    ) -> None:
        super().__init__(f"publisher {publisher}", port, seed)
        self._exchange = exchange
        self._route = route
        # The key of the message with seq_no 0, so to say.
        self._base = key_of(publisher, first_number - 1)
        self._window = self.random.choice([5, 50, 500])
        self._frame_max = self.random.choice([4_096, 131_072])
        self.sent = 0
        self.confirmed = 0
        # All seq_nos up to this one are answered, and these beyond it.
        self._answered = 0
        self._singles: set[int] = set()

    def work(self) -> None:
        """Keep the window full."""
        client = self.connect(self._frame_max)
        client.open_channel(confirm=True)
        while True:
            room = self._window - (self.sent - self.confirmed)
            if room > 0:
                self._send(client, min(room, self.random.randint(1, 100)))
                found = client.frame_at_hand()
            else:
                found = client.frame()
            while found is not None:
                self._answer(found)
                found = client.frame_at_hand()

    def _send(self, client: SocketClient, count: int) -> None:
        pieces = []
        for seq_no in range(self.sent + 1, self.sent + count + 1):
            key = self._base + seq_no
            routing_key, ledgers = self._route(key)
            for ledger in ledgers:
                ledger.sent.add(key)
            # A message that no ledger expects after a crash is a transient one.
            mode = wire.PERSISTENT if ledgers else wire.TRANSIENT
            pieces.append(self._encoded(key, routing_key, mode))
        self.sent += count
        client.send(b"".join(pieces))

    def _encoded(self, key: int, routing_key: str, mode: int) -> bytes:
        return wire.publish(
            1, self._exchange, routing_key, body_of(key), mode, frame_max=self._frame_max
        )

    def _answer(self, found: Frame) -> None:
        raise_if_close(found)
        assert found.ids == wire.ACK, f"{found.ids} instead of an ack"
        tag, multiple = struct.unpack_from(">Q?", found.payload, 4)
        assert tag <= self.sent
        if multiple:
            numbers = [n for n in range(self._answered + 1, tag + 1) if n not in self._singles]
            self._answered = max(self._answered, tag)
        else:
            assert tag > self._answered
            assert tag not in self._singles, f"{tag} is answered twice"
            numbers = [tag]
            self._singles.add(tag)
        while self._answered + 1 in self._singles:
            self._answered += 1
        if multiple:
            self._singles = {number for number in self._singles if number > self._answered}
        for number in numbers:
            for ledger in self._route(self._base + number)[1]:
                ledger.confirmed.add(self._base + number)
        self.confirmed += len(numbers)


class Consumer(LoadThread):
    """Consumes, acks, requeues, now and then drops its connection, and finds out what is settled.

    A queue tells the journal of deliveries and acks in order and is not answered. So, to know: a
    passive declare behind the acks, whose answer says that the queue has seen them, and behind it
    a message, whose confirm says that the journal has written what it was told before.
    """

    def __init__(self, port: int, seed: int, ledger: QueueLedger) -> None:
        super().__init__(f"consumer of {ledger.name}", port, seed)
        self._ledger = ledger
        # Of this connection: unacked tags and keys; and since the last look, what it has got and
        # what it has acked.
        self._held: list[tuple[int, int]] = []
        self._got: list[int] = []
        self._acked: list[int] = []

    def work(self) -> None:
        """One connection after the other."""
        while True:
            self._held, self._got, self._acked = [], [], []
            client = self.connect()
            client.open_channel(1)
            client.open_channel(2, confirm=True)
            client.ask(wire.qos(1, self.random.choice([10, 300])), wire.QOS_OK)
            client.send(wire.consume(1, self._ledger.name, "consumer"))
            for _ in range(self.random.randint(10, 40)):
                self._consume(client, self.random.randint(1, 400))
                self._look(client)
            client.abandon()

    def _consume(self, client: SocketClient, count: int) -> None:
        at_once = self.random.choice([1, 5, 10])
        for _ in range(count):
            self._receive(client, wire.CONSUME_OK)
            if len(self._held) >= at_once:
                self._requeue(client)

    def _receive(self, client: SocketClient, awaited: wire.Ids) -> bool:
        """Take a delivery, or what is awaited: then true."""
        item = client.delivery()
        if isinstance(item, Frame):
            raise_if_close(item)
            assert item.ids in (awaited, wire.CONSUME_OK), item
            return item.ids == awaited
        key = key_in(item.body)
        self._held.append((item.delivery_tag, key))
        self._got.append(key)
        return False

    def _requeue(self, client: SocketClient) -> None:
        held, choice = self._held, self.random.random()
        count = self.random.randint(1, len(held))
        if choice < 0.05:
            # The last ones come back, to their old place.
            client.send(b"".join(wire.nack(1, tag) for tag, _ in held[-count:]))
            del held[-count:]
            return
        going = held[:count] if choice < 0.6 else self.random.sample(held, count)
        keys = [key for _, key in going]
        self._ledger.acked.update(keys)
        if choice < 0.6:
            client.send(wire.ack(1, going[-1][0], multiple=True))
        else:
            client.send(b"".join(wire.ack(1, tag) for tag, _ in going))
        self._acked += keys
        gone = set(going)
        self._held = [each for each in held if each not in gone]

    def _look(self, client: SocketClient) -> None:
        acked, self._acked = self._acked, []
        client.send(wire.queue_declare(1, self._ledger.name, passive=True))
        while not self._receive(client, wire.QUEUE_DECLARE_OK):
            pass
        got, self._got = self._got, []
        client.send(wire.publish(2, "", MARKERS, b""))
        while not self._receive(client, wire.ACK):
            pass
        self._ledger.settled.update(acked)
        self._ledger.note_delivered(got)


class Purger(LoadThread):
    """Purges a queue that is published to, again and again."""

    def __init__(self, port: int, seed: int, ledger: QueueLedger) -> None:
        super().__init__(f"purger of {ledger.name}", port, seed)
        self._ledger = ledger
        self.purges = 0

    def work(self) -> None:
        """A purge after some answers of another kind."""
        client = self.connect()
        client.open_channel(confirm=True)
        while True:
            for _ in range(self.random.randint(0, 200)):
                client.publish_confirmed("", MARKERS, b"")
            removed = self._ledger.begin_purge()
            client.ask(wire.queue_purge(1, self._ledger.name), wire.QUEUE_PURGE_OK)
            self._ledger.end_purge(removed)
            self.purges += 1


def failures(threads: Iterable[LoadThread]) -> list[str]:
    """The errors of threads that have ended."""
    return [f"{thread.name}: {thread.failure!r}" for thread in threads if thread.failure]
