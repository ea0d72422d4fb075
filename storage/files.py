"""The seam between storage and the disk.

Everything the journal and the data directory do to a disk goes through a `Files`, so that tests
and simulations can stand in for it and lose what a crash would lose. `OperatingSystemFiles` is the
real one. All paths are strings; a file that is open is known by a number.

What a `Files` promises, and no more:
- bytes written survive a crash of the process at once, a crash of the machine only after
  `sync_data` of their file returned; until then any of them may be there, or the earlier bytes;
- a file created, renamed or removed is so after a crash of the machine only once
  `sync_directory` of its directory returned;
- an error is raised as OSError, names the file, and may leave any part of a write behind.

A file is opened with patience where no descriptor is left, and only if it is a regular file.

Large writes go past the page cache, because a write into it must find a free page for every 4 KiB.
Where memory is not at hand, as on a virtual machine whose host gives pages out at their first use,
that takes several times as long as the disk does (docs/JOURNAL.md has the figures). The journal
reads these bytes back only after a restart, so they need not be in memory a second time.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from .errors import NoSpaceError

# No descriptor is left for a moment only: sockets that took the last ones are closed at once
# (actors/runtime/descriptors.py).
WAIT_SECONDS_MAX: Final = 10.0
_AGAIN_SECONDS: Final = 0.01
SCARCE: Final = (errno.EMFILE, errno.ENFILE)


class NotAFileError(OSError):
    """In the file's place is a directory, a pipe or a device: `strerror` says which."""


def checked_file(status: os.stat_result, path: str) -> os.stat_result:
    """The same status; NotAFileError if it is not a regular file's."""
    if stat.S_ISDIR(status.st_mode):
        raise NotAFileError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.EINVAL, "Is a pipe or a device", path)
    return status


def opened(path: str, flags: int, mode: int = 0o777, seconds_max: float = WAIT_SECONDS_MAX) -> int:
    """os.open, close-on-exec, with patience: OSError EMFILE or ENFILE after `seconds_max`."""
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in SCARCE or time.monotonic() >= deadline:
                raise
        time.sleep(_AGAIN_SECONDS)


# Offset, length and memory of a direct write are multiples of this: a page, and no less than any
# disk's sector.
BLOCK_BYTES = 4096
# A write that takes a direct one must be worth its copy into aligned memory.
DIRECT_BYTES_MIN = 512 * 1024
STAGING_BYTES = 8 * 1024 * 1024


class DirectWrites:
    """A second descriptor of each file, and aligned memory to write from.

    For any thread: one has large writes, others open and close files.

    The memory is a file's that has no name, so that the kernel gathers the buffers there: a copy
    of ours would hold the interpreter meanwhile, and the event loop with it.
    """

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}
        self._staging = -1
        self._memory: mmap.mmap | None = None
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[type[DirectWrites], tuple[()]]:
        """Sent to another process, as Spark sends a stream's reader, it has no files there."""
        return DirectWrites, ()

    def open(self, handle: int, path: str) -> None:
        """Have direct writes for this file, if its file system knows them."""
        flag = getattr(os, "O_DIRECT", 0)
        if not flag or not hasattr(os, "memfd_create"):
            return
        try:
            self._descriptors[handle] = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flag)
        except OSError as error:
            # Without a descriptor to spare, the page cache does it.
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, *SCARCE):
                raise

    def close(self, handle: int) -> None:
        """The file is closed; with the last of them, the memory is given back."""
        with self._lock:
            descriptor = self._descriptors.pop(handle, None)
            if descriptor is not None:
                os.close(descriptor)
            if not self._descriptors and self._memory is not None:
                self._memory.close()
                self._memory = None
                os.close(self._staging)

    def write_blocks(self, handle: int, offset: int, buffers: Sequence[bytes | memoryview]) -> int:
        """Write whole blocks from the buffers' begin; returns the bytes taken, 0 if it is not ours.

        `offset` must be that of a block.
        """
        with self._lock:
            return self._write_blocks(handle, offset, buffers)

    def _write_blocks(self, handle: int, offset: int, buffers: Sequence[bytes | memoryview]) -> int:
        descriptor = self._descriptors.get(handle)
        if descriptor is None:
            return 0
        if self._memory is None:
            try:
                self._staging = os.memfd_create("staging", os.MFD_CLOEXEC)
            except OSError as error:
                if error.errno not in SCARCE:
                    raise
                return 0
            os.ftruncate(self._staging, STAGING_BYTES)
            self._memory = mmap.mmap(self._staging, STAGING_BYTES)
        staged = os.pwritev(self._staging, first_bytes(buffers, STAGING_BYTES), 0)
        with memoryview(self._memory) as memory, memory[: staged - staged % BLOCK_BYTES] as blocks:
            try:
                return os.pwrite(descriptor, blocks, offset)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        # This file system takes the flag and not the write: the page cache does it.
        self.close(handle)
        return 0


