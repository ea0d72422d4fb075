"""The clock of a queue whose messages may expire: reads it, and asks to be woken in time."""

from __future__ import annotations

import time
from typing import Final

from ..core.effects import Effects
from ..core.expiring_queue import ExpiringQueue
from .messages import Ref, WakeAt
from .node_context import NodeContext
from .runtime import tell

# What the queue is woken with.
HEAD_EXPIRES: Final = "head expires"

_NEVER_MS: Final = 1 << 62


class QueueExpiry:
    """Has one queue's actor woken when its first message expires."""

    def __init__(self, messages: ExpiringQueue, actor: Ref, context: NodeContext) -> None:
        self._messages = messages
        self._actor = actor
        self._context = context
        # When the ticker will wake the actor, at the latest.
        self._wakes_at_ms = _NEVER_MS

    def read_clock(self) -> None:
        """Before each message: deadlines are compared with the clock of the machine."""
        self._messages.now_ms = time.time_ns() // 1_000_000

    def watch(self) -> None:
        """After each message: the head may be another."""
        deadline_ms = self._messages.head_deadline_ms()
        if deadline_ms is None or deadline_ms >= self._wakes_at_ms:
            return
        self._wakes_at_ms = deadline_ms
        seconds = max(0, deadline_ms - self._messages.now_ms) / 1000
        when = self._context.runtime.scheduler.time() + seconds
        tell(self._context.ticker, WakeAt(when, self._actor, HEAD_EXPIRES))

    def woken(self, effects: Effects) -> None:
        """The ticker has woken the actor, perhaps for a head that has gone."""
        self._wakes_at_ms = _NEVER_MS
        self._messages.expire(effects)
