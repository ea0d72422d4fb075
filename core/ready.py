"""The messages of a queue that can be delivered, in the order of their entry ids.

New messages arrive in order and form a deque. Returned ones go back to their old place, which is
always before every message that was never taken: they form a heap of rows that do not overlap. A
queue with `x-max-priority` has another: `ready_by_priority.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from .span import Span


class Ready:
    """Deliverable messages, lowest entry id first; `message_count` counts them."""

    __slots__ = ("_fresh", "_returned", "message_count")

    def __init__(self) -> None:
        self._fresh: deque[Span] = deque()
        # First entry id and row; the ids differ, so rows are never compared.
        self._returned: list[tuple[int, Span]] = []
        self.message_count = 0

    def append(self, span: Span) -> None:
        """Add new messages; their entry ids are above all others."""
        self._fresh.append(span)
        self.message_count += len(span)

    def put_back(self, span: Span) -> None:
        """Return messages to their old place."""
        heappush(self._returned, (span.first_entry_id, span))
        self.message_count += len(span)

    def head(self) -> Span | None:
        """The row of messages that is next, not removed."""
        if self._returned:
            return self._returned[0][1]
        return self._fresh[0] if self._fresh else None

    def take(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) that lie together at the head.

        IndexError if there is none.
        """
        returned, fresh = self._returned, self._fresh
        span = returned[0][1] if returned else fresh[0]
        if len(span) > count:
            rest = span.part(count, len(span))
            span = span.part(0, count)
            # Still before all others: the heap stays one.
            if returned:
                returned[0] = (rest.first_entry_id, rest)
            else:
                fresh[0] = rest
        elif returned:
            heappop(returned)
        else:
            fresh.popleft()
        self.message_count -= len(span)
        return span

    def clear(self) -> None:
        """Drop everything."""
        self._fresh.clear()
        self._returned.clear()
        self.message_count = 0

    def __iter__(self) -> Iterator[Span]:
        for _, span in sorted(self._returned):
            yield span
        yield from self._fresh
