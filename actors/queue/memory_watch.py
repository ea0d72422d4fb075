"""Raises the alarm that stops publishers while the queues hold too much, although they page.

A queue pages what the disk has, or can have; what it cannot page stays in memory: bytes that no
disk has taken yet, and those of a spill that fails. Queues look at `NodeContext.memory_level` when
what they hold has changed, and tell this actor when it has become too much, or is no longer.
"""

from __future__ import annotations

from typing import Any

from ...core.alarms import Resource
from ...logs.events import MEMORY_ENOUGH, MEMORY_HIGH
from ..messages import AlarmCleared, LookAtMemory, Ref
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell


class MemoryWatch(LoopActor):
    """One per node. `listener` passes the end of the alarm on to the readers."""

    def __init__(self, context: NodeContext, listener: Ref) -> None:
        super().__init__()
        self._context = context
        self._listener = listener

    def on_receive(self, message: object) -> None:
        """Raise or clear the alarm, as the level says by now."""
        if not isinstance(message, LookAtMemory):
            return
        level, alarms = self._context.memory_level, self._context.alarms
        if level.is_high == alarms.is_low(Resource.MEMORY):
            # It has changed twice meanwhile.
            return
        may_go_on = alarms.change(Resource.MEMORY, level.is_high)
        figures = {"memory_bytes": message.held_bytes, "memory_bytes_max": level.high_bytes}
        if level.is_high:
            self.runtime.log.warning(MEMORY_HIGH, **figures)
        else:
            self.runtime.log.info(MEMORY_ENOUGH, **figures)
        event = MEMORY_HIGH if level.is_high else MEMORY_ENOUGH
        self._context.trace.write(event, "memory watch", **figures)
        if may_go_on:
            tell(self._listener, AlarmCleared())

    def on_failure(self, *exception: Any) -> None:
        """Nobody would hear of the end of an alarm: the node ends."""
        self._context.on_fatal("memory watch", exception[1])
