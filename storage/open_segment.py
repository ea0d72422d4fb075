"""The open segment's file: what is buffered is written behind its end, and synced.

`SegmentWriter` gives records their place and buffers them, on the journal's thread; a `Writing` is
what it has buffered by then, which may go to the disk on another thread, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

from .files import Buffer, Files, write_all
from .segment_files import create_segment, segment_path

# A small commit that makes the file longer writes zeros behind itself, so that those after it
# change no metadata: their fdatasync then takes half the time (docs/JOURNAL.md has the figures).
# Large ones go without, for it would double what they write.
SMALL_COMMIT_BYTES_MAX = 128 * 1024
_ZEROS = memoryview(bytes(256 * 1024))


class Writing(NamedTuple):
    """What is to be written: through as many segments as were filled."""

    # The last buffers of each full segment, then the next segment's number and header.
    full: list[tuple[list[Buffer], int, bytes]]
    # What goes behind that.
    buffers: list[Buffer]
    records: int

    def size_bytes(self) -> int:
        """All that is to be written, but for the headers of new segments."""
        behind = sum(map(len, self.buffers))
        return behind + sum(sum(map(len, buffers)) for buffers, _, _ in self.full)


class OpenSegment:
    """The file that is written to. For one thread at a time."""

    def __init__(
        self, files: Files, directory: str, segment_bytes_max: int, number: int, header: bytes
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_bytes_max = segment_bytes_max
        # Are there bytes in the file that no sync has covered?
        self._unsynced = False
        # Why every further call is refused; empty while none is.
        self.unusable = ""
        # The open file: its number, how far it is written, how long it is.
        self._number = number
        self._end = self._file_bytes = len(header)
        self._handle = create_segment(files, directory, number, header)

    def write(self, writing: Writing, sync: bool) -> int:
        """Write all of it, with one sync of the last segment if asked; returns the bytes.

        After any error every later call is refused: a sync that failed says nothing of what is on
        the disk, and the next one would only seem to succeed.
        """
        written = 0
        try:
            for buffers, number, header in writing.full:
                written += self._write_behind(buffers)
                self._finish()
                self._handle = create_segment(self._files, self._directory, number, header)
                self._number = number
                self._end = self._file_bytes = len(header)
            written += self._write_behind(writing.buffers)
            self._unsynced = True
            if sync:
                self._files.sync_data(self._handle)
                self._unsynced = False
        except BaseException as error:
            self.unusable = f"an earlier write failed: {error!r}"
            raise
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
        self._files.truncate(segment_path(self._directory, self._number), self._end)
        # Forgotten first: should the next one not come to be, `close` must not close it again.
        handle, self._handle = self._handle, -1
        self._files.close(handle)

    def close(self, writing: Writing) -> None:
        """Write and sync what is left, and close. After an error: close only."""
        if self._handle < 0:
            return
        try:
            if not self.unusable and writing.records:
                self.write(writing, sync=False)
            if not self.unusable and (self._unsynced or self._file_bytes > self._end):
                self._files.truncate(segment_path(self._directory, self._number), self._end)
        finally:
            self.unusable = self.unusable or "closed"
            self._files.close(self._handle)
            self._handle = -1
