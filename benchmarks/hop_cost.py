"""What a message costs from one actor of the event loop to the next: the tell, and a turn.

    python -m benchmarks.hop_cost

One message in each turn is what a lone publish comes to; a hundred, what a round of the event loop
brings to a queue that many connections publish to. The handler does nothing. Best of the rounds, in
microseconds of the thread's processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from leveret.actors.runtime.runtime import LoopActor, Runtime, tell

ROUNDS = 20
MESSAGES = 20_000


class HandScheduler:
    """An event loop that runs when it is asked to."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next round."""
        self._soon.append(callback)

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        """Nobody waits here."""

    def time(self) -> float:
        """Seconds on a monotonic clock."""
        return time.monotonic()

    def run(self) -> None:
        """All rounds until nothing is left to do."""
        while self._soon:
            soon, self._soon = self._soon, []
            for callback in soon:
                callback()


class Idle(LoopActor):
    """Does nothing with what it is told."""

    def on_receive(self, message: object) -> None:
        """Nothing."""


def hop_us(per_turn: int) -> float:
    """A message's cost where a turn has so many."""
    scheduler = HandScheduler()
    actor = Idle.start_on(Runtime(scheduler, structlog.get_logger()))
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time()
        for _ in range(MESSAGES // per_turn):
            for _ in range(per_turn):
                tell(actor, None)
            scheduler.run()
        best = min(best, time.thread_time() - begun)
    return best / MESSAGES * 1e6


def main() -> None:
    """Print both."""
    for per_turn in (1, 100):
        print(f"{per_turn} messages a turn: {hop_us(per_turn):.2f} us each")


if __name__ == "__main__":
    main()
