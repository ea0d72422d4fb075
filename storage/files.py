"""The seam between storage and the disk.

Everything the journal and the data directory do to a disk goes through a `Files`, so that tests
and simulations can stand in for it and lose what a crash would lose. `OperatingSystemFiles` is the
real one. All paths are strings; a file that is open is known by a number.

What a `Files` promises, and no more:
- bytes written survive a crash of the process at once, a crash of the machine only after
  `sync_data` of their file returned; until then any of them may be there, or what was there before;
- a file created, renamed or removed is so after a crash of the machine only once
  `sync_directory` of its directory returned;
- an error is raised as OSError and may leave any part of a write behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Protocol

from .descriptors import opened
from .direct_writes import BLOCK_BYTES, DIRECT_BYTES_MIN, DirectWrites, first_bytes

# What one writev takes at most; the rest goes with the next.
VECTORS_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024

Buffer = bytes | memoryview


class FileLockedError(Exception):
    """Another process, or another holder in this one, has the lock."""


class Files(Protocol):
    """The operations on a disk that durability needs."""

    def make_directory(self, directory: str) -> None:
        """Create the directory and its parents, each durable; no error if it is there."""

    def list_directory(self, directory: str) -> list[str]:
        """Names in the directory, in no particular order."""

    def create(self, path: str) -> int:
        """Open a new, empty file for writing; FileExistsError if the name is taken."""

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write the buffers (at most VECTORS_MAX) from the offset on, over what is there.

        Returns the bytes taken, maybe not all.
        """

    def sync_data(self, handle: int) -> None:
        """Return once the file's bytes and size are on the disk."""

    def close(self, handle: int) -> None:
        """Close the file, without a sync."""

    def sync_directory(self, directory: str) -> None:
        """Return once names created, renamed and removed in the directory are on the disk."""

    def size(self, path: str) -> int:
        """The file's length in bytes."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read from the offset on; fewer bytes than asked for only where the file ends."""

    def truncate(self, path: str, length: int) -> None:
        """Cut the file to the length, and return once that and all of the file are on the disk."""

    def rename(self, source: str, target: str) -> None:
        """Give the file another name, at once replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove the file."""

    def free_bytes(self, directory: str) -> int:
        """Bytes that may still be written to the directory's disk."""

    def lock(self, path: str) -> int:
        """Create the file if need be and lock it until `close`; FileLockedError if it is taken."""


class OperatingSystemFiles:
    """`Files` on the machine's own disk."""

    def __init__(self) -> None:
        self._direct = DirectWrites()
        self._locks: set[int] = set()

    def make_directory(self, directory: str) -> None:
        """Create the directory and its parents, each synced into the one above."""
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(os.path.abspath(directory))
        self.make_directory(parent)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            # Made by somebody else since we looked; a file of that name fails at its first use.
            return
        self.sync_directory(parent)

    def list_directory(self, directory: str) -> list[str]:
        """Names in the directory."""
        return os.listdir(directory)

    def create(self, path: str) -> int:
        """Open a new file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        handle = opened(path, flags, 0o600)
        self._direct.open(handle, path)
        return handle

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """One writev: what fault injection and tracing know by name on every system.

        Of a large write, the whole blocks go past the page cache.
        """
        if sum(map(len, buffers)) >= DIRECT_BYTES_MIN:
            before_block = -offset % BLOCK_BYTES
            if before_block:
                buffers = first_bytes(buffers, before_block)
            elif taken := self._direct.take(handle, offset, buffers):
                return taken
        os.lseek(handle, offset, os.SEEK_SET)
        return os.writev(handle, buffers)

    def sync_data(self, handle: int) -> None:
        """One fdatasync."""
        os.fdatasync(handle)

    def close(self, handle: int) -> None:
        """Close; of a locked file, this gives the lock back."""
        self._direct.close(handle)
        if handle in self._locks:
            self._locks.remove(handle)
            # What was forked meanwhile has the file open, too, and would keep the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)

    def sync_directory(self, directory: str) -> None:
        """Fsync of the directory."""
        handle = opened(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def size(self, path: str) -> int:
        """The file's length in bytes."""
        return os.stat(path).st_size

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read, again and again until the length or the end is reached."""
        handle = opened(path, os.O_RDONLY)
        try:
            first = os.pread(handle, length, offset)
            if len(first) in (0, length):
                return first
            parts, taken = [first], len(first)
            while more := os.pread(handle, length - taken, offset + taken):
                parts.append(more)
                taken += len(more)
            return b"".join(parts)
        finally:
            os.close(handle)

    def truncate(self, path: str, length: int) -> None:
        """Cut if there is something to cut, and fsync in any case."""
        handle = opened(path, os.O_RDWR)
        try:
            if os.fstat(handle).st_size != length:
                os.ftruncate(handle, length)
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, source: str, target: str) -> None:
        """Rename within a directory."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def free_bytes(self, directory: str) -> int:
        """As the system counts them for those who are not root."""
        status = os.statvfs(directory)
        return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> int:
        """An exclusive flock, which the kernel takes back when the process dies."""
        handle = opened(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise FileLockedError(path) from error
        self._locks.add(handle)
        return handle


def write_all(files: Files, handle: int, offset: int, buffers: list[Buffer]) -> int:
    """Write all the buffers in order, whatever each write takes; returns the bytes written.

    The common case is one call of `Files.write`. A write that took less goes on where it stopped:
    a disk that is full says so with the next one.
    """
    total = sum(map(len, buffers))
    written = files.write(handle, offset, buffers[:VECTORS_MAX])
    position, taken = 0, written
    while written < total:
        if not taken:
            raise OSError(errno.EIO, "a write took nothing")
        while taken >= len(buffers[position]):
            taken -= len(buffers[position])
            position += 1
        if taken:
            buffers[position] = memoryview(buffers[position])[taken:]
        taken = files.write(handle, offset + written, buffers[position : position + VECTORS_MAX])
        written += taken
    return written
