"""Large writes past the page cache.

A write into the page cache must find a free page for every 4 KiB. Where memory is not at hand, as
on a virtual machine whose host gives pages out at their first use, that takes several times as
long as the disk does (docs/JOURNAL.md has the figures). What is read back only after a restart
need not be in memory a second time.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence

from .descriptors import SCARCE

# Offset, length and memory of a direct write are multiples of this: a page, and no less than any
# disk's sector.
BLOCK_BYTES = 4096
# A write that takes a direct one must be worth its copy into aligned memory.
DIRECT_BYTES_MIN = 512 * 1024
STAGING_BYTES = 8 * 1024 * 1024


class DirectWrites:
    """A second descriptor of each file, and aligned memory to write from. For one thread.

    The memory is a file's that has no name, so that the kernel gathers the buffers there: a copy
    of ours would hold the interpreter meanwhile, and the event loop with it.
    """

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}
        self._staging = -1
        self._memory: mmap.mmap | None = None

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
        descriptor = self._descriptors.pop(handle, None)
        if descriptor is not None:
            os.close(descriptor)
        if not self._descriptors and self._memory is not None:
            self._memory.close()
            self._memory = None
            os.close(self._staging)

    def take(self, handle: int, offset: int, buffers: Sequence[bytes | memoryview]) -> int:
        """Write whole blocks from the buffers' begin; returns the bytes taken, 0 if it is not ours.

        `offset` must be that of a block.
        """
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
