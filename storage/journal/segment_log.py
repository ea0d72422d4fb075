"""The log on the local disk: a file for each segment, and the file `synced` beside them.

A small append that makes the file longer writes zeros behind itself, so that those after it change
no metadata. What meets a full disk is cut back: the file then ends where the append began, and that
is on the disk. docs/JOURNAL.md draws the files and has the figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import NoSpaceError
from ..files import Buffer, Files, create_file, write_all
from .discarding import Discarding
from .log import JournalUnusableError, LogPositionError, Position, SegmentBegin, Undropped
from .segment_files import REWRITTEN, create_segment, segment_path
from .synced_file import Synced, SyncedFile

# A small commit that makes the file longer writes zeros behind itself, so that those after it
# change no metadata: their fdatasync then takes half the time (docs/JOURNAL.md has the figures).
# Large ones go without, for it would double what they write.
SMALL_COMMIT_BYTES_MAX = 128 * 1024
_ZEROS = memoryview(bytes(256 * 1024))


class ReplacementFile:
    """A `Replacement` in a file that no start reads."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._end = 0
        try:
            self._handle = create_file(files, path)
        except FileExistsError:
            # Its removal has failed, the last time.
            files.remove(path)
            self._handle = create_file(files, path)

    def append(self, buffers: list[Buffer]) -> None:
        """Write behind the end of the file."""
        self._end += write_all(self._files, self._handle, self._end, buffers)

    def finish(self) -> None:
        """Sync and close."""
        self._files.sync_data(self._handle)
        self._close()

    def discard(self) -> None:
        """Remove the file."""
        self._close()
        self._files.remove(self._path)

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            self._files.close(handle)


