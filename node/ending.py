"""How `leveret serve` ends when it has to: one line in the log, and an exit code that is not 0.

At once, and from whatever thread: after a failed sync nothing may be confirmed any more. Without
memory there is none for the log either: then it logs a line made beforehand, and first releases a
reserve of address space.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .actors.runtime.out_of_memory import REASON
from .errors import failure_text
from .logs.events import BROKER_FAILED
from .memory_watch import LowMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import FilteringBoundLogger

EXIT_FAILED: Final = 1
# Never touched, so it takes no memory but address space. Python's allocator asks for 1 MiB at once,
# and the thread that closes the files of an embedded broker for a stack of 8 MiB.
RESERVE_BYTES: Final = 16 * 1024 * 1024
# For the thread that was first to say so.
_OTHER_THREAD_SECONDS: Final = 1.0


def memory_reserve() -> Callable[[], None]:
    """Take a reserve of address space; the returned callable releases it, and is no Python
    function.

    Calling one may take memory, too.
    """
    return mmap.mmap(-1, RESERVE_BYTES).close


class ProcessEnd:
    """Ends the process; `failed` is the node's `on_fatal`."""

    def __init__(self, log: FilteringBoundLogger, *, as_json: bool) -> None:
        self._log = log
        self._release_reserve = memory_reserve()
        self._is_first = threading.Lock().acquire
        self._line = _last_line(as_json)
        self._output = _output()
        poll = select.poll()
        if self._output is not None:
            poll.register(self._output, select.POLLOUT)
        self._poll = poll.poll

    def failed(self, actor: str, error: BaseException) -> NoReturn:
        """End for this error."""
        if isinstance(error, MemoryError) and not isinstance(error, LowMemoryError):
            self.out_of_memory()
        try:
            self._log.error(BROKER_FAILED, actor=actor, error=failure_text(error))
        except MemoryError:
            self.out_of_memory()
        finally:
            os._exit(EXIT_FAILED)

    def out_of_memory(self) -> NoReturn:
        """End without memory: once, whichever thread is the first.

        A pipe that is full is not waited for. Nothing here calls a function of Python's own.
        """
        try:
            self._release_reserve()
            if not self._is_first(blocking=False):
                time.sleep(_OTHER_THREAD_SECONDS)
            elif self._output is not None and self._poll(0):
                os.write(self._output, self._line)
        finally:
            os._exit(EXIT_FAILED)

    def watch_process(self) -> None:
        """End also where no thread and no callback has caught it: it would only be printed."""
        report_unraisable, report_thread = sys.unraisablehook, threading.excepthook

        def unraisable(caught: Any) -> None:
            if issubclass(caught.exc_type, MemoryError):
                self.out_of_memory()
            report_unraisable(caught)

        def in_thread(caught: Any) -> None:
            if issubclass(caught.exc_type, MemoryError):
                self.out_of_memory()
            report_thread(caught)

        sys.unraisablehook, threading.excepthook = unraisable, in_thread


def _last_line(as_json: bool) -> bytes:
    if as_json:
        line = json.dumps({"level": "error", "event": BROKER_FAILED, "error": REASON})
    else:
        line = f"[error    ] {BROKER_FAILED} error={REASON!r}"
    return f"{line}\n".encode()


def _output() -> int | None:
    """The descriptor of the log, if it has one."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):
        return None