def first_bytes(buffers: Sequence[bytes | memoryview], count: int) -> Sequence[bytes | memoryview]:
    """So many bytes from the begin of the buffers, or all if they have fewer."""
    first: list[bytes | memoryview] = []
    for buffer in buffers:
        if len(buffer) >= count:
            first.append(memoryview(buffer)[:count])
            break
        first.append(buffer)
        count -= len(buffer)
    return first


# What one writev takes at most; the rest goes with the next.
VECTORS_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024

Buffer = bytes | memoryview

# A full disk, and a quota that is used up.
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_ALLOCATED_AT_ONCE_BYTES: Final = 1024 * 1024


class FileLockedError(Exception):
    """Another process, or another holder in this one, has the lock."""


class Files(Protocol):
    """The operations on a disk that durability needs."""

    # Makes room on a disk that is full, for another try of `create` and `write`; false if it
    # cannot. None: no try.
    make_room: Callable[[], bool] | None

    def make_directory(self, directory: str) -> None:
        """Create the directory and its parents, each durable; no error if it is there."""

    def list_directory(self, directory: str) -> list[str]:
        """Names in the directory, in no particular order."""

    def create(self, path: str) -> int:
        """Open a new, empty file for writing; FileExistsError if the name is taken."""

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write the buffers (at most VECTORS_MAX) from the offset on, over the present bytes.

        Returns the bytes taken, maybe not all.
        """

    def sync_data(self, handle: int) -> None:
        """Return once the file's bytes and size are on the disk."""

    def close(self, handle: int) -> None:
        """Close the file, without a sync."""

    def sync_directory(self, directory: str) -> None:
        """Return once names created, renamed and removed in the directory are on the disk."""

    def size(self, path: str) -> int:
        """The file's length in bytes; NotAFileError if it is none."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read from the offset on; fewer bytes than asked for only where the file ends.

        NotAFileError if it is none.
        """

    def truncate(self, path: str, length: int) -> None:
        """Cut the file to the length, and return once that and all of the file are on the disk."""

    def allocate(self, path: str, length: int) -> None:
        """Have at least so many bytes of the disk taken up by the file, made if need be.

        Return once they are; what they hold is anything.
        """

    def rename(self, source: str, target: str) -> None:
        """Give the file another name, at once replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove the file."""

    def identity(self, path: str) -> tuple[int, int]:
        """Device and inode of the file with this name now; FileNotFoundError if there is none."""

    def free_bytes(self, directory: str) -> int:
        """Bytes that may still be written to the directory's disk."""

    def lock(self, path: str) -> int:
        """Create the file if need be and lock it until `close`; FileLockedError if it is taken."""


