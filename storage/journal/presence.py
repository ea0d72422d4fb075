"""Which segments count at a start: those that the newest header lists and that nothing has removed.

Any other file in the directory is a leftover of a removal that a crash undid, a segment whose
creation a crash cut short, or a file that is in the way. A segment that is listed and not there is
missing.
"""

from __future__ import annotations

from typing import Final

from ..belonging import CatalogClaims
from .report import Report
from .segment_header import SegmentHeader, Stretch, numbers_in
from .segment_recovery import Successor, Tail
from .survey import SegmentFile, Survey
from .synced_file import Synced

# The size of a header, or more: what a crash may leave of a creation, before there was `synced`.
TORN_HEADER_BYTES_MAX: Final = 64 * 1024


class Presence:
    """The directory's files by their kind. `numbers` are the segments that may count."""

    def __init__(
        self, survey: Survey, synced: Synced | None, catalog: CatalogClaims, report: Report
    ) -> None:
        self._survey = survey
        self._synced = synced
        self._report = report
        self._has_journal = catalog.has_journal
        self.numbers = sorted(survey.segments)
        # Names of files: to be removed, and to be set aside.
        self.leftovers: list[str] = []
        self.in_the_way = list(survey.in_the_way)
        for file in survey.foreign:
            report.note("dropped", f"{file.name} is of another data directory: it does not count")
            self.in_the_way.append(file.name)
        while self.numbers and self._was_being_created(survey.segments[self.numbers[-1]]):
            file = survey.segments[self.numbers.pop()]
            # A file with bytes in it is never removed for what it is taken for.
            (self.in_the_way if file.size else self.leftovers).append(file.name)
        # Was there never a segment of this version?
        self.is_first = not (catalog.has_journal or self._has_sealed())
        if not (self.is_first or self.numbers or (synced and synced.segment)):
            report.note(
                "missing",
                "there is no segment, and nothing tells which there were: all that was in the "
                "journal is gone",
            )
        elif synced is None and not self.is_first:
            report.note(
                "damaged",
                "the file `synced` is missing, or nothing in it verifies: nobody can tell whether "
                "the newest segment is missing",
            )
        # The newest of those with a header.
        headed = [each for each in self.numbers if survey.segments[each].header is not None]
        self.newest_headed = headed[-1] if headed else 0
        self.successors: dict[int, Successor] = {}
        # Per segment what crashes tore, as starts since have accepted it.
        self.torn: dict[int, set[Stretch]] = {}
        for header in self.headers():
            if header.before.segment:
                self.successors[header.before.segment] = Successor(header.before, header.entries)
            for stretch in header.torn:
                self.torn.setdefault(stretch.segment, set()).add(stretch)

    @property
    def is_newest_missing(self) -> bool:
        """Was there a later segment than the present ones?"""
        synced = self._synced
        return synced is not None and max(self.numbers, default=0) < synced.segment

    def headers(self) -> list[SegmentHeader]:
        """Of all segments that may count and have one."""
        segments = self._survey.segments
        found = (segments[number].header for number in self.numbers)
        return [header for header in found if header is not None]

    def choose(self, tail: Tail) -> list[int]:
        """The segments to read, ascending; `tail` names the removed segments."""
        header = None
        if self.newest_headed:
            header = self._survey.segments[self.newest_headed].header
        if header is None:
            return self.numbers
        listed = set(numbers_in(header.present)) - tail.removed
        there = set(self.numbers)
        kept_entries = {each.segment: each.entries for each in tail.compacted}
        for number in sorted(listed - there - tail.removed_in_doubt):
            self._note_missing(number, kept_entries.get(number))
        kept = [each for each in self.numbers if each > self.newest_headed or each in listed]
        for number in sorted(there.difference(kept)):
            file = self._survey.segments[number]
            if file.is_readable:
                self.leftovers.append(file.name)
            else:
                self.in_the_way.append(file.name)
        return kept

    def note_unreadable_slot(self) -> None:
        """Report it, unless the segment is there that the slot must have named.

        A power cut while the slot is written leaves the segment, which was synced before.
        """
        synced = self._synced
        if synced is not None and max(self.numbers, default=0) <= synced.segment:
            self._report.note(
                "torn",
                "half of the file `synced` does not verify: nobody can tell whether a segment "
                f"above {synced.segment} is missing",
            )

    def note_newest_missing(self, entries_before: int | None) -> None:
        """Report it, and every segment between it and the newest that is here.

        `entries_before`: how many entries had been appended by the end of the newest that is here,
        None if that is not known. So the number between is known; how much was in the newest is
        known only if the broker was stopped.
        """
        synced = self._synced
        assert synced is not None
        self._note_missing_between(synced, entries_before)
        entries = synced.entries - synced.entries_at_begin
        self._report.note(
            "missing",
            f"segment {synced.segment}, the newest, is missing, with all that was written "
            "since it was created",
            entries or None,
        )

    def _note_missing_between(self, synced: Synced, entries_before: int | None) -> None:
        first, last = max(self.numbers, default=0) + 1, synced.segment - 1
        if first > last:
            return
        which = f"segment {first} is" if first == last else f"segments {first} to {last} are"
        entries = None if entries_before is None else synced.entries_at_begin - entries_before
        cost = "" if entries else "; how many entries that were is not known"
        self._report.note(
            "missing",
            f"{which} missing, too, with all that was written there, unless nothing needed it any "
            f"more{cost}",
            entries or None,
        )

    def _was_being_created(self, file: SegmentFile) -> bool:
        if file.is_readable:
            return False
        if self._synced is not None and self._synced.segment:
            # It is named before any record follows the header.
            return file.number > self._synced.segment
        return not self._has_journal and file.size <= TORN_HEADER_BYTES_MAX

    def _has_sealed(self) -> bool:
        return any(header.directory_id for header in self.headers())

    def _note_missing(self, number: int, entries: int | None) -> None:
        """`entries`: so many were in it, if it was rewritten."""
        successor = self.successors.get(number)
        if entries is None and successor is not None:
            entries = successor.entries - successor.end.entries
        doubt = ", or was removed after the last that is here" if self.is_newest_missing else ""
        self._report.note(
            "missing", f"segment {number} is missing, with all that was in it{doubt}", entries
        )
