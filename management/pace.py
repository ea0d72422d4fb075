"""Long work of the API, done in slices between which the event loop has its other work.

All coroutines of a node share one Pace, and one of them has a slice in each round of the loop:
ten clients that list delay a publish by one slice, as one client does.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")

# A confirm takes about as long as two of these where nothing else is done.
SLICE_SECONDS: Final = 0.0001
# Sorted at once.
_RUN_ITEMS: Final = 128


class Pace:
    """Whose slice is next: that of the longest wait."""

    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        """A slice ends with the step in which its time is over."""
        self._slice_seconds = slice_seconds
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when a slice begins: in a later round of the event loop, alone in that round."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_next)
        await turn

    def _begin_next(self) -> None:
        waiting = self._waiting
        # It stays in the queue until the next one begins, so that a turn asked for meanwhile is
        # a round later.
        while waiting and waiting[0].done():
            waiting.popleft()
        if waiting:
            waiting[0].set_result(None)
            asyncio.get_running_loop().call_soon(self._begin_next)

    async def carry_out(self, steps: Generator[None, None, Result]) -> Result:
        """Run a generator to its end, as many of its steps in a slice as have room; its result.

        A step is to be short: some microseconds.
        """
        clock, slice_seconds = time.perf_counter, self._slice_seconds
        try:
            while True:
                await self.turn()
                ends_at = clock() + slice_seconds
                next(steps)
                while clock() < ends_at:
                    next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def in_order(
    items: Iterable[Item], key: Callable[[Item], Any]
) -> Generator[None, None, list[Item]]:
    """The items sorted by their keys, in short steps; equal ones stay in the order before.

    Python sorts in one go, which takes some milliseconds for ten thousand items.
    """
    runs: list[list[tuple[Any, int, Item]]] = []
    run: list[tuple[Any, int, Item]] = []
    for number, item in enumerate(tuple(items)):
        run.append((key(item), number, item))
        if len(run) == _RUN_ITEMS:
            run.sort()
            runs.append(run)
            run = []
        yield
    run.sort()
    runs.append(run)
    merged: list[Item] = []
    for _, _, item in heapq.merge(*runs):
        merged.append(item)
        yield
    return merged
