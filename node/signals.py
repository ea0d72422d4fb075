"""The handling of signals in `leveret serve`.

SIGTERM and SIGINT stop it. Another one within REPEAT_SECONDS is the same wish once more, and the
stop goes on: `timeout` signals its child and then the child's group, and a terminal's Ctrl-C
reaches a broker beside the script that passes it on. A later one logs a line and ends the broker at
once, as if nobody handled it: its exit status is that signal. Should that line hang, one more ends
it without any doing of its own. SIGHUP renews the certificates of TLS; it also comes when the
terminal that the broker was started in is closed, and then it stops the broker as SIGTERM does.
Other signals that end a process by default, and that a person or a tool may send to a service (log
rotation, the reload of another program), are logged and change nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from .logs.events import BROKER_SIGNAL_ENDS, BROKER_SIGNAL_IGNORED

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_IGNORED: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
# Senders of two signals have both sent by then; a person has not lost patience yet.
REPEAT_SECONDS: Final = 0.5
# Longer the end does not wait for its line, which nobody may be reading.
_LINE_SECONDS_MAX: Final = 0.5


class Signals:
    """Takes the process's signals from now on; made on its main thread, on the event loop.

    `stopping` is done, with the signal's name, when the broker is to stop. `clock` is in seconds,
    and only goes forward.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._log = log
        self._clock = clock
        # When the first signal came that stops the broker.
        self._asked_at: float | None = None
        self.stopping: asyncio.Future[str] = loop.create_future()
        for number in _STOPPING:
            # Not by the event loop, which a long recovery keeps busy.
            signal.signal(number, self._stop)
        for number in _IGNORED:
            loop.add_signal_handler(number, self._ignore, number.name, "it has no meaning here")

    def at_hangup(self, renew: Callable[[], bool]) -> None:
        """Renew certificates at SIGHUP; `renew` says whether there are any."""
        terminal = _terminal()

        def hang_up() -> None:
            if terminal is not None and not os.isatty(terminal):
                # Closed meanwhile, and nobody is left who could press Ctrl-C.
                self._ask_to_stop("SIGHUP")
            elif not renew():
                self._ignore("SIGHUP", "there are no certificates to renew")

        self._loop.add_signal_handler(signal.SIGHUP, hang_up)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._asked_at is None:
            self._asked_at = self._clock()
            self._loop.call_soon_threadsafe(partial(self._ask_to_stop, name))
        elif self._clock() - self._asked_at < REPEAT_SECONDS:
            # The stop may have closed the event loop by now.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ignore, name, "the broker is stopping")
        else:
            self._end(number)

    def _end(self, number: int) -> None:
        for each in _STOPPING:
            signal.signal(each, signal.SIG_DFL)
        name = signal.Signals(number).name
        # On a thread: this one may have been interrupted within a line of its own.
        write = partial(self._log.warning, BROKER_SIGNAL_ENDS, signal=name)
        line = threading.Thread(target=write, daemon=True)
        with suppress(MemoryError, RuntimeError):
            line.start()
            line.join(_LINE_SECONDS_MAX)
        signal.raise_signal(number)

    def _ask_to_stop(self, name: str) -> None:
        if not self.stopping.done():
            self.stopping.set_result(name)

    def _ignore(self, name: str, reason: str) -> None:
        self._log.info(BROKER_SIGNAL_IGNORED, signal=name, reason=reason)


def _terminal() -> int | None:
    """The descriptor of the terminal that the process writes to, if it does."""
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):
        return None
    return descriptor if os.isatty(descriptor) else None
