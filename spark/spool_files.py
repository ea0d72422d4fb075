"""The seam between the spool and the disk: what spool.py does to files goes through here.

The names and promises are those of the journal's seam (`Files` in storage/files.py), of which this
client of brokers is no part; so one simulated disk tests both. Bytes are safe from a crash of the
machine once `sync_data` of their file has returned, names once `sync_directory` has. Paths are
strings, open files numbers, errors OSErrors.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from typing import Protocol


class SpoolFiles(Protocol):
    """The operations on a disk that a spool needs."""

    def make_directory(self, directory: str) -> None:
        """Create the directory and its parents, each durable; no error if it is there."""

    def list_directory(self, directory: str) -> list[str]:
        """Names in the directory, in no particular order."""

    def create(self, path: str) -> int:
        """Open a new, empty file for writing; FileExistsError if the name is taken."""

    def write(self, handle: int, offset: int, buffers: Sequence[bytes | memoryview]) -> int:
        """Write from the offset on, which is the file's end; gives the bytes taken, maybe fewer."""

    def sync_data(self, handle: int) -> None:
        """Return once the file's bytes and size are on the disk."""

    def close(self, handle: int) -> None:
        """Close the file, without a sync; gives a lock back."""

    def sync_directory(self, directory: str) -> None:
        """Return once names created, renamed and removed in the directory are on the disk."""

    def size(self, path: str) -> int:
        """The file's length in bytes."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read from the offset on; fewer bytes than asked for only where the file ends."""

    def rename(self, source: str, target: str) -> None:
        """Give the file another name, at once replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove the file."""

    def lock(self, path: str) -> int:
        """Create the file if need be and lock it until `close`; BlockingIOError if it is taken."""


class DriverFiles:
    """`SpoolFiles` on the driver's own disk; what it makes only its user can read."""

    def make_directory(self, directory: str) -> None:
        """Create the directory and its parents, each synced into the one above."""
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(os.path.abspath(directory))
        if parent != directory:
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
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, handle: int, offset: int, buffers: Sequence[bytes | memoryview]) -> int:
        """One pwritev."""
        return os.pwritev(handle, buffers, offset)

    def sync_data(self, handle: int) -> None:
        """One fdatasync."""
        os.fdatasync(handle)

    def close(self, handle: int) -> None:
        """Close; of a locked file, this gives the lock back."""
        os.close(handle)

    def sync_directory(self, directory: str) -> None:
        """Fsync of the directory."""
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def size(self, path: str) -> int:
        """The file's length in bytes."""
        return os.stat(path).st_size

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read until the length or the end is reached."""
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def rename(self, source: str, target: str) -> None:
        """Rename within a directory."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def lock(self, path: str) -> int:
        """An exclusive flock, which the kernel takes back when the process dies."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle

    def check_writable(self, path: str) -> None:
        """Raise if this file cannot be made and written."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
