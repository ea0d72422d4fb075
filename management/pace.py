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
from typing import Any, Final, NamedTuple, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")

# A confirm takes about as long as three of these where nothing else is done.
SLICE_SECONDS: Final = 0.00005
# Where commits are far apart, slices take this share of the time between two of them, but no more
# than so many times the length of others: lists are to be there in seconds beside many publishers.
SHARE: Final = 0.15
LENGTHS_MAX: Final = 6
# Sorted at once.
_RUN_ITEMS: Final = 128


# Slices wait so long for a commit at most. As a rule it takes less, and a disk that takes more does
# not stop the API: a slice in a millisecond leaves commits nine tenths of the interpreter.
HOLD_SECONDS: Final = 0.001
# So long behind a commit others are expected.
BUSY_SECONDS: Final = 0.005


class Committing(NamedTuple):
    """Is a commit of publishers' messages under way, and how many have been carried out?

    `at_end` calls back, once, when one is done.
    """

    is_under_way: Callable[[], bool]
    ended_count: Callable[[], int]
    at_end: Callable[[Callable[[], None]], None]


class Pace:
    """Whose slice is next: that of the longest wait.

    No slice begins while a commit is under way: the journal's thread would wait for the interpreter
    behind each. Between two rounds of the event loop that have something to do, the interpreter is
    free for a few microseconds only, which is less than another thread takes to wake up.

    While there are commits, one slice follows each. With slices in every round the event loop would
    not sleep, and a publisher that shares its processor could not read the confirm: the kernel lets
    a busy thread go on for milliseconds.
    """

    def __init__(
        self, slice_seconds: float = SLICE_SECONDS, committing: Committing | None = None
    ) -> None:
        """A slice ends with the step in which its time is over: so long after its begin, or longer
        if the last one was long ago."""
        self._slice_seconds = slice_seconds
        self._committing = committing
        self._waiting: deque[asyncio.Future[None]] = deque()
        # While a commit is waited for.
        self._hold: asyncio.TimerHandle | None = None
        self._is_called_at_end = False
        # The next slice has waited for a commit, and begins whatever follows.
        self._has_waited = False
        # When the last slice began.
        self._begun = 0.0
        # How many commits there had been at the last look, and until when others are expected.
        self._commit_count = 0
        self._busy_until = 0.0

    async def turn(self) -> float:
        """Return when a slice begins: in a later round of the event loop, alone in that round.

        Gives the time, by time.perf_counter, when it is to end.
        """
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_next)
        await turn
        now = time.perf_counter()
        shortest = self._slice_seconds
        seconds = min(max(shortest, SHARE * (now - self._begun)), LENGTHS_MAX * shortest)
        self._begun = now
        return now + seconds

    def _begin_next(self) -> None:
        waiting = self._waiting
        # It stays in the queue until the next one begins, so that a turn asked for meanwhile is
        # a round later.
        while waiting and waiting[0].done():
            waiting.popleft()
        if not waiting:
            return
        loop, committing = asyncio.get_running_loop(), self._committing
        if committing is not None and not self._has_waited and self._is_to_wait(committing):
            self._hold = loop.call_later(HOLD_SECONDS, self._go_on)
            if not self._is_called_at_end:
                self._is_called_at_end = True
                committing.at_end(self._commit_ended)
            return
        self._has_waited = False
        waiting[0].set_result(None)
        loop.call_soon(self._begin_next)

    def _is_to_wait(self, committing: Committing) -> bool:
        """Is a commit under way, or was there one so lately that another is expected?"""
        now, count = time.perf_counter(), committing.ended_count()
        if count != self._commit_count:
            self._commit_count = count
            self._busy_until = now + BUSY_SECONDS
        return committing.is_under_way() or now < self._busy_until

    def _commit_ended(self) -> None:
        self._is_called_at_end = False
        if self._hold is not None:
            self._go_on()

    def _go_on(self) -> None:
        assert self._hold is not None
        self._hold.cancel()
        self._hold = None
        self._has_waited = True
        # Behind the confirms.
        asyncio.get_running_loop().call_soon(self._begin_next)

    async def carry_out(self, steps: Generator[None, None, Result]) -> Result:
        """Run a generator to its end, as many of its steps in a slice as have room; its result.

        A step is to be short: some microseconds.
        """
        clock = time.perf_counter
        try:
            while True:
                ends_at = await self.turn()
                next(steps)
                while clock() < ends_at:
                    next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


# An item behind its key and its number among the items.
Keyed = tuple[Any, int, Item]


def in_order(
    items: Iterable[Item], key: Callable[[Item], Any]
) -> Generator[None, None, list[Item]]:
    """The items sorted by their keys, in short steps; equal ones stay in the order before."""
    found: list[Item] = []
    keyed = ((key(item), number, item) for number, item in enumerate(tuple(items)))
    for _, _, item in (yield from sorted_keyed(keyed)):
        found.append(item)
        yield
    return found


def sorted_keyed(items: Iterable[Keyed[Item]]) -> Generator[None, None, list[Keyed[Item]]]:
    """The same tuples sorted, in short steps; `items` are not to change meanwhile.

    Python sorts in one go, which takes some milliseconds for ten thousand items.
    """
    runs: list[list[Keyed[Item]]] = []
    run: list[Keyed[Item]] = []
    for item in items:
        run.append(item)
        if len(run) == _RUN_ITEMS:
            run.sort()
            runs.append(run)
            run = []
        yield
    run.sort()
    runs.append(run)
    merged: list[Keyed[Item]] = []
    for each in heapq.merge(*runs):
        merged.append(each)
        yield
    return merged
