"""How a coroutine asks an actor: one message there, and one answer back.

Each question has an actor of its own that waits for the answer, so that every message whose answer
goes to a `reply_to` can be asked, and no answer can be taken for another's. It stops with the
answer. A coroutine that is cancelled waits no more; an answer that comes later is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..actors.messages import Ref
from ..actors.runtime.runtime import LoopActor, Runtime, tell


class GoneError(Exception):
    """The actor that was asked does not run any more."""


class _Question(LoopActor):
    def __init__(self, answer: asyncio.Future[object]) -> None:
        super().__init__()
        self._answer = answer

    def on_receive(self, message: object) -> None:
        if not self._answer.done():
            self._answer.set_result(message)
        self.stop()


async def ask(runtime: Runtime, target: Ref, question: Callable[[Ref], object]) -> object:
    """The first answer to `question(reply_to)`; GoneError if nobody is there to answer.

    There is no time limit here: the request that asks has one (server.py).
    """
    answer = asyncio.get_running_loop().create_future()
    reply_to = _Question.start_on(runtime, answer)
    if not tell(target, question(reply_to)):
        raise GoneError
    return await answer


# `ask_all` asks this many actors in one round of the event loop, since a node may have thousands.
_ASKED_AT_ONCE: Final = 64


class _Questions(LoopActor):
    """Waits for the answers of several, until it is told None."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[object] = []
        self.arrived = asyncio.Event()

    def on_receive(self, message: object) -> None:
        if message is None:
            self.stop()
        else:
            self.answers.append(message)
            self.arrived.set()


# An actor that has stopped is noticed within this time: nobody tells that it will not answer.
_LOOKS_SECONDS: Final = 0.1


async def ask_all(
    runtime: Runtime,
    targets: Iterable[Ref],
    question: Callable[[Ref], object],
    answered_by: Callable[[Any], Ref],
    seconds_max: float | None = None,
) -> list[Any]:
    """The answers, in no particular order, of the actors that have not stopped.

    `answered_by` says whose answer one is. Those that come later than `seconds_max` are left out.
    """
    questions = _Questions()
    reply_to = questions.start_prepared(runtime)
    waiting: set[Ref] = set()
    counted = 0
    try:
        async with asyncio.timeout(seconds_max):
            for number, target in enumerate(targets, 1):
                if tell(target, question(reply_to)):
                    waiting.add(target)
                if not number % _ASKED_AT_ONCE:
                    await asyncio.sleep(0)
            while True:
                questions.arrived.clear()
                for answer in questions.answers[counted:]:
                    counted += 1
                    waiting.discard(answered_by(answer))
                if not waiting:
                    break
                try:
                    async with asyncio.timeout(_LOOKS_SECONDS):
                        await questions.arrived.wait()
                except TimeoutError:
                    waiting = {each for each in waiting if each.is_alive()}
    except TimeoutError:
        # The others have much to do.
        pass
    finally:
        tell(reply_to, None)
    return questions.answers
