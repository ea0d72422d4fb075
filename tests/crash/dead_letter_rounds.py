"""Rounds of a crash while messages are dead-lettered: none that was confirmed is in neither place.

Each source queue loses its messages for another reason, and all of them go to one queue. Nothing
is ever acked, so whatever was confirmed must be found, in its source or in the dead letter queue.
It may be in both: the original is settled only when the dead letter is on disk. These are counted.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

import frames_by_hand as wire
from kill_loop import KillLoop
from load_threads import LoadThread, Publisher
from numbered_messages import key_in
from queue_ledger import QueueLedger
from socket_client import Delivery, SocketClient, raise_if_close
from timeouts import TIMEOUT_SECONDS

LOAD_SECONDS = (0.1, 1.0)
# Until what was under way when the broker started, or came back to its queue, is where it goes.
DEAD = "dead"
TO_DEAD: dict[str, str | int] = {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": DEAD,
}
# Queue and what else it is declared with: rejected; requeued once too often; too many; too old.
SOURCES: dict[str, dict[str, str | int]] = {
    "rejected": {},
    "retried": {"x-queue-type": "quorum", "x-delivery-limit": 2},
    "short": {"x-max-length": 50},
    "old": {"x-message-ttl": 50},
}


class Rejecter(LoadThread):
    """Consumes and nacks all that it gets, one by one or many at a time."""

    def __init__(self, port: int, seed: int, queue: str, requeues: bool) -> None:
        super().__init__(f"rejecter of {queue}", port, seed)
        self._queue = queue
        self._requeues = requeues

    def work(self) -> None:
        """One connection after the other; each leaves some unacked."""
        while True:
            client = self.connect()
            client.open_channel(1)
            client.ask(wire.qos(1, self.random.choice([5, 200])), wire.QOS_OK)
            client.send(wire.consume(1, self._queue, "rejecter"))
            at_once = self.random.choice([1, 3])
            held: list[int] = []
            for _ in range(self.random.randint(500, 3000)):
                item = client.delivery()
                if not isinstance(item, Delivery):
                    raise_if_close(item)
                    continue
                held.append(item.delivery_tag)
                if len(held) >= at_once:
                    client.send(self._nack(held))
                    held = []
            client.abandon()

    def _nack(self, held: list[int]) -> bytes:
        if self.random.random() < 0.5:
            return wire.nack(1, held[-1], multiple=True, requeue=self._requeues)
        return b"".join(wire.nack(1, tag, requeue=self._requeues) for tag in held)


class Found(NamedTuple):
    """A check's counts: messages in all, in their source, in more than one place."""

    total: int
    in_source: int
    repeated: int


class DeadLetterRounds:
    """The queues, what was confirmed into them, and the rounds on one data directory."""

    def __init__(self, loop: KillLoop) -> None:
        self._loop = loop
        self._ledgers = {name: QueueLedger(name, is_consumed=True) for name in SOURCES}
        self._sent = dict.fromkeys(SOURCES, 0)
        self.repeated = 0
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        client.declare(DEAD)
        for name, arguments in SOURCES.items():
            declare = wire.queue_declare(1, name, arguments=TO_DEAD | arguments)
            client.ask(declare, wire.QUEUE_DECLARE_OK)
        client.close()

    def round(self, number: int) -> None:
        """Load, kill, start twice, check after each start; prints the figures."""
        self._load_and_kill()
        confirmed = {key for ledger in self._ledgers.values() for key in ledger.confirmed}
        starts = []
        for ends in (self._loop.kill, self._loop.stop_or_kill):
            self._loop.start()
            starts.append(self._check(confirmed))
            ends()
        first, second = starts
        self.repeated += second.repeated
        self._loop.start()
        self._purge()
        print(
            f"round {number}: confirmed {len(confirmed)}; first start: found {first.total}, in "
            f"their sources {first.in_source}, repeated {first.repeated}; second start: found "
            f"{second.total}, in their sources {second.in_source}, repeated {second.repeated}; "
            "lost=0"
        )

    def finish(self) -> str:
        """Nothing more to check: each round has."""
        return f"lost=0, repeated={self.repeated}"

    def _load_and_kill(self) -> None:
        port = self._loop.broker.port
        publishers = []
        for number, (name, ledger) in enumerate(self._ledgers.items(), 1):
            seed = self._loop.seed()
            route = self._route_to(name, ledger)
            publishers.append(Publisher(port, seed, number, "", route, self._sent[name] + 1))
        others = [
            Rejecter(port, self._loop.seed(), name, requeues=name == "retried")
            for name in ("rejected", "rejected", "retried")
        ]
        self._loop.load_and_kill([*publishers, *others], LOAD_SECONDS)
        for name, publisher in zip(self._ledgers, publishers, strict=True):
            self._sent[name] += publisher.sent

    def _route_to(
        self, name: str, ledger: QueueLedger
    ) -> Callable[[int], tuple[str, list[QueueLedger]]]:
        return lambda _key: (name, [ledger])

    # --- What is there

    def _check(self, confirmed: set[int]) -> Found:
        """All that was confirmed is in some queue; reads until it is, or time is up."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        found: list[int] = []
        for name in SOURCES:
            found += self._read(client, name)
        in_source = len(found)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        client.ask(wire.consume(1, DEAD, DEAD), wire.CONSUME_OK)
        while True:
            found += self._deliveries(client, DEAD)
            lost = confirmed.difference(found)
            if not lost or time.monotonic() > deadline:
                break
        assert not lost, f"{len(lost)} confirmed messages are nowhere: {sorted(lost)[:20]}"
        sent = {key for ledger in self._ledgers.values() for key in ledger.sent}
        assert not set(found) - sent
        # What the client holds comes back to its queues.
        client.close()
        return Found(len(found), in_source, len(found) - len(set(found)))

    def _read(self, client: SocketClient, queue: str) -> list[int]:
        """The keys of all that is ready in the queue; the messages stay unacked."""
        client.ask(wire.consume(1, queue, queue), wire.CONSUME_OK)
        return self._deliveries(client, queue)

    def _deliveries(self, client: SocketClient, queue: str) -> list[int]:
        """The keys of what comes before the answer to a question about the queue, twice.

        What the queue had when it was asked first is before its second answer.
        """
        keys = []
        for _ in range(2):
            client.send(wire.queue_declare(1, queue, passive=True))
            while True:
                item = client.delivery()
                if isinstance(item, Delivery):
                    keys.append(key_in(item.body))
                    continue
                raise_if_close(item)
                if item.ids == wire.QUEUE_DECLARE_OK:
                    ready = struct.unpack_from(">I", item.payload, 5 + item.payload[4])[0]
                    break
        # The delivery window may have been full.
        return keys + self._deliveries(client, queue) if ready else keys

    def _purge(self) -> None:
        """The next round begins with empty queues; behind a start, nothing is on its way."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        for name in (*SOURCES, DEAD):
            client.ask(wire.queue_purge(1, name), wire.QUEUE_PURGE_OK)
        client.close()
        for ledger in self._ledgers.values():
            ledger.confirmed.clear()
