"""A file that takes up room on the disk, for the day on which there is no other.

A broker whose disk is full must still be able to note what consumers settle, remove the segments
that are done with, change its topology and be started again: all of that writes a little before it
frees much. So the file `reserve` in the data directory has room allocated, and is cut by a step
whenever one of these meets a full disk. Publishes never get any of it.

Each purpose leaves a part to those that matter more: to start comes last, since a broker that
cannot be started gives nothing back. The file grows again when the disk has room to spare.
"""

from __future__ import annotations

import os
import threading
from enum import Enum
from typing import Final

from .files import NO_SPACE, Files

NAME: Final = "reserve"
# It is given up, and grows, in so many steps.
STEPS: Final = 8


class Purpose(Enum):
    """The purpose of needed room; its value is how many steps it leaves to others."""

    # Durable queues, bindings, users. A program may declare without an end.
    CATALOG = 6
    # A segment that is written anew, before the old one goes.
    COMPACTION = 4
    # What consumers have acknowledged and were given.
    SETTLES = 3
    # A record of some 100 bytes frees a segment.
    REMOVAL = 2
    START = 0


class Reserve:
    """The reserve of one data directory. For any thread."""

    def __init__(self, files: Files, directory: str, bytes_max: int) -> None:
        """Take over an existing file; the directory is locked, or is about to be."""
        self._files = files
        self._path = os.path.join(directory, NAME)
        self._bytes_max = bytes_max
        self._step_bytes = bytes_max // STEPS
        self._lock = threading.Lock()
        try:
            self.size_bytes = files.size(self._path)
        except OSError:
            self.size_bytes = 0

    @property
    def is_whole(self) -> bool:
        """Is nothing of it given up?"""
        return not self.missing_bytes

    @property
    def missing_bytes(self) -> int:
        """The bytes that the reserve lacks and may claim from the free space."""
        return max(0, self._step_bytes * STEPS - self.size_bytes)

    def release_step(self, purpose: Purpose) -> bool:
        """Free a step for this purpose; false if the rest is for others.

        An OSError of the file itself counts as nothing left: there is nothing in it to be lost.
        """
        with self._lock:
            size = self.size_bytes - self._step_bytes
            if not self._step_bytes or size < purpose.value * self._step_bytes:
                return False
            return self._cut(size)

    def refill(self, free_bytes: int, free_bytes_min: int) -> bool:
        """Grow by the steps that there is room for above `free_bytes_min`, and another one.

        So the reserve itself is never the cause of an alarm. False if the disk is full although it
        says that so much is free, as where a quota is used up; OSError if it cannot be made at all.
        """
        with self._lock:
            if self.size_bytes > self._bytes_max:
                # The setting was lowered.
                self._cut(self._step_bytes * STEPS)
            while not self.is_whole:
                size = min(self.size_bytes + self._step_bytes, self._step_bytes * STEPS)
                free_bytes -= size - self.size_bytes
                if free_bytes < free_bytes_min + self._step_bytes:
                    break
                try:
                    self._files.allocate(self._path, size)
                except OSError as error:
                    # Some of it may be allocated.
                    self._cut(self.size_bytes)
                    if error.errno not in NO_SPACE:
                        raise
                    return False
                self.size_bytes = size
            return True

    def _cut(self, size: int) -> bool:
        try:
            self._files.truncate(self._path, size)
        except OSError:
            return False
        self.size_bytes = size
        return True
