"""A channel's credit goes round: among its queues, and among its consumers of one queue."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from batches import numbered
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.properties import Properties
from leveret.core.connection.channel_credit import UNLIMITED, ChannelCredit
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 20


class Trip:
    """One channel, its queues and its client, without actors: one thing after the other."""

    def __init__(self, limit: int) -> None:
        self.credit = ChannelCredit()
        self.queues: dict[str, MessageQueue] = {}
        # As the client got them, message by message: the delivery, the position and the tag.
        self.held: deque[tuple[Delivery, int, str]] = deque()
        self.got: list[str] = []
        self.offer(self.credit.set_limit(limit))

    def declare(self, name: str, messages: int, *tags: str, no_ack: bool = False) -> None:
        queue = self.queues[name] = MessageQueue(name, False, WINDOW)
        for tag in tags:
            queue.consumers.add(Consumer("a", tag.encode(), 0, self.credit, no_ack, False))
        self.publish(name, messages)

    def publish(self, name: str, count: int) -> None:
        effects = Effects()
        if count:
            self.queues[name].publish(numbered(count, Properties()), range(count), effects)
        self.deliver(effects)

    def deliver(self, effects: Effects) -> None:
        for consumer, deliveries in effects.delivered:
            for delivery in deliveries:
                tag = consumer.consumer_tag.decode()
                self.got += [tag] * len(delivery.span)
                if not consumer.no_ack:
                    self.held += ((delivery, at, tag) for at in range(len(delivery.span)))
        assert len(self.held) == self.credit.in_use

    def ack(self, count: int = 1) -> None:
        """The oldest deliveries; all of them in one ack."""
        parts = [self.held.popleft() for _ in range(count)]
        by_queue: dict[str, list[tuple[Delivery, int, int]]] = {}
        for delivery, at, _ in parts:
            by_queue.setdefault(str(delivery.queue), []).append((delivery, at, at + 1))
        offered = self.credit.release(count)
        for name, own in by_queue.items():
            effects = Effects()
            self.queues[name].settle("a", own, effects)
            self.deliver(effects)
        self.offer(offered)

    def offer(self, queues: object) -> None:
        for name in (waiting := list(queues)):  # type: ignore[call-overload]
            effects = Effects()
            self.queues[name].dispatch(effects, "a")
            self.deliver(effects)
            waiting += self.credit.return_unused(name)


def test_a_queue_with_one_message_is_served_in_its_turn() -> None:
    trip = Trip(limit=10)
    trip.declare("busy", 3000, "busy")
    trip.declare("idle", 1, "idle")
    while trip.held:
        trip.ack()
    assert trip.got.index("idle") <= 11
    assert len(trip.got) == 3001


@pytest.mark.parametrize("count", [1, 5, 10])
def test_three_busy_queues_get_a_third_each(count: int) -> None:
    trip = Trip(limit=10)
    for name in ("q", "r", "s"):
        trip.declare(name, 1000, name)
    while len(trip.got) < 1000:
        trip.ack(count)
    shares = Counter(trip.got[10:1000])
    assert max(shares.values()) - min(shares.values()) <= 10


def test_two_consumers_of_one_queue_get_a_half_each() -> None:
    trip = Trip(limit=10)
    trip.declare("q", 0, "c", "d")
    trip.publish("q", 100)
    assert Counter(trip.got) == {"c": 5, "d": 5}
    trip.ack(10)
    assert Counter(trip.got) == {"c": 10, "d": 10}
    for _ in range(40):
        trip.ack()
    assert Counter(trip.got) == {"c": 30, "d": 30}


def test_consumers_that_came_when_one_held_all_of_the_credit_catch_up() -> None:
    trip = Trip(limit=10)
    trip.declare("q", 100, "c")
    trip.queues["q"].consumers.add(Consumer("a", b"d", 0, trip.credit, False, False))
    for _ in range(10):
        trip.ack()
    assert Counter(tag for *_, tag in trip.held) == {"c": 5, "d": 5}


def test_a_consumer_without_acks_waits_for_the_limit_and_takes_up_nothing_of_it() -> None:
    trip = Trip(limit=2)
    trip.declare("q", 9, "c")
    trip.declare("r", 9, "free", no_ack=True)
    assert Counter(trip.got) == {"c": 2}
    trip.ack(2)
    assert Counter(trip.got) == {"c": 4, "free": 9}
    trip.publish("r", 1)
    assert "free" not in trip.got[13:]


def test_an_offer_that_is_not_used_is_offered_on() -> None:
    trip = Trip(limit=1)
    for name in ("q", "r", "s"):
        trip.declare(name, 2, name)
    # What the next in turn waited with is gone.
    trip.queues["r"].purge(Effects())
    trip.ack()
    trip.ack()
    assert trip.got == ["q", "q", "s"]


def test_a_lower_limit_takes_offers_back_and_no_limit_serves_all() -> None:
    credit = ChannelCredit()
    credit.set_limit(4)
    credit.reserve("q", 4)
    credit.wait("q")
    credit.wait("r")
    assert list(credit.release(4)) == ["q", "r"]
    assert (credit.room("q"), credit.room("r"), credit.room("s")) == (2, 2, 0)
    assert list(credit.set_limit(1)) == ["q"]
    assert (credit.room("q"), credit.room("r")) == (1, 0)
    assert sorted(map(str, credit.set_limit(0))) == ["q", "r"]
    assert credit.room("r") == UNLIMITED


@given(
    st.integers(0, 6),
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "reserve", "release", "return", "forget", "limit"]),
            st.sampled_from("qrs"),
            st.integers(0, 6),
        ),
        max_size=60,
    ),
)
def test_no_more_is_handed_out_than_the_limit_and_nothing_free_while_a_queue_waits(
    limit: int, steps: list[tuple[str, str, int]]
) -> None:
    credit = ChannelCredit()
    credit.set_limit(limit)
    in_use = 0
    waiting: dict[str, None] = {}
    for step, queue, count in steps:
        offered: list[object] = []
        if step == "wait":
            if credit.room(queue) <= 0:
                credit.wait(queue)
                waiting[queue] = None
        elif step == "reserve":
            count = min(count, credit.room(queue))
            credit.reserve(queue, count)
            in_use += count
        elif step == "release":
            count = min(count, in_use)
            offered += credit.release(count)
            in_use -= count
        elif step == "return":
            offered += credit.return_unused(queue)
        elif step == "forget":
            waiting.pop(queue, None)
            offered += credit.forget(queue)
        else:
            limit = count
            # Queues with an offer of before wait again, or have one anew.
            waiting = dict.fromkeys("qrs")
            offered += credit.set_limit(limit)
        for each in offered:
            assert credit.room(each) > 0
            waiting.pop(str(each), None)
        assert credit.in_use == in_use
        if limit:
            handed_out = sum(max(credit.room(each), 0) for each in "qrs")
            assert handed_out <= 3 * max(limit - in_use, 0)
            if step != "limit" and waiting and all(credit.room(each) <= 0 for each in waiting):
                assert credit.room("a queue that comes now") == 0
