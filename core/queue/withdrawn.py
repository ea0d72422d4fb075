"""Messages that are withdrawn while a consumer holds them: they do not come back to their queue.

The journal had no room for them, so their publisher was told that they are lost and may publish
them again. The consumer may ack them; if they are requeued, the queue drops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .in_flight import Delivery
from .span import EntryRange, positions_in, ranges_of


class Withdrawn:
    """The withdrawn messages of one queue that are in flight, by entry id. False without any."""

    __slots__ = ("_entry_ids",)

    def __init__(self) -> None:
        self._entry_ids: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._entry_ids)

    def add(self, parts: Iterable[tuple[Delivery, int, int]], ranges: Sequence[EntryRange]) -> None:
        """Note those messages of these parts, all in flight, whose entries are in the ranges."""
        for delivery, low, high in parts:
            first = delivery.span.first_entry_id
            for start, end, is_within in positions_in(delivery.span, low, high, ranges):
                if is_within:
                    self._entry_ids.update(range(first + start, first + end))

    def divide(self, delivery: Delivery, low: int, high: int) -> Iterable[tuple[int, int, bool]]:
        """Divide a part that is in flight no more, and forget its messages that were withdrawn.

        Yields first position, end, and whether it was withdrawn.
        """
        span = delivery.span
        first = span.first_entry_id
        withdrawn = self._entry_ids.intersection(range(first + low, first + high))
        self._entry_ids -= withdrawn
        return positions_in(span, low, high, ranges_of(sorted(withdrawn)))
