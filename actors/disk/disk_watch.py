"""Looks whether the disk has room, and raises the alarm that stops publishers.

It looks now and then, and when much has been written (`DiskBudget`), so that publishers are
stopped before a write fails. If one fails all the same, the alarm is on until the journal has found
room again. The alarm is one of `NodeContext.alarms`, which readers look at when a client publishes;
only the end of the last is told to them. A disk that cannot be asked changes nothing, and is
logged. A data directory that is not there any more ends the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.alarms import Resource
from ...logs.events import DISK_ENOUGH, DISK_FULL, DISK_LOW, DISK_UNKNOWN, TRACE_RESUMED
from ...storage.errors import StorageError
from ..messages import AlarmCleared, DiskFull, DiskHasRoom, Ref, SeekRoom, WakeAt, WatchedBy, Woken
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from .journal import DiskBudget

# RabbitMQ's words for the disk's alarm alone.
DISK_REASON: Final = "low on disk"
# While there is an alarm the disk is looked at so often, or more often if the setting says so.
ALARM_INTERVAL_SECONDS: Final = 1.0


class DiskWatch(LoopActor):
    """Compares `free_bytes()` with the least that is wanted, 0 for no such limit.

    It raises OSError if the disk does not say, StorageError if the data directory is gone.
    """

    def __init__(
        self,
        context: NodeContext,
        listener: Ref,
        free_bytes: Callable[[], int],
        free_bytes_min: int,
        interval_seconds: float,
        budget: DiskBudget,
    ) -> None:
        super().__init__()
        self._context = context
        self._listener = listener
        self._free_bytes = free_bytes
        self._free_bytes_min = free_bytes_min
        self._interval_seconds = interval_seconds
        self._budget = budget
        # Has a write failed, and has nobody found room since? How often has one failed?
        self._is_full = False
        self._full_count = 0
        # Is there an alarm for the disk?
        self._is_low = False

    def on_start(self) -> None:
        """Before the first client is there."""
        for actor in (self._context.journal, self._context.catalog):
            tell(actor, WatchedBy(self.actor_ref))
        self._interval_is_over()

    def on_receive(self, message: object) -> None:
        """Look, for a reason of time or of bytes; or hear what became of a write."""
        if isinstance(message, Woken):
            self._interval_is_over()
            return
        if isinstance(message, DiskFull):
            self._full_count += 1
            if not self._is_full:
                self.runtime.log.error(DISK_FULL, reason=message.reason)
                self._is_full = True
                # Before anybody else hears of it: dead letters wait from now on.
                self._context.is_disk_full = True
        elif isinstance(message, DiskHasRoom):
            self._is_full = self._is_full and message.full_count != self._full_count
        self._look()

    def _interval_is_over(self) -> None:
        free = self._look()
        self._wake_later()
        if free is not None:
            tell(self._context.journal, SeekRoom(free, self._full_count))
            if not self._is_low and self._context.trace.retry_start():
                self.runtime.log.warning(TRACE_RESUMED)

    def _wake_later(self) -> None:
        seconds = self._interval_seconds
        if self._is_low:
            seconds = min(seconds, ALARM_INTERVAL_SECONDS)
        when = self.runtime.scheduler.time() + seconds
        tell(self._context.ticker, WakeAt(when, self.actor_ref, "disk"))

    def _look(self) -> int | None:
        """How much is free, if that is known."""
        try:
            free = self._free_bytes()
        except StorageError as error:
            # Nothing that is written from now on is found again: it must not be confirmed.
            self._context.on_fatal("disk watch", error)
            return None
        except OSError as error:
            self.runtime.log.error(DISK_UNKNOWN, reason=str(error))
            return None
        self._context.disk_free_bytes = free
        self._budget.looked(free)
        is_low = free < self._free_bytes_min or self._is_full
        if is_low != self._is_low:
            self._change(is_low, free)
        return free

    def _change(self, is_low: bool, free: int) -> None:
        figures = {"free_bytes": free, "free_bytes_min": self._free_bytes_min}
        self._is_low = is_low
        may_go_on = self._context.alarms.change(Resource.DISK, is_low)
        if is_low:
            # Sooner than it would have been.
            self._wake_later()
            self.runtime.log.warning(DISK_LOW, **figures)
            self._context.trace.write("alarm.raised", "disk watch", reason=DISK_REASON, **figures)
        else:
            self._context.is_disk_full = False
            self.runtime.log.info(DISK_ENOUGH, **figures)
            self._context.trace.write("alarm.cleared", "disk watch", reason=DISK_REASON, **figures)
            for actor in (self._context.dead_letters, self._context.broker):
                tell(actor, AlarmCleared())
            if may_go_on:
                tell(self._listener, AlarmCleared())

    def on_failure(self, *exception: Any) -> None:
        """Nobody would hear of the end of an alarm: the node ends."""
        self._context.on_fatal("disk watch", exception[1])
