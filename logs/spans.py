"""Sets of whole numbers as ranges, so that a range of any length costs what one number costs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

# First and last, both of the range.
Pair = tuple[int, int]
# As a line of a trace has them.
Pairs = Iterable[Sequence[int]]


class Spans:
    """A set of numbers, kept as ascending ranges that do not touch each other."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, pairs: Pairs = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.add(pairs)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[Pair]:
        return zip(self._firsts, self._lasts, strict=True)

    def count(self) -> int:
        """How many numbers there are."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def smallest(self) -> int:
        """The smallest number; there must be one."""
        return self._firsts[0]

    def add(self, pairs: Pairs) -> None:
        """Have these, too."""
        for first, last in pairs:
            # Those that overlap it or touch it become one with it.
            begin = bisect_left(self._lasts, first - 1)
            end = bisect_right(self._firsts, last + 1)
            if begin < end:
                first = min(first, self._firsts[begin])
                last = max(last, self._lasts[end - 1])
            self._firsts[begin:end] = [first]
            self._lasts[begin:end] = [last]

    def remove(self, pairs: Pairs) -> None:
        """Have none of these."""
        for first, last in pairs:
            begin = bisect_left(self._lasts, first)
            end = bisect_right(self._firsts, last)
            if begin >= end:
                continue
            if self._firsts[begin] >= first and self._lasts[end - 1] <= last:
                del self._firsts[begin:end], self._lasts[begin:end]
                continue
            rest = [
                (low, high)
                for low, high in (
                    (self._firsts[begin], first - 1),
                    (last + 1, self._lasts[end - 1]),
                )
                if low <= high
            ]
            self._firsts[begin:end] = [low for low, _high in rest]
            self._lasts[begin:end] = [high for _low, high in rest]

    def covers(self, pairs: Pairs) -> bool:
        """Are all of these in it?"""
        for first, last in pairs:
            at = bisect_left(self._lasts, first)
            if at == len(self._lasts) or self._firsts[at] > first or self._lasts[at] < last:
                return False
        return True

    def common(self, pairs: Pairs) -> Spans:
        """Those of these that are in it."""
        found = Spans()
        if not self._firsts:
            return found
        for first, last in pairs:
            for at in range(bisect_left(self._lasts, first), bisect_right(self._firsts, last)):
                low, high = max(first, self._firsts[at]), min(last, self._lasts[at])
                found.add([(low, high)])
        return found

    def missing(self, pairs: Pairs) -> Spans:
        """Those of these that are not in it."""
        found = Spans()
        if not self.covers(pairs):
            found.add(pairs)
            found.remove(self.common(pairs))
        return found
