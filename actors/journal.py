"""The journal's thread: takes what has gathered, writes it, syncs once, answers once per queue.

Group commit without a timer: while one sync runs, the next batch of work gathers in the mailbox. A
failed write or sync is fatal to the node: no confirm is sent for it, nothing is retried, because a
kernel that failed an fsync once may say yes to the next without having written.
"""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pykka
from pykka.messages import _ActorStop

from ..storage.journal import Journal
from .messages import Append, DropQueue, Persisted, RecordDeliveries, Ref, SettleSynced
from .queue_tracing import commit_traced
from .runtime import tell

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger

    from ..logs.trace import Trace


class ThreadActor(pykka.ThreadingActor):
    """An actor with a thread of its own, for work that blocks; in no registry."""

    use_daemon_thread = True

    @staticmethod
    def _create_actor_inbox() -> queue.SimpleQueue[Any]:
        return queue.SimpleQueue()

    @classmethod
    def start_alone(cls, *args: Any, **kwargs: Any) -> pykka.ActorRef[Self]:
        """Start an actor without the host's ActorRegistry knowing it."""
        actor = cls(*args, **kwargs)
        actor._start_actor_loop()
        return actor.actor_ref

    def __init__(
        self, log: FilteringBoundLogger, on_fatal: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__()
        self._log = log
        self._on_fatal = on_fatal

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.actor_stopped.set()
        try:
            self._log.error(
                "actor.failed",
                actor=type(self).__name__,
                exc_info=(exception_type, exception_value, traceback),
            )
        finally:
            if exception_value is not None:
                self._on_fatal(type(self).__name__, exception_value)

    def _stop(self) -> None:
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception:
            self._handle_failure(*sys.exc_info())

    def drained(self, first: object) -> list[object]:
        """The message at hand and all that was told behind it, up to a stop or an ask."""
        inbox: Any = self.actor_inbox
        messages = [first]
        try:
            while True:
                envelope = inbox.get_nowait()
                if envelope.reply_to is not None or isinstance(envelope.message, _ActorStop):
                    inbox.put(envelope)
                    break
                messages.append(envelope.message)
        except queue.Empty:
            pass
        return messages


class JournalActor(ThreadActor):
    """Owns the Journal. Parent: the node, which is told of anything fatal."""

    def __init__(
        self,
        journal: Journal,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        trace: Trace | None = None,
    ) -> None:
        super().__init__(log, on_fatal)
        self._journal = journal
        self._trace = trace

    def on_receive(self, message: object) -> None:
        """Take the whole mailbox, commit it, answer."""
        journal = self._journal
        appends: dict[Ref, list[Append]] = {}
        answers: list[SettleSynced] = []
        for each in self.drained(message):
            if isinstance(each, Append):
                journal.append(
                    each.queue_id, each.batch, each.indexes, each.entry_ids, each.deadlines
                )
                appends.setdefault(each.queue, []).append(each)
            elif isinstance(each, RecordDeliveries):
                if each.delivered:
                    journal.delivered(each.queue_id, each.delivered)
                if each.settled:
                    journal.settle(each.queue_id, each.settled)
            elif isinstance(each, SettleSynced):
                journal.settle(each.queue_id, each.ranges, sync=True)
                answers.append(each)
            elif isinstance(each, DropQueue):
                journal.drop_queue(each.queue_id)
        # Fsync before confirm: nothing is answered until this has returned.
        if self._trace is not None and self._trace.is_on:
            commit_traced(self._trace, journal, appends)
        else:
            journal.commit()
        for queue_ref, persisted in appends.items():
            # A queue that has gone meanwhile has nacked these itself.
            tell(queue_ref, Persisted(persisted))
        for synced in answers:
            tell(synced.reply_to, synced.answer)
        journal.reclaim()

    def on_stop(self) -> None:
        """Sync and close the files."""
        self._journal.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the files: after an error nothing is written or synced any more."""
        self._journal.close()
