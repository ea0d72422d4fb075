"""Ranges of a stream on the driver's disk: messages may be acked once they are written here.

A directory belongs to one query, which holds its lock:

    lock                                     flock, while a query runs
    spool.json                               which spool it is (spool_mark.py)
    <start>-<end>-<CRC-32>.arrow             the messages of a range, whole and synced
    <any of these>.partial                   being written; removed when the spool is opened

A range gets its name when its bytes are on the disk, and counts when the name is. It goes when
Spark's start has passed its end and there is a newer one. The newest stays: Spark does not sync its
checkpoint, and one that a power failure has set back must not go on with other messages under the
same batch ids. Set back by one batch it has that batch again; by more, it is refused.

Guarantees, tested on a disk that loses unsynced bytes (tests/spark/test_spool.py):
- a range that `write` returned from is there after any crash, with the same bytes, until passed;
- a checkpoint goes on at an edge of the ranges that are there, and these join each other, or
  nothing is read, and nothing is removed;
- bytes that differ from the written ones are an error, never other bytes and never nothing.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from ...storage.files import FileLockedError, Files
from ..errors import SourceError
from .spool_mark import MARK_NAME, Mark, read_mark

LOCK_NAME: Final = "lock"
PARTIAL: Final = ".partial"
_RANGE_NAME: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})\.arrow")


class SpoolError(SourceError):
    """The spool cannot be gone on with; one line for people."""


class SpoolTakenError(SpoolError):
    """Another query has the directory."""


class SpooledRange(NamedTuple):
    """A range's offsets, the CRC-32 of its file, and the file's name."""

    start: int
    end: int
    checksum: int
    name: str


class Spool:
    """The directory of one query."""

    def __init__(self, directory: str, files: Files) -> None:
        """Take the directory, which is there; nothing is done to it before `open`."""
        self.directory = directory
        self._files = files
        self._lock: int | None = None
        self._mark: Mark | None = None
        self._ranges: list[SpooledRange] = []
        self.is_joined = False
        self._has_failed = False

    @property
    def name(self) -> str:
        """The id that the query's offsets carry."""
        assert self._mark is not None
        return self._mark.spool

    def open(self) -> list[str]:
        """Lock the directory and read its ranges; gives the torn files that were removed."""
        try:
            with self._disk_errors():
                return self._opened()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> list[str]:
        try:
            self._lock = self._files.lock(self._path(LOCK_NAME))
        except FileLockedError:
            raise SpoolTakenError(
                f"the spool {self.directory} is in use by another running query: "
                "each stream needs a directory of its own as spoolLocation"
            ) from None
        names = sorted(self._files.list_directory(self.directory))
        torn = [name for name in names if _is_ours(name.removesuffix(PARTIAL), name)]
        for name in torn:
            # Nothing in it was acked: the broker delivers it again.
            self._files.remove(self._path(name))
        # The process before may have died between giving a name and syncing it.
        self._files.sync_directory(self.directory)
        self._ranges = sorted(each for each in map(_range, names) if each is not None)
        if MARK_NAME in names:
            self._mark = self._read_mark()
        elif self._ranges:
            raise SpoolError(
                f"the spool {self.directory} has messages and no {MARK_NAME}: put that file back"
            )
        return torn

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None

    def join(self, start: int, spool: str | None, fresh: Mark) -> None:
        """Check that this is the spool that a checkpoint goes on in; once per process.

        `start` is where Spark is, `spool` the id in its offset. None: no range of any spool was
        logged before; then a spool that is empty begins here, as `fresh`.
        """
        assert self._lock is not None
        assert not self.is_joined
        if spool is not None:
            self._check_id(spool)
        elif not self._ranges:
            self._write(MARK_NAME, fresh.packed())
            self._mark = fresh
        else:
            self._check_begin(start, fresh)
        self._check_chain(start)
        self.is_joined = True

    def end_behind(self, start: int) -> int | None:
        """Give the end of the range that begins at `start`; None if there is none."""
        found = self._find(start)
        return None if found is None else found.end

    def write(self, start: int, end: int, content: bytes | memoryview) -> None:
        """Keep a range; when this returns, it is on the disk, and may be acked."""
        assert self.is_joined
        assert self._find(start) is None, "a range is written once"
        checksum = zlib.crc32(content)
        name = f"{start:020d}-{end:020d}-{checksum:08x}.arrow"
        self._write(name, content)
        self._ranges.append(SpooledRange(start, end, checksum, name))

    def read(self, start: int, end: int) -> bytes:
        """Give a range's bytes, the same as often as it is asked for."""
        found = self._find(start)
        if found is None or found.end != end:
            raise SpoolError(
                f"the messages from {start} to {end} are not in the spool {self.directory}, and "
                f"the broker has them no more: put their file back, {self._without_them}"
            )
        path = self._path(found.name)
        with self._disk_errors():
            content = self._files.read(path, 0, self._files.size(path))
        if zlib.crc32(content) != found.checksum:
            raise SpoolError(
                f"{path} is damaged: its CRC-32 is not the one in its name. The broker has its "
                f"messages no more: put back a copy of it, {self._without_them}"
            )
        return content

    def passed(self, start: int) -> None:
        """Remove the ranges that end at `start` or before, which Spark has committed.

        All but the newest, by which a checkpoint is known that has been set back.
        """
        assert self.is_joined
        while len(self._ranges) > 1 and self._ranges[0].end <= start:
            with self._disk_errors(), suppress(FileNotFoundError):
                self._files.remove(self._path(self._ranges[0].name))
            # Not synced: a file that is back after a crash is removed again.
            del self._ranges[0]

    @property
    def _without_them(self) -> str:
        return "or go on without them, with a new checkpoint and an empty directory"

    def _find(self, start: int) -> SpooledRange | None:
        return next((each for each in self._ranges if each.start == start), None)

    def _check_id(self, spool: str) -> None:
        """Raise if the checkpoint is of another spool."""
        if self._mark is None or not self._ranges:
            # The newest range always stays: without any, some have been lost.
            there = "which is empty"
        elif self._mark.spool != spool:
            there = f"which has {self._mark.spool}"
        else:
            return
        raise SpoolError(
            f"the checkpoint goes on in the spool {spool}, which is not in {self.directory}, "
            f"{there}: give the spoolLocation that this query had; if that directory is lost, "
            "so is what Spark had not processed of it, and a new checkpoint is needed"
        )

    def _check_begin(self, start: int, fresh: Mark) -> None:
        """Raise if another query than the one that begins at `start` spooled the ranges."""
        assert self._mark is not None
        begun = self._mark
        if (begun.begins, self._ranges[0].start) != (start, start) or (
            sorted(begun.queues),
            begun.vhost,
        ) != (sorted(fresh.queues), fresh.vhost):
            raise SpoolError(
                f"the spool {self.directory} has messages from {self._ranges[0].start} to "
                f"{self._ranges[-1].end} of {', '.join(begun.queues)} in the vhost {begun.vhost}, "
                f"which another checkpoint is to process, and this one begins at {start}: give "
                "this query another spoolLocation, or the checkpoint that they belong to"
            )

    def _check_chain(self, start: int) -> None:
        """Raise if `start` is no edge of the ranges, or if there is a gap behind it."""
        expected = start
        for each in self._ranges:
            if each.end > start:
                if each.start != expected:
                    raise self._not_of_one_time(start, f"goes on with {each.name}, not {expected}")
                expected = each.end
        if self._ranges and self._ranges[-1].end < start:
            raise self._not_of_one_time(start, f"ends with {self._ranges[-1].name}")

    def _not_of_one_time(self, start: int, what: str) -> SpoolError:
        return SpoolError(
            f"the checkpoint is at {start}, and the spool {self.directory} {what}: they are not of "
            f"one time. Give the checkpoint that the spool was written with, {self._without_them}"
        )

    def _read_mark(self) -> Mark:
        path = self._path(MARK_NAME)
        content = self._files.read(path, 0, self._files.size(path))
        try:
            return read_mark(content)
        except ValueError as error:
            raise SpoolError(f"{path}: {error}; put back a copy of it") from None

    def _write(self, name: str, content: bytes | memoryview) -> None:
        """Put a file there, whole or not at all, and return when it is on the disk."""
        if self._has_failed:
            # A sync that is tried again may say yes to bytes that are lost.
            raise SpoolError(f"the spool {self.directory} has failed before")
        path, partial = self._path(name), self._path(name + PARTIAL)
        with self._disk_errors():
            handle = self._files.create(partial)
            try:
                rest = memoryview(content)
                while rest:
                    taken = self._files.write(handle, len(content) - len(rest), [rest])
                    if not taken:
                        raise OSError(errno.EIO, "a write took nothing")
                    rest = rest[taken:]
                self._files.sync_data(handle)
            finally:
                self._files.close(handle)
            self._files.rename(partial, path)
            self._files.sync_directory(self.directory)

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turn what the disk says into one line, and do not trust it any further."""
        try:
            yield
        except OSError as error:
            self._has_failed = True
            reason = error.strerror or str(error)
            raise SpoolError(f"the spool {self.directory}: {reason}") from error

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def _range(name: str) -> SpooledRange | None:
    found = _RANGE_NAME.fullmatch(name)
    if found is None:
        return None
    return SpooledRange(int(found[1]), int(found[2]), int(found[3], 16), name)


def _is_ours(whole: str, name: str) -> bool:
    """Is `name` that of a file on its way to be `whole`? What else lies there is left alone."""
    return whole != name and (whole == MARK_NAME or _range(whole) is not None)
