"""Decides which rows of a queue may be paged, and makes their paged rows.

A `Pager` serves one call of the rules' `page_out`. `Ready`, `Deferral` and `InFlight` go through
their rows, each in its own order, and ask it about each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from .columns import are_persistent, priorities_of, sizes_of
from .expiry import deadline_of
from .in_flight import Delivery
from .paging import SPILLED_BYTES_MAX, OnDisk
from .span import EntryRange, PagedSpan, Span, held_bytes

_first = itemgetter(0)
_ON_DISK: Final = frozenset((OnDisk.JOURNAL, OnDisk.SPILL))


class Pager:
    """Pages rows; `freed_bytes` is what they held, `used` has the ranges that the spill keeps."""

    __slots__ = (
        "_keeps_sizes",
        "_note_traced",
        "_priority_max",
        "_spilled",
        "_synced_below",
        "_unspilled",
        "freed_bytes",
        "used",
    )

    def __init__(
        self,
        synced_below: int,
        spilled: Sequence[EntryRange],
        keeps_sizes: bool,
        priority_max: int,
        note_traced: Callable[[Span], None] | None,
    ) -> None:
        """The journal has synced all stored entries with ids below `synced_below`.

        The spill has the entries in `spilled`, which ascend. `keeps_sizes`: paged rows have the
        sizes of their bodies. Their priorities are at most `priority_max`. `note_traced` is called
        with rows that have traced messages.
        """
        self._synced_below = synced_below
        self._spilled = spilled
        self._keeps_sizes = keeps_sizes
        self._priority_max = priority_max
        self._note_traced = note_traced
        # Rows behind which nothing waits, the newest of each place first.
        self._unspilled: list[Span] = []
        self.freed_bytes = 0
        self.used: list[EntryRange] = []

    def on_disk(self, span: Span) -> OnDisk:
        """Where the row's bytes are besides."""
        first = span.first_entry_id
        last = first + len(span.indexes) - 1
        if span.stored and last >= self._synced_below:
            return OnDisk.UNSYNCED
        at = bisect_right(self._spilled, first, key=_first)
        if at and last <= self._spilled[at - 1][1]:
            return OnDisk.SPILL
        is_journalled = span.stored and are_persistent(span.batch, span.indexes)
        return OnDisk.JOURNAL if is_journalled else OnDisk.NOWHERE

    def page(self, span: Span, is_spilled: bool) -> PagedSpan:
        """The paged row of one whose bytes are in the spill, or in the journal."""
        if self._note_traced is not None and span.batch.traced is not None:
            self._note_traced(span)
        self._note_paged(span, is_spilled)
        return self._paged_row(span, is_spilled, span)

    def _note_paged(self, span: Span, is_spilled: bool) -> None:
        count = len(span.indexes)
        if is_spilled:
            used, first = self.used, span.first_entry_id
            if used and used[-1][1] == first - 1:
                used[-1] = used[-1][0], first + count - 1
            else:
                used.append((first, first + count - 1))
        self.freed_bytes += held_bytes(span.batch, count)

    def _paged_row(self, span: Span, is_spilled: bool, held: Span) -> PagedSpan:
        """The whole row, of which the queue has these messages, if not all."""
        priority_max = self._priority_max
        return PagedSpan(
            span.first_entry_id,
            len(span),
            span.attempts,
            span.stored,
            deadline_of(span) or 0,
            is_spilled,
            priorities_of(held, priority_max)[0] if priority_max else 0,
            array("I", sizes_of(span)) if self._keeps_sizes else None,
        )

    def page_if_on_disk(self, span: Span) -> PagedSpan | None:
        """The paged row of one on the disk; None for others, which `unspilled` may name."""
        place = self.on_disk(span)
        if place is OnDisk.NOWHERE:
            self._unspilled.append(span)
        return self.page(span, place is OnDisk.SPILL) if place in _ON_DISK else None

    def page_in_flight(self, delivery: Delivery) -> PagedSpan | None:
        """The same of a row in flight, if its messages that are not answered are on the disk.

        None if messages are traced: the trace will tell of the answer to a traced one.
        """
        span = delivery.span
        if span.batch.traced is not None:
            return None
        parts = [span.part(low, high) for low, high in delivery.remaining]
        places = {self.on_disk(part) for part in parts}
        if places == {OnDisk.NOWHERE}:
            self._unspilled += reversed(parts)
        if len(places) > 1 or not places & _ON_DISK:
            return None
        is_spilled = OnDisk.SPILL in places
        for part in parts:
            self._note_paged(part, is_spilled)
        # Where the others were, a batch that was copied may have messages of other rows.
        return self._paged_row(span, is_spilled, parts[0])

    def unspilled(self) -> list[Span]:
        """Rows in memory only, up to SPILLED_BYTES_MAX.

        The oldest: who looks for more begins with the newest, and ends at rows that are paged.
        """
        rows: list[Span] = []
        size = 0
        for span in reversed(self._unspilled):
            if size > SPILLED_BYTES_MAX:
                break
            rows.append(span)
            size += span.wire_bytes()
        return rows
