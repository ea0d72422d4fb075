"""Many actors are asked side by side, and none that has stopped is waited for."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import NamedTuple

import structlog
from leveret.actors.messages import Ref
from leveret.actors.runtime.runtime import LoopActor, Runtime, tell
from leveret.management.asking import ask_all


class Question(NamedTuple):
    reply_to: Ref


class Reply(NamedTuple):
    actor: Ref
    number: int


class Actor(LoopActor):
    """Answers, waits for `go_on` before it does, or stops without an answer."""

    def __init__(self, number: int, *, stops: bool = False, waits: bool = False) -> None:
        super().__init__()
        self._number = number
        self._stops = stops
        self._waits = waits
        self._asked: list[Question] = []

    def on_receive(self, message: object) -> None:
        if isinstance(message, Question):
            self._asked.append(message)
        else:
            self._waits = False
        if self._stops:
            self.stop()
        elif not self._waits:
            for each in self._asked:
                tell(each.reply_to, Reply(self.actor_ref, self._number))


def _runtime() -> Runtime:
    return Runtime(asyncio.get_running_loop(), structlog.get_logger("test"))


def test_all_answer_but_those_that_stop() -> None:
    async def run() -> list[int]:
        runtime = _runtime()
        actors = [Actor.start_on(runtime, number, stops=not number % 3) for number in range(200)]
        actors[1].stop(block=False)
        replies = await ask_all(runtime, actors, Question, attrgetter("actor"))
        return sorted(each.number for each in replies)

    assert asyncio.run(run()) == [number for number in range(2, 200) if number % 3]


def test_all_are_asked_before_one_has_answered() -> None:
    """The first answers only once the last was asked."""

    async def run() -> int:
        runtime = _runtime()
        first = Actor.start_on(runtime, 0, waits=True)

        class Last(Actor):
            def on_receive(self, message: object) -> None:
                super().on_receive(message)
                tell(first, "go on")

        last = Last.start_on(runtime, 1)
        return len(await ask_all(runtime, [first, last], Question, attrgetter("actor")))

    assert asyncio.run(run()) == 2


def test_an_answer_that_takes_too_long_is_left_out() -> None:
    async def run() -> list[int]:
        runtime = _runtime()
        actors = [Actor.start_on(runtime, number, waits=number == 2) for number in range(4)]
        replies = await ask_all(runtime, actors, Question, attrgetter("actor"), 0.05)
        return sorted(each.number for each in replies)

    assert asyncio.run(run()) == [0, 1, 3]
