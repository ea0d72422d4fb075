"""The event-loop actor type: Pykka actors that share one thread.

An actor's inbox puts the actor on the runtime's run queue when a message arrives; the runtime gives
it a turn, in which it handles messages until the inbox is empty or the turn is used up. Told
messages go straight to `on_receive`; `pykka_inside.py` answers asks and stops.

The actors of a broker are in no registry: only their parents reach them, because a host's
`pykka.ActorRegistry.stop_all()` must not stop a broker. Whatever a handler raises stops that
actor alone, and `on_failure` of the actor tells its parent; what `on_failure` raises ends the node.

`Scheduler` says what the runtime needs of an event loop: asyncio's have it, and a simulation
passes its own. It also passes its own `RunQueue`, which draws whose turn is next, and wall clock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from .out_of_memory import OnFatal, is_out_of_memory
from .pykka_inside import PYKKA_ATTRIBUTES, Envelope, UnlistedActor, refuse
from .read_gathering import ReadGathering
from .wall_clock import WallClock

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger


class StopFlag:
    """Says whether an actor has stopped: what Pykka needs of a threading.Event, and no lock.

    It is asked several times for each message, and there is one for each actor, so both its time
    and its size count: the hot path reads `is_up`. Nobody waits for it.
    """

    __slots__ = ("is_up",)

    def __init__(self) -> None:
        self.is_up = False

    def is_set(self) -> bool:
        """Has the actor stopped?"""
        return self.is_up

    def set(self) -> None:
        """The actor has stopped."""
        self.is_up = True


class Scheduler(Protocol):
    """Callbacks and a clock."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Call back in the loop's next round."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Call back in the loop's next round; from any thread."""

    def call_at(self, when: float, callback: Callable[[], object]) -> object:
        """Call back when `time()` has reached `when`."""

    def time(self) -> float:
        """Seconds on a monotonic clock."""


class RunQueue(Protocol):
    """The actors that are to have turns. Each has one after the other; the order is the queue's."""

    def append(self, actor: LoopActor, /) -> None:
        """Add an actor, which is not in it."""

    def popleft(self) -> LoopActor:
        """Remove the actor that is next."""

    def __len__(self) -> int: ...


# An actor with more messages than this waits for its next turn: no actor starves the others.
TURN_MESSAGES_MAX = 100
# So many turns are given before the event loop looks at its sockets again.
TURNS_PER_ROUND_MAX = 200

_KEPT_WHEN_STOPPED = PYKKA_ATTRIBUTES | {"runtime"}


