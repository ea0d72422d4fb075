"""The C library's heap: what it keeps for the next reads, and when it returns memory to the system.

Reads of up to 1 MiB come and go all the time, so glibc is told to keep memory at hand: to ask the
system for each of them costs more than to handle it. What it keeps would stay for good, though: it
returns only free memory at the top of the heap, and a queue that pages, or is consumed, leaves
holes below. So a thread has it return the holes as well, now and then, and when the process has
grown. That takes some milliseconds where there is much to return, and next to none where not.

Only `leveret serve` does this, where the C library is glibc: a host's heap is its own.
"""

from __future__ import annotations

import ctypes
import resource
import threading
import time
from collections.abc import Callable
from typing import Final

MIB: Final = 1024 * 1024

# mallopt: memory for reads (1 MiB) comes from the heap, which grows by so much at a time and is
# returned to the system above so much. By default each has a mapping of its own, made and taken
# down again: page faults, a quarter of the time that 8 KB messages take. The 16 MiB of a password's
# check are not kept: one is rare, and would be a third of what an idle broker takes. All threads
# share one heap, because the interpreter's lock keeps them from it at once as a rule, and each of
# them would keep holes of its own.
_OPTIONS: Final = (
    (-3, 12 * MIB),  # M_MMAP_THRESHOLD
    (-2, 16 * MIB),  # M_TOP_PAD
    (-1, 64 * MIB),  # M_TRIM_THRESHOLD
    (-8, 1),  # M_ARENA_MAX
)
# So much stays at the top of the heap for the next reads.
KEPT_BYTES: Final = 8 * MIB
# How often the thread looks, after how many looks it trims in any case, and after which growth of
# the process's resident memory sooner.
LOOK_SECONDS: Final = 1.0
LOOKS_MAX: Final = 5
GROWTH_BYTES: Final = 16 * MIB

_PAGE_BYTES: Final = resource.getpagesize()
_STATM: Final = "/proc/self/statm"


def keep_memory_at_hand() -> None:
    """Before other threads start; where the C library is not glibc its own way is kept."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _OPTIONS:
            mallopt(option, value)


def trim_heap() -> None:
    """Have glibc return the free memory that it keeps, but for KEPT_BYTES."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        # The call lets go of the interpreter's lock.
        trim(ctypes.c_size_t(KEPT_BYTES))


def resident_bytes() -> int:
    """This process's resident memory; 0 where the system does not say."""
    try:
        with open(_STATM, "rb", buffering=0) as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class TrimRule:
    """Says at each look whether the heap is to be trimmed now."""

    __slots__ = ("_least_bytes", "_looks")

    def __init__(self) -> None:
        self._least_bytes = 0
        self._looks = 0

    def is_due(self, resident: int) -> bool:
        """With so much resident memory: has it grown, or is it time?"""
        self._least_bytes = min(self._least_bytes, resident)
        self._looks += 1
        return self._looks >= LOOKS_MAX or resident > self._least_bytes + GROWTH_BYTES

    def trimmed(self, resident: int) -> None:
        """The heap has been trimmed, and so much is left."""
        self._least_bytes = resident
        self._looks = 0


class HeapTrim:
    """A thread that trims the heap now and then; it ends with the process."""

    def __init__(
        self,
        trim: Callable[[], None] = trim_heap,
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        self._trim = trim
        self._resident = resident
        self._rule = TrimRule()

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="leveret-heap", daemon=True).start()

    def look(self) -> None:
        """Look once, and trim if it is due."""
        if self._rule.is_due(self._resident()):
            self._trim()
            self._rule.trimmed(self._resident())

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()
