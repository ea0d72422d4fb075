"""The one clock of the node: wakes actors at the times that they asked for."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from ..messages import Ref, WakeAt, Woken
from .runtime import LoopActor, tell

# Fewer wishes than this are never looked through.
WISHES_MIN = 100


class Ticker(LoopActor):
    """Keeps wishes by time; one timer of the event loop is set for the earliest.

    A wish cannot be withdrawn: the actor that asked looks whether the token still matters. But an
    actor has one wish for each token, the last. Those that count no more, and those of actors that
    have stopped, are dropped now and then: or connections that come and go would be kept in memory
    by what they once wished for, and a queue whose head expires ever earlier by all the times it
    was to be woken at.
    """

    def __init__(self, on_fatal: Callable[[str, BaseException], None]) -> None:
        super().__init__()
        self._on_fatal = on_fatal
        self._wishes: list[tuple[float, int, WakeAt]] = []
        self._order = count()
        # The one wish of an actor for a token, by its order.
        self._current: dict[tuple[Ref, object], int] = {}
        self._timer_at = float("inf")
        self._wishes_max = WISHES_MIN

    def on_receive(self, message: WakeAt | None) -> None:
        """Take a wish, or None when the timer has gone off."""
        if message is None:
            self._timer_at = float("inf")
            now = self.runtime.scheduler.time()
            while self._wishes and self._wishes[0][0] <= now:
                _, order, wish = heapq.heappop(self._wishes)
                if self._current.get((wish.actor, wish.token)) == order:
                    del self._current[wish.actor, wish.token]
                    tell(wish.actor, Woken(wish.token))
        else:
            order = self._current[message.actor, message.token] = next(self._order)
            heapq.heappush(self._wishes, (message.when, order, message))
            if len(self._wishes) > self._wishes_max:
                self._drop_what_is_void()

    def on_idle(self) -> None:
        """Set the timer for the earliest wish."""
        if self._wishes and self._wishes[0][0] < self._timer_at:
            self._timer_at = self._wishes[0][0]
            self.runtime.scheduler.call_at(self._timer_at, self.ring)

    def _drop_what_is_void(self) -> None:
        current = {
            key: order for key, order in self._current.items() if not key[0].actor_stopped.is_set()
        }
        self._current = current
        self._wishes = [
            each for each in self._wishes if current.get((each[2].actor, each[2].token)) == each[1]
        ]
        heapq.heapify(self._wishes)
        # As many again may come before the next look: each wish is looked at a few times at most.
        self._wishes_max = max(WISHES_MIN, 2 * len(self._wishes))

    def ring(self) -> None:
        """The timer has gone off."""
        tell(self.actor_ref, None)

    def on_failure(self, *exception: Any) -> None:
        """Without a clock no client is ever found to be gone: the node ends."""
        self._on_fatal("ticker", exception[1])
