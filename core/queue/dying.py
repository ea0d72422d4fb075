"""Paged messages that have left a queue for its dead-letter exchange, and wait to be read.

A dead letter is published anew, which needs its bytes. Resident messages leave at once; paged ones
wait here, in the order in which they left, until they have been read. They are not settled before
their dead letters are safe, so a crash meanwhile brings them back into the queue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from .paging import ReadRow, Wanted, matched
from .span import EntryRange, PagedSpan, Span, positions_in


class DyingRows:
    """Paged rows, and why each left: "rejected", "expired", "maxlen" or "delivery_limit"."""

    __slots__ = ("_rows", "_wanted_count")

    def __init__(self) -> None:
        self._rows: deque[tuple[PagedSpan, str]] = deque()
        # How many rows at the front have entries that were last wanted.
        self._wanted_count = 0

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def append(self, span: PagedSpan, reason: str) -> None:
        """Add a row that leaves for this reason."""
        self._rows.append((span, reason))

    def wanted(self, count_max: int) -> Wanted:
        """Entries at the front, up to so many, that ascend and lie in the same place; there is one.

        The caller reads them and calls `fill` with the result.
        """
        ranges: list[EntryRange] = []
        is_spilled = self._rows[0][0].is_spilled
        for span, _ in self._rows:
            first, last = span.first_entry_id, span.first_entry_id + len(span) - 1
            if count_max <= 0 or span.is_spilled is not is_spilled:
                break
            if ranges and ranges[-1][1] >= first:
                break
            last = min(last, first + count_max - 1)
            ranges.append((first, last))
            count_max -= last - first + 1
        self._wanted_count = len(ranges)
        return Wanted(ranges, is_spilled, is_dying=True)

    def fill(
        self, asked: Sequence[EntryRange], rows: Sequence[ReadRow]
    ) -> tuple[list[tuple[Span, str]], list[PagedSpan]]:
        """Remove the entries that were asked for, which were wanted.

        Returns resident rows, each with its reason, and paged rows that were not found.
        """
        pieces: list[tuple[PagedSpan, str]] = []
        rest: list[tuple[PagedSpan, str]] = []
        for _ in range(self._wanted_count):
            span, reason = self._rows.popleft()
            for low, high, is_within in positions_in(span, 0, len(span), asked):
                (pieces if is_within else rest).append((span.part(low, high), reason))
        self._rows.extendleft(reversed(rest))
        self._wanted_count = 0
        found, missing, _ = matched([piece for piece, _ in pieces], rows)
        reasons = (
            pieces[bisect_right(pieces, row.first_entry_id, key=_first_entry_id) - 1][1]
            for row in found
        )
        return list(zip(found, reasons, strict=True)), missing


def _first_entry_id(piece: tuple[PagedSpan, str]) -> int:
    return piece[0].first_entry_id
