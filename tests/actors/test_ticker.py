from __future__ import annotations

from collections.abc import Callable

from leveret.actors.messages import Ref, WakeAt, Woken
from leveret.actors.runtime import LoopActor, Runtime, tell
from leveret.actors.ticker import WISHES_MIN, Ticker
from leveret.logs.configure import service_log


class HandTurned:
    """A scheduler that runs when told to, on a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], object]] = []
        self.later: list[tuple[float, Callable[[], object]]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        self.later.append((when, callback))

    def time(self) -> float:
        return self.now

    def run_until(self, now: float) -> None:
        self.now = now
        due = [callback for when, callback in self.later if when <= now]
        self.later = [each for each in self.later if each[0] > now]
        self.soon += due
        while self.soon:
            self.soon.pop(0)()


class Sleeper(LoopActor):
    """Notes what it was woken for."""

    def __init__(self, heard: list[object]) -> None:
        super().__init__()
        self._heard = heard

    def on_receive(self, message: object) -> None:
        assert isinstance(message, Woken)
        self._heard.append(message.token)


def ticking() -> tuple[HandTurned, Runtime, Ref]:
    scheduler = HandTurned()
    runtime = Runtime(scheduler, service_log("error", "json"))
    return scheduler, runtime, Ticker.start_on(runtime, lambda *_: None)


def test_an_actor_is_woken_when_its_time_has_come_and_not_before() -> None:
    scheduler, runtime, ticker = ticking()
    heard: list[object] = []
    sleeper = Sleeper.start_on(runtime, heard)
    for when in (3.0, 1.0, 2.0):
        tell(ticker, WakeAt(when, sleeper, when))
    scheduler.run_until(0.5)
    assert heard == []
    scheduler.run_until(2.0)
    assert heard == [1.0, 2.0]
    scheduler.run_until(9.0)
    assert heard == [1.0, 2.0, 3.0]


def test_what_stopped_actors_had_wished_for_is_forgotten_before_its_time() -> None:
    scheduler, runtime, ticker = ticking()
    heard: list[object] = []
    keeper = Sleeper.start_on(runtime, heard)
    tell(ticker, WakeAt(1000.0, keeper, "kept"))
    for _ in range(5 * WISHES_MIN):
        sleeper = Sleeper.start_on(runtime, heard)
        tell(ticker, WakeAt(1000.0, sleeper, "forgotten"))
        sleeper.stop(block=False)
        scheduler.run_until(0.0)
    assert len(ticker.actor_inbox.actor._wishes) <= WISHES_MIN
    scheduler.run_until(1000.0)
    assert heard == ["kept"]
