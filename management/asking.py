"""How a coroutine asks an actor: one message there, and one answer back.

Each question has an actor of its own that waits for the answer, so that every message whose answer
goes to a `reply_to` can be asked, and no answer can be taken for another's. It stops with the
answer. A coroutine that is cancelled waits no more; an answer that comes later is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

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


async def ask_all(
    runtime: Runtime,
    targets: Iterable[Ref],
    question: Callable[[Ref], object],
    seconds_max: float,
) -> list[object]:
    """The answers that came in time, in no particular order."""
    questions = _Questions()
    reply_to = questions.start_prepared(runtime)
    asked_count = 0
    try:
        async with asyncio.timeout(seconds_max):
            for number, target in enumerate(targets, 1):
                asked_count += tell(target, question(reply_to))
                if not number % _ASKED_AT_ONCE:
                    await asyncio.sleep(0)
            while len(questions.answers) < asked_count:
                questions.arrived.clear()
                await questions.arrived.wait()
    except TimeoutError:
        # The others have much to do, or have ended.
        pass
    finally:
        tell(reply_to, None)
    return questions.answers
