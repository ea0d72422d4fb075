"""The messages of a queue that can be delivered, in the order of their entry ids.

New messages arrive in order and form a deque; returned ones go back to their old place, which is
always before every message that was never taken. A priority queue can replace this class later.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator

from .span import Span


def _place(span: Span) -> int:
    return span.first_entry_id


class Ready:
    """Deliverable messages, lowest entry id first; `message_count` counts them."""

    __slots__ = ("_fresh", "_returned", "message_count")

    def __init__(self) -> None:
        self._fresh: deque[Span] = deque()
        self._returned: list[Span] = []
        self.message_count = 0

    def append(self, span: Span) -> None:
        """Add new messages; their entry ids are above all others."""
        self._fresh.append(span)
        self.message_count += len(span)

    def put_back(self, span: Span) -> None:
        """Return messages to their old place."""
        insort(self._returned, span, key=_place)
        self.message_count += len(span)

    def head(self) -> Span | None:
        """The row of messages that is next, not removed."""
        if self._returned:
            return self._returned[0]
        return self._fresh[0] if self._fresh else None

    def take(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) that lie together at the head.

        IndexError if there is none.
        """
        if self._returned:
            span = self._returned[0]
            if len(span) <= count:
                del self._returned[0]
            else:
                self._returned[0] = span.part(count, len(span))
                span = span.part(0, count)
        else:
            span = self._fresh[0]
            if len(span) <= count:
                self._fresh.popleft()
            else:
                self._fresh[0] = span.part(count, len(span))
                span = span.part(0, count)
        self.message_count -= len(span)
        return span

    def clear(self) -> None:
        """Drop everything."""
        self._fresh.clear()
        self._returned.clear()
        self.message_count = 0

    def __iter__(self) -> Iterator[Span]:
        yield from self._returned
        yield from self._fresh
