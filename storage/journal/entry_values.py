"""A number for each entry id of one queue, in packed columns: a row for each stretch that has one.

Attempts, deadlines and due times of entries are kept so while a journal is read: almost all are 0,
which has no row, and neighbours with the same number are one row. A row costs 24 bytes. Rows are
almost always added at the end, or changed as a whole. To divide one in the middle moves all behind
it, which costs about 10 us among 100,000 rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from sys import maxsize

from .ledger import EntryIds

# First id, last id, and the number of the entries from the one to the other.
Row = tuple[int, int, int]


class EntryValues:
    """The rows of one queue, ascending and apart from each other. An id without a row has 0."""

    __slots__ = ("firsts", "lasts", "values")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.values = array("Q")
        for first, last, value in rows:
            self.assign(first, last, value)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.firsts)

    def __iter__(self) -> Iterator[Row]:
        return zip(self.firsts, self.lasts, self.values, strict=True)

    def assign(self, first: int, last: int, value: int) -> None:
        """All ids from first to last have this number."""
        lasts = self.lasts
        if not lasts or first > lasts[-1]:
            self._append(first, last, value)
        else:
            self._change(first, last, lambda _: value)

    def add(self, first: int, last: int, value: int) -> None:
        """All ids from first to last have so much more."""
        lasts = self.lasts
        if not lasts or first > lasts[-1]:
            self._append(first, last, value)
        else:
            self._change(first, last, lambda before: before + value)

    def clear(self, first: int, last: int) -> None:
        """All ids from first to last have 0."""
        if self.lasts and first <= self.lasts[-1]:
            start = bisect_left(self.lasts, first)
            if self.firsts[start] <= last:
                self._change(first, last, lambda _: 0, has_gaps_filled=False)

    def assign_each(self, ids: EntryIds, values: int | array[int]) -> None:
        """These ids have these numbers, or all have the one."""
        if isinstance(values, int):
            # Ids in the gaps are of no entry.
            self.assign(ids[0], ids[-1], values)
            return
        for entry_id, value in zip(ids, values, strict=True):
            if value:
                self.assign(entry_id, entry_id, value)

    def within(self, first: int, last: int) -> Iterator[Row]:
        """The rows that have ids from first to last, cut to these."""
        firsts, lasts, values = self.firsts, self.lasts, self.values
        for at in range(bisect_left(lasts, first), len(firsts)):
            if firsts[at] > last:
                return
            yield max(first, firsts[at]), min(last, lasts[at]), values[at]

    def cursor(self) -> Callable[[int], tuple[int, int]]:
        """A function for ascending ids: the number of the id, and the last id that it is sure of
        having it, too."""
        firsts, lasts, values = self.firsts, self.lasts, self.values
        at, end = 0, len(firsts)

        def number_of(entry_id: int) -> tuple[int, int]:
            nonlocal at
            while at < end and lasts[at] < entry_id:
                at += 1
            if at == end:
                return 0, maxsize
            first = firsts[at]
            return (0, first - 1) if entry_id < first else (values[at], lasts[at])

        return number_of

    def keep(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Forget what does not lie within these stretches, first to last, which ascend."""
        kept = EntryValues()
        for first, last in stretches:
            for start, end, value in self.within(first, last):
                if value:
                    kept._append(start, end, value)
        self.firsts, self.lasts, self.values = kept.firsts, kept.lasts, kept.values

    def _append(self, first: int, last: int, value: int) -> None:
        lasts = self.lasts
        if lasts and lasts[-1] + 1 == first and self.values[-1] == value:
            lasts[-1] = last
            return
        self.firsts.append(first)
        lasts.append(last)
        self.values.append(value)

    def _change(
        self, first: int, last: int, change: Callable[[int], int], has_gaps_filled: bool = True
    ) -> None:
        firsts, lasts, values = self.firsts, self.lasts, self.values
        start = bisect_left(lasts, first)
        end = bisect_right(firsts, last, start)
        if end == start + 1 and firsts[start] == first and lasts[start] == last:
            values[start] = change(values[start])
            return
        # With the neighbours, which they may continue.
        start, end = max(0, start - 1), min(len(firsts), end + 1)
        rows = EntryValues()
        position = first
        for at in range(start, end):
            row_first, row_last, value = firsts[at], lasts[at], values[at]
            if row_last < first:
                rows._append(row_first, row_last, value)
                continue
            if row_first > last:
                if position <= last and has_gaps_filled:
                    rows._append(position, last, change(0))
                position = last + 1
                rows._append(row_first, row_last, value)
                continue
            if row_first < first:
                rows._append(row_first, first - 1, value)
                row_first = first
            if position < row_first and has_gaps_filled:
                rows._append(position, row_first - 1, change(0))
            cut = min(row_last, last)
            rows._append(row_first, cut, change(value))
            if row_last > last:
                rows._append(last + 1, row_last, value)
            position = cut + 1
        if position <= last and has_gaps_filled:
            rows._append(position, last, change(0))
        firsts[start:end] = rows.firsts
        lasts[start:end] = rows.lasts
        values[start:end] = rows.values
