"""Ends the broker shortly before its address space is used up, where that is limited.

With no memory left at all the interpreter itself cannot be relied on: CPython 3.11 to 3.13 need an
integer to leave a long function by an exception, and without memory for it they try for ever, deaf
to signals and to every other thread. So the broker ends while there is some left. A single larger
allocation fails in the way of any error (actors/runtime/out_of_memory.py).

Limits are `ulimit -v` and `ulimit -d`, LimitAS= and LimitDATA= in systemd. They may be set while
the process runs. Where there is none, the kernel ends the process if there is no memory.
"""

from __future__ import annotations

import os
import resource
import threading
from typing import Final

from .actors.runtime.out_of_memory import OnFatal

# More than the objects that Python can make between two looks, some 200 MB in a second.
MEMORY_HEADROOM_BYTES: Final = 16 * 1024 * 1024
LOOK_SECONDS: Final = 0.02
# Whether there is a limit by now.
UNLIMITED_LOOK_SECONDS: Final = 1.0

_PAGE_BYTES: Final = resource.getpagesize()
_STATM: Final = "/proc/self/statm"
# Limits, and where Linux says how much of each is used: pages, by the number of the field.
_LIMITS: Final = (
    (resource.RLIMIT_AS, 0, "address space"),
    (resource.RLIMIT_DATA, 5, "data"),
)


class LowMemoryError(MemoryError):
    """The process has so little address space left that the broker ends."""


class MemoryWatch:
    """A thread that looks how much memory is left; `start` and `stop` it once."""

    def __init__(self, on_fatal: OnFatal, headroom_bytes: int) -> None:
        """`on_fatal` is called, from the thread, when no more than `headroom_bytes` are left."""
        self._on_fatal = on_fatal
        self._headroom_bytes = headroom_bytes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leveret-memory", daemon=True)

    def start(self) -> None:
        """Look from now on. On systems that do not report the use, the watch does nothing."""
        if os.path.exists(_STATM):
            self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with open(_STATM, "rb", buffering=0) as statm:
                while not self._ended.wait(self._look(statm.fileno())):
                    pass
        except BaseException as error:
            self._on_fatal("memory watch", error)

    def _look(self, statm: int) -> float:
        """Look once; how long until the next time, in seconds. LowMemoryError ends the broker."""
        wait_seconds = UNLIMITED_LOOK_SECONDS
        for limit, field, name in _LIMITS:
            limit_bytes, _ = resource.getrlimit(limit)
            if limit_bytes == resource.RLIM_INFINITY:
                continue
            wait_seconds = LOOK_SECONDS
            used_bytes = int(os.pread(statm, 256, 0).split()[field]) * _PAGE_BYTES
            if used_bytes + self._headroom_bytes > limit_bytes:
                raise LowMemoryError(
                    f"out of memory: {used_bytes} bytes of {limit_bytes} of {name} are used, and "
                    f"{self._headroom_bytes} are kept to end with (memory_headroom_bytes)"
                )
        return wait_seconds
