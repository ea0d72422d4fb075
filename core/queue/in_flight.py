"""The messages in flight of a queue: the queue's side of its deliveries.

A Delivery is one row of messages handed to one channel in one go. The channel names parts of it
by position when they are acked or requeued; the rest of it is kept here in ranges, so that a
channel that dies gives back exactly what it still held.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from ..connection.reading_time import ReadingTime
from .consumers import Consumer
from .span import PAGED_ROWS_SEEN_MAX, PagedSpan, Span


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
    exclusive, that are neither settled nor requeued.
    """

    __slots__ = (
        "attempts",
        "consumer",
        "deadline",
        "first_tag",
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

    __slots__ = ("_by_channel", "message_count")

    def __init__(self) -> None:
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

    def parts(self) -> Iterator[tuple[Delivery, int, int]]:
        """All messages in flight, as parts of deliveries."""
        for channel in self._by_channel:
            yield from self.parts_of(channel)

    def page_out(self, paged: Callable[[Delivery], PagedSpan | None]) -> None:
        """Page deliveries that clients were sent, except those for which `paged` is None.

        From the newest on, because older ones are paged as a rule.
        """
        for held in self._by_channel.values():
            paged_count = 0
            for delivery in reversed(held):
                if delivery.span.is_paged:
                    paged_count += 1
                    if paged_count > PAGED_ROWS_SEEN_MAX:
                        break
                elif delivery.first_tag:
                    # One that the channel has not encoded yet has no tag.
                    span = paged(delivery)
                    delivery.span = delivery.span if span is None else span

    def remove_channel(self, channel: object) -> Iterable[Delivery]:
        """The channel is gone: everything that it still held."""
        held = self._by_channel.pop(channel, {})
        for delivery in held:
            self.message_count -= sum(end - first for first, end in delivery.remaining)
            delivery.leave()
        return held
