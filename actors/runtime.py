"""The event-loop actor type: Pykka actors that share one thread.

Pykka leaves the inbox, the future and the start of the loop to "implementors of new actor types";
this is one. An actor's inbox puts the actor on the runtime's run queue when a message arrives;
the runtime gives it a turn, in which it handles messages until the inbox is empty or the turn is
used up. What was told goes straight to `on_receive`; asks and stops go through Pykka's own loop,
which `get` leaves again by an exception that it raises outside of Pykka's `try`, so that stop,
ask and teardown stay Pykka's.

Actors of a broker are in no registry: they are reached through their parents only, and the
host's `pykka.ActorRegistry.stop_all()` is not ours to answer. Whatever a handler raises stops that
actor alone and is told to its parent, by `on_failure` of the actor.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pykka
from pykka._envelope import Envelope
from pykka.messages import _ActorStop

from .scheduler import Scheduler
from .stop_flag import StopFlag

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger

# An actor with more messages than this waits for its next turn: no actor starves the others.
TURN_MESSAGES_MAX = 100
# So many turns are given before the event loop looks at its sockets again.
TURNS_PER_ROUND_MAX = 200

_KEPT_WHEN_STOPPED = {"_actor_ref", "actor_inbox", "actor_stopped", "actor_urn", "runtime"}


class TurnOver(BaseException):
    """The turn is used up; never leaves `LoopActor.take_turn`."""


class Runtime:
    """Gives turns to the actors of one event loop; also carries what all of them share."""

    def __init__(self, scheduler: Scheduler, log: FilteringBoundLogger) -> None:
        """Make a runtime for the event loop of the calling thread."""
        self.scheduler = scheduler
        self.log = log
        self._thread = threading.get_ident()
        self._runnable: deque[LoopActor] = deque()
        # Will the event loop give turns? Are turns being given?
        self._scheduled = False
        self._in_round = False
        # Actors made runnable by other threads, and whether the loop has been woken for them.
        self._arrived: deque[LoopActor] = deque()
        self._woken = False

    def make_runnable(self, actor: LoopActor) -> None:
        """Give the actor a turn soon; from any thread."""
        if threading.get_ident() == self._thread:
            self._runnable.append(actor)
            if not self._in_round and not self._scheduled:
                self._scheduled = True
                self.scheduler.call_soon(self._scheduled_round)
            return
        self._arrived.append(actor)
        if not self._woken:
            self._woken = True
            try:
                self.scheduler.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # The event loop is closed: nobody is left to hear the message.
                self._arrived.clear()

    def is_idle(self) -> bool:
        """Has every actor of the loop handled all that it was told?"""
        return not (self._runnable or self._arrived or self._in_round)

    def tell_now(self, actor_ref: pykka.ActorRef[Any], message: object) -> None:
        """Tell from a callback of the event loop, and give turns at once.

        It saves the wait for the loop's next round, which is a good part of the latency of a lone
        publish.
        """
        if self._in_round:
            tell(actor_ref, message)
            return
        self._in_round = True
        # What other threads have told is not left waiting behind a row of reads: an event loop may
        # call back for many before it looks at what woke it.
        self._take_arrived()
        tell(actor_ref, message)
        self._round()

    def _wake(self) -> None:
        # First: an actor that arrives from here on wakes the loop again.
        self._woken = False
        self._take_arrived()
        if self._runnable:
            self._round()

    def _take_arrived(self) -> None:
        arrived = self._arrived
        while arrived:
            self._runnable.append(arrived.popleft())

    def _round(self) -> None:
        runnable = self._runnable
        self._in_round = True
        try:
            for _turn in range(TURNS_PER_ROUND_MAX):
                if not runnable:
                    break
                runnable.popleft().take_turn()
        finally:
            self._in_round = False
        if runnable and not self._scheduled:
            self._scheduled = True
            self.scheduler.call_soon(self._scheduled_round)

    def _scheduled_round(self) -> None:
        self._scheduled = False
        if self._runnable:
            self._round()


class LoopInbox:
    """An unbounded mailbox that makes its actor runnable."""

    __slots__ = ("actor", "budget", "envelopes", "is_runnable", "runtime")

    def __init__(self) -> None:
        self.envelopes: deque[Any] = deque()
        self.budget = 0
        # Until the actor starts, nothing makes it runnable.
        self.runtime: Runtime | None = None
        self.actor: LoopActor | None = None
        self.is_runnable = False

    def put(self, envelope: Any, /) -> None:
        """Add a message; from any thread."""
        self.envelopes.append(envelope)
        if not self.is_runnable and self.runtime is not None and self.actor is not None:
            self.is_runnable = True
            self.runtime.make_runnable(self.actor)

    def get(self) -> Any:
        """Take the next message; TurnOver if there is none or the turn is used up."""
        if not self.budget or not self.envelopes:
            raise TurnOver
        self.budget -= 1
        return self.envelopes.popleft()

    def empty(self) -> bool:
        """Is there no message?"""
        return not self.envelopes


class LoopActor(pykka.Actor):
    """An actor that runs on a Runtime's event loop. Handlers must not block."""

    actor_inbox: LoopInbox
    runtime: Runtime

    @staticmethod
    def _create_actor_inbox() -> LoopInbox:
        return LoopInbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def __init__(self) -> None:
        super().__init__()
        flag: Any = StopFlag()
        self.actor_stopped = self.actor_ref.actor_stopped = flag

    @classmethod
    def start_on(cls, runtime: Runtime, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor on the runtime; `args` go to its constructor."""
        return cls(*args, **kwargs).start_prepared(runtime)

    def start_prepared(self, runtime: Runtime) -> pykka.ActorRef[Self]:
        """Start an actor that was made before."""
        self.runtime = runtime
        self._start_actor_loop()
        return self.actor_ref

    def _start_actor_loop(self) -> None:
        inbox = self.actor_inbox
        inbox.runtime = self.runtime
        inbox.actor = self
        self._actor_loop_setup()
        if self.actor_stopped.is_set():
            # Pykka tells nobody of a failure in on_start; its parent must know of it all the same.
            self.on_failure(None, None, None)
            return
        if inbox.envelopes:
            inbox.is_runnable = True
            self.runtime.make_runnable(self)

    def take_turn(self) -> None:
        """Handle what the inbox holds, up to a bound; called by the runtime.

        What was told is handled here, an ask or a stop by Pykka's own loop: a turn through that
        alone costs twice as much, most of it in leaving it, and a lone publish takes five turns.
        """
        inbox = self.actor_inbox
        envelopes = inbox.envelopes
        stopped = self.actor_stopped.is_set
        budget = TURN_MESSAGES_MAX
        try:
            while envelopes and budget and not stopped():
                budget -= 1
                envelope = envelopes[0]
                if envelope.reply_to is None and envelope.message.__class__ is not _ActorStop:
                    del envelopes[0]
                    self.on_receive(envelope.message)
                else:
                    inbox.budget = 1
                    with suppress(TurnOver):
                        self._actor_loop_running()
            if not envelopes and not stopped():
                self.on_idle()
        except BaseException as error:
            # As Pykka's loop does for a tell, but no exception stops the actors of others.
            self._handle_failure(type(error), error, error.__traceback__)
            try:
                self.on_failure(type(error), error, error.__traceback__)
            except BaseException:
                self._handle_failure(*sys.exc_info())
        if stopped():
            inbox.budget = len(envelopes)
            self._actor_loop_teardown()
            self._let_go()
        inbox.is_runnable = False
        if envelopes and not inbox.is_runnable:
            inbox.is_runnable = True
            self.runtime.make_runnable(self)

    def _let_go(self) -> None:
        """A stopped actor holds nothing: who still has its reference must not keep its messages."""
        for name in set(vars(self)) - _KEPT_WHEN_STOPPED:
            delattr(self, name)

    def on_idle(self) -> None:
        """Run when the inbox is empty at the end of a turn.

        The place for what is better done once for many messages: coalescing and writing.
        """

    def _stop(self) -> None:
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception:
            self._handle_failure(*sys.exc_info())

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.actor_stopped.set()
        self.runtime.log.error(
            "actor.failed",
            actor=type(self).__name__,
            exc_info=(exception_type, exception_value, traceback),
        )


def tell(actor_ref: pykka.ActorRef[Any], message: object) -> bool:
    """Tell, and say whether the actor was there to be told.

    For messages that a stopped actor no longer needs; where it matters, look at the answer.
    """
    # As ActorRef.tell, without an exception where the actor is gone.
    if actor_ref.actor_stopped.is_set():
        return False
    actor_ref.actor_inbox.put(Envelope(message))
    return True
