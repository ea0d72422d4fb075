"""Samples the node's counts at regular times, for the rates and histories of the API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator

from ..actors.messages import WakeAt
from ..actors.node_context import NodeContext
from ..actors.runtime.runtime import LoopActor, tell
from ..core.histogram import Histogram
from ..core.statistics.sampling import Sampling
from .pace import Pace

_TICK = "tick"


class Sampler(LoopActor):
    """Wakes at each tick, and samples in slices (pace.py). One per node, while the API is on."""

    def __init__(
        self,
        context: NodeContext,
        sampling: Sampling,
        interval_ms: int,
        data_dir: str,
        pace: Pace,
        lag_seconds: Histogram,
    ) -> None:
        """`lag_seconds` is told how much later than it was due each tick comes."""
        super().__init__()
        self._lag_seconds = lag_seconds
        # When the next tick is due, by the scheduler's clock.
        self._due = 0.0
        self._context = context
        self._sampling = sampling
        self._interval_ms = interval_ms
        self._data_dir = data_dir
        self._pace = pace
        self._task: asyncio.Task[None] | None = None

    def on_start(self) -> None:
        """Begin with the next tick."""
        self._wake()

    def on_receive(self, _woken: object) -> None:
        """Sample, unless the last sample is still being made."""
        self._lag_seconds.observe(max(0.0, self.runtime.scheduler.time() - self._due))
        self._wake()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._sample())

    async def _sample(self) -> None:
        try:
            await self._pace.carry_out(self._steps())
        except Exception as error:
            self._context.on_fatal("sampler", error)

    def _steps(self) -> Generator[None, None, None]:
        # A clock that was set back does not bring a tick twice.
        now = self.runtime.wall_clock.now_ms() // self._interval_ms
        tick = max(now, self._sampling.moment.tick + 1)
        opened = tuple(self._context.open_connections.values())
        return self._sampling.sample(
            tick, [each.traffic for each in opened], lambda: gauges(self._context, self._data_dir)
        )

    def _wake(self) -> None:
        wait_ms = self._interval_ms - self.runtime.wall_clock.now_ms() % self._interval_ms
        self._due = self.runtime.scheduler.time() + wait_ms / 1000
        tell(self._context.ticker, WakeAt(self._due, self.actor_ref, _TICK))

    def on_stop(self) -> None:
        """The API is off."""
        self._sampling.stop()
        if self._task is not None:
            self._task.cancel()


def gauges(context: NodeContext, data_dir: str) -> tuple[int, ...]:
    """The node's GAUGES (core/statistics/sampling.py), in their order."""
    disk = os.statvfs(data_dir)
    opened = context.open_connections.values()
    queue_count = sum(len(each.table.queues()) for each in context.vhosts)
    # A connection has a reader and a writer.
    actor_count = queue_count + sum(2 + len(each.channels) for each in opened)
    return (
        disk.f_bavail * disk.f_frsize,
        _descriptors_used(),
        context.memory_budget.used_bytes,
        actor_count,
        len(opened),
    )


def _descriptors_used() -> int:
    """About how many file descriptors are open.

    The kernel gives out the lowest free number. To list all would take milliseconds.
    """
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return os.sysconf("SC_OPEN_MAX")
    os.close(descriptor)
    return descriptor
