"""A disk in memory that forgets what was not synced, as a machine does when its power goes.

`CrashingFiles` is a `leveret.storage.files.Files`. Of what was written and not synced any pages
are kept and the others lost: what was there before comes back, or zeros, or rarely garbage; or all
is lost from some byte on. What was created, renamed or removed in a directory that was not synced
has happened or has not, name by name. A budget of operations makes the power go in the middle of
anything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from leveret.storage.files import Buffer, FileLockedError

_numbers = count()
# What is free where nothing is said of it.
FREE_BYTES = 1 << 40


class PowerCut(BaseException):
    """The machine stops here. Not an Exception: nothing may handle it."""


class _File:
    def __init__(self) -> None:
        # An id of an object may come again.
        self.number = next(_numbers)
        self.content = bytearray()
        self.synced = b""


def _same_bytes(old: bytes, new: bytes) -> int:
    """How many bytes at the begin of both are the same: by halves, because files are long."""
    same, different = 0, min(len(old), len(new)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if old[same:middle] == new[same:middle]:
            same = middle
        else:
            different = middle
    return same


class CrashingFiles:
    def __init__(self) -> None:
        self.names: dict[str, _File] = {}
        self.synced_names: dict[str, _File] = {}
        self.directories: set[str] = set()
        self.handles: dict[int, str] = {}
        self.open_files: dict[int, _File] = {}
        self.locks: set[str] = set()
        self.next_handle = 3
        # Operations until the power goes; None: never.
        self.operations_left: int | None = None
        # The error that the next operation of this name raises.
        self.failing: dict[str, OSError] = {}
        self.write_bytes_max: int | None = None
        # How much all files together may hold; None: any amount.
        self.capacity_bytes: int | None = None
        self.history: list[tuple[str, str]] = []
        self.make_room: Callable[[], bool] | None = None

    # What a test does to the disk.

    def kill(self) -> None:
        """The process dies, the machine does not: all that was written is there."""
        self.handles.clear()
        self.open_files.clear()
        self.locks.clear()

    def cut_power(self, random: Random) -> None:
        """Lose unsynced names and bytes, in part or whole, name by name and byte by byte."""
        self.kill()
        self.operations_left = None
        for path in sorted(self.names.keys() | self.synced_names.keys()):
            if self.names.get(path) is not self.synced_names.get(path) and random.random() < 0.5:
                if path in self.synced_names:
                    self.names[path] = self.synced_names[path]
                else:
                    del self.names[path]
        self.synced_names = dict(self.names)
        for file in self.names.values():
            self._lose(file, random)

    @staticmethod
    def _lose(file: _File, random: Random) -> None:
        """Of the pages that differ from what was synced some are new, the others as before."""
        old, new = file.synced, bytes(file.content)
        same = _same_bytes(old, new)
        if same == max(len(old), len(new)):
            return
        # The size may be the old one, the new one, or between.
        size = random.choice((len(old), len(new)))
        if random.random() < 0.3:
            size = random.randint(*sorted((len(old), len(new))))
        page_bytes = random.choice((16, 64, 512, 4096, 1 << 20))
        kept = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        content = bytearray(old[:same])
        while len(content) < size:
            start = len(content)
            end = min(size, start - start % page_bytes + page_bytes)
            page = new if random.random() < kept else old
            # A page that was never written is zeros; now and then it is what the disk had before.
            piece = page[start:end]
            missing = end - start - len(piece)
            is_garbage = random.random() < 0.02
            content += piece + (random.randbytes(missing) if is_garbage else bytes(missing))
        file.synced = bytes(content)
        file.content = content

    def flip(self, path: str, offset: int, bits: int = 1) -> None:
        """Damage a byte on the disk."""
        file = self.names[path]
        file.content[offset] ^= bits
        file.synced = bytes(file.content)

    def count(self, operation: str) -> int:
        """How often the operation was done so far."""
        return sum(1 for name, _ in self.history if name == operation)

    # Files.

    def make_directory(self, directory: str) -> None:
        self.directories.add(directory)

    def list_directory(self, directory: str) -> list[str]:
        paths = (*self.names, *self.directories)
        return [os.path.basename(path) for path in paths if os.path.dirname(path) == directory]

    @property
    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self.names.values())

    def _room(self, wanted: int) -> int:
        """As much of it as there is; OSError if there is none."""
        if self.capacity_bytes is None:
            return wanted
        room = min(wanted, self.capacity_bytes - self.used_bytes)
        if room <= 0 < wanted:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return max(room, 0)

    def create(self, path: str) -> int:
        self._room(1)
        self._operation("create", path)
        if path in self.names:
            raise FileExistsError(path)
        self.names[path] = _File()
        return self._open(path)

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        assert len(buffers) <= 1024
        if self.operations_left is not None and self.operations_left <= 0:
            raise PowerCut
        content = self.open_files[handle].content
        assert offset <= len(content)
        if self.write_bytes_max is not None:
            data = data[: self.write_bytes_max]
        within = min(len(data), len(content) - offset)
        data = data[: within + (self._room(len(data) - within) if within < len(data) else 0)]
        if self.operations_left == 1:
            # The power goes in the middle of this write.
            data = data[: len(data) // 2]
        content[offset : offset + len(data)] = data
        self._operation("write", self.handles[handle])
        return len(data)

    def sync_data(self, handle: int) -> None:
        self._operation("sync_data", self.handles[handle])
        file = self.open_files[handle]
        file.synced = bytes(file.content)

    def close(self, handle: int) -> None:
        self.locks.discard(self.handles.pop(handle))
        del self.open_files[handle]

    def sync_directory(self, directory: str) -> None:
        self._operation("sync_directory", directory)
        for path in self.names.keys() | self.synced_names.keys():
            if os.path.dirname(path) == directory:
                if path in self.names:
                    self.synced_names[path] = self.names[path]
                else:
                    del self.synced_names[path]

    def size(self, path: str) -> int:
        return len(self._file(path).content)

    def read(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._file(path).content[offset : offset + length])

    def truncate(self, path: str, length: int) -> None:
        self._operation("truncate", path)
        file = self._file(path)
        del file.content[length:]
        file.synced = bytes(file.content)

    def rename(self, source: str, target: str) -> None:
        self._operation("rename", source)
        self.names[target] = self._file(source)
        del self.names[source]

    def remove(self, path: str) -> None:
        self._operation("remove", path)
        self._file(path)
        del self.names[path]

    def allocate(self, path: str, length: int) -> None:
        self._operation("allocate", path)
        file = self.names.setdefault(path, _File())
        missing = length - len(file.content)
        if missing > 0:
            if self._room(missing) < missing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.content += bytes(missing)
        file.synced = bytes(file.content)

    def identity(self, path: str) -> tuple[int, int]:
        if path in self.directories:
            return 1, 0
        return 1, self._file(path).number

    def free_bytes(self, _directory: str) -> int:
        if self.capacity_bytes is None:
            return FREE_BYTES
        return max(0, self.capacity_bytes - self.used_bytes)

    def lock(self, path: str) -> int:
        if path in self.locks:
            raise FileLockedError(path)
        self.locks.add(path)
        self.names.setdefault(path, _File())
        return self._open(path)

    def _file(self, path: str) -> _File:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self.names[path]

    def _open(self, path: str) -> int:
        self.next_handle += 1
        self.handles[self.next_handle] = path
        self.open_files[self.next_handle] = self.names[path]
        return self.next_handle

    def _operation(self, name: str, path: str) -> None:
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left <= 0:
                raise PowerCut
        error = self.failing.pop(name, None)
        if error is not None:
            raise error
        self.history.append((name, path))
