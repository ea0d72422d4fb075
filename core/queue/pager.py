"""Decides which rows of a queue may be paged, and makes their paged rows.

A `Pager` serves one call of the rules' `page_out`. `Ready`, `Deferral` and `InFlight` go through
their rows, each in its own order, and ask it about each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter

from .columns import are_persistent, priorities_of, sizes_of
from .expiry import deadline_of
from .paging import OnDisk
from .span import EntryRange, PagedSpan, Span

_first = itemgetter(0)


class Pager:
    """Pages rows; `freed_bytes` is what they held, `used` has the ranges that the spill keeps."""

    __slots__ = (
        "_keeps_sizes",
        "_note_traced",
        "_priority_max",
        "_spilled",
        "_synced_below",
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
        self.freed_bytes = 0
        self.used: list[EntryRange] = []

    def on_disk(self, span: Span) -> OnDisk:
        """Where the row's bytes are besides."""
        first, last = span.first_entry_id, span.first_entry_id + len(span) - 1
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
        if is_spilled:
            self.used.append((span.first_entry_id, span.first_entry_id + len(span) - 1))
        self.freed_bytes += span.held_bytes
        priority_max = self._priority_max
        return PagedSpan(
            span.first_entry_id,
            len(span),
            span.attempts,
            span.stored,
            deadline_of(span) or 0,
            is_spilled,
            priorities_of(span, priority_max)[0] if priority_max else 0,
            array("I", sizes_of(span)) if self._keeps_sizes else None,
        )

    def page_if_synced(self, span: Span) -> PagedSpan | None:
        """The paged row of one in the journal; None for others."""
        return self.page(span, False) if self.on_disk(span) is OnDisk.JOURNAL else None

    def page_in_flight(self, span: Span) -> PagedSpan | None:
        """The same of a row in flight; None if messages are traced.

        The trace will tell of the answer to a traced one.
        """
        return None if span.batch.traced is not None else self.page_if_synced(span)
