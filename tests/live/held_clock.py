"""A live broker's clock, which stands still until a test advances it.

The actors know the time from their scheduler, and are woken by it: heartbeats, leases of queues and
the time-outs of handshakes and acks. While the clock stands, none of them is over, however long
the machine takes for what a test does before. Messages expire by the wall clock, which goes on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import partial
from itertools import count

import leveret
from insides import context_of, on_loop
from leveret.actors.runtime.runtime import tell


class HeldClock:
    """Takes the place of a started broker's `leveret.actors.runtime.runtime.Scheduler`."""

    def __init__(self, broker: leveret.Broker) -> None:
        runtime = context_of(broker).runtime
        self._broker = broker
        self._loop = runtime.scheduler
        # In the middle of a millisecond: queues count in whole ones, and the microseconds
        # that `_advance` adds never carry the time over the end of one.
        self._now = (math.floor(self._loop.time() * 1000) + 1.5) / 1000
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self.call_soon = self._loop.call_soon
        self.call_soon_threadsafe = self._loop.call_soon_threadsafe
        # The ticker has its timer set anew, by this clock.
        ring = partial(tell, context_of(broker).ticker, None)
        on_loop(broker, lambda: setattr(runtime, "scheduler", self), ring)

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        if when <= self._now:
            self.call_soon(callback)
        else:
            heapq.heappush(self._later, (when, next(self._order), callback))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time go by, and have called what falls due."""
        on_loop(self._broker, lambda: self._advance(seconds))

    def _advance(self, seconds: float) -> None:
        # A sum of floats may fall short.
        self._now += seconds + 1e-6
        while self._later and self._later[0][0] <= self._now:
            heapq.heappop(self._later)[2]()
