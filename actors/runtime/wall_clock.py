"""The machine's wall clock, in numbers that the stored fields can hold.

Deadlines and times of death are milliseconds and seconds since 1970, in fields without a sign. A
machine without a battery may begin before that. Its broker works all the same: until the clock is
set, every reader gets the first millisecond of 1970, so that nothing expires; and then every
message expires whose time has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final


class WallClock:
    """`time_ns` says how many nanoseconds have passed since the epoch."""

    def __init__(self, time_ns: Callable[[], int] = time.time_ns) -> None:
        self._time_ns = time_ns

    def now_ns(self) -> int:
        """Nanoseconds since the epoch; never 0."""
        return max(self._time_ns(), 1)

    def now_ms(self) -> int:
        """Milliseconds since the epoch; never 0, which as a deadline means never."""
        return max(self._time_ns() // 1_000_000, 1)

    def now_seconds(self) -> int:
        """Seconds since the epoch."""
        return max(self._time_ns() // 1_000_000_000, 0)


# The trace's times are always the machine's.
MACHINE_CLOCK: Final = WallClock()
