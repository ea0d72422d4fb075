"""All that Leveret uses of Pykka's private names, and why each has no public form.

- `_create_actor_inbox`, `_create_future` and `_start_actor_loop`: Pykka's documentation calls them
  internal methods "for implementors of new actor types". `UnlistedActor` implements them once for
  both of Leveret's types, in terms of public names.
- `_actor_ref`: the attribute behind `actor_ref`. A stopped actor deletes its attributes, and must
  know which of them Pykka still reads.
- `Envelope`: what an inbox holds. `ActorRef.tell` makes one, but raises where the actor has
  stopped, and costs a lone publish twice the time.
- `_ActorStop`: the message of `ActorRef.stop`. An actor type with a loop of its own must know it.

The loops are Leveret's own (`runtime.py`, `thread_actor.py`): Pykka's unregisters an actor from a
registry that Leveret's actors are not in, at a cost that grows with the registry, and answers a
BaseException by stopping every actor of the process, those of a host application too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

import pykka
from pykka._envelope import Envelope
from pykka.messages import _ActorStop as ActorStop

__all__ = ["PYKKA_ATTRIBUTES", "ActorStop", "Envelope", "UnlistedActor", "refuse"]

# The attributes of an actor that Pykka reads after the actor has stopped.
PYKKA_ATTRIBUTES: Final = frozenset({"_actor_ref", "actor_inbox", "actor_stopped", "actor_urn"})


class UnlistedActor(pykka.Actor):
    """An actor in no registry: only its parent reaches it, not `ActorRegistry.stop_all`.

    `inbox_type`, which a type of actor names once for all its subclasses, makes an actor's inbox.
    """

    _create_actor_inbox: Any

    def __init_subclass__(
        cls, *, inbox_type: Callable[[], Any] | None = None, **others: object
    ) -> None:
        super().__init_subclass__(**others)
        if inbox_type is not None:
            cls._create_actor_inbox = staticmethod(inbox_type)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Run `on_start`, and handle what arrives from then on."""
        raise NotImplementedError

    def answer(self, envelope: Envelope[Any]) -> None:
        """Handle a stop, or a message that somebody asked: the asker gets an answer or the error.

        An Exception is the asker's alone, as in Pykka. Any other BaseException is raised here, too.
        """
        reply_to = envelope.reply_to
        result: object = None
        try:
            if isinstance(envelope.message, ActorStop):
                self.stop_at_once()
            else:
                result = self.on_receive(envelope.message)
        except BaseException as error:
            if reply_to is None:
                raise
            reply_to.set_exception()
            if not isinstance(error, Exception):
                raise
        else:
            if reply_to is not None:
                reply_to.set(result)

    def stop_at_once(self) -> None:
        """Stop, whatever the inbox holds, and run `on_stop`."""
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception:
            self.handle_failure(*sys.exc_info())

    def handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the actor as stopped, and report the error."""
        raise NotImplementedError


def refuse(envelope: object) -> None:
    """Answer what reached a stopped actor, if its sender waits for an answer: one in an envelope.

    A told message is not answered.
    """
    if not isinstance(envelope, Envelope) or envelope.reply_to is None:
        return
    if isinstance(envelope.message, ActorStop):
        envelope.reply_to.set(None)
    else:
        error = pykka.ActorDeadError("the actor stopped before it could answer")
        envelope.reply_to.set_exception((type(error), error, None))
