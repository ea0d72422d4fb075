"""Long routing goes on in turns, between which the event loop serves everybody else.

Where a publish leads is kept, so most batches are routed at once. But a read can bring thousands of
new keys, and each may have to be compared with many patterns: seconds, in which no heartbeat would
be answered. So the channels of a node have so much time for it between two looks of the event loop
at its sockets; channels with unfinished routing wait in a row.
"""

from __future__ import annotations

from collections import deque

from ...core.exchanges.exchange import Steps
from ...core.publishing.publisher import Routed
from ..messages import Ref, RouteMore
from .runtime import Runtime


class RoutingTurns:
    """Those of a node; a step that has begun is not interrupted."""

    def __init__(self, runtime: Runtime, seconds_per_round: float) -> None:
        self._runtime = runtime
        self._seconds_per_round = seconds_per_round
        self._clock = runtime.scheduler.time
        # The channels that wait for their turns.
        self.waiting: deque[Ref] = deque()
        # Until when there is time in this round of the event loop, if it has been asked for.
        self._ends: float | None = None

    def begin(self, steps: Steps[Routed], channel: Ref) -> Routed | None:
        """Carry out the steps, which have begun; None if there is no time for all of them.

        Then the channel is told RouteMore when there is.
        """
        if self.waiting or not self._has_time():
            self.waiting.append(channel)
            return None
        return self.go_on(steps, channel)

    def go_on(self, steps: Steps[Routed], channel: Ref) -> Routed | None:
        """As `begin`, for a channel that has been told RouteMore."""
        try:
            next(steps)
            while self._has_time():
                next(steps)
        except StopIteration as end:
            return _result(end)
        self.waiting.append(channel)
        return None

    def _has_time(self) -> bool:
        if self._ends is None:
            self._ends = self._clock() + self._seconds_per_round
            self._runtime.scheduler.call_soon(self._begin_round)
            return True
        return self._clock() < self._ends

    def _begin_round(self) -> None:
        self._ends = None
        while self.waiting and self._has_time():
            self._runtime.tell_now(self.waiting.popleft(), RouteMore())


def _result(end: StopIteration) -> Routed:
    routed: Routed = end.value
    return routed
