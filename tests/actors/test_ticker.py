"""The ticker: who asked is woken at its time, in order, and who has stopped is forgotten."""

from __future__ import annotations

import pytest
import structlog
from hand_scheduler import HandScheduler
from holding import parts
from insides import inside
from leveret.actors.messages import Ref, WakeAt, Woken
from leveret.actors.runtime.runtime import LoopActor, Runtime, tell
from leveret.actors.runtime.ticker import WISHES_MIN, Ticker


class Sleeper(LoopActor):
    """Writes down what it was woken for."""

    def __init__(self, received: list[object]) -> None:
        super().__init__()
        self.received = received

    def on_receive(self, message: object) -> None:
        assert isinstance(message, Woken)
        self.received.append(message.token)


@pytest.fixture
def scheduler() -> HandScheduler:
    return HandScheduler()


@pytest.fixture
def runtime(scheduler: HandScheduler) -> Runtime:
    return Runtime(scheduler, structlog.get_logger("test"))


@pytest.fixture
def ticker(runtime: Runtime) -> Ref:
    return Ticker.start_on(runtime, lambda *_: None)


def test_an_actor_is_woken_when_its_time_has_come_and_not_before(
    scheduler: HandScheduler, runtime: Runtime, ticker: Ref
) -> None:
    received: list[object] = []
    sleeper = Sleeper.start_on(runtime, received)
    for when in (3.0, 1.0, 2.0):
        tell(ticker, WakeAt(when, sleeper, when))
    scheduler.advance(0.9)
    assert received == []
    scheduler.advance(1.1)
    assert received == [1.0, 2.0]
    scheduler.advance(9.0)
    assert received == [1.0, 2.0, 3.0]


def test_wishes_for_one_time_are_granted_in_the_order_in_which_they_came(
    scheduler: HandScheduler, runtime: Runtime, ticker: Ref
) -> None:
    received: list[object] = []
    sleeper = Sleeper.start_on(runtime, received)
    for token in "first", "second", "third":
        tell(ticker, WakeAt(1.0, sleeper, token))
    scheduler.advance(1.0)
    assert received == ["first", "second", "third"]


def test_a_wish_for_an_earlier_time_sets_the_timer_anew(
    scheduler: HandScheduler, runtime: Runtime, ticker: Ref
) -> None:
    received: list[object] = []
    sleeper = Sleeper.start_on(runtime, received)
    tell(ticker, WakeAt(60.0, sleeper, "late"))
    scheduler.run()
    tell(ticker, WakeAt(1.0, sleeper, "early"))
    scheduler.advance(1.0)
    assert received == ["early"]


def test_wishes_of_stopped_actors_are_forgotten_before_their_time(
    scheduler: HandScheduler, runtime: Runtime, ticker: Ref
) -> None:
    received: list[object] = []
    tell(ticker, WakeAt(1000.0, Sleeper.start_on(runtime, received), "kept"))
    for _ in range(5 * WISHES_MIN):
        sleeper = Sleeper.start_on(runtime, received)
        tell(ticker, WakeAt(1000.0, sleeper, "forgotten"))
        sleeper.stop(block=False)
        scheduler.run()
    assert len(parts(inside(ticker), WakeAt)) <= WISHES_MIN
    scheduler.advance(1000.0)
    assert received == ["kept"]


def test_the_last_wish_for_a_token_takes_the_place_of_those_before_it(
    scheduler: HandScheduler, runtime: Runtime, ticker: Ref
) -> None:
    received: list[object] = []
    sleeper = Sleeper.start_on(runtime, received)
    # As a queue does whose head expires earlier each time that it changes.
    for when in range(1000 + 5 * WISHES_MIN, 1000, -1):
        tell(ticker, WakeAt(float(when), sleeper, "head expires"))
    tell(ticker, WakeAt(5000.0, sleeper, "another"))
    scheduler.run()
    assert len(parts(inside(ticker), WakeAt)) <= WISHES_MIN + 1
    scheduler.advance(1001.0)
    assert received == ["head expires"]
    # What is wished for anew counts as ever.
    tell(ticker, WakeAt(1500.0, sleeper, "head expires"))
    scheduler.advance(3000.0)
    assert received == ["head expires", "head expires"]
    scheduler.advance(1000.0)
    assert received == ["head expires", "head expires", "another"]
    assert not [
        key for each in parts(inside(ticker), dict) for key in each if "head expires" in key
    ]
