"""Looks now and then whether the disk has room, and raises the alarm that stops publishers.

The alarm is `NodeContext.alarm`, which readers look at when a client publishes; only its end is
told to them. A disk that cannot be asked changes nothing, and is logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..logs.events import DISK_ENOUGH, DISK_LOW, DISK_UNKNOWN
from .messages import AlarmCleared, Ref, WakeAt
from .node_context import NodeContext
from .runtime import LoopActor, tell

# RabbitMQ's words, which connection.blocked carries.
LOW_ON_DISK = "low on disk"


class DiskWatch(LoopActor):
    """Compares `free_bytes()` with the least that is wanted, at the start and at each interval."""

    def __init__(
        self,
        context: NodeContext,
        listener: Ref,
        free_bytes: Callable[[], int],
        free_bytes_min: int,
        interval_seconds: float,
    ) -> None:
        super().__init__()
        self._context = context
        self._listener = listener
        self._free_bytes = free_bytes
        self._free_bytes_min = free_bytes_min
        self._interval_seconds = interval_seconds

    def on_start(self) -> None:
        """Before the first client is there."""
        self._look()

    def on_receive(self, _woken: object) -> None:
        """The interval is over."""
        self._look()

    def _look(self) -> None:
        when = self.runtime.scheduler.time() + self._interval_seconds
        tell(self._context.ticker, WakeAt(when, self.actor_ref, "disk"))
        try:
            free = self._free_bytes()
        except OSError as error:
            self.runtime.log.error(DISK_UNKNOWN, reason=str(error))
            return
        is_low = free < self._free_bytes_min
        if is_low == bool(self._context.alarm):
            return
        figures = {"free_bytes": free, "free_bytes_min": self._free_bytes_min}
        if is_low:
            self._context.alarm = LOW_ON_DISK
            self.runtime.log.warning(DISK_LOW, **figures)
            self._context.trace.write("alarm.raised", "disk watch", reason=LOW_ON_DISK, **figures)
        else:
            self._context.alarm = ""
            self.runtime.log.info(DISK_ENOUGH, **figures)
            self._context.trace.write("alarm.cleared", "disk watch", reason=LOW_ON_DISK, **figures)
            tell(self._listener, AlarmCleared())

    def on_failure(self, *exception: Any) -> None:
        """Nobody would hear of the end of an alarm: the node ends."""
        self._context.on_fatal("disk watch", exception[1])
