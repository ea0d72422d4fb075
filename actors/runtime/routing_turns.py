"""Long routing goes on in turns, between which the event loop serves everybody else.

Where a publish leads is kept, so most batches are routed at once. But a read can bring thousands of
new keys, and each may have to be compared with many patterns: seconds, in which no heartbeat would
be answered. So the channels of a node have so much time for it between two looks of the event loop
at its sockets; channels with unfinished routing wait in a row. The publisher of dead letters waits
there, too. It may ask for several shares of the time: it must keep up with those who publish.
"""

from __future__ import annotations

from collections import deque

from ...core.exchanges.exchange import Result, Steps
from ..messages import Ref, RouteMore
from .runtime import Runtime


class RoutingTurns:
    """Those of a node; a step that has begun is not interrupted."""

    def __init__(self, runtime: Runtime, seconds_per_round: float) -> None:
        self._runtime = runtime
        self._seconds_per_round = seconds_per_round
        self._clock = runtime.scheduler.time
        # The channels that wait for their turns, and the publisher of dead letters.
        self.waiting: deque[Ref] = deque()
        # When routing began in this round of the event loop, if it has.
        self._begun: float | None = None

    def start(self, steps: Steps[Result], actor: Ref) -> Result | None:
        """As `begin`, for steps that have not begun: where every route is kept there is none."""
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        return self.begin(steps, actor)

    def begin(self, steps: Steps[Result], actor: Ref, shares: int = 1) -> Result | None:
        """Carry out the steps, which have begun; None if there is no time for all of them.

        Then the actor is told RouteMore when there is.
        """
        if self.waiting or not self._has_time(shares):
            self.waiting.append(actor)
            return None
        return self.go_on(steps, actor, shares)

    def go_on(self, steps: Steps[Result], actor: Ref, shares: int = 1) -> Result | None:
        """As `begin`, for an actor that has been told RouteMore."""
        try:
            next(steps)
            while self._has_time(shares):
                next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        self.waiting.append(actor)
        return None

    def _has_time(self, shares: int = 1) -> bool:
        if self._begun is None:
            self._begun = self._clock()
            self._runtime.scheduler.call_soon(self._begin_round)
            return True
        return self._clock() < self._begun + shares * self._seconds_per_round

    def _begin_round(self) -> None:
        self._begun = None
        while self.waiting and self._has_time():
            self._runtime.tell_now(self.waiting.popleft(), RouteMore())
