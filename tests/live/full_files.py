"""A disk with so much room and no more, to the byte; behind the gate of GatedFiles."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from gated_files import GatedFiles
from leveret.storage.files import Buffer, first_bytes


class FullFiles(GatedFiles):
    def __init__(self) -> None:
        super().__init__()
        # What may still be written; None: any amount.
        self.room: int | None = None

    def free_bytes(self, directory: str) -> int:
        return super().free_bytes(directory) if self.room is None else self.room

    def create(self, path: str) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path)

    def write_once(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        size = os.fstat(handle).st_size
        wanted = max(0, offset + sum(map(len, buffers)) - size)
        if self.room is None or wanted <= self.room:
            taken = super().write_once(handle, offset, buffers)
        elif not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            # A full disk takes what fits.
            fitting = size + self.room - offset
            taken = super().write_once(handle, offset, first_bytes(buffers, fitting))
        self._count(os.fstat(handle).st_size - size)
        return taken

    def truncate(self, path: str, length: int) -> None:
        size = os.stat(path).st_size
        super().truncate(path, length)
        self._count(length - size)

    def allocate(self, path: str, length: int) -> None:
        size = os.stat(path).st_size if os.path.exists(path) else 0
        if self.room is not None and length - size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().allocate(path, length)
        self._count(length - size)

    def remove(self, path: str) -> None:
        size = os.stat(path).st_size
        super().remove(path)
        self._count(-size)

    def _count(self, more: int) -> None:
        if self.room is not None:
            self.room -= more
