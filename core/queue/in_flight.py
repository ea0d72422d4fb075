"""The messages in flight of a queue: the queue's side of its deliveries.

A Delivery is one row of messages handed to one channel in one go. The channel names parts of it
by position when they are acked or requeued; the rest of it is kept here in ranges, so that a
channel that dies gives back exactly what it still held.

A consumer may hold any number of messages, so paged neighbours become one delivery: a run costs the
same at any length. The channel still names the deliveries that it was handed, until it has looked
which have become one (`Delivery.found`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ..connection.reading_time import ReadingTime
from .consumers import Consumer
from .span import PAGED_ROWS_SEEN_MAX, PagedSpan, Span, joined_rows

# So many messages become one delivery: each may be answered alone, and leaves a range of its own.
JOINED_COUNT_MAX: Final = 16_384


def _first(positions: tuple[int, int]) -> int:
    return positions[0]


class Deadline:
    """The facts that a delivery's in-flight deadline is reckoned from; times in milliseconds.

    `paused_ms`: for how long its connection, whose `reading` this is, had not been read at the
    delivery. `notes` has for each position the number of the touch that counts, 0 for none; None
    while no message of the delivery was touched. `delivery` is None as soon as no message of it is
    in flight: who awaits the deadline does not keep its messages in memory.
    """

    __slots__ = (
        "channel",
        "delivered_ms",
        "delivery",
        "notes",
        "paused_ms",
        "reading",
        "timeout_ms",
    )

    def __init__(
        self,
        delivery: Delivery,
        channel: object,
        reading: ReadingTime,
        delivered_ms: int,
        timeout_ms: int,
    ) -> None:
        self.delivery: Delivery | None = delivery
        self.channel = channel
        self.reading = reading
        self.delivered_ms = delivered_ms
        self.timeout_ms = timeout_ms
        self.paused_ms = reading.paused_ms(delivered_ms)
        self.notes: array[int] | None = None


class Delivery:
    """Messages of one span in a channel's hands; `consumer` is None for basic.get.

    `attempts` counts this delivery too. `remaining` are ranges of positions, ascending, ends
    exclusive, that are neither settled nor requeued. `joined`: the delivery that has its messages
    now, and the position there of its first.
    """

    __slots__ = (
        "attempts",
        "consumer",
        "deadline",
        "first_tag",
        "joined",
        "queue",
        "remaining",
        "span",
        "unanswered",
        "wire_bytes",
    )

    def __init__(self, span: Span, queue: object, consumer: Consumer | None) -> None:
        self.span = span
        self.queue = queue
        self.consumer = consumer
        self.attempts = span.attempts + 1
        # What it takes of windows and gives back to them, whatever becomes of its batch meanwhile.
        self.wire_bytes = span.wire_bytes()
        # The delivery tag of its first message, when the channel has given it.
        self.first_tag = 0
        self.remaining: list[tuple[int, int]] = [(0, len(span.indexes))]
        # How many messages came back because their time was over, and have no late answer yet.
        self.unanswered = 0
        # None if it has no in-flight time-out.
        self.deadline: Deadline | None = None
        self.joined: tuple[Delivery, int] | None = None

    def found(self) -> tuple[Delivery, int]:
        """The delivery that has its messages now, itself as a rule, and where its first is."""
        delivery, at = self, 0
        while delivery.joined is not None:
            delivery, before = delivery.joined
            at += before
        return delivery, at

    def remove(self, low: int, high: int) -> bool:
        """Take positions low to high - 1 out; false if not all of them were still in."""
        remaining = self.remaining
        if len(remaining) == 1 and remaining[0] == (low, high):
            remaining.clear()
            return True
        place = bisect_right(remaining, low, key=_first) - 1
        if place < 0:
            return False
        first, end = remaining[place]
        if high > end:
            return False
        remaining[place : place + 1] = [
            part for part in ((first, low), (high, end)) if part[0] < part[1]
        ]
        return True

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        """The ranges of positions low to high - 1 that are still in.

        A delivery may lie in thousands of ranges: those outside cost next to nothing.
        """
        remaining = self.remaining
        found: list[tuple[int, int]] = []
        for place in range(max(0, bisect_right(remaining, low, key=_first) - 1), len(remaining)):
            first, end = remaining[place]
            if first >= high:
                break
            if low < end:
                found.append((max(low, first), min(high, end)))
        return found

    def leave(self) -> None:
        """None of its messages is in flight any more."""
        if self.deadline is not None:
            self.deadline.delivery = None


class InFlight:
    """All that a queue has out, by the channel that holds it."""

    __slots__ = ("_by_channel", "_joined_count_max", "has_joined", "message_count")

    def __init__(self, joined_count_max: int = JOINED_COUNT_MAX) -> None:
        self._joined_count_max = joined_count_max
        # Has any delivery become a part of another? `current` is needed then only.
        self.has_joined = False
        self._by_channel: dict[object, dict[Delivery, None]] = {}
        self.message_count = 0

    def add(self, channel: object, delivery: Delivery) -> None:
        """Note that `channel` now holds the delivery."""
        held = self._by_channel.get(channel)
        if held is None:
            self._by_channel[channel] = {delivery: None}
        else:
            held[delivery] = None
        self.message_count += len(delivery.span.indexes)

    def current(
        self, parts: Iterable[tuple[Delivery, int, int]]
    ) -> Iterable[tuple[Delivery, int, int]]:
        """A channel names parts of deliveries; these are of the deliveries that hold them now."""
        return [_current(*part) for part in parts] if self.has_joined else parts

    def remove(self, channel: object, delivery: Delivery, low: int, high: int) -> bool:
        """The channel gives positions low to high - 1 back; false if it does not hold them."""
        held = self._by_channel.get(channel)
        if held is None or delivery not in held or not delivery.remove(low, high):
            return False
        self.message_count -= high - low
        if not delivery.remaining:
            if delivery.deadline is not None:
                delivery.leave()
            del held[delivery]
            if not held:
                del self._by_channel[channel]
        return True

    def held_of(
        self, channel: object, delivery: Delivery, low: int, high: int
    ) -> list[tuple[int, int]]:
        """The ranges of these positions that the channel holds."""
        if delivery not in self._by_channel.get(channel, ()):
            return []
        return delivery.held(low, high)

    def deliveries(self) -> Iterator[Delivery]:
        """All deliveries in flight."""
        for held in self._by_channel.values():
            yield from held

    def parts_of(self, channel: object) -> Iterator[tuple[Delivery, int, int]]:
        """All that the channel holds, as parts of its deliveries."""
        for delivery in self._by_channel.get(channel, ()):
            for low, high in delivery.remaining:
                yield delivery, low, high

    def parts_by_channel(self) -> list[tuple[object, Delivery, int, int]]:
        """All messages in flight, as parts of deliveries, with the channels that hold them."""
        return [(channel, *part) for channel in self._by_channel for part in self.parts_of(channel)]

    def parts(self) -> Iterator[tuple[Delivery, int, int]]:
        """All messages in flight, as parts of deliveries."""
        for channel in self._by_channel:
            yield from self.parts_of(channel)

    def page_out(self, paged: Callable[[Delivery], PagedSpan | None]) -> None:
        """Page deliveries that clients were sent, except those for which `paged` is None.

        From the newest on, because older ones are paged as a rule. Paged neighbours become one.
        """
        for held in self._by_channel.values():
            paged_count = 0
            seen: list[Delivery] = []
            for delivery in reversed(held):
                if delivery.span.is_paged:
                    paged_count += 1
                    if paged_count > PAGED_ROWS_SEEN_MAX:
                        break
                elif delivery.first_tag:
                    # One that the channel has not encoded yet has no tag.
                    span = paged(delivery)
                    delivery.span = delivery.span if span is None else span
                seen.append(delivery)
            seen.reverse()
            for run in self._runs(seen):
                self.has_joined = True
                _join(run)
                for delivery in run[1:]:
                    del held[delivery]

    def _runs(self, deliveries: Iterable[Delivery]) -> Iterator[list[Delivery]]:
        """Those of these, which are in order, that can become one delivery."""
        run: list[Delivery] = []
        count = 0
        for delivery in deliveries:
            count += len(delivery.span)
            if run and (count > self._joined_count_max or not _continues(run[-1], delivery)):
                if len(run) > 1:
                    yield run
                run, count = [], len(delivery.span)
            run.append(delivery)
        if len(run) > 1:
            yield run

    def remove_channel(self, channel: object) -> Iterable[Delivery]:
        """The channel is gone: everything that it still held."""
        held = self._by_channel.pop(channel, {})
        for delivery in held:
            self.message_count -= sum(end - first for first, end in delivery.remaining)
            delivery.leave()
        return held


def _current(delivery: Delivery, low: int, high: int) -> tuple[Delivery, int, int]:
    if delivery.joined is None:
        return delivery, low, high
    found, at = delivery.found()
    return found, at + low, at + high


def _continues(before: Delivery, delivery: Delivery) -> bool:
    """Do the messages of one follow those of the other in the queue and on the channel?

    Only where nothing but their places tells them apart.
    """
    own, other = delivery.span, before.span
    return (
        isinstance(own, PagedSpan)
        and isinstance(other, PagedSpan)
        and delivery.first_tag == before.first_tag + len(other)
        and delivery.consumer is before.consumer
        and delivery.deadline is before.deadline is None
        and not (delivery.unanswered or before.unanswered)
        and other.is_continued_by(own)
    )


def _join(run: list[Delivery]) -> None:
    """The first has the messages of all from now on."""
    first, *others = run
    remaining = first.remaining
    at = len(first.span)
    for delivery in others:
        delivery.joined = first, at
        for low, high in delivery.remaining:
            if remaining and remaining[-1][1] == at + low:
                remaining[-1] = remaining[-1][0], at + high
            else:
                remaining.append((at + low, at + high))
        delivery.remaining = []
        at += len(delivery.span)
    rows = (delivery.span for delivery in run)
    first.span = joined_rows([span for span in rows if isinstance(span, PagedSpan)])
