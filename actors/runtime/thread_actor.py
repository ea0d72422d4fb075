"""The actor type with a thread of its own, for work that blocks: of journal and catalog."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pykka

from ...storage.errors import StorageError
from ..messages import Ref
from .out_of_memory import is_out_of_memory
from .pykka_inside import ActorStop, Envelope, UnlistedActor, refuse

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger

_thread_numbers = count()


class ThreadActor(UnlistedActor, inbox_type=queue.SimpleQueue):
    """An actor with a thread of its own, for work that blocks. Any error ends the node."""

    actor_inbox: queue.SimpleQueue[Any]

    @classmethod
    def start_alone(cls, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor; `args` go to its constructor."""
        actor = cls(*args, **kwargs)
        actor.begin()
        return actor.actor_ref

    def __init__(
        self, log: FilteringBoundLogger, on_fatal: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__()
        self._log = log
        self._on_fatal = on_fatal
        # Its files are closed: an actor that fails is stopped some time before.
        self.closed = threading.Event()
        self.actor_ref.closed = self.closed  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Start the thread. It does not keep a process alive that ends without its broker."""
        name = f"{type(self).__name__}-{next(_thread_numbers)}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        inbox = self.actor_inbox
        # Taken out of the inbox, and neither handled nor answered.
        envelope: Envelope[Any] | None = None
        try:
            self.on_start()
            while not self.actor_stopped.is_set():
                gathered: list[object] = []
                envelope = inbox.get()
                while envelope is not None:
                    message = envelope.message
                    if envelope.reply_to is not None or message.__class__ is ActorStop:
                        break
                    gathered.append(message)
                    envelope = None if inbox.empty() else inbox.get()
                if gathered:
                    self.on_gathered(gathered)
                if envelope is not None and not self.actor_stopped.is_set():
                    asked, envelope = envelope, None
                    self.answer(asked)
        except BaseException as error:
            # Also outside of any handler, as where there is no memory to take the next message.
            self.handle_failure(type(error), error, error.__traceback__)
            try:
                self.on_failure(type(error), error, error.__traceback__)
            except BaseException:
                self.handle_failure(*sys.exc_info())
        finally:
            self.closed.set()
            if envelope is not None:
                refuse(envelope)
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