class Runtime:
    """Gives turns to the actors of one event loop; also carries what all of them share."""

    def __init__(
        self,
        scheduler: Scheduler,
        log: FilteringBoundLogger,
        on_fatal: OnFatal | None = None,
        *,
        wall_clock: WallClock | None = None,
        run_queue: RunQueue | None = None,
        turns_per_round_max: int = TURNS_PER_ROUND_MAX,
    ) -> None:
        """Make a runtime for the event loop of the calling thread.

        `on_fatal` is told when an actor has run out of memory, or has failed and its parent could
        not be told. Without a wall clock it is the machine's, and without a run queue actors have
        turns in the order in which they became runnable.
        """
        self.scheduler = scheduler
        self.log = log
        self.on_fatal = on_fatal
        self.wall_clock = WallClock() if wall_clock is None else wall_clock
        self._turns_per_round_max = turns_per_round_max
        self._thread = threading.get_ident()
        self._runnable: RunQueue = deque() if run_queue is None else run_queue
        # Will the event loop give turns? Are turns being given?
        self._scheduled = False
        self._in_round = False
        self._gathering = ReadGathering()
        # Actors made runnable by other threads, and whether the loop has been woken for them.
        self._arrived: deque[LoopActor] = deque()
        self._woken = False
        # To be called when other threads have told something.
        self._at_wake: list[Callable[[], None]] = []

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
                self.scheduler.call_soon_threadsafe(self.wake)
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
        self._queue_arrived()
        tell(actor_ref, message)
        self._round()

    def tell_read(self, actor_ref: pykka.ActorRef[Any], data: bytes) -> None:
        """Tell a reader the bytes read from its socket, from a callback of the event loop.

        The reader has its turn at once: it counts the bytes, and may stop the reading. All others
        have theirs at once, too, or once all sockets that are ready have been read.
        """
        gathering = self._gathering
        if not gathering.is_on or self._in_round:
            gathering.worked_on()
            self.tell_now(actor_ref, data)
            return
        gathering.gathered(len(data))
        inbox: Any = actor_ref.actor_inbox
        actor = inbox.actor
        if actor is None or inbox.is_runnable:
            # It has gone, or has its turn behind what it was told before.
            tell(actor_ref, data)
            return
        self._in_round = True
        try:
            actor.run_turn_with(data)
        finally:
            self._in_round = False
        if not self._scheduled:
            self._scheduled = True
            self.scheduler.call_soon(self._scheduled_round)

    def wake(self) -> None:
        """Give turns to the actors that other threads have told something; on the event loop."""
        # First: an actor that arrives from here on wakes the loop again.
        self._woken = False
        self._queue_arrived()
        if self._runnable:
            self._round()
        if self._at_wake:
            callbacks, self._at_wake = self._at_wake, []
            for each in callbacks:
                each()

    def call_at_wake(self, callback: Callable[[], None]) -> None:
        """Call back once, behind the turns of actors that another thread has told something."""
        self._at_wake.append(callback)

    def _queue_arrived(self) -> None:
        arrived = self._arrived
        while arrived:
            self._runnable.append(arrived.popleft())

    def _round(self) -> None:
        runnable = self._runnable
        self._in_round = True
        try:
            for _turn in range(self._turns_per_round_max):
                if not runnable:
                    break
                runnable.popleft().run_turn()
        finally:
            self._in_round = False
        if runnable and not self._scheduled:
            self._scheduled = True
            self.scheduler.call_soon(self._scheduled_round)

    def _scheduled_round(self) -> None:
        if self._gathering.polls_again():
            # Behind the next poll of the sockets.
            self.scheduler.call_soon(self._scheduled_round)
            return
        self._scheduled = False
        self._gathering.round_ended()
        if self._runnable:
            self._round()


class LoopInbox:
    """An unbounded mailbox that makes its actor runnable."""

    __slots__ = ("actor", "is_closed", "is_runnable", "messages", "runtime", "stop_flag")

    def __init__(self) -> None:
        # Told messages as they are; those that Pykka's ActorRef has put there, in envelopes.
        self.messages: deque[object] = deque()
        # Until the actor starts, nothing makes it runnable.
        self.runtime: Runtime | None = None
        self.actor: LoopActor | None = None
        self.is_runnable = False
        # Its actor has stopped, and has no turn any more.
        self.is_closed = False
        # The actor's: it is up some time before the inbox is closed.
        self.stop_flag = StopFlag()

    def put(self, message: object, /) -> None:
        """Add a message, or an envelope with one; from any thread."""
        self.messages.append(message)
        if self.is_runnable:
            return
        if self.runtime is not None and self.actor is not None:
            self.is_runnable = True
            self.runtime.make_runnable(self.actor)
        elif self.is_closed:
            self._refuse()

    def close(self) -> None:
        """Let go of the actor, which has stopped and refers to the inbox.

        The two would otherwise stay in memory, with all that others tell it, until the collector of
        cycles comes by, which in a broker is seldom.
        """
        self.is_closed = True
        self.actor = self.runtime = None
        self._refuse()

    def drain(self) -> Iterator[object]:
        """Remove and return the messages that nobody has handled, for an actor that has failed."""
        while self.messages:
            message = self.messages.popleft()
            yield message.message if isinstance(message, Envelope) else message

    def _refuse(self) -> None:
        while self.messages:
            refuse(self.messages.popleft())


