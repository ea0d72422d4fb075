"""The messages of a queue that can be delivered, in the order of their entry ids.

New messages arrive in order and form a deque. Returned ones go back to their old place: they form a
heap of rows that do not overlap. That place is before every message that was never taken, unless a
message was deferred as it entered, and becomes ready only now. A queue with `x-max-priority` has
another: `ready_by_priority.py`.

A long queue has a backlog (`paging.py`) behind the deque: rows whose bytes are on the disk only,
and new rows. Returned rows may be paged, too. The head must be resident to be delivered: `wanted`
says what to read for that, and `fill` is given it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import chain
from operator import attrgetter
from typing import Final

from ...amqp_frames.messages.batch import Batch, Indexes
from .paging import Backlog, Filled, OnDisk, PagedRows, ReadRow, Wanted, matched
from .sizing import SIZED_COUNT_MAX, SizedRow, is_unsized, sized_parts
from .span import EntryRange, PagedSpan, Span, positions_in

# Returned rows that are read together.
RETURNED_ROWS_MAX: Final = 256


class Ready:
    """Deliverable messages, lowest entry id first; `message_count` counts them."""

    __slots__ = ("_backlog", "_fresh", "_priority", "_returned", "may_be_paged", "message_count")

    # Priorities above this count as this one.
    priority_max: int = 0

    def __init__(self, priority: int = 0) -> None:
        """`priority`: that of all its messages, where priorities count."""
        self._priority = priority
        self._fresh: deque[Span] = deque()
        # The rows behind these; None while none is paged.
        self._backlog: Backlog | None = None
        # First entry id and row; the ids differ, so rows are never compared.
        self._returned: list[tuple[int, Span]] = []
        self.message_count = 0
        # False if no row is paged, and none was lately.
        self.may_be_paged = False

    def append(self, span: Span) -> None:
        """Add new messages; their entry ids are above all others."""
        if self._backlog is None:
            self._fresh.append(span)
        else:
            self._backlog.recent.append(span)
        self.message_count += len(span.indexes)

    def append_paged(self, span: PagedSpan, keeps_sizes: bool) -> None:
        """Add a row that the journal has kept; its entry ids are above all others."""
        if self._backlog is None:
            self._backlog = Backlog(PagedRows(self._priority, keeps_sizes), deque())
            self.may_be_paged = True
        self._backlog.paged.append(span)
        self.message_count += len(span.indexes)

    def divide(self, _batch: Batch, indexes: Indexes) -> Sequence[Indexes]:
        """The rows in which new messages are appended one by one: here one row."""
        return (indexes,)

    def parts_of(self, span: Span) -> Iterable[Span]:
        """The parts of a row that have a priority each, as a row must that is to be paged."""
        return (span,)

    def put_back(self, span: Span) -> None:
        """Return messages to their old place."""
        heappush(self._returned, (span.first_entry_id, span))
        self.message_count += len(span)
        if span.is_paged:
            self.may_be_paged = True

    def head(self) -> Span | None:
        """The row of messages that is next, not removed."""
        fresh = self._fresh
        if self._returned and self._is_returned_first():
            return self._returned[0][1]
        if fresh:
            return fresh[0]
        return None if self._backlog is None else self._backlog.paged.head()

    def _is_returned_first(self) -> bool:
        """Does the first of the returned rows lie before the others? Some row is returned."""
        first = self._returned[0][0]
        if self._fresh:
            return first < self._fresh[0].first_entry_id
        return self._backlog is None or first < self._backlog.paged.first_entry_id

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) that lie together at the head.

        IndexError if there is none.
        """
        returned, fresh = self._returned, self._fresh
        is_returned = self._is_returned_first() if returned else False
        if not (is_returned or fresh or self._backlog is None):
            paged = self._backlog.paged.dequeue(count)
            self._forget_backlog()
            self.message_count -= len(paged)
            return paged
        span = returned[0][1] if is_returned else fresh[0]
        row_count = len(span.indexes)
        if row_count <= count:
            count = row_count
            if is_returned:
                heappop(returned)
            else:
                fresh.popleft()
        elif is_returned:
            rest = span.part(count, row_count)
            # Still before all others: the heap stays one.
            returned[0] = (rest.first_entry_id, rest)
            span = span.part(0, count)
        else:
            span = span.cut(count)
        self.message_count -= count
        return span

    def withdraw(self, ranges: Sequence[EntryRange]) -> list[Span]:
        """Remove those of these entries that are here, in whatever rows; `ranges` ascend.

        Entries that have come lately cost little: they are looked for from the newest on.
        """
        withdrawn: list[Span] = []
        lowest = ranges[0][0]
        backlog = self._backlog
        if backlog is not None:
            _withdraw_newest(backlog.recent, ranges, withdrawn)
            backlog.paged.withdraw(ranges, withdrawn)
            self._forget_backlog()
        _withdraw_newest(self._fresh, ranges, withdrawn)
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
        self._backlog = None
        self.message_count = 0
        self.may_be_paged = False

    def __iter__(self) -> Iterator[Span]:
        returned = (span for _, span in sorted(self._returned))
        in_order = chain(self._fresh, self._backlog or ())
        yield from merge(returned, in_order, key=attrgetter("first_entry_id"))

    # --- Paging

    def page_out(
        self,
        kept_bytes: int,
        on_disk: Callable[[Span], OnDisk],
        paged: Callable[[Span, bool], PagedSpan],
        keeps_sizes: bool,
    ) -> list[Span]:
        """Page rows, but for so many bytes at the head; returns rows that are to be spilled.

        `on_disk` and `paged`: as of `Backlog.page_out`.
        """
        backlog = self._backlog
        if backlog is None:
            behind: deque[Span] = deque()
            fresh = self._fresh
            at = 0
            # Not even the first if it alone holds more: there may be one such in each queue.
            while at < len(fresh) and fresh[at].held_bytes <= kept_bytes:
                kept_bytes -= fresh[at].held_bytes
                at += 1
            while len(fresh) > at:
                behind.appendleft(fresh.pop())
            backlog = Backlog(PagedRows(self._priority, keeps_sizes), behind)
        else:
            self._page_head(kept_bytes, on_disk, paged)
        unspilled = backlog.page_out(on_disk, paged)
        self._backlog = backlog
        self.may_be_paged = True
        self._forget_backlog()
        return unspilled

    def _page_head(
        self,
        kept_bytes: int,
        on_disk: Callable[[Span], OnDisk],
        paged: Callable[[Span, bool], PagedSpan],
    ) -> None:
        """Page rows that were read ahead for consumers that do not take them: they are returned."""
        fresh = self._fresh
        held = sum(span.held_bytes for span in fresh)
        while held > kept_bytes and fresh and on_disk(fresh[-1]) is OnDisk.JOURNAL:
            span = fresh.pop()
            held -= span.held_bytes
            heappush(self._returned, (span.first_entry_id, paged(span, False)))

    def page_returned(self, paged: Callable[[Span], PagedSpan | None]) -> None:
        """Page returned rows, except those for which `paged` is None."""
        returned = self._returned
        for place, (first_entry_id, span) in enumerate(returned):
            row = None if span.is_paged else paged(span)
            if row is not None:
                returned[place] = first_entry_id, row
                self.may_be_paged = True

    def _forget_backlog(self) -> None:
        """Without a paged row there is no backlog."""
        backlog = self._backlog
        if backlog is not None and not backlog.paged.message_count:
            self._fresh.extend(backlog.recent)
            self._backlog = None

    def wanted(self, ahead_bytes: int, count_max: int) -> Wanted | None:
        """Entries to be read next, up to so many of either kind: at the head, or ahead of it.

        Ahead of it if fewer bytes than `ahead_bytes` of resident messages are left there.
        """
        returned = self._returned
        if returned and returned[0][1].is_paged:
            is_first = self._is_returned_first()
            if is_first or not self._fresh:
                return self._wanted_returned(count_max, is_first=is_first)
        backlog = self._backlog
        if backlog is None:
            return None
        for span in self._fresh:
            ahead_bytes -= span.wire_bytes()
            if ahead_bytes <= 0:
                return None
        return Wanted(*backlog.paged.front(count_max))

    def _wanted_returned(self, count_max: int, *, is_first: bool) -> Wanted:
        """Returned rows, and with them those of the backlog that are next, if nothing is resident.

        While these are read, more rows come back, before the backlog. If each read had only those,
        the backlog would wait for as long as some come. `is_first`: a returned row is the head.
        """
        returned = self._returned
        ranges: list[EntryRange] = []
        rows: list[tuple[int, Span]] = []
        is_spilled: bool | None = None
        left = count_max
        while returned and len(rows) < RETURNED_ROWS_MAX and left > 0:
            span = returned[0][1]
            if not isinstance(span, PagedSpan) or is_spilled not in (None, span.is_spilled):
                break
            is_spilled = span.is_spilled
            rows.append(heappop(returned))
            count = min(len(span), left)
            left -= count
            ranges.append((span.first_entry_id, span.first_entry_id + count - 1))
        # The backlog counts up to the first row that is left: it is not next behind that one.
        end = returned[0][0] if returned else None
        for row in rows:
            heappush(returned, row)
        if self._backlog is not None and not self._fresh:
            # A backlog may have many short runs, and each returned row have a read of its own.
            behind_max = min(count_max, RETURNED_ROWS_MAX) if is_first else count_max
            behind, is_behind_spilled = self._backlog.paged.front(behind_max)
            if end is not None:
                behind = [(first, min(last, end - 1)) for first, last in behind if first < end]
            if is_behind_spilled is is_spilled:
                ranges = sorted([*ranges, *behind])
            elif not is_first:
                return Wanted(behind, is_behind_spilled)
        return Wanted(ranges, bool(is_spilled))

    def fill(self, asked: Sequence[EntryRange], rows: Sequence[ReadRow]) -> Filled:
        """Have rows that were read be resident, of the entries that were asked for.

        Rows that were not found have left.
        """
        backlog = self._backlog
        pieces: list[PagedSpan] = []
        if backlog is not None:
            paged = backlog.paged
            for first, last in asked:
                while paged.message_count and first <= paged.first_entry_id <= last:
                    pieces.append(paged.dequeue(last + 1 - paged.first_entry_id))
        filled = Filled([], [], [])
        if pieces:
            filled = matched(pieces, rows)
            self._fresh.extend(filled.found)
            self._forget_backlog()
        if sum(map(len, pieces)) < sum(last - first + 1 for first, last in asked):
            filled = _both(self._fill_returned(asked, rows), filled)
        self.message_count -= sum(map(len, filled.missing))
        return filled

    def _fill_returned(self, asked: Sequence[EntryRange], rows: Sequence[ReadRow]) -> Filled:
        lowest, highest = asked[0][0], asked[-1][1]
        kept: list[tuple[int, Span]] = []
        pieces: list[PagedSpan] = []
        returned = self._returned
        while returned and returned[0][0] <= highest:
            first, span = heappop(returned)
            if not isinstance(span, PagedSpan) or first + len(span) <= lowest:
                kept.append((first, span))
                continue
            for low, high, is_within in positions_in(span, 0, len(span), asked):
                part = span.part(low, high)
                if is_within:
                    pieces.append(part)
                else:
                    kept.append((part.first_entry_id, part))
        filled = matched(pieces, rows)
        for row in (*kept, *((span.first_entry_id, span) for span in filled.found)):
            heappush(returned, row)
        return filled

    def keep_sizes(self, *, keeps: bool) -> None:
        """Keep the sizes of paged rows from now on, or no longer."""
        if self._backlog is not None:
            paged = self._backlog.paged
            if keeps:
                paged.keep_sizes()
            else:
                paged.forget_sizes()

    def unsized(self) -> Iterator[Span]:
        """Some of the paged rows without sizes; none if all have them."""
        first = None
        if self._backlog is not None:
            for first in self._backlog.paged.unsized(SIZED_COUNT_MAX):
                yield first
        if first is None:
            yield from (span for _, span in self._returned if is_unsized(span))

    def set_sizes(self, rows: Sequence[SizedRow]) -> list[PagedSpan]:
        """The disk has said the sizes of these, which ascend; returns the paged rows that got them.

        There is a row at least.
        """
        sized: list[PagedSpan] = []
        if self._backlog is not None:
            last = rows[-1].first_entry_id + len(rows[-1].sizes) - 1
            sized += self._backlog.paged.set_sizes(
                rows[0].first_entry_id, last, lambda span: sized_parts(span, rows)
            )
        if any(is_unsized(span) for _, span in self._returned):
            returned: list[tuple[int, Span]] = []
            for first, span in self._returned:
                if not is_unsized(span):
                    returned.append((first, span))
                    continue
                parts = sized_parts(span, rows)
                returned += [(part.first_entry_id, part) for part in parts]
                sized += [part for part in parts if part.sizes is not None]
            heapify(returned)
            self._returned = returned
        return sized


def _both(some: Filled, others: Filled) -> Filled:
    """The rows of both, in order."""
    if not (others.found or others.missing):
        return some
    by_id = attrgetter("first_entry_id")
    return Filled(
        list(merge(some.found, others.found, key=by_id)),
        list(merge(some.missing, others.missing, key=by_id)),
        list(merge(some.unsized, others.unsized, key=by_id)),
    )


def _withdraw_newest(
    rows: deque[Span], ranges: Sequence[EntryRange], withdrawn: list[Span]
) -> None:
    behind: list[Span] = []
    lowest = ranges[0][0]
    while rows and rows[-1].first_entry_id + len(rows[-1]) > lowest:
        behind += reversed(_divide(rows.pop(), ranges, withdrawn))
    rows.extend(reversed(behind))


def _divide(span: Span, ranges: Sequence[EntryRange], withdrawn: list[Span]) -> list[Span]:
    """The parts of the row that stay; those whose entries are in the ranges are withdrawn."""
    kept: list[Span] = []
    for low, high, is_within in positions_in(span, 0, len(span), ranges):
        part = span if high - low == len(span) else span.part(low, high)
        (withdrawn if is_within else kept).append(part)
    return kept
