"""An event loop that a test turns by hand, with a clock that stands still until it is set."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count


class HandScheduler:
    """A `leveret.actors.runtime.runtime.Scheduler`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: deque[Callable[[], object]] = deque()
        self.later: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    # Safe enough: deque.append is atomic, and the test runs when the other thread has ended.
    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self.later, (when, next(self._order), callback))

    def time(self) -> float:
        return self.now

    def run_round(self) -> int:
        """Call what was to be called soon by now; returns how many that were."""
        callbacks = list(self.soon)
        self.soon.clear()
        for callback in callbacks:
            callback()
        return len(callbacks)

    def run(self) -> None:
        """Until nothing is left to be called soon."""
        while self.run_round():
            pass

    def advance(self, seconds: float) -> None:
        """Let time go by, and call what falls due."""
        end = self.now + seconds
        self.run()
        while self.later and self.later[0][0] <= end:
            self.now, _, callback = heapq.heappop(self.later)
            callback()
            self.run()
        self.now = end
