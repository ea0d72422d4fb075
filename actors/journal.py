"""The journal's thread: takes what has gathered, writes it, syncs once, answers once per queue.

Group commit without a timer: while one sync runs, the next batch of work gathers in the mailbox. A
large commit goes to the disk on a thread of its own, and what gathers meanwhile is encoded and its
CRCs are made beside it. A failed write or sync is fatal to the node: no confirm is sent for it,
nothing is retried, because a kernel that failed an fsync once may say yes to the next without
having written.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import pykka
from pykka.messages import _ActorStop

from ..storage.commit import Commit
from ..storage.journal import Journal
from .messages import (
    Append,
    AskJournal,
    DropQueue,
    ForgetIdentities,
    Persisted,
    RecordDeliveries,
    Ref,
    SettleSynced,
)
from .queue_tracing import commit_traced
from .runtime import tell

if TYPE_CHECKING:
    from typing import Self

    from structlog.typing import FilteringBoundLogger

    from ..logs.trace import Trace

# A commit from this size on is worth another thread: the hop costs a lone publish a good part of
# its latency, and a large write the time of some reads.
DISK_THREAD_BYTES_MIN = 512 * 1024


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
        # Its files are closed: an actor that fails is stopped some time before.
        self.closed = threading.Event()
        self.actor_ref.closed = self.closed  # type: ignore[attr-defined]

    def _actor_loop(self) -> None:
        try:
            super()._actor_loop()
        finally:
            self.closed.set()

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


def stop_and_wait(actor: Ref, failed_seconds_max: float) -> bool:
    """Stop a ThreadActor, behind all that it was told; false if its files are still open.

    One that has failed closes them by itself, and may be at a disk that answers no more.
    """
    actor.stop()
    closed: threading.Event = actor.closed  # type: ignore[attr-defined]
    return closed.wait(failed_seconds_max)


class _Work(NamedTuple):
    """Journal -> Disk: a commit, and who waits for it."""

    commit: Commit
    appends: dict[Ref, list[Append]]
    answers: list[SettleSynced | AskJournal]

    def carry_out(self, trace: Trace | None) -> None:
        """Commit, and answer once per queue."""
        # Fsync before confirm: nothing is answered until this has returned.
        if trace is not None and trace.is_on:
            commit_traced(trace, self.commit, self.appends)
        else:
            self.commit.run()
        for queue_ref, persisted in self.appends.items():
            # A queue that has gone meanwhile has nacked these itself.
            tell(queue_ref, Persisted(persisted))
        _answer(self.answers)


def _answer(answers: list[SettleSynced | AskJournal]) -> None:
    for asked in answers:
        tell(asked.reply_to, asked.answer)


class _CarriedOut(NamedTuple):
    """Disk -> Journal: the next one may begin."""

    commit: Commit


class DiskActor(ThreadActor):
    """Carries out large commits beside the journal's thread. Parent: the journal."""

    def __init__(
        self,
        journal: Ref,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        trace: Trace | None,
    ) -> None:
        super().__init__(log, on_fatal)
        self._journal = journal
        self._trace = trace

    def on_receive(self, message: object) -> None:
        """Do it; an error is fatal to the node."""
        if isinstance(message, _Work):
            message.carry_out(self._trace)
            tell(self._journal, _CarriedOut(message.commit))


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
        # Who waits for the next commit.
        self._appends: dict[Ref, list[Append]] = {}
        self._answers: list[SettleSynced | AskJournal] = []
        # Started by the first large commit. Is it at one now? Then the next waits.
        self._disk: Ref | None = None
        self._disk_is_busy = False

    def on_receive(self, message: object) -> None:
        """Take the whole mailbox and commit it, unless a commit is under way."""
        journal = self._journal
        done: list[Commit] = []
        for each in self.drained(message):
            if isinstance(each, Append):
                journal.append(
                    each.queue_id,
                    each.batch,
                    each.indexes,
                    each.entry_ids,
                    each.deadlines,
                    each.identities,
                )
                self._appends.setdefault(each.queue, []).append(each)
            elif isinstance(each, RecordDeliveries):
                if each.delivered:
                    journal.delivered(each.queue_id, each.delivered)
                if each.settled:
                    journal.settle(each.queue_id, each.settled)
            elif isinstance(each, SettleSynced):
                journal.settle(each.queue_id, each.ranges, sync=True)
                self._answers.append(each)
            elif isinstance(each, ForgetIdentities):
                journal.forget_identities(each.queue_id, each.below)
            elif isinstance(each, DropQueue):
                journal.drop_queue(each.queue_id)
            elif isinstance(each, AskJournal):
                self._answers.append(each)
            elif isinstance(each, _CarriedOut):
                self._disk_is_busy = False
                done.append(each.commit)
        if not self._disk_is_busy:
            self._commit(DISK_THREAD_BYTES_MIN)
        for commit in done:
            # While the next one is at the disk: removing files takes its time.
            commit.discard()

    def _commit(self, disk_thread_bytes_min: float) -> None:
        commit = self._journal.begin_commit(reclaim=True)
        if commit is None:
            # Nothing is to be written, so nobody waits but who asks whether it answers.
            _answer(self._answers)
            self._answers.clear()
            return
        work = _Work(commit, self._appends, self._answers)
        self._appends, self._answers = {}, []
        if commit.size_bytes < disk_thread_bytes_min:
            work.carry_out(self._trace)
            commit.discard()
            return
        if self._disk is None:
            self._disk = DiskActor.start_alone(
                self.actor_ref, self._log, self._on_fatal, self._trace
            )
        self._disk_is_busy = True
        tell(self._disk, work)

    def _stop_disk(self) -> None:
        if self._disk is not None:
            self._disk.stop()

    def on_stop(self) -> None:
        """Commit what is left, sync and close the files."""
        self._stop_disk()
        if self._journal.is_usable:
            self._commit(math.inf)
        self._journal.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the files: after an error nothing is written or synced any more."""
        self._stop_disk()
        self._journal.abandon()
