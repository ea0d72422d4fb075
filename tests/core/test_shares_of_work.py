"""Work goes to the relatively idle: consumers of speeds 1, 2 and 4 share a queue in proportion.

One thread runs the queue's rules with simulated consumers. Each works on one message at a time, in
the order of delivery, acks it by itself, and takes a fixed time for each. The clock jumps from one
ack to the next.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush

import pytest
from batches import numbered
from dashed import dashed
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 40
# How many milliseconds a message takes each of them: speeds 1, 2 and 4.
TAKES_MS = {"slow": 4, "middling": 2, "fast": 1}
DURATION_MS = 800
IN_PROPORTION = {"slow": 200, "middling": 400, "fast": 800}
BACKLOG = sum(IN_PROPORTION.values()) + 500


class Work:
    """A queue, its simulated consumers, and what each of them has done by `now_ms`."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.now_ms = 0
        self.done: Counter[str] = Counter()
        self.entries_done: list[int] = []
        # What each has and has not begun: the delivery, and the position of the message in it.
        self._waiting: dict[str, deque[tuple[Delivery, int]]] = {}
        self._credit: dict[str, ChannelCredit] = {}
        self._at_work: set[str] = set()
        # When each is done with which message.
        self._ends: list[tuple[int, str, Delivery, int]] = []

    def join(self, name: str, prefetch: int, is_global: bool = False) -> None:
        """A consumer on a channel of its own; the prefetch is its own, or that of its channel."""
        self._credit[name] = credit = ChannelCredit()
        if is_global:
            credit.set_limit(prefetch)
        self._waiting[name] = deque()
        own = 0 if is_global else prefetch
        self.queue.add_consumer(Consumer(name, b"\1t", own, credit, False, False))
        effects = Effects()
        self.queue.dispatch(effects, name)
        self._carry_out(effects)

    def publish(self, count: int) -> None:
        effects = Effects()
        self.queue.publish(numbered(count), range(count), effects)
        self._carry_out(effects)

    def waiting_count(self) -> int:
        """How many messages consumers have and have not begun."""
        return sum(map(len, self._waiting.values()))

    def run_until(self, end_ms: int) -> None:
        """Let all work that ends by then be done."""
        while self._ends and self._ends[0][0] <= end_ms:
            when, name, delivery, position = heappop(self._ends)
            self._advance(when)
            self._at_work.discard(name)
            self._ack(name, delivery, position)
        self._advance(end_ms)

    def _advance(self, now_ms: int) -> None:
        """Time-outs that are due before pass first."""
        while self.queue.in_flight_timeouts is not None:
            wait_ms = self.queue.wait_ms()
            if wait_ms is None or self.queue.uptime_ms + wait_ms > now_ms:
                break
            self.queue.uptime_ms += wait_ms
            effects = Effects()
            self.queue.expire(effects)
            self._carry_out(effects)
        self.now_ms = self.queue.uptime_ms = now_ms

    def _ack(self, name: str, delivery: Delivery, position: int) -> None:
        self.done[name] += 1
        self.entries_done.append(delivery.span.first_entry_id + position)
        offered = self._credit[name].release(1)
        effects = Effects()
        self.queue.settle(name, [(delivery, position, position + 1)], effects)
        if offered:
            self.queue.dispatch(effects, name)
            assert not self._credit[name].return_unused(self.queue.identity)
        self._carry_out(effects)
        self._begin(name)

    def _carry_out(self, effects: Effects) -> None:
        for consumer, deliveries in effects.delivered:
            name = str(consumer.channel)
            for delivery in deliveries:
                row = range(len(delivery.span))
                self._waiting[name].extend((delivery, position) for position in row)
            self._begin(name)

    def _begin(self, name: str) -> None:
        if name in TAKES_MS and name not in self._at_work and self._waiting[name]:
            self._at_work.add(name)
            end_ms = self.queue.uptime_ms + TAKES_MS[name]
            heappush(self._ends, (end_ms, name, *self._waiting[name].popleft()))


def queue_with(**arguments: object) -> MessageQueue:
    named = dashed(arguments)
    return make_queue("q", True, table_of(named), WINDOW)


@pytest.mark.parametrize("is_global", [False, True])
@pytest.mark.parametrize("prefetch", [1, 2, 7, 100])
def test_of_a_backlog_each_does_its_share_exactly(prefetch: int, is_global: bool) -> None:
    work = Work(queue_with())
    for name in TAKES_MS:
        work.join(name, prefetch, is_global)
    work.publish(BACKLOG)
    work.run_until(DURATION_MS)
    assert work.done == IN_PROPORTION
    # None was done twice.
    assert len(set(work.entries_done)) == sum(IN_PROPORTION.values())


def test_all_of_a_backlog_is_done_as_early_as_it_can_be() -> None:
    """With prefetch 1 none is idle while a message waits, so the last three end together."""
    work = Work(queue_with())
    for name in TAKES_MS:
        work.join(name, 1)
    work.publish(1_400)
    work.run_until(DURATION_MS - 1)
    assert len(work.entries_done) == 1_400 - 3
    work.run_until(DURATION_MS)
    assert len(work.entries_done) == 1_400


def test_messages_that_come_one_by_one_go_to_whoever_is_idle() -> None:
    """Less work than they can do: no message waits behind another of the same consumer."""
    work = Work(queue_with())
    for name in TAKES_MS:
        work.join(name, 10)
    for when in range(DURATION_MS):
        work.run_until(when)
        work.publish(1)
        assert not work.waiting_count()
    work.run_until(2 * DURATION_MS)
    assert sum(work.done.values()) == DURATION_MS


def test_one_that_stalls_changes_nothing_in_the_shares_of_the_others() -> None:
    work = Work(queue_with(x_in_flight_timeout=200))
    work.join("stalled", 10)
    for name in TAKES_MS:
        work.join(name, 10)
    work.publish(BACKLOG)
    work.run_until(DURATION_MS)
    assert work.done == IN_PROPORTION
    # What the stalled one holds, once, others have done since.
    assert set(range(1, 11)) <= set(work.entries_done)
    assert len(set(work.entries_done)) == sum(IN_PROPORTION.values())
