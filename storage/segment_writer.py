"""The layout of the journal's end: which record goes to which segment, and where in it.

Records are given their place when they are buffered, so a segment that is full is known at once.
The disk is not touched here: `begin` hands out what has gathered, for `OpenSegment` to write.
"""

from __future__ import annotations

from collections.abc import Callable

from .files import Buffer, Files
from .open_segment import OpenSegment, Writing


class JournalUnusableError(Exception):
    """The journal was closed, or failed before: nothing can be said of what is on the disk."""


class SegmentWriter:
    """Buffers records for segments. `header_of` makes the header of the segment of that number."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segment_bytes_max: int,
        first_number: int,
        header_of: Callable[[int], bytes],
    ) -> None:
        self._segment_bytes_max = segment_bytes_max
        self._header_of = header_of
        # The segment that what is buffered next goes to, and where in it.
        self.number = first_number
        header = header_of(first_number)
        self.offset = self._first_record = len(header)
        # Buffered, and not yet handed out.
        self.records = 0
        self._buffers: list[Buffer] = []
        self._full: list[tuple[list[Buffer], int, bytes]] = []
        self.segment = OpenSegment(files, directory, segment_bytes_max, first_number, header)

    def check(self) -> None:
        """Raise if an earlier error, or `close`, was the last thing that happened."""
        if self.segment.unusable:
            raise JournalUnusableError(self.segment.unusable)

    def make_room(self, size: int) -> None:
        """Go on in a new segment if a record of this size would make the open one too large.

        A segment without records takes any, so what is larger than a segment has one of its own.
        """
        self.check()
        if self.offset + size > self._segment_bytes_max:
            self.roll()

    def roll(self) -> None:
        """Go on in a new segment, unless the open one has no records yet."""
        if self.offset > self._first_record:
            self.number += 1
            header = self._header_of(self.number)
            self._full.append((self._buffers, self.number, header))
            self._buffers = []
            self.offset = self._first_record = len(header)

    def take(self, record: bytes) -> None:
        """Buffer a record; it is within the room that was made."""
        self._buffers.append(record)
        self.offset += len(record)
        self.records += 1

    def take_payload(self, payload: Buffer) -> None:
        """Buffer the rest of the record before, as it lies."""
        self._buffers.append(payload)
        self.offset += len(payload)

    def begin(self) -> Writing:
        """Hand out what is buffered; what is taken from here on goes with the next."""
        writing = Writing(self._full, self._buffers, self.records)
        self._full, self._buffers, self.records = [], [], 0
        return writing

    def close(self) -> None:
        """Write and sync what is left, and close. After an error: close only."""
        self.segment.close(self.begin())
