"""The actor type with a thread of its own, for work that blocks: of journal and catalog.

`Threads` says how such actors are driven: by a thread each (`OwnThreads`), or step by
step, in the order that a simulation draws.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from ...storage.errors import StorageError
from ..messages import Ref
from .out_of_memory import is_out_of_memory
from .pykka_inside import ActorStop, Envelope, UnlistedActor, refuse

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger

_thread_numbers = count()


class Threads(Protocol):
    """Drives thread actors."""

    def start(self, actor: ThreadActor) -> None:
        """Have the actor's steps called from now on, one after the other, until one is the last."""


class OwnThreads:
    """Gives each actor a thread; it does not keep a process alive that ends without its broker."""

    def start(self, actor: ThreadActor) -> None:
        """Start its thread."""
        name = f"{type(actor).__name__}-{next(_thread_numbers)}"
        threading.Thread(target=_run, args=(actor,), name=name, daemon=True).start()


def _run(actor: ThreadActor) -> None:
    while actor.step():
        pass


class ThreadActor(UnlistedActor, inbox_type=queue.SimpleQueue):
    """An actor with a thread of its own, for work that blocks. Any error ends the node."""

    actor_inbox: queue.SimpleQueue[Any]
    # Drives this actor, and is for its children.
    threads: Threads

    @classmethod
    def start_on(cls, threads: Threads, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor; `args` go to its constructor."""
        actor = cls(*args, **kwargs)
        actor.threads = threads
        actor.begin()
        return actor.actor_ref

    @classmethod
    def start_alone(cls, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor on a thread of its own."""
        return cls.start_on(OwnThreads(), *args, **kwargs)

    def __init__(
        self, log: FilteringBoundLogger, on_fatal: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__()
        self._log = log
        self._on_fatal = on_fatal
        self._has_begun = False
        # Taken out of the inbox, and neither handled nor answered.
        self._envelope: Envelope[Any] | None = None
        # Its files are closed: an actor that fails is stopped some time before.
        self.closed = threading.Event()
        self.actor_ref.closed = self.closed  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Have it driven."""
        self.threads.start(self)

    def has_messages(self) -> bool:
        """Would a step have something to handle?"""
        return not self.actor_inbox.empty()

    def step(self) -> bool:
        """The first time, begin; then wait for a message, and handle what the inbox holds.

        A step ends with the inbox's last message, an ask or a stop. False: it was the last step.
        """
        try:
            if self._has_begun:
                self._handle_some()
            else:
                self._has_begun = True
                self.on_start()
        except BaseException as error:
            # Also outside of any handler, as where there is no memory to take the next message.
            try:
                self.handle_failure(type(error), error, error.__traceback__)
                self._fail(error)
            except BaseException:
                self._end()
                raise
        if not self.actor_stopped.is_set():
            return True
        self._end()
        return False

    def _handle_some(self) -> None:
        inbox = self.actor_inbox
        gathered: list[object] = []
        while True:
            message = inbox.get()
            if message.__class__ is Envelope:
                # From Pykka's ActorRef: a stop, as a rule.
                if message.reply_to is not None or message.message.__class__ is ActorStop:
                    self._envelope = message
                    break
                message = message.message
            gathered.append(message)
            if inbox.empty():
                break
        if gathered:
            self.on_gathered(gathered)
        envelope = self._envelope
        if envelope is not None and not self.actor_stopped.is_set():
            self._envelope = None
            self.answer(envelope)

    def _fail(self, error: BaseException) -> None:
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except BaseException:
            self.handle_failure(*sys.exc_info())

    def _end(self) -> None:
        inbox = self.actor_inbox
        self.closed.set()
        if self._envelope is not None:
            refuse(self._envelope)
        while not inbox.empty():
            refuse(inbox.get())

    def handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the actor as stopped, log the error, and end the node."""
        self.actor_stopped.set()
        try:
            # Of a StorageError or OSError the node logs a sentence that names file and fault.
            is_told = isinstance(exception_value, StorageError | OSError)
            if not (is_told or is_out_of_memory(exception_value)):
                self._log.error(
                    "actor.failed",
                    actor=type(self).__name__,
                    exc_info=(exception_type, exception_value, traceback),
                )
        finally:
            if exception_value is not None:
                self._on_fatal(type(self).__name__, exception_value)

    def on_gathered(self, messages: list[object]) -> None:
        """Handle all messages told since the last call, up to a stop or an ask."""
        raise NotImplementedError

    def on_receive(self, message: object) -> None:
        """Handle a message that somebody asked."""
        self.on_gathered([message])


def stop_and_wait(actor: Ref, failed_seconds_max: float | None = None) -> bool:
    """Stop a ThreadActor, behind all messages it was told; false if its files are still open.

    A failed actor closes them by itself, and may wait for a disk that answers no more.
    """
    actor.stop()
    closed: threading.Event = actor.closed  # type: ignore[attr-defined]
    return closed.wait(failed_seconds_max)
