"""How long a stop may take, and how its waits are reported.

Everything that one stop waits for (clients, dead letters, files) comes out of one allowance of
time, so that the stop is over when the setting says, whatever hangs. A wait that is noticeable is
logged with its reason: a person at a terminal learns which client or file holds the stop up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .logs.events import BROKER_STOP_TIMEOUT, BROKER_STOP_WAITS

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# How often a wait looks whether it is over.
_POLL_SECONDS = 0.001
# A person who pressed Ctrl-C notices a wait of this length.
_NOTICED_SECONDS = 1.0


class StopClock:
    """The allowance of one stop; begins when it is made, on the event loop."""

    def __init__(self, log: FilteringBoundLogger, timeout_ms: int, hint: str = "") -> None:
        """`hint` says how a person can end the wait; the log line contains it."""
        self._log = log
        self._hint = {"hint": hint} if hint else {}
        self._timeout_ms = timeout_ms
        self._time = asyncio.get_running_loop().time
        self._deadline = self._time() + timeout_ms / 1000

    async def wait(
        self,
        is_over: Callable[[], bool],
        what: Callable[[], str],
        timeout_ms: int | None = None,
    ) -> bool:
        """Wait until it is over; false if that takes longer than is left, or than `timeout_ms`.

        `what` returns the present reason of the wait.
        """
        begun = self._time()
        deadline = self._deadline
        if timeout_ms is not None:
            deadline = min(deadline, begun + timeout_ms / 1000)
        is_noticed = False
        while not is_over():
            now = self._time()
            if now >= deadline:
                milliseconds = self._timeout_ms if timeout_ms is None else timeout_ms
                self._log.warning(BROKER_STOP_TIMEOUT, waits_for=what(), milliseconds=milliseconds)
                return False
            if not is_noticed and now - begun >= _NOTICED_SECONDS:
                is_noticed = True
                seconds_max = round(deadline - now, 1)
                self._log.warning(
                    BROKER_STOP_WAITS, waits_for=what(), seconds_max=seconds_max, **self._hint
                )
            await asyncio.sleep(_POLL_SECONDS)
        return True


class OpenFiles:
    """The resources that a node has opened, which it closes in the opposite order."""

    def __init__(self) -> None:
        self._closers: dict[str, Callable[[], object]] = {}
        # Done when all are closed; None until `close` begins.
        self.closed: Future[None] | None = None

    def add(self, name: str, close: Callable[[], object]) -> None:
        """Something was opened; `name` is for people."""
        self._closers[name] = close

    def change(self, name: str, close: Callable[[], object]) -> None:
        """An actor owns the opened resource now, and closes it."""
        assert name in self._closers
        self._closers[name] = close

    def open_name(self) -> str:
        """The resource that is being closed, or would be next."""
        return next(reversed(self._closers), "nothing")

    async def close(self, clock: StopClock) -> bool:
        """Close all; false if the clock runs out first. The rest is closed whenever it can be.

        On a thread, for a disk may answer no more. No pool's: those are joined when the process
        ends, which would not end.
        """
        closers = self._closers
        closed = self.closed = Future()

        def run() -> None:
            try:
                with ExitStack() as stack:
                    for name, close in closers.items():
                        stack.callback(closers.pop, name)
                        stack.callback(close)
            except BaseException as error:
                closed.set_exception(error)
            else:
                closed.set_result(None)

        try:
            threading.Thread(target=run, name="leveret-closing", daemon=True).start()
        except (MemoryError, RuntimeError):
            # There is no memory for its stack.
            run()
        if not await clock.wait(closed.done, lambda: f"{self.open_name()} to be closed"):
            return False
        closed.result()
        return True
