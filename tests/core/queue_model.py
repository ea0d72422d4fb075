"""A model of a queue: its messages in order, who holds which, and what must always hold.

What can happen to it is in test_message_queue_model.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from batches import message_of, mixed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import EntryRange, Span
from sweeping import EagerSweep

CHANNELS = ("a", "b", "c")
WINDOW_BYTES_MAX = 600


@dataclass
class Message:
    """One message in the model; its key is its entry id."""

    batch: Batch
    index: int
    is_stored: bool
    attempts: int = 0


@dataclass
class Held:
    """A delivery that a channel has, and which positions it still holds."""

    channel: str
    delivery: Delivery
    positions: set[int] = field(default_factory=set)


def octets(batch: Batch, index: int) -> int:
    return batch.ends[index] - batch.starts[index]


def ids(ranges: list[EntryRange]) -> set[int]:
    entries = [entry for first, last in ranges for entry in range(first, last + 1)]
    assert len(set(entries)) == len(entries)
    return set(entries)


class ModelledQueue(RuleBasedStateMachine):
    """One durable queue, three channels, consumers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.new_queue()
        self.messages: dict[int, Message] = {}
        self.ready: list[int] = []
        self.held: list[Held] = []
        self.consumers: dict[tuple[str, bytes], Consumer] = {}
        self.credits = {channel: ChannelCredit() for channel in CHANNELS}
        self.next_entry_id = 1
        # Handed to a channel and not yet taken by its socket.
        self.unsent: list[tuple[Consumer, int]] = []
        # Held, and not to come back.
        self.withdrawn: set[int] = set()
        self.freed_count = 0
        self.is_swept = False
        self.batch_count = 0

    @initialize(is_swept=st.booleans())
    def sweep_or_not(self, is_swept: bool) -> None:
        self.is_swept = is_swept
        self.queue.sweep = EagerSweep()

    def new_queue(self) -> MessageQueue:
        return MessageQueue("the queue", True, WINDOW_BYTES_MAX)

    def elect(self) -> None:
        """Consumers have come or gone."""

    def active(self) -> list[Consumer]:
        """Those that may receive, if they have room."""
        return list(self.consumers.values())

    def order(self, entry: int) -> tuple[int, int]:
        """The sort key of a message: lower leaves earlier."""
        return 0, entry

    def numbered_batch(self, persistent: list[bool], data: st.DataObject) -> Batch:
        """As the channel numbers it."""
        batch = self.new_batch(persistent, data)
        self.batch_count += 1
        batch.number = self.batch_count
        return batch

    def new_batch(self, persistent: list[bool], _data: st.DataObject) -> Batch:
        return mixed(persistent)

    def divided(self, _batch: Batch, indexes: Indexes, _data: st.DataObject) -> Sequence[Indexes]:
        """The rows in which the queue's actor would publish these."""
        return (indexes,)

    # --- What the queue's actor and its channels would do

    def deliver(self, entry_ids: list[int], delivery: Delivery, no_ack: bool, channel: str) -> None:
        """The model's part of a delivery, checked against it."""
        span = delivery.span
        for position, entry in enumerate(entry_ids):
            message = self.messages[entry]
            self.check_message(entry, span, position)
            assert span.attempts == message.attempts
            message.attempts += 1
            assert delivery.attempts == message.attempts
            self.ready.remove(entry)
            if no_ack:
                del self.messages[entry]
        if not no_ack:
            self.held.append(Held(channel, delivery, set(range(len(span)))))

    def carry_out(self, effects: Effects, settled: set[int] | None = None) -> None:
        """Deliver, and check what the journal is told."""
        expected = set(settled or ())
        delivered: set[int] = set()
        before = list(self.ready)
        out: list[int] = []
        got: dict[Consumer, list[int]] = {}
        stored = {entry for entry, message in self.messages.items() if message.is_stored}
        for consumer, deliveries in effects.delivered:
            window_bytes = 0
            for delivery in deliveries:
                assert delivery.consumer is consumer
                assert consumer in self.active()
                assert delivery.queue == "the queue"
                span = delivery.span
                entries = list(range(span.first_entry_id, span.first_entry_id + len(span)))
                (expected if consumer.no_ack else delivered).update(entries)
                out += entries
                got.setdefault(consumer, []).extend(entries)
                self.deliver(entries, delivery, consumer.no_ack, str(consumer.channel))
                window_bytes += delivery.wire_bytes
            self.unsent.append((consumer, window_bytes))
        # The lowest leave first, whoever gets them.
        assert sorted(out, key=self.order) == before[: len(out)]
        for one, other in permutations(got, 2):
            # Room only shrinks meanwhile: a lower priority's turn came when the higher had none.
            assert one.priority <= other.priority or (
                max(map(before.index, got[one])) < min(map(before.index, got[other]))
            )
        for ranges, all_of_them in (
            (effects.delivered_entries, delivered),
            (effects.settled_entries, expected),
        ):
            # The journal may hear of entries that it does not know, never of others' fate.
            assert ids(ranges) <= all_of_them
            assert ids(ranges) & self.known >= all_of_them & stored

    def without_withdrawn(self, entries: Iterable[int]) -> set[int]:
        """The entries without a holder that come back or are settled."""
        gone = self.withdrawn.intersection(entries)
        self.withdrawn -= gone
        for entry in gone:
            del self.messages[entry]
        return set(entries) - gone

    @property
    def known(self) -> set[int]:
        return set(range(1, self.next_entry_id))

    # --- What always holds

    def check_message(self, entry: int, span: Span, position: int) -> None:
        message = self.messages[entry]
        found = message_of(span.batch, span.indexes[position])
        assert found == message_of(message.batch, message.index)

    @invariant()
    def a_sweep_changes_nothing_but_what_is_kept(self) -> None:
        """After every step, of all batches, however small they are."""
        if not self.is_swept:
            return
        self.queue.sweep_all()
        used: dict[Batch, int] = {}
        for span in self.queue.ready:
            for position, index in enumerate(span.indexes):
                self.check_message(span.first_entry_id + position, span, position)
                used[span.batch] = used.get(span.batch, 0) + octets(span.batch, index)
        for held in self.held:
            span = held.delivery.span
            for position in held.positions:
                self.check_message(span.first_entry_id + position, span, position)
                more = octets(span.batch, span.indexes[position])
                used[span.batch] = used.get(span.batch, 0) + more
        assert used == {batch: len(batch.wire) for batch in used}

    @invariant()
    def every_message_is_ready_or_in_flight(self) -> None:
        entries = [
            entry
            for span in self.queue.ready
            for entry in range(span.first_entry_id, span.first_entry_id + len(span))
        ]
        assert entries == self.ready
        held = [
            each.delivery.span.first_entry_id + at for each in self.held for at in each.positions
        ]
        assert sorted(held + self.ready) == sorted(self.messages)
        assert self.queue.ready.message_count == len(self.ready)
        assert self.queue.in_flight.message_count == len(held)
        assert bool(self.queue.withdrawn) == bool(self.withdrawn)

    @invariant()
    def credit_is_never_exceeded_and_counts_what_is_held(self) -> None:
        for consumer in self.consumers.values():
            held = [each for each in self.held if each.delivery.consumer is consumer]
            assert consumer.in_flight == sum(len(each.positions) for each in held)
            assert not consumer.prefetch or consumer.in_flight <= consumer.prefetch
        for channel, credit in self.credits.items():
            held = [each for each in self.held if each.channel == channel]
            assert credit.in_use == sum(
                len(each.positions) for each in held if each.delivery.consumer is not None
            )

    @invariant()
    def nothing_waits_while_somebody_has_room(self) -> None:
        if self.ready:
            assert not any(
                consumer.room() > 0 and consumer.window_bytes < WINDOW_BYTES_MAX
                for consumer in self.active()
            )
