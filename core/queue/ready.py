"""The messages of a queue that can be delivered, in the order of their entry ids.

New messages arrive in order and form a deque. Returned ones go back to their old place: they form a
heap of rows that do not overlap. That place is before every message that was never taken, unless a
message was deferred as it entered, and becomes ready only now. A queue with `x-max-priority` has
another: `ready_by_priority.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter

from ...amqp_frames.messages.batch import Batch, Indexes
from .span import EntryRange, Span, positions_in


class Ready:
    """Deliverable messages, lowest entry id first; `message_count` counts them."""

    __slots__ = ("_fresh", "_returned", "message_count")

    # Priorities above this count as this one.
    priority_max: int = 0

    def __init__(self) -> None:
        self._fresh: deque[Span] = deque()
        # First entry id and row; the ids differ, so rows are never compared.
        self._returned: list[tuple[int, Span]] = []
        self.message_count = 0

    def append(self, span: Span) -> None:
        """Add new messages; their entry ids are above all others."""
        self._fresh.append(span)
        self.message_count += len(span.indexes)

    def divide(self, _batch: Batch, indexes: Indexes) -> Sequence[Indexes]:
        """The rows in which new messages are appended one by one: here one row."""
        return (indexes,)

    def put_back(self, span: Span) -> None:
        """Return messages to their old place."""
        heappush(self._returned, (span.first_entry_id, span))
        self.message_count += len(span)

    def head(self) -> Span | None:
        """The row of messages that is next, not removed."""
        fresh = self._fresh
        if self._returned and self._is_returned_first():
            return self._returned[0][1]
        return fresh[0] if fresh else None

    def _is_returned_first(self) -> bool:
        """Does the first of the returned rows lie before the others? Some row is returned."""
        return not self._fresh or self._returned[0][0] < self._fresh[0].first_entry_id

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) that lie together at the head.

        IndexError if there is none.
        """
        returned, fresh = self._returned, self._fresh
        is_returned = bool(returned) and self._is_returned_first()
        span = returned[0][1] if is_returned else fresh[0]
        if len(span) > count:
            rest = span.part(count, len(span))
            span = span.part(0, count)
            # Still before all others: the heap stays one.
            if is_returned:
                returned[0] = (rest.first_entry_id, rest)
            else:
                fresh[0] = rest
        elif is_returned:
            heappop(returned)
        else:
            fresh.popleft()
        self.message_count -= len(span)
        return span

    def withdraw(self, ranges: Sequence[EntryRange]) -> list[Span]:
        """Remove those of these entries that are here, in whatever rows; `ranges` ascend.

        Entries that have come lately cost little: they are looked for from the newest on.
        """
        withdrawn: list[Span] = []
        lowest = ranges[0][0]
        behind: list[Span] = []
        fresh = self._fresh
        while fresh and fresh[-1].first_entry_id + len(fresh[-1]) > lowest:
            behind += reversed(_divide(fresh.pop(), ranges, withdrawn))
        fresh.extend(reversed(behind))
        rows = [span for _, span in self._returned]
        if any(span.first_entry_id + len(span) > lowest for span in rows):
            kept = [part for span in rows for part in _divide(span, ranges, withdrawn)]
            self._returned = [(span.first_entry_id, span) for span in kept]
            heapify(self._returned)
        self.message_count -= sum(map(len, withdrawn))
        return withdrawn

    def clear(self) -> None:
        """Drop everything."""
        self._fresh.clear()
        self._returned.clear()
        self.message_count = 0

    def __iter__(self) -> Iterator[Span]:
        returned = (span for _, span in sorted(self._returned))
        yield from merge(returned, self._fresh, key=attrgetter("first_entry_id"))


def _divide(span: Span, ranges: Sequence[EntryRange], withdrawn: list[Span]) -> list[Span]:
    """The parts of the row that stay; those whose entries are in the ranges are withdrawn."""
    kept: list[Span] = []
    for low, high, is_within in positions_in(span, 0, len(span), ranges):
        part = span if high - low == len(span) else span.part(low, high)
        (withdrawn if is_within else kept).append(part)
    return kept