class LoopActor(UnlistedActor, inbox_type=LoopInbox):
    """An actor that runs on a Runtime's event loop. Handlers must not block."""

    # Pykka's own loop, which this type does without, would need `get` and `empty` as well.
    actor_inbox: LoopInbox  # type: ignore[assignment]
    runtime: Runtime

    def __init__(self) -> None:
        super().__init__()
        flag: Any = self.actor_inbox.stop_flag
        self.actor_stopped = self.actor_ref.actor_stopped = flag

    @classmethod
    def start_on(cls, runtime: Runtime, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor on the runtime; `args` go to its constructor."""
        return cls(*args, **kwargs).start_prepared(runtime)

    def start_prepared(self, runtime: Runtime) -> pykka.ActorRef[Self]:
        """Start an actor that was made before."""
        self.runtime = runtime
        self.begin()
        return self.actor_ref

    def begin(self) -> None:
        """Run `on_start`; a failure in it reaches the parent as any other does."""
        inbox = self.actor_inbox
        inbox.runtime = self.runtime
        inbox.actor = self
        try:
            self.on_start()
        except Exception as error:
            self._stop_failed(error)
            return
        if inbox.messages:
            inbox.is_runnable = True
            self.runtime.make_runnable(self)

    def run_turn(self) -> None:
        """Handle what the inbox holds, up to a bound; called by the runtime."""
        inbox = self.actor_inbox
        messages = inbox.messages
        flag = inbox.stop_flag
        budget = TURN_MESSAGES_MAX
        try:
            while messages and budget and not flag.is_up:
                budget -= 1
                message = messages.popleft()
                if message.__class__ is not Envelope:
                    self.on_receive(message)
                else:
                    self.answer(message)
            if not messages and not flag.is_up:
                self.on_idle()
        except BaseException as error:
            # As Pykka's loop does for a tell, but no exception stops the actors of others.
            self._stop_failed(error)
        inbox.is_runnable = False
        if messages or flag.is_up:
            self._end_turn(inbox)

    def run_turn_with(self, message: object) -> None:
        """As `run_turn`, with a message for which the inbox, which is empty, is not needed."""
        inbox = self.actor_inbox
        flag = inbox.stop_flag
        # Whatever the actor is told meanwhile, it handles in another turn.
        inbox.is_runnable = True
        try:
            self.on_receive(message)
            if not inbox.messages and not flag.is_up:
                self.on_idle()
        except BaseException as error:
            self._stop_failed(error)
        inbox.is_runnable = False
        if inbox.messages or flag.is_up:
            self._end_turn(inbox)

    def _end_turn(self, inbox: LoopInbox) -> None:
        """Close the inbox of an actor that has stopped; another has a turn for its messages."""
        if inbox.stop_flag.is_up:
            self._drop_references()
            inbox.close()
        elif inbox.messages:
            inbox.is_runnable = True
            self.runtime.make_runnable(self)

    def _stop_failed(self, error: BaseException) -> None:
        """Stop, and tell the parent. If that fails too, the node ends.

        The parent has then not heard of it, and others may wait for the actor's answers for ever.
        """
        self.handle_failure(type(error), error, error.__traceback__)
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except BaseException as second:
            self.handle_failure(type(second), second, second.__traceback__)
            if not is_out_of_memory(second) and self.runtime.on_fatal is not None:
                self.runtime.on_fatal(type(self).__name__, second)

    def _drop_references(self) -> None:
        """A stopped actor holds nothing, so that its references do not keep its messages alive."""
        for name in set(vars(self)) - _KEPT_WHEN_STOPPED:
            delattr(self, name)

    def on_idle(self) -> None:
        """Run when the inbox is empty at the end of a turn.

        The place for work that is better done once for many messages: coalescing and writing.
        """

    def handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the actor as stopped, and log the error; out of memory ends the node."""
        self.actor_stopped.set()
        fault = exception_value
        if not is_out_of_memory(fault):
            try:
                self.runtime.log.error(
                    "actor.failed",
                    actor=type(self).__name__,
                    exc_info=(exception_type, exception_value, traceback),
                )
            except MemoryError as error:
                fault = error
        if is_out_of_memory(fault) and self.runtime.on_fatal is not None:
            assert fault is not None
            self.runtime.on_fatal(type(self).__name__, fault)


def tell(actor_ref: pykka.ActorRef[Any], message: object) -> bool:
    """Tell, and say whether the actor was there to be told.

    For messages that a stopped actor no longer needs; where it matters, look at the answer.
    """
    # As ActorRef.tell, without an exception where the actor is gone; as it is, and in no envelope:
    # nobody is to be answered, and this is the hot path.
    inbox: Any = actor_ref.actor_inbox
    if inbox.__class__ is not LoopInbox:
        if actor_ref.actor_stopped.is_set():
            return False
        inbox.put(message)
        return True
    if inbox.stop_flag.is_up:
        return False
    inbox.messages.append(message)
    if not inbox.is_runnable:
        actor = inbox.actor
        # Until it starts, nothing makes it runnable.
        if actor is not None:
            inbox.is_runnable = True
            actor.runtime.make_runnable(actor)
    return True
