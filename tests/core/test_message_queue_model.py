"""The queue against a list of messages: none lost, none twice, order kept, credit kept to."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects
from queue_model import CHANNELS, Message, ModelledQueue, ids


class MessageQueueMachine(ModelledQueue):
    """One durable queue, three channels, consumers of every kind."""

    @rule(persistent=st.lists(st.booleans(), min_size=1, max_size=8), data=st.data())
    def publish(self, persistent: list[bool], data: st.DataObject) -> None:
        batch = self.numbered_batch(persistent, data)
        size = len(persistent)
        chosen = data.draw(st.sets(st.integers(0, size - 1), min_size=1).map(sorted))
        indexes = range(size) if data.draw(st.booleans()) else array("I", chosen)
        for row in self.divided(batch, indexes, data):
            self.publish_row(batch, row, persistent)

    def publish_row(self, batch: Batch, indexes: Indexes, persistent: list[bool]) -> None:
        effects = Effects()
        first = self.next_entry_id
        for position, index in enumerate(indexes):
            self.messages[first + position] = Message(batch, index, persistent[index])
        entry_ids = range(first, first + len(indexes))
        self.ready = sorted([*self.ready, *entry_ids], key=self.order)
        self.next_entry_id += len(indexes)
        self.queue.publish(batch, indexes, effects)
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
        self.offer_credit(channel, self.credits[channel].set_limit(limit))

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

    def free_credit(self, channel: str) -> Sequence[object]:
        """Release what `give_back` has drawn; the queues that the channel must tell of it."""
        count, self.freed_count = self.freed_count, 0
        return self.credits[channel].release(count)

    def give_back(
        self, data: st.DataObject
    ) -> tuple[str, list[tuple[Delivery, int, int]], set[int]]:
        """Some of what a channel holds, as parts; some parts twice, or never held."""
        channel = data.draw(st.sampled_from(sorted({held.channel for held in self.held})))
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
                    self.freed_count += high - low
        return channel, parts, entries

    def offer_credit(self, channel: str, offered: Sequence[object]) -> None:
        """The channel tells the queue what it is offered; what is left of it comes back."""
        for _ in offered:
            effects = Effects()
            self.queue.dispatch(effects, channel)
            self.carry_out(effects)
            assert not self.credits[channel].return_unused("the queue")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        channel, parts, held = self.give_back(data)
        entries = self.without_withdrawn(held)
        effects = Effects()
        offered = self.free_credit(channel)
        self.queue.settle(channel, parts, effects)
        self.carry_out(effects, entries)
        for entry in entries:
            del self.messages[entry]
        self.offer_credit(channel, offered)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        channel, parts, entries = self.give_back(data)
        self.ready = sorted([*self.ready, *self.without_withdrawn(entries)], key=self.order)
        effects = Effects()
        offered = self.free_credit(channel)
        self.queue.requeue(channel, parts, effects)
        self.carry_out(effects)
        self.offer_credit(channel, offered)

    @rule(channel=st.sampled_from(CHANNELS))
    def channel_down(self, channel: str) -> None:
        for held in [each for each in self.held if each.channel == channel]:
            first = held.delivery.span.first_entry_id
            back = self.without_withdrawn([first + at for at in held.positions])
            self.ready = sorted([*self.ready, *back], key=self.order)
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

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """The journal had no room for some that were appended, wherever they are by now."""
        known = range(1, self.next_entry_id)
        entries = data.draw(st.sets(st.sampled_from(known), max_size=8) if known else st.just([]))
        stored = [each for each in entries if each in self.messages]
        stored = sorted(each for each in stored if self.messages[each].is_stored)
        if not stored:
            return
        # Some may have been settled before the journal spoke.
        settled = [each for each in entries if each not in self.messages]
        is_row = stored[-1] - stored[0] == len(stored) - 1 and not settled
        ids_of = (
            range(stored[0], stored[-1] + 1) if is_row else array("Q", sorted(stored + settled))
        )
        self.queue.withdraw(ids_of)
        for entry in stored:
            if entry in self.ready:
                self.ready.remove(entry)
                del self.messages[entry]
            else:
                self.withdrawn.add(entry)

    @rule()
    def purge(self) -> None:
        count, ranges = self.queue.purge()
        assert count == len(self.ready)
        assert ids(ranges) <= set(self.ready)
        assert ids(ranges) >= {entry for entry in self.ready if self.messages[entry].is_stored}
        for entry in self.ready:
            del self.messages[entry]
        self.ready = []


TestMessageQueue = MessageQueueMachine.TestCase
TestMessageQueue.settings = settings(
    deadline=None, max_examples=examples(60), stateful_step_count=40
)
