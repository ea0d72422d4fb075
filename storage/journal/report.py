"""The findings of a start in the journal that an operator should know, with their losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from .ledger import EntryIds, ranges_in

# Further lines of one event are counted and not written: a disk may be damaged in many places.
LINES_MAX: Final = 200
# So many ranges of entry ids are named in one line.
_RANGES_MAX: Final = 8


def entries_words(count: int) -> str:
    """So many entries, for people."""
    return "1 entry" if count == 1 else f"{count} entries"


def described(several: Iterable[EntryIds]) -> str:
    """Entry ids as ranges, for people; the first ones, if they are many."""
    ranges = [
        f"{first} to {last}" if last > first else f"{first}"
        for ids in several
        for first, last in ranges_in(ids)
    ]
    further = f" and {len(ranges) - _RANGES_MAX} ranges more" if len(ranges) > _RANGES_MAX else ""
    return "ids " + ", ".join(ranges[:_RANGES_MAX]) + further


class ReportLine(NamedTuple):
    """One finding."""

    # damaged, missing, lost, torn, truncated, dropped or ignored.
    event: str
    text: str
    # How many entries of queues it cost at most; None: none, or it cannot be known.
    entries: int | None = None


class Report:
    """Collects findings."""

    def __init__(self) -> None:
        self._lines: list[ReportLine] = []
        # How many lines there are of each event.
        self._counts: Counter[str] = Counter()
        # Per event with further findings: how many these are, and what they cost.
        self._further: dict[str, tuple[int, int]] = {}

    def note(self, event: str, text: str, entries: int | None = None) -> None:
        """Add a finding; beyond LINES_MAX of one event only its cost is kept."""
        if self._counts[event] < LINES_MAX:
            self._counts[event] += 1
            self._lines.append(ReportLine(event, text, entries))
        else:
            count, cost = self._further.get(event, (0, 0))
            self._further[event] = count + 1, cost + (entries or 0)

    def lines(self) -> list[ReportLine]:
        """All of them, in order, and a last one for each event of which there were too many."""
        further = [
            ReportLine(event, f"and so {count} times more", cost)
            for event, (count, cost) in self._further.items()
        ]
        return self._lines + further