class SegmentLog:
    """A `Log` of files in one directory, which goes on behind those already there."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segment_bytes_max: int,
        known_before: Synced | None,
        discarding: Discarding,
    ) -> None:
        """No file is written before the first segment is begun.

        `known_before` is the value of `synced` until then; None if there is none.
        """
        self._files = files
        self._directory = directory
        self._segment_bytes_max = segment_bytes_max
        self._known_before = known_before
        self._discarding = discarding
        # Are there bytes in the file that no sync has covered?
        self._unsynced = False
        self.unusable = ""
        # The open file: its number, how far it is written, how long it is.
        self._number = 0
        self._end = self._file_bytes = 0
        self.synced = Position(0, 0)
        self._handle = -1
        self._synced_file: SyncedFile | None = None
        # To be created before anything is appended; the one before it is done with.
        self._next: SegmentBegin | None = None
        self.writes_ahead = True

    @property
    def number(self) -> int:
        """The segment that the next append goes to."""
        return self._number if self._next is None else self._next.synced.segment

    def begin_segment(self, begin: SegmentBegin) -> None:
        """Close the open segment, synced to its end, and go on in this one."""
        if self._synced_file is None:
            self._begin_first(begin)
            return
        with self._final_errors():
            self._finish()
            self._create(begin)

    def _begin_first(self, begin: SegmentBegin) -> None:
        try:
            if self._known_before is not None:
                # The file is there before the segment: should a crash come between the two, it is
                # not missed.
                self._synced_file = SyncedFile(self._files, self._directory, self._known_before)
            self._create(begin)
        except BaseException:
            self.abandon("it could not be begun")
            raise

    def _create(self, begin: SegmentBegin) -> None:
        self._next = begin
        number = begin.synced.segment
        self._handle = create_segment(self._files, self._directory, number, begin.header)
        self._number = number
        self._end = self._file_bytes = len(begin.header)
        self.synced = Position(number, self._end)
        try:
            # Before any record follows the header: a newest segment that is not named here holds
            # nothing.
            self._name(begin.synced)
        except NoSpaceError:
            handle, self._handle = self._handle, -1
            self._files.close(handle)
            self._files.remove(segment_path(self._directory, number))
            raise
        self._next = None

    def _name(self, synced: Synced) -> None:
        if self._synced_file is None:
            self._synced_file = SyncedFile(self._files, self._directory, synced)
        else:
            self._synced_file.write(synced)

    def append(self, at: Position, buffers: list[Buffer]) -> int:
        """Write behind the end of the open file, which is to be there; returns the bytes."""
        self._check()
        # Not with `_final_errors`, here and in `sync`: each commit would pay for two generators.
        try:
            if self._next is not None:
                self._create(self._next)
            if at != (self._number, self._end):
                msg = f"{at} is expected to be the end, which is {self._number}, {self._end}"
                raise LogPositionError(msg)
            try:
                size = self._write_behind(buffers)
            except NoSpaceError:
                self._cut_back()
                raise
            self._unsynced = True
        except BaseException as error:
            self._refuse_after(error)
            raise
        return size

    def sync(self) -> None:
        """Sync the open file; those before it are."""
        self._check()
        try:
            self._files.sync_data(self._handle)
        except BaseException as error:
            self._refuse_after(error)
            raise
        self._unsynced = False
        self.synced = Position(self._number, self._end)

    @contextmanager
    def _final_errors(self) -> Iterator[None]:
        """After any error but a full disk every later call is refused."""
        self._check()
        try:
            yield
        except BaseException as error:
            self._refuse_after(error)
            raise

    def _check(self) -> None:
        if self.unusable:
            raise JournalUnusableError(self.unusable)

    def _refuse_after(self, error: BaseException) -> None:
        """Refuse every later call, unless the disk is full.

        The state of the disk is unknown after a failed sync, and the next one would only seem to
        succeed.
        """
        if not isinstance(error, NoSpaceError):
            self.unusable = f"an earlier write failed: {error!r}"

    def read(self, at: Position, length: int) -> bytes:
        """Read from the segment's file, whatever it is called."""
        return self._files.read(self._path(at.segment), at.offset, length)

    def size_bytes(self, segment: int) -> int:
        """The size of its file."""
        return self._files.size(self._path(segment))

    def _path(self, segment: int) -> str:
        return os.path.join(self._directory, self._discarding.name_of(segment))

    def rewrite(self, segment: int) -> ReplacementFile:
        """Begin a file beside the segment's."""
        return ReplacementFile(self._files, self._path(segment) + REWRITTEN)

    def replace(self, segment: int) -> None:
        """Rename it, synced; the index goes with what it was of."""
        with self._final_errors():
            path = self._path(segment)
            # Before the rename: behind it, the check may have written one of the replacement.
            self._discarding.discard_index(segment)
            self._files.rename(path + REWRITTEN, path)
            self._files.sync_directory(self._directory)

    def drop(self, segments: Iterable[int]) -> list[Undropped]:
        """Remove the files of these segments, or set damaged ones aside."""
        return self._discarding.discard(segments)

    def drop_leftovers(self) -> list[Undropped]:
        """Remove the files that do not count, and set those aside that are in the way."""
        return self._discarding.clear()

    def _write_behind(self, buffers: list[Buffer]) -> int:
        """Write behind the end of the open file; returns the bytes of the buffers."""
        size = sum(map(len, buffers))
        end = self._end + size
        is_small = self._file_bytes < end < self._segment_bytes_max and (
            size <= SMALL_COMMIT_BYTES_MAX
        )
        if is_small and self.writes_ahead:
            zeros = _ZEROS[: self._segment_bytes_max - end]
            try:
                written = write_all(self._files, self._handle, self._end, [*buffers, zeros])
            except NoSpaceError:
                # There may be room for the rest. Some zeros may be there.
                written = write_all(self._files, self._handle, self._end, buffers) + len(zeros)
        else:
            written = write_all(self._files, self._handle, self._end, buffers)
        self._file_bytes = max(self._file_bytes, self._end + written)
        self._end = end
        return size

    def _cut_back(self) -> None:
        """Cut the file back to its end before the write; and that on the disk.

        A start cannot read bytes that are cut off: neither the part that the write has left,
        nor, behind the next write, the rest of it.
        """
        self._files.truncate(segment_path(self._directory, self._number), self._end)
        self._file_bytes = self._end
        self._unsynced = False
        self.synced = Position(self._number, self._end)

    def _finish(self) -> None:
        """Cut off the zeros behind the open file, sync it and close it.

        This is before the next one is created: only the last segment can have a torn tail.
        """
        self._files.truncate(segment_path(self._directory, self._number), self._end)
        # Forgotten first: should the next one not come to be, `close` must not close it again.
        handle, self._handle = self._handle, -1
        self._files.close(handle)

    def close(self, end: Synced) -> None:
        """Sync the rest, record its end in `synced`, and close.

        After an error: close only.
        """
        try:
            if self._handle >= 0 and not self.unusable:
                if self._unsynced or self._file_bytes > self._end:
                    path = segment_path(self._directory, self._number)
                    self._files.truncate(path, self._end)
                # After the sync: whatever does not verify from now on is damage.
                self._name(end)
        finally:
            self.abandon("closed")

    def abandon(self, why: str) -> None:
        """Close the files as they are."""
        self.unusable = self.unusable or why
        handle, self._handle = self._handle, -1
        if handle >= 0:
            self._files.close(handle)
        if self._synced_file is not None:
            self._synced_file.close()
