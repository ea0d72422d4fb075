"""The queue against a list of messages: none lost, none twice, order kept, credit kept to."""

from __future__ import annotations

from itertools import permutations

from batches import mixed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from leveret.core.consumers import ChannelCredit, Consumer
from leveret.core.in_flight import Delivery
from leveret.core.message_queue import Effects, MessageQueue
from queue_model import Held, Message, ids

CHANNELS = ("a", "b", "c")
WINDOW_BYTES_MAX = 600


class MessageQueueMachine(RuleBasedStateMachine):
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
        self.was_full = False

    def new_queue(self) -> MessageQueue:
        return MessageQueue("the queue", True, WINDOW_BYTES_MAX)

    def elect(self) -> None:
        """Consumers have come or gone."""

    def active(self) -> list[Consumer]:
        """Those that may receive, if they have room."""
        return list(self.consumers.values())

    # --- What the queue's actor and its channels would do

    def deliver(self, entry_ids: list[int], delivery: Delivery, no_ack: bool, channel: str) -> None:
        """The model's part of a delivery, checked against it."""
        span = delivery.span
        for position, entry in enumerate(entry_ids):
            message = self.messages[entry]
            assert (span.batch, span.indexes[position]) == (message.batch, message.index)
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
        for consumer, deliveries in effects.delivered.items():
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
                window_bytes += span.wire_bytes()
            self.unsent.append((consumer, window_bytes))
        # The lowest entries leave first, whoever gets them.
        assert sorted(out) == before[: len(out)]
        for one, other in permutations(got, 2):
            # Room only shrinks meanwhile: a lower priority's turn came when the higher had none.
            assert one.priority <= other.priority or max(got[one]) < min(got[other])
        for ranges, all_of_them in (
            (effects.delivered_entries, delivered),
            (effects.settled_entries, expected),
        ):
            # The journal may hear of entries that it does not know, never of others' fate.
            assert ids(ranges) <= all_of_them
            assert ids(ranges) & self.known >= all_of_them & stored

    @property
    def known(self) -> set[int]:
        return set(range(1, self.next_entry_id))

    # --- What happens

    @rule(persistent=st.lists(st.booleans(), min_size=1, max_size=8), data=st.data())
    def publish(self, persistent: list[bool], data: st.DataObject) -> None:
        batch = mixed(persistent)
        size = len(persistent)
        chosen = data.draw(st.sets(st.integers(0, size - 1), min_size=1).map(sorted))
        indexes = range(size) if data.draw(st.booleans()) else chosen
        effects = Effects()
        first = self.next_entry_id
        for position, index in enumerate(indexes):
            self.messages[first + position] = Message(batch, index, persistent[index])
            self.ready.append(first + position)
        self.next_entry_id += len(indexes)
        self.queue.publish(batch, indexes, effects)  # type: ignore[arg-type]
        appended = dict(zip(*effects.appended, strict=True)) if effects.appended else {}
        entries = enumerate(indexes, first)
        assert appended == {index: entry for entry, index in entries if persistent[index]}
        assert list(effects.confirmed or ()) == [i for i in indexes if not persistent[i]]
        self.carry_out(effects)

    @rule(
        channel=st.sampled_from(CHANNELS),
        tag=st.sampled_from([b"\1x", b"\1y"]),
        prefetch=st.integers(0, 4),
        no_ack=st.booleans(),
        priority=st.sampled_from((0, 0, 1, 9)),
    )
    def consume(self, channel: str, tag: bytes, prefetch: int, no_ack: bool, priority: int) -> None:
        if (channel, tag) in self.consumers:
            return
        consumer = Consumer(channel, tag, prefetch, self.credits[channel], no_ack, False, priority)
        self.consumers[channel, tag] = consumer
        self.queue.consumers.add(consumer)
        self.elect()
        effects = Effects()
        self.queue.dispatch(effects)
        self.carry_out(effects)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        channel, tag = data.draw(st.sampled_from(sorted(self.consumers)))
        consumer = self.consumers.pop((channel, tag))
        self.elect()
        effects = Effects()
        assert self.queue.cancel(channel, tag, effects) is consumer
        self.carry_out(effects)

    @rule(channel=st.sampled_from(CHANNELS), limit=st.integers(0, 5))
    def qos_global(self, channel: str, limit: int) -> None:
        self.credits[channel].limit = limit
        effects = Effects()
        self.queue.dispatch(effects)
        self.carry_out(effects)

    @rule(channel=st.sampled_from(CHANNELS), no_ack=st.booleans())
    def get(self, channel: str, no_ack: bool) -> None:
        effects = Effects()
        delivery = self.queue.get(channel, no_ack, effects)
        assert (delivery is None) == (not self.ready)
        if delivery is None:
            return
        entry = self.ready[0]
        assert delivery.span.first_entry_id == entry
        assert delivery.consumer is None
        ranges = effects.settled_entries if no_ack else effects.delivered_entries
        assert ids(ranges) <= {entry}
        assert ids(ranges) or not self.messages[entry].is_stored
        self.deliver([entry], delivery, no_ack, channel)
        assert not effects.delivered

    def give_back(
        self, data: st.DataObject
    ) -> tuple[str, list[tuple[Delivery, int, int]], set[int]]:
        """Some of what a channel holds, as parts; some parts twice, or never held."""
        channel = data.draw(st.sampled_from(sorted({held.channel for held in self.held})))
        self.was_full = self.credits[channel].room() <= 0
        parts: list[tuple[Delivery, int, int]] = []
        entries: set[int] = set()
        for held in [each for each in self.held if each.channel == channel]:
            if not data.draw(st.booleans()):
                continue
            low = data.draw(st.integers(0, len(held.delivery.span) - 1))
            high = data.draw(st.integers(low + 1, len(held.delivery.span)))
            part = (held.delivery, low, high)
            parts += [part] * data.draw(st.integers(1, 2))
            if held.positions >= set(range(low, high)):
                held.positions -= set(range(low, high))
                first = held.delivery.span.first_entry_id
                entries.update(range(first + low, first + high))
                if held.delivery.consumer is not None:
                    self.credits[channel].in_use -= high - low
        return channel, parts, entries

    def offer_credit(self, effects: Effects) -> None:
        """A channel that was full tells its queues that it may not be any more."""
        if self.was_full:
            self.queue.dispatch(effects)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        channel, parts, entries = self.give_back(data)
        effects = Effects()
        self.queue.settle(channel, parts, effects)
        self.offer_credit(effects)
        self.carry_out(effects, entries)
        for entry in entries:
            del self.messages[entry]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        channel, parts, entries = self.give_back(data)
        self.ready = sorted([*self.ready, *entries])
        effects = Effects()
        self.queue.requeue(channel, parts, effects)
        self.offer_credit(effects)
        self.carry_out(effects)

    @rule(channel=st.sampled_from(CHANNELS))
    def channel_down(self, channel: str) -> None:
        for held in [each for each in self.held if each.channel == channel]:
            first = held.delivery.span.first_entry_id
            self.ready = sorted([*self.ready, *(first + at for at in held.positions)])
            self.held.remove(held)
        gone = [key for key in self.consumers if key[0] == channel]
        effects = Effects()
        assert self.queue.channel_down(channel, effects) == [self.consumers[key] for key in gone]
        for key in gone:
            del self.consumers[key]
        self.elect()
        self.credits[channel] = ChannelCredit()
        self.carry_out(effects)

    @precondition(lambda self: self.unsent)
    @rule(data=st.data())
    def sent(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.unsent) - 1))
        effects = Effects()
        self.queue.sent(*self.unsent.pop(number), effects)
        self.carry_out(effects)

    @rule()
    def purge(self) -> None:
        count, ranges = self.queue.purge()
        assert count == len(self.ready)
        assert ids(ranges) <= set(self.ready)
        assert ids(ranges) >= {entry for entry in self.ready if self.messages[entry].is_stored}
        for entry in self.ready:
            del self.messages[entry]
        self.ready = []

    # --- What always holds

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


TestMessageQueue = MessageQueueMachine.TestCase
TestMessageQueue.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
