"""A histogram: how many values lay in each of a few ranges, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """`bounds` ascend; a value counts for the first bound that it does not exceed.

    One thread adds values at a time. Another one may read meanwhile: it may miss the last value.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        # One more than there are bounds: values above all of them.
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