class OperatingSystemFiles:
    """`Files` on the machine's own disk.

    Where there is no file descriptor it waits for one, `descriptor_seconds_max` at most.
    """

    def __init__(self, descriptor_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        self._descriptor_seconds_max = descriptor_seconds_max
        self._direct = DirectWrites()
        self._locks: set[int] = set()
        self._paths: dict[int, str] = {}
        # Where the next write of a file goes of itself. To say so anew costs a commit two more
        # hand-overs of the interpreter between its thread and the event loop's.
        self._next_at: dict[int, int] = {}
        self.make_room: Callable[[], bool] | None = None

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
        while True:
            try:
                handle = self._descriptor(path, flags, 0o600)
                break
            except OSError as error:
                if not self._has_made_room(error):
                    raise
        self._paths[handle] = path
        self._direct.open(handle, path)
        return handle

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """One writev: what fault injection and tracing know by name on every system.

        Of a large write, the whole blocks go past the page cache.
        """
        while True:
            try:
                return self.write_once(handle, offset, buffers)
            except OSError as error:
                error.filename = self._paths.get(handle)
                if not self._has_made_room(error):
                    raise

    def _has_made_room(self, error: OSError) -> bool:
        is_full = error.errno in NO_SPACE
        return is_full and self.make_room is not None and self.make_room()

    def write_once(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write as much as one call of the system takes, and return how many octets that is."""
        if sum(map(len, buffers)) >= DIRECT_BYTES_MIN:
            before_block = -offset % BLOCK_BYTES
            if before_block:
                buffers = first_bytes(buffers, before_block)
            elif taken := self._direct.write_blocks(handle, offset, buffers):
                return taken
        if self._next_at.pop(handle, -1) != offset:
            os.lseek(handle, offset, os.SEEK_SET)
        written = os.writev(handle, buffers)
        self._next_at[handle] = offset + written
        return written

    def sync_data(self, handle: int) -> None:
        """One fdatasync."""
        try:
            os.fdatasync(handle)
        except OSError as error:
            error.filename = self._paths.get(handle)
            raise

    def close(self, handle: int) -> None:
        """Close; of a locked file, this gives the lock back."""
        self._direct.close(handle)
        self._paths.pop(handle, None)
        self._next_at.pop(handle, None)
        if handle in self._locks:
            self._locks.remove(handle)
            # A process forked meanwhile has the file open, too, and would keep the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)

    def sync_directory(self, directory: str) -> None:
        """Fsync of the directory."""
        with (
            _naming(directory),
            self._opened_file(directory, os.O_RDONLY | os.O_DIRECTORY) as handle,
        ):
            os.fsync(handle)

    def size(self, path: str) -> int:
        """The file's length in bytes."""
        return checked_file(os.stat(path), path).st_size

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read, again and again until the length or the end is reached."""
        # To open a pipe would wait for a writer.
        with _naming(path), self._opened_file(path, os.O_RDONLY | os.O_NONBLOCK) as handle:
            checked_file(os.fstat(handle), path)
            first = os.pread(handle, length, offset)
            if len(first) in (0, length):
                return first
            parts, taken = [first], len(first)
            while more := os.pread(handle, length - taken, offset + taken):
                parts.append(more)
                taken += len(more)
            return b"".join(parts)

    def truncate(self, path: str, length: int) -> None:
        """Cut if there is something to cut, and fsync in any case."""
        with _naming(path), self._opened_file(path, os.O_RDWR) as handle:
            if os.fstat(handle).st_size != length:
                os.ftruncate(handle, length)
            os.fsync(handle)

    def allocate(self, path: str, length: int) -> None:
        """By posix_fallocate; where there is none, by writing what no file system can compress."""
        with _naming(path), self._opened_file(path, os.O_RDWR | os.O_CREAT, 0o600) as handle:
            try:
                os.posix_fallocate(handle, 0, length)
            except (AttributeError, OSError) as error:
                if isinstance(error, OSError) and error.errno in NO_SPACE:
                    raise
                while (size := os.fstat(handle).st_size) < length:
                    count = min(length - size, _ALLOCATED_AT_ONCE_BYTES)
                    os.pwrite(handle, os.urandom(count), size)
            os.fsync(handle)

    def rename(self, source: str, target: str) -> None:
        """Rename within a directory."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def identity(self, path: str) -> tuple[int, int]:
        """By stat."""
        status = os.stat(path)
        return status.st_dev, status.st_ino

    def free_bytes(self, directory: str) -> int:
        """As the system counts them for users other than root."""
        status = os.statvfs(directory)
        return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> int:
        """An exclusive flock, which the kernel takes back when the process dies."""
        handle = self._descriptor(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise FileLockedError(path) from error
        self._locks.add(handle)
        return handle

    def _descriptor(self, path: str, flags: int, mode: int = 0o777) -> int:
        return opened(path, flags, mode, self._descriptor_seconds_max)

    @contextmanager
    def _opened_file(self, path: str, flags: int, mode: int = 0o777) -> Iterator[int]:
        handle = self._descriptor(path, flags, mode)
        try:
            yield handle
        finally:
            os.close(handle)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors of a descriptor name no file: give them this one."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def create_file(files: Files, path: str) -> int:
    """`Files.create`; NoSpaceError if the disk is full, and there is no such file then."""
    try:
        return files.create(path)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise NoSpaceError(path) from error
        raise


def write_all(files: Files, handle: int, offset: int, buffers: list[Buffer]) -> int:
    """Write all the buffers in order, whatever each write takes; returns the bytes written.

    The common case is one call of `Files.write`. A write that took less goes on where it stopped:
    a disk that is full says so with the next one, by NoSpaceError, and has taken a part.
    """
    total = sum(map(len, buffers))
    try:
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
            some = buffers[position : position + VECTORS_MAX]
            taken = files.write(handle, offset + written, some)
            written += taken
    except OSError as error:
        if error.errno in NO_SPACE:
            raise NoSpaceError(error.filename) from error
        raise
    return written
