"""A number for each entry id of one queue, in packed columns: a row for each stretch that has one.

Attempts, deadlines and due times of entries are kept so while a journal is read: almost all are 0,
which has no row, and neighbours with the same number are one row. A row costs 24 bytes. Rows are in
chunks, so that to divide one in the middle costs the same among many: consumers may settle one by
one, and in any order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from sys import maxsize
from typing import Final

from .ledger import EntryIds

# First id, last id, and the number of the entries from the one to the other.
Row = tuple[int, int, int]
# To insert into columns of so many takes about as long as to find the place.
ROWS_PER_CHUNK_MAX: Final = 512


class _Rows:
    """Some rows that ascend and are apart from each other, in columns."""

    __slots__ = ("firsts", "lasts", "values")

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.values = array("Q")

    def __len__(self) -> int:
        return len(self.firsts)

    def part(self, start: int, end: int) -> _Rows:
        """A copy of the rows from the one position to the other."""
        rows = _Rows()
        rows.firsts = self.firsts[start:end]
        rows.lasts = self.lasts[start:end]
        rows.values = self.values[start:end]
        return rows

    def extend(self, rows: _Rows) -> None:
        """Add rows that lie above these."""
        self.firsts += rows.firsts
        self.lasts += rows.lasts
        self.values += rows.values

    def continue_last(self, first: int, last: int, value: int) -> bool:
        """Join these ids with the last row; false if they do not continue it."""
        lasts = self.lasts
        if lasts[-1] + 1 != first or self.values[-1] != value:
            return False
        lasts[-1] = last
        return True

    def append(self, first: int, last: int, value: int) -> None:
        """Add ids above all others."""
        if self.lasts and self.continue_last(first, last, value):
            return
        self.firsts.append(first)
        self.lasts.append(last)
        self.values.append(value)

    def change(self, first: int, last: int, change: Callable[[int], int], has_gaps: bool) -> None:
        """Give the ids from first to last other numbers; `has_gaps`: but for ids without a row."""
        firsts, lasts, values = self.firsts, self.lasts, self.values
        start = bisect_left(lasts, first)
        end = bisect_right(firsts, last, start)
        if end == start + 1 and firsts[start] == first and lasts[start] == last:
            values[start] = change(values[start])
            return
        # With the neighbours, which they may continue.
        start, end = max(0, start - 1), min(len(firsts), end + 1)
        rows = _Rows()
        position = first
        for at in range(start, end):
            row_first, row_last, value = firsts[at], lasts[at], values[at]
            if row_last < first:
                rows.append(row_first, row_last, value)
                continue
            if row_first > last:
                if position <= last and not has_gaps:
                    rows.append(position, last, change(0))
                position = last + 1
                rows.append(row_first, row_last, value)
                continue
            if row_first < first:
                rows.append(row_first, first - 1, value)
                row_first = first
            if position < row_first and not has_gaps:
                rows.append(position, row_first - 1, change(0))
            cut = min(row_last, last)
            rows.append(row_first, cut, change(value))
            if row_last > last:
                rows.append(last + 1, row_last, value)
            position = cut + 1
        if position <= last and not has_gaps:
            rows.append(position, last, change(0))
        firsts[start:end] = rows.firsts
        lasts[start:end] = rows.lasts
        values[start:end] = rows.values


def _last_id(rows: _Rows) -> int:
    return rows.lasts[-1]


def _first_id(rows: _Rows) -> int:
    return rows.firsts[0]


class EntryValues:
    """The rows of one queue, ascending and apart from each other. An id without a row has 0."""

    __slots__ = ("_chunks", "_rows_per_chunk_max")

    def __init__(
        self, rows: Iterable[Row] = (), rows_per_chunk_max: int = ROWS_PER_CHUNK_MAX
    ) -> None:
        self._rows_per_chunk_max = rows_per_chunk_max
        # None of them empty.
        self._chunks: list[_Rows] = []
        for first, last, value in rows:
            self.assign(first, last, value)

    def replace(self, firsts: array[int], lasts: array[int], values: array[int]) -> None:
        """Have the rows with these first ids, last ids and numbers, which are as `columns` yields
        them; ValueError if a row lacks one."""
        if not len(firsts) == len(lasts) == len(values):
            msg = "columns of different lengths"
            raise ValueError(msg)
        rows = _Rows()
        rows.firsts, rows.lasts, rows.values = firsts, lasts, values
        self._chunks = self._divided(rows)

    def columns(self) -> Iterator[Iterable[int]]:
        """First ids, last ids and numbers of all rows."""
        yield chain.from_iterable(rows.firsts for rows in self._chunks)
        yield chain.from_iterable(rows.lasts for rows in self._chunks)
        yield chain.from_iterable(rows.values for rows in self._chunks)

    @property
    def last_id(self) -> int:
        """The highest id that has a row; -1 if none has."""
        return self._chunks[-1].lasts[-1] if self._chunks else -1

    def __len__(self) -> int:
        """How many rows there are."""
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[Row]:
        for rows in self._chunks:
            yield from zip(rows.firsts, rows.lasts, rows.values, strict=True)

    def assign(self, first: int, last: int, value: int) -> None:
        """All ids from first to last have this number."""
        chunks = self._chunks
        if not chunks or first > chunks[-1].lasts[-1]:
            self._append(first, last, value)
        else:
            self._change(first, last, lambda _: value)

    def add(self, first: int, last: int, value: int) -> None:
        """All ids from first to last have so much more."""
        chunks = self._chunks
        if not chunks or first > chunks[-1].lasts[-1]:
            self._append(first, last, value)
        else:
            self._change(first, last, lambda before: before + value)

    def clear(self, first: int, last: int) -> None:
        """All ids from first to last have 0."""
        if any(True for _ in self.within(first, last)):
            self._change(first, last, lambda _: 0, has_gaps=True)

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
        chunks = self._chunks
        for number in range(bisect_left(chunks, first, key=_last_id), len(chunks)):
            rows = chunks[number]
            firsts, lasts, values = rows.firsts, rows.lasts, rows.values
            for at in range(bisect_left(lasts, first), len(firsts)):
                if firsts[at] > last:
                    return
                yield max(first, firsts[at]), min(last, lasts[at]), values[at]

    def cursor(self) -> Callable[[int], tuple[int, int]]:
        """A function for ascending ids: the number of the id, and the last id that it is sure of
        having it, too."""
        rows = iter(self)
        end = (maxsize, maxsize, 0)
        row = next(rows, end)

        def number_of(entry_id: int) -> tuple[int, int]:
            nonlocal row
            while row[1] < entry_id:
                row = next(rows, end)
            first, last, value = row
            if entry_id < first:
                return 0, maxsize if row is end else first - 1
            return value, last

        return number_of

    def keep(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Forget what does not lie within these stretches, first to last, which ascend."""
        kept = EntryValues(rows_per_chunk_max=self._rows_per_chunk_max)
        for first, last in stretches:
            for start, end, value in self.within(first, last):
                if value:
                    kept._append(start, end, value)
        self._chunks = kept._chunks

    def _append(self, first: int, last: int, value: int) -> None:
        chunks = self._chunks
        if not chunks:
            chunks.append(_Rows())
        tail = chunks[-1]
        if len(tail) >= self._rows_per_chunk_max:
            if tail.continue_last(first, last, value):
                return
            tail = _Rows()
            chunks.append(tail)
        tail.append(first, last, value)

    def _change(
        self, first: int, last: int, change: Callable[[int], int], has_gaps: bool = False
    ) -> None:
        chunks = self._chunks
        # With the neighbours of the ids.
        start = bisect_left(chunks, first - 1, key=_last_id)
        end = max(bisect_right(chunks, last + 1, start, key=_first_id), start + 1)
        rows = chunks[start]
        if end > start + 1:
            rows = rows.part(0, len(rows))
            for each in chunks[start + 1 : end]:
                rows.extend(each)
        rows.change(first, last, change, has_gaps)
        if end > start + 1 or len(rows) > self._rows_per_chunk_max:
            chunks[start:end] = self._divided(rows)

    def _divided(self, rows: _Rows) -> list[_Rows]:
        """The rows in chunks that have room for more."""
        count = self._rows_per_chunk_max // 2
        return [rows.part(start, start + count) for start in range(0, len(rows), count)]
