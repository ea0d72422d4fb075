"""Places records in segments and buffers them, until a commit hands them to the log.

A record gets its place and its head when it is buffered, on the journal's thread, so a full segment
is known at once, without the log. `SegmentWriter.begin` hands out the buffered records as a
`Writing`; one is written after the other, and maybe on another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..files import Buffer
from .log import JournalUnusableError, Log, Position, SegmentBegin
from .records import Seal, encode_commit
from .segment_header import SegmentEnd, SegmentHeader, encode_header
from .synced_file import Synced


class Mark(NamedTuple):
    """Where the writer was when it had buffered so much: what it needs to go on from there."""

    number: int
    offset: int
    first_record: int
    # Of the last record before it.
    seal: Seal
    checksum: int
    # Of its segment's begin.
    begin: Synced
    # Both as in a commit record.
    entries: int
    catalog_change: int

    @property
    def position(self) -> Position:
        """Its place in the log."""
        return Position(self.number, self.offset)


class NextSegment(NamedTuple):
    """A segment to be begun, and where its records begin."""

    begin: SegmentBegin
    # Behind the header.
    mark: Mark


class Writing(NamedTuple):
    """The bytes to write: through as many segments as were filled."""

    # Where it begins.
    before: Mark
    # The last buffers of each full segment, then the next segment.
    full: list[tuple[list[Buffer], NextSegment]]
    # The bytes behind that.
    buffers: list[Buffer]
    # Without the one that ends the commit.
    records: int

    def size_bytes(self) -> int:
        """All records to write, without the headers of new segments."""
        behind = sum(map(len, self.buffers))
        if not self.full:
            return behind
        return behind + sum(sum(map(len, buffers)) for buffers, _ in self.full)

    def write(self, log: Log) -> int:
        """Write all of it to the log; returns the bytes. A sync may have to follow.

        NoSpaceError if there is no room: then the log ends where this begins in `log.number`.
        """
        written = 0
        mark = self.before
        for buffers, segment in self.full:
            written += log.append(mark.position, buffers)
            log.begin_segment(segment.begin)
            mark = segment.mark
        return written + log.append(mark.position, self.buffers)

    def mark_in(self, number: int) -> Mark:
        """Where it begins in this segment, to which it has been cut back."""
        marks = [segment.mark for _, segment in self.full]
        [mark] = [each for each in (self.before, *marks) if each.number == number]
        return mark


class SegmentWriter:
    """Buffers records for segments. `header_of` makes the header of the segment of that number.

    `header_of` is given the number and the end of the segment before.
    """

    def __init__(
        self,
        log: Log,
        segment_bytes_max: int,
        first_number: int,
        before: SegmentEnd,
        header_of: Callable[[int, SegmentEnd], SegmentHeader],
    ) -> None:
        """Begin the first segment, behind the end of the one before."""
        self.log = log
        self._segment_bytes_max = segment_bytes_max
        self._header_of = header_of
        # Buffered, and not yet handed out.
        self.records = 0
        self._buffers: list[Buffer] = []
        self._full: list[tuple[list[Buffer], NextSegment]] = []
        first = self._open(first_number, before)
        # Where the buffered records begin.
        self._begun = first.mark
        log.begin_segment(first.begin)

    def _open(self, number: int, before: SegmentEnd) -> NextSegment:
        """The next buffered record goes to this segment."""
        header = self._header_of(number, before)
        # The segment of the next buffered record, and its place in it.
        self.number = number
        # Its records are sealed in the order in which they are taken.
        encoded, self.seal = encode_header(header)
        self.offset = self._first_record = len(encoded)
        self._begin = Synced(
            header.directory_id,
            number,
            self.offset,
            header.entries,
            header.entries,
            header.catalog_change,
        )
        mark = self._mark(header.entries, header.catalog_change)
        return NextSegment(SegmentBegin(encoded, self._begin), mark)

    def _mark(self, entries: int, catalog_change: int) -> Mark:
        seal = self.seal
        return Mark(
            self.number,
            self.offset,
            self._first_record,
            seal,
            seal.checksum,
            self._begin,
            entries,
            catalog_change,
        )

    def roll_back(self, mark: Mark) -> None:
        """Discard the buffered records; later records follow those written up to the mark."""
        self.number, self.offset, self._first_record = mark[:3]
        self.seal, self.seal.checksum = mark.seal, mark.checksum
        self._begin = mark.begin
        self._begun = mark
        self._full, self._buffers, self.records = [], [], 0

    def check(self) -> None:
        """Raise if an earlier error, or `close`, was the last thing that happened."""
        if self.log.unusable:
            raise JournalUnusableError(self.log.unusable)

    def make_room(self, size: int) -> None:
        """Go on in a new segment if a record of this size would make the open one too large.

        A segment without records accepts any record, so one larger than a segment has a segment of
        its own.
        """
        self.check()
        if self.offset + size > self._segment_bytes_max:
            self.roll()

    def roll(self) -> None:
        """Go on in a new segment, unless the open one has no records yet."""
        if self.offset > self._first_record:
            entries = self._begin.entries
            end = SegmentEnd(self.number, self.offset, self.seal.checksum, entries)
            buffers, self._buffers = self._buffers, []
            self._full.append((buffers, self._open(self.number + 1, end)))

    def add(self, record: bytes) -> None:
        """Buffer a record, sealed with `seal`; it is within the room that was made."""
        self._buffers.append(record)
        self.offset += len(record)
        self.records += 1

    def add_payload(self, payload: Buffer) -> None:
        """Buffer the rest of the record before, as it lies."""
        self._buffers.append(payload)
        self.offset += len(payload)

    def begin(self, entries: int, catalog_change: int) -> Writing:
        """Hand out the buffered records, with the state of the journal by then; later records go
        with the next.

        Its last record says up to where all was synced before.
        """
        synced = self.log.synced
        record = encode_commit(self.seal, synced.segment, synced.offset, entries, catalog_change)
        self._buffers.append(record)
        self.offset += len(record)
        writing = Writing(self._begun, self._full, self._buffers, self.records)
        self._full, self._buffers, self.records = [], [], 0
        self._begun = self._mark(entries, catalog_change)
        return writing

    def close(self, entries: int, catalog_change: int) -> None:
        """Say where the last segment ends, and close. After an error: close only."""
        end = self._begin._replace(end=self.offset, entries=entries, catalog_change=catalog_change)
        self.log.close(end)
