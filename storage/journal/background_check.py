"""Reads closed segments while the broker runs, for two reasons.

- A start that read a segment's index has not read the segment: this verifies every record of it,
  and reports damage in the words of a start. The file of a damaged segment is kept when it goes.
- A closed segment without an index gets one, so that the next start need not read it.

`look` finds the segments, `step` reads a piece of one. How much is read at what time is up to the
caller (actors/disk/maintenance.py). A segment may go, or be replaced, while it is read: then
whatever was found in it does not count.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from ..errors import NoSpaceError
from ..files import Files
from .clean_reading import CleanReading
from .records import CompactedRecord
from .replay import Replay
from .report import Report, ReportLine
from .segment_facts import SegmentFacts, read_facts
from .segment_files import segment_numbers, segment_path
from .segment_header import Stretch
from .segment_index import may_be_indexed, write_index
from .segment_reader import SegmentReader
from .segment_recovery import SegmentRecovery


class BackgroundCheck:
    """The closed segments of one directory. For one thread."""

    def __init__(
        self,
        files: Files,
        directory: str,
        directory_id: bytes,
        names: Mapping[int, str],
        unverified: Iterable[int],
        torn: Sequence[Stretch],
        damaged: set[int],
    ) -> None:
        """`names` are the files of segments that were there at the start; of the `unverified` ones
        the start has read the index.

        Damaged segments are added to `damaged`.
        """
        self._files = files
        self._directory = directory
        self._directory_id = directory_id
        self._names = names
        self._unverified = set(unverified)
        self._torn = torn
        self._damaged = damaged
        # Those found since the last `pop_damaged`.
        self._found: list[int] = []
        # The files of segments that are done with: they have an index that holds, or get none, or
        # none for now. A file that was there at the start becomes known at the first look.
        self._done: dict[int, tuple[int, int] | None] = dict.fromkeys(self._unverified)
        self._waiting: deque[int] = deque()
        self._number = 0
        self._reading: CleanReading | None = None
        self._identity = (0, 0)
        self._bytes_before = 0
        # Of the segments that the last look has found and that are still to be read.
        self.left_bytes = 0

    @property
    def unverified(self) -> int:
        """How many segments wait to be verified."""
        return len(self._unverified)

    def look(self) -> bool:
        """Find the segments that are to be read; false if there are none.

        New ones come before others, which are only verified. The newest is still written to.
        """
        numbers = segment_numbers(self._files, self._directory)[:-1]
        new = [number for number in numbers if not self._is_done(number)]
        self._unverified.intersection_update((*numbers, *self._names))
        self._waiting = deque((*new, *sorted(self._unverified)))
        self.left_bytes = sum(map(self._size, self._waiting))
        return bool(self._waiting) or self._reading is not None

    def _is_done(self, number: int) -> bool:
        """Is this the file that was looked at? A rewritten segment is another."""
        if number not in self._done:
            return False
        try:
            identity = self._files.identity(self._path(number))
        except OSError:
            return True
        known = self._done[number] = self._done[number] or identity
        return known == identity

    def _size(self, number: int) -> int:
        try:
            return self._files.size(self._path(number))
        except OSError:
            # It has gone, or cannot be read: `step` says so.
            return 0

    def pop_damaged(self) -> list[int]:
        """The segments that were found damaged since the last call."""
        found, self._found = self._found, []
        return found

    def step(self) -> tuple[int, list[ReportLine]]:
        """Read a piece of a segment: so many bytes, and the findings in it.

        No bytes: nothing is left to be read.
        """
        if self._reading is None and not self._begin():
            self.left_bytes = 0
            return 0, []
        reading = self._reading
        assert reading is not None
        try:
            more = reading.step()
            lines = [] if more else self._end(reading.facts)
        except OSError as error:
            lines = self._give_up(error)
        read = reading.bytes_read - self._bytes_before
        self._bytes_before = reading.bytes_read
        self.left_bytes = max(0, self.left_bytes - read)
        return max(1, read), lines

    def _path(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            return segment_path(self._directory, number)
        return os.path.join(self._directory, name)

    def _begin(self) -> bool:
        while self._waiting:
            number = self._number = self._waiting.popleft()
            path = self._path(number)
            self._bytes_before = 0
            try:
                self._identity = self._files.identity(path)
                size = self._files.size(path)
                read = partial(self._files.read, path)
                self._reading = CleanReading(read, number, size, path)
            except FileNotFoundError:
                self._unverified.discard(number)
            except OSError:
                self._done[number] = None
                self._unverified.discard(number)
            else:
                return True
        return False

    def _is_same(self) -> bool:
        """Is the segment still the file that was begun?"""
        try:
            return self._files.identity(self._path(self._number)) == self._identity
        except OSError:
            return False

    def _end(self, facts: SegmentFacts | None) -> list[ReportLine]:
        self._reading = None
        number = self._number
        if not self._is_same():
            # It went, or another is in its place, which the next look finds.
            self._unverified.discard(number)
            return []
        was_unverified = number in self._unverified or number not in self._names
        self._unverified.discard(number)
        if facts is None:
            self._done[number] = self._identity
            return self._read_whole() if was_unverified else []
        if self._done.get(number) != self._identity:
            self._write_index(facts)
        return []

    def _write_index(self, facts: SegmentFacts) -> None:
        self._done[facts.number] = self._identity
        if may_be_indexed(facts):
            # On a full disk there is none, and the next start reads the segment.
            with suppress(OSError, NoSpaceError):
                write_index(self._files, self._directory, facts)

    def _read_whole(self) -> list[ReportLine]:
        """Report the holes of a segment in which something does not verify."""
        number, path = self._number, self._path(self._number)
        data = self._files.read(path, 0, self._files.size(path))
        facts = read_facts(SegmentReader(data, number, self._directory_id, path))
        accepted = {stretch for stretch in self._torn if stretch.segment == number}
        report = Report()
        nobody = Replay(frozenset())
        segment = SegmentRecovery(
            facts, nobody, report, None, accepted, None, None, self._anchors(facts)
        )
        segment.read()
        if not self._is_same():
            return []
        if segment.is_damaged or segment.may_hide_records:
            self._note_damaged(number)
        return report.lines()

    def _note_damaged(self, number: int) -> None:
        self._damaged.add(number)
        self._found.append(number)

    def _anchors(self, facts: SegmentFacts) -> list[CompactedRecord]:
        """The form in which a rewritten segment is here: which one counts is for a start to say."""
        header = facts.header
        if header is None or not header.rewritten:
            return []
        number, end, checksum = facts.number, facts.end, facts.checksum
        return [CompactedRecord(number, header.rewritten, end, checksum, facts.entries_read)]

    def _give_up(self, error: OSError) -> list[ReportLine]:
        self._reading = None
        number = self._number
        was_unverified = number in self._unverified
        self._unverified.discard(number)
        if not self._is_same():
            return []
        self._done[number] = self._identity
        if not was_unverified:
            return []
        self._note_damaged(number)
        return [ReportLine("damaged", f"segment {number} cannot be read: {error.strerror}")]
