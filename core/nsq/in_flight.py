"""The messages in flight to one NSQ consumer: from message ids to deliveries of its queue.

A message's id is its entry id in the one queue that the connection consumes from, so a delivery is
a range of ids. Most consumers finish messages in the order of their deliveries: that finds its
range at the front, and shortens it in place. Any other order works, too, and divides ranges.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable

from ..channel.transaction import Part
from ..queue.in_flight import Delivery


class _Held:
    """Ids first to last are positions of the delivery, from `first_id` of it on."""

    __slots__ = ("delivery", "first_id", "last")

    def __init__(self, delivery: Delivery, first_id: int, last: int) -> None:
        self.delivery = delivery
        self.first_id = first_id
        self.last = last


class InFlightIds:
    """Ascending, disjoint ranges of ids; `count` messages in all."""

    __slots__ = ("_firsts", "_held", "count")

    def __init__(self) -> None:
        # The first id of each range, and the range by that.
        self._firsts: list[int] = []
        self._held: dict[int, _Held] = {}
        self.count = 0

    def add(self, delivery: Delivery) -> None:
        """A whole delivery went out."""
        span = delivery.span
        first, count = span.first_entry_id, len(span)
        # Says to the queue that it was sent, so that it may be paged.
        delivery.first_tag = first
        self._insert(first, _Held(delivery, first, first + count - 1))
        self.count += count

    def remove(self, first: int, last: int) -> tuple[list[Part], int]:
        """Remove these ids; the second value is the first id among them that is not held, or -1.

        Those before that one are removed.
        """
        parts: list[Part] = []
        while first <= last:
            found = self._find(first)
            if found is None:
                return parts, first
            begin, held = found
            end = min(held.last, last)
            parts.append((held.delivery, first - held.first_id, end + 1 - held.first_id))
            self._cut(begin, held, first, end)
            first = end + 1
        return parts, -1

    def find(self, message_id: int) -> Part | None:
        """The message of this id, as a part of its delivery; None if it is not held."""
        found = self._find(message_id)
        if found is None:
            return None
        held = found[1]
        low = message_id - held.first_id
        return held.delivery, low, low + 1

    def time_out(self, parts: Iterable[Part]) -> list[Part]:
        """The queue has taken these back; gives those that the client had not answered."""
        unanswered: list[Part] = []
        for delivery, low, high in parts:
            first_id = delivery.first_tag
            first, last = first_id + low, first_id + high - 1
            while first <= last:
                found = self._find(first)
                if found is None or found[1].delivery is not delivery:
                    first += 1
                    continue
                begin, held = found
                end = min(held.last, last)
                unanswered.append((delivery, first - first_id, end + 1 - first_id))
                self._cut(begin, held, first, end)
                first = end + 1
        return unanswered

    def _find(self, message_id: int) -> tuple[int, _Held] | None:
        """The range that holds it, with its first id."""
        held = self._held.get(message_id)
        if held is not None:
            return message_id, held
        place = bisect_right(self._firsts, message_id) - 1
        if place < 0:
            return None
        begin = self._firsts[place]
        held = self._held[begin]
        return (begin, held) if message_id <= held.last else None

    def _insert(self, first: int, held: _Held) -> None:
        firsts = self._firsts
        if firsts and firsts[-1] > first:
            insort(firsts, first)
        else:
            firsts.append(first)
        self._held[first] = held

    def _cut(self, begin: int, held: _Held, first: int, last: int) -> None:
        """Remove ids from the range that begins there."""
        self.count -= last - first + 1
        firsts = self._firsts
        place = bisect_right(firsts, begin) - 1
        if first == begin:
            del self._held[begin]
            if last < held.last:
                firsts[place] = last + 1
                self._held[last + 1] = held
            else:
                del firsts[place]
            return
        if last < held.last:
            self._insert(last + 1, _Held(held.delivery, held.first_id, held.last))
        held.last = first - 1
