"""The expiring queue, which works in rows, against RabbitMQ's rule message by message.

The clock is the test's own. Every kind of limit and overflow is there, too.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from batches import message_of, sized
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from leveret.amqp_frames.batch import TTL_NONE, Batch
from leveret.core.consumers import ChannelCredit, Consumer
from leveret.core.effects import Effects, EntryRange
from leveret.core.expiring_queue import ExpiringQueue
from leveret.core.in_flight import Delivery
from leveret.core.limits import Limits
from leveret.core.queue_structures import refill
from sweeping import EagerSweep

WINDOW = 1 << 30
START_MS = 1_000_000
ttls = st.sampled_from((TTL_NONE, 0, 1, 5, 10, 50))


@dataclass
class Message:
    entry: int
    deadline: int
    attempts: int = 0


def ids(ranges: list[EntryRange]) -> set[int]:
    return {entry for first, last in ranges for entry in range(first, last + 1)}


class ExpiringQueueMachine(RuleBasedStateMachine):
    """One durable queue, persistent messages, up to two consumers of one channel."""

    @initialize(
        ready_max=st.none() | st.integers(0, 4),
        rejects=st.booleans(),
        ttl_ms=st.none() | st.sampled_from((0, 3, 20)),
        is_swept=st.booleans(),
    )
    def declare(
        self, ready_max: int | None, rejects: bool, ttl_ms: int | None, is_swept: bool
    ) -> None:
        self.is_swept = is_swept
        self.limits = Limits(ready_max, None, rejects, False, ttl_ms)
        self.queue = ExpiringQueue("the queue", True, WINDOW, self.limits)
        self.queue.sweep = EagerSweep()
        self.now_ms = self.queue.now_ms = START_MS
        self.ready: list[Message] = []
        self.held: dict[int, Message] = {}
        self.deliveries: list[Delivery] = []
        self.consumers: list[Consumer] = []
        self.stored: dict[int, tuple[Batch, int, int]] = {}
        self.next_entry = 1
        self.gone: set[int] = set()
        self.delivered: list[int] = []

    # --- The model

    def expire(self) -> None:
        while self.ready and 0 < self.ready[0].deadline <= self.now_ms:
            self.gone.add(self.ready.pop(0).entry)

    def drop_overflow(self) -> None:
        limit = self.limits.ready_max
        while limit is not None and not self.limits.rejects and len(self.ready) > limit:
            self.gone.add(self.ready.pop(0).entry)

    def room(self) -> int:
        return sum(consumer.prefetch for consumer in self.consumers) - len(self.held)

    def deliver(self) -> None:
        """Each goes before the next is looked at, and what has expired by then is dropped."""
        self.expire()
        while self.ready and self.room() > 0:
            self.hand_over()
            self.expire()

    def hand_over(self) -> None:
        message = self.ready.pop(0)
        message.attempts += 1
        self.held[message.entry] = message
        self.delivered.append(message.entry)

    def deadline(self, ttl: int) -> int:
        own = TTL_NONE if self.limits.ttl_ms is None else self.limits.ttl_ms
        return 0 if min(own, ttl) == TTL_NONE else self.now_ms + min(own, ttl)

    def check(self, effects: Effects) -> None:
        assert ids(effects.settled_entries) == self.gone
        entries = []
        for _, deliveries in effects.delivered:
            for delivery in deliveries:
                self.deliveries.append(delivery)
                first = delivery.span.first_entry_id
                entries += range(first, first + len(delivery.span))
        assert sorted(entries) == sorted(self.delivered)
        for entry in self.gone:
            del self.stored[entry]
        self.gone, self.delivered = set(), []

    # --- What happens

    @rule(milliseconds=st.integers(1, 30))
    def wait(self, milliseconds: int) -> None:
        """Time passes, and the ticker wakes the queue when its head expires, not before."""
        end = self.now_ms + milliseconds
        while (due := self.queue.head_deadline_ms()) is not None and due <= end:
            self.now_ms = self.queue.now_ms = max(due, self.now_ms)
            self.expire()
            assert self.gone, "woken too early"
            effects = Effects()
            self.queue.dispatch(effects)
            self.deliver()
            self.check(effects)
        self.now_ms = self.queue.now_ms = end

    @rule(each=st.lists(ttls, min_size=1, max_size=6), has_own=st.booleans())
    def publish(self, each: list[int], has_own: bool) -> None:
        batch = sized((index, True) for index in range(len(each)))
        if has_own:
            batch.ttls_ms = array("Q", each)
        self.expire()
        rejected, appended = [], {}
        for index, ttl in enumerate(each):
            limit = self.limits.ready_max
            if self.limits.rejects and limit is not None and len(self.ready) >= limit:
                rejected.append(index)
                continue
            message = Message(self.next_entry, self.deadline(ttl if has_own else TTL_NONE))
            self.next_entry += 1
            appended[message.entry] = message.deadline
            self.stored[message.entry] = (batch, index, message.deadline)
            self.ready.append(message)
            if len(self.ready) == 1 and self.room() > 0:
                self.hand_over()
            self.expire()
            self.drop_overflow()
            self.expire()
        effects = Effects()
        self.queue.publish(batch, range(len(each)), effects)
        assert list(effects.rejected or ()) == rejected
        entry_ids = list(effects.appended[1]) if effects.appended else []
        several = effects.deadlines
        deadlines = [several] * len(entry_ids) if isinstance(several, int) else list(several)
        assert dict(zip(entry_ids, deadlines, strict=True)) == appended
        self.check(effects)

    @precondition(lambda self: len(self.consumers) < 2)
    @rule(prefetch=st.integers(1, 3))
    def consume(self, prefetch: int) -> None:
        tag = b"\1%d" % len(self.consumers)
        consumer = Consumer("a", tag, prefetch, ChannelCredit(), False, False)
        self.consumers.append(consumer)
        self.queue.consumers.add(consumer)
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
            self.gone |= {message.entry for message in back}
            self.deliver()
            self.queue.settle("a", [part], effects)
        else:
            self.ready = sorted(self.ready + back, key=lambda message: message.entry)
            self.expire()
            self.drop_overflow()
            self.deliver()
            self.queue.requeue("a", [part], effects)
        self.check(effects)

    @rule()
    def restart(self) -> None:
        """The journal gives back what was not settled, with its deadlines."""
        attempts = {message.entry: message.attempts for message in self.ready}
        attempts |= {entry: message.attempts for entry, message in self.held.items()}
        self.queue = ExpiringQueue("the queue", True, WINDOW, self.limits)
        self.queue.sweep = EagerSweep()
        runs = [
            (batch, range(index, index + 1), entry, attempts[entry], deadline)
            for entry, (batch, index, deadline) in sorted(self.stored.items())
        ]
        assert refill(self.queue, runs) is self.queue  # type: ignore[arg-type]
        self.queue.now_ms = self.now_ms
        self.queue.next_entry_id = self.next_entry
        everything = [*self.ready, *self.held.values()]
        self.ready = sorted(everything, key=lambda message: message.entry)
        self.held, self.deliveries, self.consumers = {}, [], []
        self.expire()
        self.drop_overflow()
        self.expire()
        effects = Effects()
        self.queue.dispatch(effects)
        self.check(effects)

    # --- What always holds

    @invariant()
    def a_sweep_changes_nothing(self) -> None:
        if self.is_swept:
            self.queue.sweep_all()
        spans = [*self.queue.ready, *(delivery.span for delivery in self.deliveries)]
        for span in spans:
            for position, index in enumerate(span.indexes):
                batch, place, _ = self.stored[span.first_entry_id + position]
                assert message_of(span.batch, index) == message_of(batch, place)

    @invariant()
    def the_same_messages_are_ready(self) -> None:
        found = [
            (entry, span.attempts, getattr(span, "deadline_ms", 0))
            for span in self.queue.ready
            for entry in range(span.first_entry_id, span.first_entry_id + len(span))
        ]
        assert found == [(each.entry, each.attempts, each.deadline) for each in self.ready]


TestExpiringQueue = ExpiringQueueMachine.TestCase
TestExpiringQueue.settings = settings(deadline=None, max_examples=150, stateful_step_count=30)
