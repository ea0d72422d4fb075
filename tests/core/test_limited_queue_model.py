"""The limited queue, which works in rows, against RabbitMQ's rule message by message."""

from __future__ import annotations

from dataclasses import dataclass

from batches import sized
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from leveret.core.consumers import ChannelCredit, Consumer
from leveret.core.effects import Effects, EntryRange
from leveret.core.in_flight import Delivery
from leveret.core.limited_queue import LimitedQueue
from leveret.core.limits import Limits
from sweeping import EagerSweep

WINDOW = 1 << 30
SIZES = st.integers(0, 12)


@dataclass
class Message:
    entry: int
    size: int
    is_persistent: bool


def ids(ranges: list[EntryRange]) -> set[int]:
    return {entry for first, last in ranges for entry in range(first, last + 1)}


class LimitedQueueMachine(RuleBasedStateMachine):
    """One durable queue with any limits, one consumer at a time."""

    @initialize(
        ready_max=st.none() | st.integers(0, 6),
        ready_bytes_max=st.none() | st.integers(0, 30),
        rejects=st.booleans(),
        is_swept=st.booleans(),
    )
    def declare(
        self, ready_max: int | None, ready_bytes_max: int | None, rejects: bool, is_swept: bool
    ) -> None:
        self.limits = Limits(ready_max, ready_bytes_max, rejects)
        self.queue = LimitedQueue("the queue", True, WINDOW, self.limits)
        self.queue.sweep = EagerSweep()
        self.is_swept = is_swept
        self.ready: list[Message] = []
        self.held: dict[int, Message] = {}
        self.deliveries: list[Delivery] = []
        self.consumer: Consumer | None = None
        self.next_entry = 1
        # What the model says of the call at hand.
        self.dropped: set[int] = set()
        self.delivered: list[int] = []

    def is_over(self, extra: list[Message]) -> bool:
        messages = self.ready + extra
        count, size = len(messages), sum(message.size for message in messages)
        ready_max, ready_bytes_max = self.limits.ready_max, self.limits.ready_bytes_max
        return (ready_max is not None and count > ready_max) or (
            ready_bytes_max is not None and size > ready_bytes_max
        )

    def drop_overflow(self) -> None:
        while not self.limits.rejects and self.is_over([]):
            message = self.ready.pop(0)
            if message.is_persistent:
                self.dropped.add(message.entry)

    def deliver(self) -> None:
        while self.ready and self.consumer and len(self.held) < self.consumer.prefetch:
            message = self.ready.pop(0)
            self.held[message.entry] = message
            self.delivered.append(message.entry)

    def check(self, effects: Effects) -> None:
        known = set(range(1, self.next_entry))
        assert ids(effects.settled_entries) <= known - set(self.held)
        assert ids(effects.settled_entries) >= self.dropped
        entries = []
        for _, deliveries in effects.delivered:
            for delivery in deliveries:
                self.deliveries.append(delivery)
                first = delivery.span.first_entry_id
                entries += range(first, first + len(delivery.span))
        assert entries == self.delivered
        self.dropped, self.delivered = set(), []

    # --- What happens

    @rule(bodies=st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=8), some=st.data())
    def publish(self, bodies: list[tuple[int, bool]], some: st.DataObject) -> None:
        batch = sized(bodies)
        chosen = some.draw(st.sets(st.integers(0, len(bodies) - 1), min_size=1).map(sorted))
        rejected, appended, confirmed = [], {}, []
        for index in chosen:
            message = Message(self.next_entry, *bodies[index])
            if self.limits.rejects and self.is_over([message]):
                rejected.append(index)
                continue
            self.next_entry += 1
            self.ready.append(message)
            self.deliver()
            self.drop_overflow()
            if message.is_persistent:
                appended[index] = message.entry
            else:
                confirmed.append(index)
        effects = Effects()
        self.queue.publish(batch, chosen, effects)  # type: ignore[arg-type]
        assert list(effects.rejected or ()) == rejected
        assert list(effects.confirmed or ()) == confirmed
        assert dict(zip(*effects.appended or ((), ()), strict=True)) == appended
        self.check(effects)

    @precondition(lambda self: self.consumer is None)
    @rule(prefetch=st.integers(1, 4))
    def consume(self, prefetch: int) -> None:
        self.consumer = Consumer("a", b"\1x", prefetch, ChannelCredit(), False, False)
        self.queue.consumers.add(self.consumer)
        self.deliver()
        effects = Effects()
        self.queue.dispatch(effects)
        self.check(effects)

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), is_ack=st.booleans())
    def give_back(self, data: st.DataObject, is_ack: bool) -> None:
        delivery = self.deliveries.pop(data.draw(st.integers(0, len(self.deliveries) - 1)))
        part = (delivery, 0, len(delivery.span))
        first = delivery.span.first_entry_id
        back = [self.held.pop(first + position) for position in range(part[2])]
        effects = Effects()
        if is_ack:
            self.dropped |= {message.entry for message in back if message.is_persistent}
            self.deliver()
            self.queue.settle("a", [part], effects)
        else:
            self.ready = sorted(self.ready + back, key=lambda message: message.entry)
            self.drop_overflow()
            self.deliver()
            self.queue.requeue("a", [part], effects)
        self.check(effects)

    @precondition(lambda self: self.consumer)
    @rule()
    def channel_down(self) -> None:
        self.ready = sorted([*self.ready, *self.held.values()], key=lambda message: message.entry)
        self.held, self.deliveries, self.consumer = {}, [], None
        self.drop_overflow()
        effects = Effects()
        self.queue.channel_down("a", effects)
        self.check(effects)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge()[0] == len(self.ready)
        self.ready = []

    # --- What always holds

    @invariant()
    def a_sweep_changes_nothing(self) -> None:
        if self.is_swept:
            self.queue.sweep_all()

    @invariant()
    def the_bodies_are_those_that_were_sent(self) -> None:
        sizes = [
            span.batch.body_bytes(index) for span in self.queue.ready for index in span.indexes
        ]
        assert sizes == [message.size for message in self.ready]
        for delivery in self.deliveries:
            span = delivery.span
            for position, index in enumerate(span.indexes):
                message = self.held[span.first_entry_id + position]
                assert span.batch.body_bytes(index) == message.size

    @invariant()
    def the_same_messages_are_ready(self) -> None:
        entries = [
            entry
            for span in self.queue.ready
            for entry in range(span.first_entry_id, span.first_entry_id + len(span))
        ]
        assert entries == [message.entry for message in self.ready]


TestLimitedQueue = LimitedQueueMachine.TestCase
TestLimitedQueue.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)
