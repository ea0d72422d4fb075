"""Rounds of a crash of a queue with priorities: nothing lost, and all in its place by priority.

As in `crash_rounds.py`, on one data directory, with some messages that stay from round to round.
What a message's priority is follows from its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import frames_by_hand as wire
from kill_loop import KillLoop
from load_threads import MARKERS, Consumer, Publisher
from numbered_messages import body_of, key_in, publisher_of
from queue_ledger import Findings, QueueLedger
from socket_client import SocketClient

LOAD_SECONDS = (0.1, 1.0)
LEFT_MAX = 60
PRIORITY_MAX = 9
QUEUE = "ranked"
PUBLISHERS = 2


def priority_of(key: int) -> int | None:
    """Now mixed, now the same for a while; some above the maximum, some without any."""
    chosen = (key * 7 if key // 500 % 2 else key // 50) % 14
    return None if chosen == 13 else chosen


def level_of(key: int) -> int:
    """The message's effective priority in the queue."""
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

    def __init__(self, loop: KillLoop) -> None:
        self._loop = loop
        self._ledger = RankedLedger(QUEUE, is_consumed=True)
        self._sent = [0] * PUBLISHERS
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        client.declare(MARKERS)
        declare = wire.queue_declare(1, QUEUE, arguments={"x-max-priority": PRIORITY_MAX})
        client.ask(declare, wire.QUEUE_DECLARE_OK)
        client.close()

    def round(self, number: int) -> None:
        """Load, kill, start twice, check after each start; prints the figures."""
        sent = self._load_and_kill()
        self._loop.start()
        first = self._check(acks=False)
        self._loop.stop_or_kill()
        self._loop.start()
        again = self._check(acks=True)
        assert (again.found, again.redelivered) == (first.found, first.found)
        assert self._loop.broker.faults() == []
        print(
            f"round {number}: published {sent}, confirmed {first.confirmed}; found "
            f"{first.found} by priority, lost=0; acked in the last moments "
            f"{first.acked_late}, of them repeated {first.repeated}"
        )

    def finish(self) -> str:
        """Nothing more to check: each round has."""
        return "lost=0"

    def _load_and_kill(self) -> int:
        port, ledger = self._loop.broker.port, self._ledger

        publishers = [
            RankedPublisher(
                port, self._loop.seed(), n + 1, "", lambda _: (QUEUE, [ledger]), sent + 1
            )
            for n, sent in enumerate(self._sent)
        ]
        consumers = [Consumer(port, self._loop.seed(), ledger) for _ in range(2)]
        self._loop.load_and_kill([*publishers, *consumers], LOAD_SECONDS)
        for n, publisher in enumerate(publishers):
            self._sent[n] += publisher.sent
        return sum(publisher.sent for publisher in publishers)

    def _check(self, acks: bool) -> Findings:
        """Read the queue to its end and compare; with `acks`, leave little in it."""
        client = SocketClient(self._loop.broker.port)
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
        keys = [key for _, key, _ in read]
        left = set(self._loop.random.sample(keys, min(count, LEFT_MAX)))
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
