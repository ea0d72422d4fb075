"""What the trace could not keep: counted, and told of in the service log, not for every event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .events import TRACE_LOST

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# While events are dropped, the service log says how many at most this often.
LOSS_LOG_SECONDS_MIN: Final = 10.0


class TraceLoss:
    """How many events were dropped. Used by all threads that trace; never waits for a disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        # The service log; set by who has one.
        self.log: FilteringBoundLogger | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._logged_count = 0
        self._logged_at = -LOSS_LOG_SECONDS_MIN

    def add(self, events: int) -> None:
        """So many events are dropped; the first ones are told of at once."""
        with self._lock:
            self.count += events
        self.tell()

    def tell(self, is_over: bool = False) -> None:
        """Log what has not been told of, unless that was a moment ago and it goes on."""
        with self._lock:
            now = self._clock()
            since = self.count - self._logged_count
            is_due = is_over or now - self._logged_at >= LOSS_LOG_SECONDS_MIN
            if not since or not is_due:
                return
            self._logged_at = now
            self._logged_count = total = self.count
        if self.log is not None:
            self.log.warning(TRACE_LOST, dropped=since, dropped_total=total)
