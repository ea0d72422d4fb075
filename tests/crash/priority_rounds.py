"""Rounds of a crash of a queue with priorities: nothing lost, and all in its place by priority.

As in `crash_rounds.py`, on one data directory, with some messages that stay from round to round.
What a message's priority is follows from its key.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

import frames_by_hand as wire
from broker_process import BrokerProcess
from load_threads import MARKERS, Consumer, LoadThread, Publisher, failures
from numbered_messages import body_of, key_in, publisher_of
from queue_ledger import Findings, QueueLedger
from socket_client import SocketClient

LOAD_SECONDS = (0.1, 1.0)
LEFT_MAX = 60
SEGMENT_BYTES_MAX = 1 << 20
PRIORITY_MAX = 9
QUEUE = "ranked"
PUBLISHERS = 2


def priority_of(key: int) -> int | None:
    """Now mixed, now the same for a while; some above the maximum, some without any."""
    chosen = (key * 7 if key // 500 % 2 else key // 50) % 14
    return None if chosen == 13 else chosen


def level_of(key: int) -> int:
    """What it comes to in the queue."""
    return min(priority_of(key) or 0, PRIORITY_MAX)


class RankedLedger(QueueLedger):
    """A ledger of a queue whose order is by priority, then by age."""

    def _check_order(self, keys: Sequence[int]) -> None:
        levels = [level_of(key) for key in keys]
        assert levels == sorted(levels, reverse=True), f"{self.name}: not by priority: {levels}"
        for publisher in range(1, PUBLISHERS + 1):
            for level in set(levels):
                row = [k for k in keys if publisher_of(k) == publisher and level_of(k) == level]
                assert row == sorted(row), f"{self.name}: priority {level} is not in order: {row}"


class RankedPublisher(Publisher):
    """Publishes with priorities."""

    def _encoded(self, key: int, routing_key: str, mode: int) -> bytes:
        priority = priority_of(key)
        return wire.publish(
            1, "", routing_key, body_of(key), mode, False, self._frame_max, priority
        )


class PriorityRounds:
    """The queue, what is known of it, and the rounds."""

    def __init__(self, start: Callable[..., BrokerProcess], seed: int) -> None:
        self._random = random.Random(seed)
        self._start_broker = start
        self._ledger = RankedLedger(QUEUE, is_consumed=True)
        self._sent = [0] * PUBLISHERS
        self._broker = self._start()
        client = SocketClient(self._broker.port)
        client.open_channel()
        client.declare(MARKERS)
        declare = wire.queue_declare(1, QUEUE, arguments={"x-max-priority": PRIORITY_MAX})
        client.ask(declare, wire.QUEUE_DECLARE_OK)
        client.close()

    def _start(self) -> BrokerProcess:
        return self._start_broker(segment_bytes_max=SEGMENT_BYTES_MAX).listening()

    def round(self, number: int) -> None:
        """Load, kill, start twice, check after each start; prints the figures."""
        sent = self._load_and_kill()
        self._broker = self._start()
        first = self._check(acks=False)
        if self._random.random() < 0.5:
            assert self._broker.stop() == 0
        else:
            self._broker.kill()
        assert self._broker.faults() == []
        self._broker = self._start()
        again = self._check(acks=True)
        assert (again.found, again.redelivered) == (first.found, first.found)
        assert self._broker.faults() == []
        print(
            f"round {number}: published {sent}, confirmed {first.confirmed}; found "
            f"{first.found} by priority, lost=0; acked in the last moments "
            f"{first.acked_late}, of them repeated {first.repeated}"
        )

    def _load_and_kill(self) -> int:
        port, ledger = self._broker.port, self._ledger

        def seed() -> int:
            return self._random.randrange(2**32)

        publishers = [
            RankedPublisher(port, seed(), n + 1, "", lambda _: (QUEUE, [ledger]), sent + 1)
            for n, sent in enumerate(self._sent)
        ]
        consumers = [Consumer(port, seed(), ledger) for _ in range(2)]
        threads: list[LoadThread] = [*publishers, *consumers]
        for thread in threads:
            thread.start()
        # The moment of the kill; nothing waits for anything here.
        threading.Event().wait(self._random.uniform(*LOAD_SECONDS))
        self._broker.kill()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), f"{thread.name} did not notice the end"
        assert not failures(threads), failures(threads)
        assert self._broker.faults() == []
        for n, publisher in enumerate(publishers):
            self._sent[n] += publisher.sent
        return sum(publisher.sent for publisher in publishers)

    def _check(self, acks: bool) -> Findings:
        """Read the queue to its end and compare; with `acks`, leave little in it."""
        client = SocketClient(self._broker.port)
        client.open_channel(1)
        client.open_channel(2, confirm=True)
        count = client.declare(QUEUE, passive=True)
        client.ask(wire.consume(1, QUEUE, QUEUE), wire.CONSUME_OK)
        read: list[tuple[int, int, bool]] = []
        for _ in range(count):
            item = client.delivery()
            assert not isinstance(item, wire.Frame), item
            read.append((item.delivery_tag, key_in(item.body), item.redelivered))
        findings = self._ledger.check([(key, redelivered) for _, key, redelivered in read])
        left = set(self._random.sample([key for _, key, _ in read], min(count, LEFT_MAX)))
        if acks:
            client.send(b"".join(wire.ack(1, tag) for tag, key, _ in read if key not in left))
        # Behind this the queue has seen the acks, and the journal what the queue told it.
        client.declare(QUEUE, passive=True)
        client.publish_confirmed("", MARKERS, b"", channel=2)
        if acks:
            self._ledger.keep(left)
        self._ledger.note_delivered(self._ledger.present)
        client.ask(wire.queue_purge(1, MARKERS), wire.QUEUE_PURGE_OK)
        client.close()
        return findings
