"""The writing end of the journal: the open segment, what is buffered for it, and the sync.

Records are given their place when they are buffered, so a segment that is full is known at once;
the disk is touched in `write` only, which goes through as many segments as were filled.
"""

from __future__ import annotations

from collections.abc import Callable

from .files import Buffer, Files, write_all
from .segment_files import create_segment, segment_path

# A small commit that makes the file longer writes zeros behind itself, so that those after it
# change no metadata: their fdatasync then takes half the time (docs/JOURNAL.md has the figures).
# Large ones go without, for it would double what they write.
SMALL_COMMIT_BYTES_MAX = 128 * 1024
_ZEROS = memoryview(bytes(256 * 1024))


class JournalUnusableError(Exception):
    """The journal was closed, or failed before: nothing can be said of what is on the disk."""


class SegmentWriter:
    """Appends records to segments. `header_of` makes the header of the segment of that number."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segment_bytes_max: int,
        first_number: int,
        header_of: Callable[[int], bytes],
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_bytes_max = segment_bytes_max
        self._header_of = header_of
        # The segment that what is buffered next goes to, and where in it.
        self.number = first_number
        header = header_of(first_number)
        self.offset = self._first_record = len(header)
        # Buffered, and not yet written.
        self.records = 0
        self._buffers: list[Buffer] = []
        # What goes before that: the last buffers of a full segment, then the next segment's
        # number and header.
        self._full: list[tuple[list[Buffer], int, bytes]] = []
        # Are there bytes in the open segment that no sync has covered?
        self._unsynced = False
        # Why every further call is refused; empty while none is.
        self.unusable = ""
        # The open file: its number, how far it is written, how long it is.
        self._file_number = first_number
        self._end = self._file_bytes = len(header)
        self._handle = create_segment(files, directory, first_number, header)

    def check(self) -> None:
        """Raise if an earlier error, or `close`, was the last thing that happened."""
        if self.unusable:
            raise JournalUnusableError(self.unusable)

    def make_room(self, size: int) -> None:
        """Go on in a new segment if a record of this size would make the open one too large.

        A segment without records takes any, so what is larger than a segment has one of its own.
        """
        if self.unusable:
            raise JournalUnusableError(self.unusable)
        if self.offset + size > self._segment_bytes_max and self.offset > self._first_record:
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

    def write(self, sync: bool) -> int:
        """Write what is buffered, with one sync of the open segment if asked; returns the bytes.

        After any error every later call is refused: a sync that failed says nothing of what is on
        the disk, and the next one would only seem to succeed.
        """
        self.check()
        written = 0
        try:
            for buffers, number, header in self._full:
                written += self._write_behind(buffers)
                self._finish()
                self._handle = create_segment(self._files, self._directory, number, header)
                self._file_number = number
                self._end = self._file_bytes = len(header)
            self._full.clear()
            written += self._write_behind(self._buffers)
            self._unsynced = True
            if sync:
                self._files.sync_data(self._handle)
                self._unsynced = False
        except BaseException as error:
            self.unusable = f"an earlier write failed: {error!r}"
            raise
        self._buffers = []
        self.records = 0
        return written

    def _write_behind(self, buffers: list[Buffer]) -> int:
        """Write behind what is in the open file; returns the bytes of the buffers."""
        size = sum(map(len, buffers))
        end = self._end + size
        if self._file_bytes < end < self._segment_bytes_max and size <= SMALL_COMMIT_BYTES_MAX:
            buffers.append(_ZEROS[: self._segment_bytes_max - end])
        written = write_all(self._files, self._handle, self._end, buffers)
        self._file_bytes = max(self._file_bytes, self._end + written)
        self._end = end
        return size

    def _finish(self) -> None:
        """Cut off the zeros behind the open file, sync it and close it.

        This is before the next one is created: only the last segment can have a torn tail.
        """
        self._files.truncate(segment_path(self._directory, self._file_number), self._end)
        # Forgotten first: should the next one not come to be, `close` must not close it again.
        handle, self._handle = self._handle, -1
        self._files.close(handle)

    def close(self) -> None:
        """Write and sync what is left, and close. After an error: close only."""
        if self._handle < 0:
            return
        try:
            if not self.unusable and self.records:
                self.write(sync=False)
            if not self.unusable and (self._unsynced or self._file_bytes > self._end):
                self._files.truncate(segment_path(self._directory, self._file_number), self._end)
        finally:
            self.unusable = self.unusable or "closed"
            self._files.close(self._handle)
            self._handle = -1
