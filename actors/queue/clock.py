"""The time of one queue's rules: read for them, and awaited for them."""

from __future__ import annotations

from typing import Final

from ...core.queue.rules import Effects, MessageQueue
from ..messages import Ref, WakeAt
from ..node_context import NodeContext
from ..runtime.runtime import tell

# What the queue is woken with.
RULES_DUE: Final = "rules due"

_NEVER: Final = float("inf")
# A wish is worth telling the ticker if it is so much earlier than the last: the time is read anew
# for each message, in whole milliseconds.
_EARLIER_SECONDS: Final = 0.002


class QueueClock:
    """Has one queue's actor woken when time brings its rules something to do."""

    def __init__(self, messages: MessageQueue, actor: Ref, context: NodeContext) -> None:
        self._messages = messages
        self._actor = actor
        self._context = context
        # When the ticker will wake the actor, at the latest, on the scheduler's clock.
        self._wakes_at = _NEVER

    def read(self) -> None:
        """Tell the rules the time: of the wall, and of a clock that only goes forward."""
        self._messages.now_ms = self._context.runtime.wall_clock.now_ms()
        self._messages.uptime_ms = int(self._context.runtime.scheduler.time() * 1000)

    def watch(self) -> None:
        """After each message: see to it that the actor is woken in time."""
        wait_ms = self._messages.wait_ms()
        if wait_ms is None:
            return
        when = self._context.runtime.scheduler.time() + wait_ms / 1000
        if when < self._wakes_at - _EARLIER_SECONDS:
            self._wakes_at = when
            tell(self._context.ticker, WakeAt(when, self._actor, RULES_DUE))

    def wake(self, effects: Effects) -> None:
        """The ticker has woken the actor, perhaps for a message that has gone."""
        self._wakes_at = _NEVER
        self._messages.expire(effects)
