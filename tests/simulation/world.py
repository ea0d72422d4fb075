"""What a simulated node runs on instead of a machine: its event loop, threads, clocks and log.

All of it is one thread, and what happens next is drawn: a callback of the event loop, which gives
one actor a turn, a step of a thread actor, or bytes that move on a connection. An actor's messages
keep their order. Time stands still but for `advance`.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from itertools import count
from random import Random
from typing import Any, Final, Protocol, Self
from zlib import crc32

from leveret.actors.disk.page_reader import ReadPage
from leveret.actors.messages import ReadSpilled, SpillEntries
from leveret.actors.runtime.out_of_memory import OnFatal
from leveret.actors.runtime.runtime import LoopActor, Runtime
from leveret.actors.runtime.thread_actor import ThreadActor
from leveret.actors.runtime.wall_clock import WallClock

# More steps than this without a change of the clock, and they never end.
STEPS_MAX: Final = 10_000
START_MS: Final = 1_700_000_000_000
# Messages that are counted, and what each is a sign of.
COUNTED: Final[dict[type, str]] = {
    ReadPage: "pages read from the journal",
    ReadSpilled: "pages read from the spill",
    SpillEntries: "pages written to the spill",
}


class EndlessError(Exception):
    """Steps without an end."""


class Mover(Protocol):
    """Something with bytes to move: a connection."""

    def can_move(self) -> bool:
        """Is there anything to do?"""

    def move(self, random: Random) -> None:
        """Do some of it."""


class SimulatedLog:
    """Keeps the service log's lines of one life of the node."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def bind(self, **_names: object) -> Self:
        return self

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda event, **about: self.lines.append((level, event, about))


class DrawnTurns:
    """A `RunQueue` that draws whose turn is next."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actors: list[LoopActor] = []

    def append(self, actor: LoopActor) -> None:
        self._actors.append(actor)

    def popleft(self) -> LoopActor:
        actors = self._actors
        place = int(self._world.random.random() * len(actors))
        actor, actors[place] = actors[place], actors[-1]
        actors.pop()
        return actor

    def __len__(self) -> int:
        return len(self._actors)


class AtOnce(Executor):
    """Password checks: every password is right, and no hash is replaced."""

    def submit(self, *_call: Any, **_names: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result((True, ""))
        return future


class World:
    """A `Scheduler` and `Threads`. `restart` begins the next life; the clocks go on."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.uptime_ms = 1_000
        self.wall_ms = START_MS
        # Of all bytes that have moved, in their order.
        self.checksum = 0
        # How often thread actors were asked for what.
        self.done: Counter[str] = Counter()
        self.restart()

    def restart(self) -> None:
        """Nothing of the life before is left."""
        self.log = SimulatedLog()
        self.movers: list[Mover] = []
        self.threads: list[ThreadActor] = []
        self._soon: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def new_runtime(self, _scheduler: object, log: Any, on_fatal: OnFatal) -> Runtime:
        return Runtime(
            self,
            log,
            on_fatal,
            wall_clock=WallClock(lambda: self.wall_ms * 1_000_000),
            run_queue=DrawnTurns(self),
            turns_per_round_max=1,
        )

    def moved(self, data: bytes) -> None:
        """A connection has moved these bytes."""
        self.checksum = crc32(data, self.checksum)

    # Scheduler.

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (when, next(self._order), callback))

    def time(self) -> float:
        return self.uptime_ms / 1000

    # Threads.

    def start(self, actor: ThreadActor) -> None:
        handle = actor.on_gathered

        def count_and_handle(messages: list[object]) -> None:
            for each in messages:
                what = COUNTED.get(type(each))
                if what is not None:
                    self.done[what] += 1
            handle(messages)

        actor.on_gathered = count_and_handle  # type: ignore[method-assign]
        if actor.step():
            self.threads.append(actor)

    # What the simulation does.

    def is_busy(self) -> bool:
        """Is there a step left without a change of the clock?"""
        return bool(self._soon or self._possible())

    def _possible(self) -> list[Any]:
        possible: list[Any] = [each for each in self.movers if each.can_move()]
        possible += [each for each in self.threads if each.has_messages()]
        return possible

    def step(self) -> bool:
        """Something, drawn from what is possible; false if nothing is."""
        possible = self._possible()
        count = len(possible)
        if self._soon:
            # Twice as often, or the broker would do less than its clients.
            count += 2
        if not count:
            return False
        place = int(self.random.random() * count)
        if place >= len(possible):
            self._soon.popleft()()
            return True
        drawn = possible[place]
        if isinstance(drawn, ThreadActor):
            if not drawn.step():
                self.threads.remove(drawn)
        else:
            drawn.move(self.random)
        return True

    def advance(self, milliseconds: int) -> None:
        """Let time pass in one jump, and have called what is due."""
        self.uptime_ms += milliseconds
        self.wall_ms += milliseconds
        while self._timers and self._timers[0][0] <= self.time():
            self._soon.append(heapq.heappop(self._timers)[2])

    def next_timer_ms(self) -> int | None:
        """How long until the next timer is due; None if there is none."""
        return int(self._timers[0][0] * 1000) + 1 - self.uptime_ms if self._timers else None
