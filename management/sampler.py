"""Samples the node's counts at regular times, for the rates and histories of the API.

Imports nothing that is slow: samples are made from a node's start on, the API is imported later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from typing import Final

from ..actors.messages import WakeAt
from ..actors.node_context import NodeContext
from ..actors.runtime.runtime import LoopActor, tell
from ..core.histogram import Histogram
from ..core.statistics.sampling import Sampling
from .about import SamplingLimits
from .pace import Committing, Pace

# In seconds: from a loop that has little to do to one whose clients wait.
LOOP_LAG_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_TICK = "tick"


class Samples:
    """A node's samples, made from now on until `stop`, whether or not anybody asks for them.

    `pace` is that of all long work of the API. `lag_seconds`: how much later than it was due each
    tick came.
    """

    def __init__(self, context: NodeContext, limits: SamplingLimits) -> None:
        self.pace = Pace(committing=_committing(context))
        self.sampling = Sampling(context.counts, *limits)
        self.lag_seconds = Histogram(LOOP_LAG_BOUNDS)
        self._sampler = Sampler.start_on(
            context.runtime,
            context,
            self.sampling,
            limits.interval_ms,
            self.pace,
            self.lag_seconds,
        )

    def stop(self) -> None:
        """Make no samples any more."""
        self._sampler.stop(block=False)


def _committing(context: NodeContext) -> Committing:
    """The journal's commits. Whatever another thread tells may be the end of one."""
    inbox, figures = context.journal.actor_inbox, context.journal_figures
    return Committing(
        lambda: figures.is_at_work or not inbox.empty(),
        lambda: figures.writes,
        context.runtime.call_at_wake,
    )


class Sampler(LoopActor):
    """Wakes at each tick, and samples in slices (pace.py). One per node, while the API is on."""

    def __init__(
        self,
        context: NodeContext,
        sampling: Sampling,
        interval_ms: int,
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
        tick = max(now, self._sampling.tick + 1)
        opened = tuple(self._context.open_connections.values())
        return self._sampling.sample(
            tick, [each.traffic for each in opened], lambda: gauges(self._context)
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


def gauges(context: NodeContext) -> tuple[int, ...]:
    """The node's GAUGES (core/statistics/sampling.py), in their order."""
    opened = context.open_connections.values()
    queue_count = sum(len(each.table.queues()) for each in context.vhosts)
    # A connection has a reader and a writer.
    actor_count = queue_count + sum(2 + len(each.channels) for each in opened)
    journal = context.journal_figures
    return (
        context.disk_free_bytes,
        _descriptors_used(),
        sum(journal.sync_seconds.counts),
        journal.written_bytes,
        journal.writes,
        context.memory_budget.used_bytes,
        journal.pages.read_messages,
        journal.written_messages,
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
