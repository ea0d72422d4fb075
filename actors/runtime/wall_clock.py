"""The machine's wall clock, in numbers that the stored fields can hold.

Deadlines and times of death are milliseconds and seconds since 1970, in fields without a sign. A
machine without a battery may begin before that. Its broker works all the same: until the clock is
set, every reader gets the first millisecond of 1970, so that nothing expires; and then every
message expires whose time has come.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch; never 0, which as a deadline means never."""
    return max(time.time_ns() // 1_000_000, 1)


def now_seconds() -> int:
    """Seconds since the epoch."""
    return max(int(time.time()), 0)
