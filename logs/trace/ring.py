"""The trace's buffer: a ring of whole lines in a mapped file, which outlives a killed process.

Actors append lines, and the thread of `TraceFiles` (files.py) moves them into trace files. An
append stores into memory that the kernel keeps with the file, so an event costs no system call and
survives the death of the process: `salvage.py` finds what no trace file has yet.

    0     8 bytes   magic
    8     u64       bytes of the data area
    16    u64       head: bytes ever appended
    24    u64       tail: bytes ever moved into files; head - tail bytes wait
    32    u64       1 while the trace is on, 0 since it was stopped
    64    32 bytes  the boot's id in ASCII, padded with zeros
    4096  data      byte n of the trace lies at n modulo the data area's length

Numbers are in the machine's byte order because a ring stays on its machine. The head is stored
after the bytes of its line: a process that is killed in between loses that event only.

The process that appends holds an exclusive flock on the file, so a reader that gets a shared one
knows that nobody appends any more. The blocks of the file are allocated when it is made, because a
store into a page without one ends the process with SIGBUS when the disk is full.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import sys
import threading
from pathlib import Path
from typing import Final

NAME: Final = "ring"
MAGIC: Final = b"LVTRING1"
HEADER_BYTES: Final = 4096
# Places of the header's numbers, in words of eight bytes.
CAPACITY, HEAD, TAIL, IS_ON = 1, 2, 3, 4
BOOT_AT: Final = 64
BOOT_BYTES_MAX: Final = 32
# A ring that is being made has this name until it is locked and whole.
_MAKING_NAME: Final = "ring.making"
_ZEROS: Final = bytes(1 << 16)
# Linux's FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_NOCOW_FL.
_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_NO_COPY_ON_WRITE: Final = 0x00800000
# File systems that cannot allocate ahead say so in these ways.
_NOT_ALLOCATED: Final = frozenset([errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])


class TraceRing:
    """The ring in `directory` of one boot; used by all threads that trace.

    OSError if it cannot be made, for lack of room on the disk for example. A ring that is there
    already is replaced: salvage it first.
    """

    def __init__(self, directory: Path, boot_id: str, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._path = directory / NAME
        self._lock = threading.Lock()
        self._head = self._tail = 0
        self._is_open = True
        making = directory / _MAKING_NAME
        with contextlib.suppress(FileNotFoundError):
            making.unlink()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Readers of a trace see who talks to whom.
        self._file = os.open(making, flags, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            _allocate(self._file, HEADER_BYTES + capacity_bytes)
            self._map = mmap.mmap(self._file, HEADER_BYTES + capacity_bytes)
            self._words = memoryview(self._map)[:BOOT_AT].cast("Q")
            self._words[CAPACITY] = capacity_bytes
            boot = boot_id.encode("ascii")[:BOOT_BYTES_MAX]
            self._map[BOOT_AT : BOOT_AT + len(boot)] = boot
            self._map[: len(MAGIC)] = MAGIC
            making.rename(self._path)
        except BaseException:
            os.close(self._file)
            making.unlink(missing_ok=True)
            raise

    @property
    def waiting_bytes(self) -> int:
        """Bytes that no trace file has yet."""
        return self._head - self._tail

    def is_in_place(self) -> bool:
        """Has its name still this file? Nobody would find the events of a removed one."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return False

    def append(self, lines: bytes) -> bool:
        """Add whole lines; false if there is no room for them."""
        count = len(lines)
        with self._lock:
            head = self._head
            if head + count - self._tail > self.capacity_bytes or not self._is_open:
                return False
            at = head % self.capacity_bytes
            begin = HEADER_BYTES + at
            before_end = self.capacity_bytes - at
            if count <= before_end:
                self._map[begin : begin + count] = lines
            else:
                self._map[begin:] = lines[:before_end]
                rest = lines[before_end:]
                self._map[HEADER_BYTES : HEADER_BYTES + len(rest)] = rest
            self._words[HEAD] = self._head = head + count
        return True

    def read(self, bytes_max: int) -> bytes:
        """The oldest lines that wait, whole ones: up to so many bytes, but one at least."""
        with self._lock:
            if not self._is_open:
                return b""
            waiting = self.waiting_bytes
            data = self._slice(min(waiting, bytes_max))
            while len(data) < waiting and b"\n" not in data:
                data = self._slice(min(waiting, 2 * len(data)))
            return data[: data.rfind(b"\n") + 1]

    def release(self, count: int) -> None:
        """The oldest `count` bytes are in a trace file: their room is free."""
        with self._lock:
            self._tail += count
            if self._is_open:
                self._words[TAIL] = self._tail

    def note_state(self, is_on: bool) -> None:
        """Keep for whom salvages the ring whether the trace was on."""
        with self._lock:
            if self._is_open:
                self._words[IS_ON] = is_on

    def close(self) -> None:
        """Append no more; the file goes if nothing waits in it."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._words.release()
            self._map.close()
            if not self.waiting_bytes and self.is_in_place():
                self._path.unlink()
            os.close(self._file)

    def _slice(self, count: int) -> bytes:
        at = self._tail % self.capacity_bytes
        before_end = min(count, self.capacity_bytes - at)
        begin = HEADER_BYTES + at
        data = self._map[begin : begin + before_end]
        return data + self._map[HEADER_BYTES : HEADER_BYTES + count - before_end]


def _allocate(file: int, count: int) -> None:
    """Give the file `count` bytes of its own on the disk; OSError if there are not so many."""
    _write_in_place(file)
    try:
        os.posix_fallocate(file, 0, count)
    except AttributeError:  # macOS has none
        pass
    except OSError as fault:
        if fault.errno not in _NOT_ALLOCATED:
            raise
    else:
        return
    written = 0
    while written < count:
        written += os.write(file, _ZEROS[: count - written])


def _write_in_place(file: int) -> None:
    """Ask btrfs not to copy on write, which needs room for each store; others have no such flag."""
    with contextlib.suppress(OSError):
        flags = bytearray(8)
        fcntl.ioctl(file, _GET_FLAGS, flags)
        number = int.from_bytes(flags, sys.byteorder) | _NO_COPY_ON_WRITE
        fcntl.ioctl(file, _SET_FLAGS, number.to_bytes(8, sys.byteorder))
