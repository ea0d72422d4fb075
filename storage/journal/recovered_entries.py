"""The live entries of one queue as a start finds them: runs in packed columns, without bodies.

A run is entries without gaps between their ids that were delivered as often, expire together and
are due together. Neighbours that are alike are one run, so a million messages in order cost one.
Attempts, deadlines and due times have no column while all of a queue are 0. A run costs 16 bytes,
and 8 for each of these columns that is there.

`Recovered.messages` (`recovery.py`) reads the bodies for a queue that must look at them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

from .ledger import EntryIds, ranges_in


class RecoveredRun(NamedTuple):
    """Entries with ids without gaps, from `first_entry_id` on, that are alike."""

    first_entry_id: int
    entries: int
    # Deliveries that the journal knows of.
    attempts: int = 0
    # When they expire, in milliseconds since the epoch; 0: never.
    deadline_ms: int = 0
    # Until when they are deferred, in milliseconds since the epoch; 0: not at all.
    due_ms: int = 0


class RecoveredEntries:
    """The runs of one queue; iterated over they ascend by entry id, and they do not overlap."""

    __slots__ = ("_attempts", "_counts", "_deadlines", "_due_times", "_firsts", "entries")

    def __init__(self) -> None:
        # How many entries all runs have together.
        self.entries = 0
        self._firsts = array("Q")
        self._counts = array("Q")
        # None: all are 0.
        self._attempts: array[int] | None = None
        self._deadlines: array[int] | None = None
        self._due_times: array[int] | None = None

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self._firsts)

    def append(
        self,
        first_entry_id: int,
        count: int,
        attempts: int = 0,
        deadline_ms: int = 0,
        due_ms: int = 0,
    ) -> None:
        """Add entries above all others; joined with the last run if they continue it and are like
        it. ValueError if they do not ascend."""
        firsts, counts = self._firsts, self._counts
        if firsts:
            end = firsts[-1] + counts[-1]
            if first_entry_id < end:
                msg = f"entry id {first_entry_id} does not ascend"
                raise ValueError(msg)
            if (
                first_entry_id == end
                and attempts == (self._attempts[-1] if self._attempts is not None else 0)
                and deadline_ms == (self._deadlines[-1] if self._deadlines is not None else 0)
                and due_ms == (self._due_times[-1] if self._due_times is not None else 0)
            ):
                counts[-1] += count
                self.entries += count
                return
        self._attempts = self._with(self._attempts, attempts)
        self._deadlines = self._with(self._deadlines, deadline_ms)
        self._due_times = self._with(self._due_times, due_ms)
        firsts.append(first_entry_id)
        counts.append(count)
        self.entries += count

    def append_ids(
        self, ids: EntryIds, attempts: int = 0, deadline_ms: int = 0, due_ms: int = 0
    ) -> None:
        """Add entries with these ids, which may have gaps, as `append` does."""
        for first, last in ranges_in(ids):
            self.append(first, last - first + 1, attempts, deadline_ms, due_ms)

    def __iter__(self) -> Iterator[RecoveredRun]:
        return map(
            RecoveredRun._make,
            zip(
                self._firsts,
                self._counts,
                repeat(0) if self._attempts is None else self._attempts,
                repeat(0) if self._deadlines is None else self._deadlines,
                repeat(0) if self._due_times is None else self._due_times,
                strict=False,
            ),
        )

    def _with(self, column: array[int] | None, value: int) -> array[int] | None:
        """The column with the value of one more run; it is made when the first is not 0."""
        if column is None:
            if not value:
                return None
            column = array("Q", [0]) * len(self._firsts)
        column.append(value)
        return column
