"""The rules of one queue: what is ready, who gets it, what is out, what the journal must learn.

A plain class without clock, socket or thread: each method changes the state and returns, in
`Effects`, what its actor must then do, in this order: append to the journal, confirm, deliver,
settle in the journal.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain

from ..amqp_frames.batch import Batch, Indexes
from .batch_sweep import BatchSweep
from .consumers import Consumer, Consumers
from .death_headers import DELIVERY_LIMIT, REJECTED
from .effects import Effects, EntryRange
from .in_flight import Delivery, InFlight
from .ready import Ready
from .span import Span


class MessageQueue:
    """One queue's messages, consumers and deliveries.

    `identity` stands for the queue in its deliveries; `durable` queues have the persistent among
    their messages journalled.
    """

    __slots__ = (
        "consumers",
        "dead_letters",
        "delivery_limit",
        "durable",
        "identity",
        "in_flight",
        "next_entry_id",
        "ready",
        "spent",
        "sweep",
    )

    def __init__(self, identity: object, durable: bool, delivery_window_bytes_max: int) -> None:
        self.identity = identity
        self.durable = durable
        # Has it a dead-letter exchange? How often may a message come back, None for ever, before it
        # leaves; and what was restored over that limit, to leave with the first dispatch.
        self.dead_letters = False
        self.delivery_limit: int | None = None
        self.spent: list[Span] = []
        self.ready = Ready()
        self.in_flight = InFlight()
        self.consumers = Consumers(delivery_window_bytes_max, identity)
        self.next_entry_id = 1
        self.sweep = BatchSweep()

    def restore(self, span: Span) -> None:
        """Take back what the journal kept; in the order of entry ids."""
        (self.spent if self._is_spent(span.attempts) else self.ready).append(span)
        self.next_entry_id = max(self.next_entry_id, span.first_entry_id + len(span))

    def counts(self) -> tuple[int, int, int]:
        """How many messages are ready, how many consumers there are, how many messages are out."""
        return self.ready.message_count, len(self.consumers), self.in_flight.message_count

    def publish(self, batch: Batch, indexes: Indexes, effects: Effects) -> None:
        """Enqueue messages: transient ones are confirmed at once, persistent ones appended.

        A message that a consumer takes at once is appended all the same: fsync before confirm.
        """
        first = self.next_entry_id
        stored = self._take_in(batch, indexes, effects)
        self.ready.append(Span(batch, indexes, first, 0, stored))
        self._dispatch(effects)

    def _take_in(self, batch: Batch, indexes: Indexes, effects: Effects) -> bool:
        """Give new messages entry ids, have them appended or confirmed. Is any appended?"""
        first = self.next_entry_id
        count = len(indexes)
        self.next_entry_id = first + count
        self.sweep.took_in(batch, count)
        stored = False
        if self.durable:
            persistent = batch.persistent
            if batch.durable is None:
                effects.appended = (indexes, range(first, first + count))
                stored = True
            elif len(batch.durable):
                positions = [
                    position for position, index in enumerate(indexes) if persistent[index]
                ]
                if len(positions) == count:
                    effects.appended = (indexes, range(first, first + count))
                    stored = True
                elif positions:
                    effects.appended = (
                        array("I", [indexes[position] for position in positions]),
                        array("Q", [first + position for position in positions]),
                    )
                    effects.confirmed = array(
                        "I", [index for index in indexes if not persistent[index]]
                    )
                    stored = True
        if not stored:
            effects.confirmed = indexes
        return stored

    def dispatch(self, effects: Effects, channel: object | None = None) -> None:
        """Look anew at who has room: all, or those of the channel whose credit has changed."""
        if self.spent:
            spent, self.spent = self.spent, []
            for span in spent:
                self._leave(span, DELIVERY_LIMIT, effects)
        if channel is None:
            self.consumers.all_changed()
        else:
            self.consumers.channel_changed(channel)
        self._dispatch(effects)

    def _dispatch(self, effects: Effects) -> None:
        """Hand ready messages to consumers with room, the least busy first."""
        ready = self.ready
        shared: Batch | None = None
        share = 0
        while self._has_next(effects):
            choice = self.consumers.next()
            if choice is None:
                return
            consumer, room, eligible = choice
            if eligible > 1:
                # Fair among equals: a row is shared out in even parts, not given to one.
                head = ready.head()
                assert head is not None
                even = -(-len(head) // eligible)
                share = max(share, even) if head.batch is shared else even
                shared = head.batch
                room = min(room, share)
            span = self._take(room)
            delivery = Delivery(span, self.identity, consumer)
            wire_bytes = delivery.wire_bytes
            consumer.window_bytes += wire_bytes
            consumer.channel_credit.outlet.take(wire_bytes)
            effects.deliver(consumer, delivery)
            if consumer.no_ack:
                self._settled(span, 0, len(span), effects)
                continue
            consumer.in_flight += len(span)
            consumer.channel_credit.in_use += len(span)
            self._delivered(consumer.channel, delivery, effects)

    def _has_next(self, _effects: Effects) -> bool:
        """Is there a message to be delivered?"""
        return self.ready.message_count > 0

    def _take(self, count: int) -> Span:
        """Up to `count` messages from the head, to be delivered."""
        return self.ready.take(count)

    def get(self, channel: object, no_ack: bool, effects: Effects) -> Delivery | None:
        """Deliver one message by basic.get; it takes no credit."""
        if not self._has_next(effects):
            return None
        span = self._take(1)
        delivery = Delivery(span, self.identity, None)
        if no_ack:
            self._settled(span, 0, 1, effects)
        else:
            self._delivered(channel, delivery, effects)
        return delivery

    def _delivered(self, channel: object, delivery: Delivery, effects: Effects) -> None:
        self.in_flight.add(channel, delivery)
        span = delivery.span
        if span.stored:
            last = span.first_entry_id + len(span) - 1
            effects.delivered_entries.append((span.first_entry_id, last))

    def _settled(self, span: Span, low: int, high: int, effects: Effects) -> None:
        self.sweep.gave_away(span, low, high)
        if span.stored:
            first = span.first_entry_id
            effects.settled_entries.append((first + low, first + high - 1))

    def _leave(self, span: Span, reason: str, effects: Effects) -> None:
        """Messages leave the queue for this reason, other than by an ack."""
        if self.dead_letters or span.batch.traced is not None:
            effects.dead.append((span, reason))
        if self.dead_letters:
            self.sweep.gave_away(span, 0, len(span))
        else:
            self._settled(span, 0, len(span), effects)

    def settle(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> None:
        """A channel acked these parts of deliveries: they are done, and their credit is back."""
        for delivery, low, high in self._taken_back(channel, parts):
            self._settled(delivery.span, low, high, effects)
        self._dispatch(effects)

    def discard(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> None:
        """A channel rejected these parts for good."""
        for delivery, low, high in self._taken_back(channel, parts):
            self._leave(delivery.span.part(low, high), REJECTED, effects)
        self._dispatch(effects)

    def requeue(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> None:
        """A channel gave these parts back undone: each returns to its old place."""
        for delivery, low, high in self._taken_back(channel, parts):
            self._come_back(delivery, low, high, effects)
        self._dispatch(effects)

    def _taken_back(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]]
    ) -> list[tuple[Delivery, int, int]]:
        """Those parts that the channel did hold: no longer in flight, their credit given back."""
        held = [part for part in parts if self.in_flight.remove(channel, *part)]
        consumers: dict[Consumer, None] = {}
        for delivery, low, high in held:
            consumer = delivery.consumer
            if consumer is not None:
                consumer.in_flight -= high - low
                consumers[consumer] = None
        for consumer in consumers:
            self.consumers.changed(consumer)
        return held

    def _is_spent(self, attempts: int) -> bool:
        return self.delivery_limit is not None and attempts > self.delivery_limit

    def _come_back(self, delivery: Delivery, low: int, high: int, effects: Effects) -> None:
        if self._is_spent(delivery.attempts):
            self._leave(delivery.span.part(low, high), DELIVERY_LIMIT, effects)
        else:
            self._put_back(delivery, low, high)

    def _put_back(self, delivery: Delivery, low: int, high: int) -> None:
        span = delivery.span.part(low, high)
        span.attempts = delivery.attempts
        self.ready.put_back(span)

    def cancel(self, channel: object, consumer_tag: bytes, effects: Effects) -> Consumer | None:
        """A consumer goes, if it is there. What it holds stays with its channel; another may be
        active now.
        """
        consumer = self.consumers.remove(channel, consumer_tag)
        self._dispatch(effects)
        return consumer

    def channel_down(self, channel: object, effects: Effects) -> list[Consumer]:
        """A channel is gone: its consumers go, what it held comes back to its old place."""
        gone = self.consumers.remove_channel(channel)
        for delivery in self.in_flight.remove_channel(channel):
            for low, high in delivery.remaining:
                self._come_back(delivery, low, high, effects)
        self._dispatch(effects)
        return gone

    def sent(self, consumer: Consumer, window_bytes: int, effects: Effects) -> None:
        """The socket took what the consumer was handed: it may get more."""
        consumer.window_bytes -= window_bytes
        self.consumers.changed(consumer)
        self._dispatch(effects)

    def purge(self) -> tuple[int, list[EntryRange]]:
        """Drop what is ready; how many messages, and the stored entries among them."""
        count = self.ready.message_count
        effects = Effects()
        for span in self.ready:
            self._settled(span, 0, len(span), effects)
        self.ready.clear()
        return count, effects.settled_entries

    def sweep_if_due(self) -> None:
        """Let go of reads of which little is used. Not before what was done has been traced."""
        sweep = self.sweep
        if sweep.taken_bytes + sweep.gone_bytes <= sweep.interval_bytes:
            return
        if sweep.is_due(self.ready.message_count + self.in_flight.message_count):
            sweep.run(self._rows(), self.in_flight.deliveries(), self.next_entry_id)

    def sweep_all(self) -> None:
        """Let go of all of them now: the journal may have given back few of what came together."""
        self.sweep.run_over_all(self._rows(), self.in_flight.deliveries(), self.next_entry_id)

    def _rows(self) -> Iterable[Span]:
        return chain(self.ready, self.spent)
