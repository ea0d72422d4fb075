"""How far long work has come, on a terminal's standard error; elsewhere nothing is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

# So often a line is written anew; work that is done sooner shows nothing.
SECONDS_MIN = 0.25


class Progress:
    """Call it with the share that is done, 0 to 1; leaves an empty line behind."""

    def __init__(
        self,
        what: str,
        stream: TextIO | None = None,
        seconds_min: float = SECONDS_MIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._what = what
        self._seconds_min = seconds_min
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._told_at = self._clock()
        self._width = 0

    def __call__(self, share: float) -> None:
        """Show it, unless it was shown a moment ago."""
        now = self._clock()
        if self._is_shown and now - self._told_at >= self._seconds_min:
            self._told_at = now
            line = f"{self._what}: {min(share, 1.0):4.0%}"
            self._width = len(line)
            self._write(f"\r{line}")

    @property
    def is_shown(self) -> bool:
        """Is there a terminal?"""
        return self._is_shown

    def clear(self) -> None:
        """Leave an empty line behind, for others to write to."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        # The work goes on when its terminal is gone.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()
