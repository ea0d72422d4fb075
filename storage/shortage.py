"""The records that a journal has yet to write once its disk has room again.

While the disk is full nothing is appended, but consumers go on: what they settle and are given is
kept here, in memory, as few ranges, so that it needs little room when it is written. To lose it
costs redeliveries and attempts that were not counted, as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

from .journal.identity_runs import IdentityRun
from .journal.ledger import EntryRange, Spoken, joined
from .journal.records import DELIVERED, DeferredRange

# A record has no more ranges than this: 64 KiB.
RANGES_PER_RECORD_MAX: Final = 4096


class _Ranges:
    """Ranges of entry ids, joined whenever they have become twice as many."""

    __slots__ = ("_join_at", "_ranges")

    def __init__(self) -> None:
        self._ranges: list[EntryRange] = []
        self._join_at = RANGES_PER_RECORD_MAX

    def add(self, ranges: Sequence[EntryRange]) -> None:
        self._ranges += ranges
        if len(self._ranges) >= self._join_at:
            self._ranges = joined(self._ranges)
            self._join_at = max(RANGES_PER_RECORD_MAX, 2 * len(self._ranges))

    def pieces(self) -> Iterator[list[EntryRange]]:
        ranges = joined(self._ranges)
        for start in range(0, len(ranges), RANGES_PER_RECORD_MAX):
            yield ranges[start : start + RANGES_PER_RECORD_MAX]


class _Deferred:
    """Ranges of deferred entries; of several with the same entry the last one counts.

    They are joined whenever they have become twice as many.
    """

    __slots__ = ("_join_at", "_ranges")

    def __init__(self) -> None:
        self._ranges: list[DeferredRange] = []
        self._join_at = RANGES_PER_RECORD_MAX

    def add(self, ranges: Sequence[DeferredRange]) -> None:
        self._ranges += ranges
        if len(self._ranges) >= self._join_at:
            self._ranges = joined_deferred(self._ranges)
            self._join_at = max(RANGES_PER_RECORD_MAX, 2 * len(self._ranges))

    def pieces(self) -> Iterator[list[DeferredRange]]:
        ranges = joined_deferred(self._ranges)
        for start in range(0, len(ranges), RANGES_PER_RECORD_MAX):
            yield ranges[start : start + RANGES_PER_RECORD_MAX]


class Shortage:
    """From the write that met a full disk until all that it could not write is written."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], _Ranges] = {}
        self._deferred: dict[int, _Deferred] = {}
        # Segments that are gone, and the identities that lay in them.
        self.removed: list[int] = []
        self.runs: list[tuple[int, IdentityRun]] = []
        # Per queue that has no window any more: identities of entries below this id are forgotten.
        self.forgotten: dict[int, int] = {}
        # The segments that the ranges speak of, or more.
        self.spoken = Spoken()
        self.must_sync = False

    @property
    def is_over(self) -> bool:
        """Is nothing left to be written?"""
        return not (self._ranges or self._deferred or self.removed or self.runs or self.forgotten)

    def add_ranges(self, kind: int, queue_id: int, ranges: Sequence[EntryRange]) -> None:
        """A record of this kind, settled or delivered, that is still to be written.

        Of several deliveries of one entry one is kept.
        """
        known = self._ranges.get((kind, queue_id))
        if known is None:
            known = self._ranges[kind, queue_id] = _Ranges()
        known.add(ranges)
        deferred = self._deferred.get(queue_id) if kind == DELIVERED else None
        if deferred is not None:
            # They were due.
            deferred.add([(first, last, 0) for first, last in ranges])

    def add_deferred(self, queue_id: int, ranges: Sequence[DeferredRange]) -> None:
        """Deferred entries whose record is still to be written."""
        known = self._deferred.get(queue_id)
        if known is None:
            known = self._deferred[queue_id] = _Deferred()
        known.add(ranges)

    def pop_deferred(self) -> Iterator[tuple[int, list[DeferredRange]]]:
        """Take all deferred entries out, in pieces of a record each, by queue id."""
        deferred, self._deferred = self._deferred, {}
        for queue_id, ranges in deferred.items():
            for piece in ranges.pieces():
                yield queue_id, piece

    def pop_ranges(self) -> Iterator[tuple[int, int, list[EntryRange]]]:
        """Take all ranges out, in pieces of a record each: kind, queue id, ranges."""
        taken, self._ranges = self._ranges, {}
        for (kind, queue_id), ranges in taken.items():
            for piece in ranges.pieces():
                yield kind, queue_id, piece


def joined_deferred(ranges: Sequence[DeferredRange]) -> list[DeferredRange]:
    """Ranges with due times, of which later ones replace earlier ones, as ascending disjoint ones.

    A due time of 0 stands for entries that are deferred no longer: these are left out.
    """
    edges = sorted({first for first, _, _ in ranges} | {last + 1 for _, last, _ in ranges})
    starting = sorted(
        (first, -number, last, due_ms) for number, (first, last, due_ms) in enumerate(ranges)
    )
    found: list[DeferredRange] = []
    # Begun ranges, the latest first.
    begun: list[tuple[int, int, int]] = []
    place = 0
    for edge, following in pairwise(edges):
        while place < len(starting) and starting[place][0] == edge:
            heappush(begun, starting[place][1:])
            place += 1
        while begun and begun[0][1] < edge:
            heappop(begun)
        due_ms = begun[0][2] if begun else 0
        if not due_ms:
            continue
        if found and found[-1][1:] == (edge - 1, due_ms):
            found[-1] = found[-1][0], following - 1, due_ms
        else:
            found.append((edge, following - 1, due_ms))
    return found
