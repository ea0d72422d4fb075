"""The journal's thread: it writes the gathered records, syncs once, answers once per queue.

Group commit without a timer: while one sync runs, the next batch of work gathers in the mailbox. A
large commit goes to the disk on a thread of its own, and the journal encodes the next batch and
makes its CRCs beside it. A failed sync is fatal to the node: no confirm is sent for it, nothing is
retried, because a kernel that failed an fsync once may say yes to the next without having written.
Any other error is fatal, too, except a write that meets a full disk: the journal cuts off its
partial bytes, nacks its publishes, and takes no others until there is room. Meanwhile the journal
writes settles with the help of the reserve, and also that segments are done with, because that
makes room.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from ...core.statistics.journal_figures import JournalFigures
from ...logs.events import JOURNAL_UNDISCARDED
from ...storage.errors import NoSpaceError
from ...storage.journal.journal import Commit, CommitResult, Journal
from ...storage.journal.ledger import EntryRange, ranges_without
from ...storage.journal.log import Undropped
from ...storage.reserve import Purpose, Reserve
from ..messages import (
    Append,
    AskJournal,
    DiskFull,
    DiskHasRoom,
    DropQueue,
    EntriesLost,
    EntriesRead,
    ForgetIdentities,
    LookAtDisk,
    Persisted,
    ReadEntries,
    RecordDeliveries,
    Ref,
    ReportsTo,
    SeekRoom,
    SegmentDamaged,
    SettleSynced,
    Unstored,
    WatchedBy,
)
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor
from ..tracing.queue import commit_traced
from .maintenance import AskLive, Compact, Compacted, LiveEntries
from .page_reader import PageDone, ReadPage

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ...logs.trace.trace import Trace


# A commit from this size on is worth another thread: the hop costs a lone publish a good part of
# its latency, and a large write the time of some reads.
DISK_THREAD_BYTES_MIN = 512 * 1024


# Of a damaged segment so many bytes of messages are looked for at once: queues wait meanwhile.
SEARCHED_BYTES_MAX: Final = 512 * 1024
# So near the limit every larger commit is worth a look, and a small one is not.
LOOK_BYTES_MIN: Final = 64 * 1024
# Room above the limit that may be written between two looks: one part in so many.
LOOK_PART: Final = 4


class DiskBudget:
    """Counts down how much may be written before the disk's free space is looked at again.

    A clock alone does not do: a fast publisher fills a small disk between two looks. Nor is a look
    after every commit needed: a part of what there is above the limit can be written without harm.
    One thread may write while another looks.
    """

    __slots__ = ("_free_bytes_min", "_left_bytes")

    def __init__(self, free_bytes_min: int) -> None:
        self._free_bytes_min = free_bytes_min
        self._left_bytes = LOOK_BYTES_MIN

    def looked(self, free_bytes: int) -> None:
        """So much is free now."""
        above_bytes = free_bytes - self._free_bytes_min
        self._left_bytes = max(LOOK_BYTES_MIN, above_bytes // LOOK_PART)

    def wrote(self, count: int) -> bool:
        """So many bytes were written; true, once, if it is time to look."""
        before = self._left_bytes
        self._left_bytes = before - count
        return before > 0 >= before - count


class Room(NamedTuple):
    """The journal's budget of written bytes, and its reserve of free space on the disk."""

    # Says when the journal has written so much that somebody is to look at the disk.
    budget: DiskBudget
    # Takes free space for the reserve; is there room for publishes besides?
    seek: Callable[[int], bool]
    reserve: Reserve


class Timed(NamedTuple):
    """Where the journal's figures are kept, and the clock, in seconds, that times its commits."""

    figures: JournalFigures
    clock: Callable[[], float]

    def note(self, message_count: int, result: CommitResult) -> None:
        """A commit has been carried out, and brought so many messages."""
        sync_seconds = result.sync_seconds if result.synced else None
        self.figures.committed(message_count, result.bytes, result.write_seconds, sync_seconds)


class _Work(NamedTuple):
    """Journal -> Disk: a commit, and the messages that wait for it."""

    commit: Commit
    appends: dict[Ref, list[Append]]
    answers: list[SettleSynced | AskJournal]

    def carry_out(self, trace: Trace | None, timed: Timed) -> None:
        """Commit, and answer once per queue."""
        # Fsync before confirm: nothing is answered until this has returned.
        if trace is not None and trace.is_on:
            result = commit_traced(trace, self.commit, self.appends, timed.clock)
        else:
            result = self.commit.run(timed.clock)
        # Before anybody can know of the commit, and then ask for the figures.
        count = sum(len(each.entry_ids) for each in chain.from_iterable(self.appends.values()))
        timed.note(count, result)
        for queue_ref, persisted in self.appends.items():
            # A queue that has gone meanwhile has nacked these itself.
            tell(queue_ref, Persisted(persisted))
        _answer(self.answers)


def _answer(answers: list[SettleSynced | AskJournal]) -> None:
    for asked in answers:
        tell(asked.reply_to, asked.answer)


def _name_of(append: Append) -> tuple[int, int]:
    """The journal's name for an append."""
    return append.queue_id, append.entry_ids[0]


class _CarriedOut(NamedTuple):
    """Disk -> Journal: the next one may begin."""

    commit: Commit


class _MetFullDisk(NamedTuple):
    """Disk -> Journal: it is cut back, and nobody has an answer."""

    work: _Work
    error: NoSpaceError


class DiskActor(ThreadActor):
    """Carries out large commits beside the journal's thread. Parent: the journal."""

    def __init__(
        self,
        journal: Ref,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        trace: Trace | None,
        timed: Timed,
    ) -> None:
        super().__init__(log, on_fatal)
        self._journal = journal
        self._trace = trace
        self._timed = timed

    def on_gathered(self, messages: list[object]) -> None:
        """Carry out commits; an error is fatal to the node, but for a full disk."""
        for message in messages:
            if not isinstance(message, _Work):
                continue
            try:
                message.carry_out(self._trace, self._timed)
            except NoSpaceError as error:
                tell(self._journal, _MetFullDisk(message, error))
            else:
                tell(self._journal, _CarriedOut(message.commit))


class JournalActor(ThreadActor):
    """Owns the Journal. Parent: the node, which is told of anything fatal."""

    def __init__(
        self,
        journal: Journal,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        trace: Trace | None = None,
        room: Room | None = None,
        page_reader: Ref | None = None,
        maintenance: Ref | None = None,
        timed: Timed | None = None,
    ) -> None:
        super().__init__(log, on_fatal)
        self._journal = journal
        self._timed = timed or Timed(JournalFigures(), time.monotonic)
        # Reads what queues want back; it has this journal's reader.
        self._page_reader = page_reader
        # Rewrites segments.
        self._maintenance = maintenance
        self._trace = trace
        self._room = room
        # The actor that looks at the disk; the node makes it after the journal.
        self._watch: Ref | None = None
        # The actors that wait for the next commit.
        self._appends: dict[Ref, list[Append]] = {}
        self._answers: list[SettleSynced | AskJournal] = []
        # The first large commit starts it. `_at_disk` is its work at present; the next commit waits
        # for that.
        self._disk: Ref | None = None
        self._at_disk: _Work | None = None
        # While the disk is full: are the held records, which had no room, to be written with the
        # reserve's help now? Has the journal tried that in vain, so that they have to wait?
        self._is_held_due = False
        self._is_stuck = False
        # Entries of damaged segments that are still to be looked for, by queue id: those of the
        # first are being read. And the actor that learns which are lost.
        self._sought: deque[tuple[int, Sequence[EntryRange]]] = deque()
        self._listener: Ref | None = None

    def on_start(self) -> None:
        """Hear of damage."""
        self._look_at_usage()
        if self._maintenance is not None:
            tell(self._maintenance, ReportsTo(self.actor_ref))

    def on_gathered(self, messages: list[object]) -> None:
        """Hand all of it to the journal and commit it, unless a commit is under way."""
        # An error ends the node.
        self._timed.figures.is_at_work = True
        self._carry_out(messages)
        self._timed.figures.is_at_work = False

    def _carry_out(self, messages: list[object]) -> None:
        journal = self._journal
        done: list[Commit] = []
        unstored: dict[Ref, list[Append]] = {}
        for each in messages:
            if isinstance(each, Append):
                if journal.is_short:
                    unstored.setdefault(each.queue, []).append(each)
                else:
                    journal.append(
                        each.queue_id,
                        each.batch,
                        each.indexes,
                        each.entry_ids,
                        each.deadlines,
                        each.identities,
                        each.due_times,
                    )
                    self._appends.setdefault(each.queue, []).append(each)
            elif isinstance(each, RecordDeliveries):
                if each.delivered:
                    journal.delivered(each.queue_id, each.delivered)
                if each.deferred:
                    journal.deferred(each.queue_id, each.deferred)
                if each.settled:
                    journal.settle(each.queue_id, each.settled)
            elif isinstance(each, SettleSynced):
                journal.settle(each.queue_id, each.ranges, sync=True)
                self._answers.append(each)
                self._is_held_due = True
            elif isinstance(each, ForgetIdentities):
                if each.for_good:
                    journal.drop_identities(each.queue_id, each.below)
                else:
                    journal.forget_identities(each.queue_id, each.below)
            elif isinstance(each, DropQueue):
                journal.drop_queue(each.queue_id)
            elif isinstance(each, ReadEntries):
                self._plan_read(each)
            elif isinstance(each, PageDone):
                self._log_undropped(journal.release(each.plan))
            elif isinstance(each, AskLive):
                live = journal.live_among(*each.question)
                tell(each.maintenance, LiveEntries(live))
            elif isinstance(each, Compacted):
                self._log_undropped(
                    journal.end_compaction(each.rewritten, may_retry=each.may_retry)
                )
                if each.rewritten is not None:
                    self._timed.figures.compactions += 1
                if not each.may_retry:
                    self._seek_compaction()
            elif isinstance(each, AskJournal):
                self._answers.append(each)
            elif isinstance(each, _CarriedOut):
                self._at_disk = None
                self._wrote(each.commit)
                done.append(each.commit)
            elif isinstance(each, _MetFullDisk):
                self._at_disk = None
                self._roll_back(each.work, each.error)
            elif isinstance(each, WatchedBy):
                self._watch = each.watch
            elif isinstance(each, SegmentDamaged):
                self._look_at_usage()
                is_busy = bool(self._sought)
                self._sought.extend(journal.entries_in(each.segment))
                if not is_busy:
                    self._search()
            elif isinstance(each, EntriesRead):
                self._end_search(each)
            elif isinstance(each, ReportsTo):
                self._listener = each.listener
            elif isinstance(each, SeekRoom):
                # Now and then, because each change is not worth a commit of its own.
                journal.name_catalog_change()
                self._seek(each)
                self._seek_compaction()
                self._look_at_usage()
        for queue_ref, appends in unstored.items():
            tell(queue_ref, Unstored(appends))
        if self._at_disk is None:
            self._commit(DISK_THREAD_BYTES_MIN)
        for commit in done:
            # While the next one is at the disk: removing files takes its time.
            self._discard(commit)

    def _plan_read(self, asked: ReadEntries) -> None:
        """Find out where these entries are; the reader answers the queue."""
        assert self._page_reader is not None
        plan = self._journal.locate(asked.queue_id, asked.ranges, asked.bytes_max)
        page = ReadPage(self.actor_ref, asked.queue, plan, asked.only_sizes)
        tell(self._page_reader, page)

    def _search(self) -> None:
        """Have the next entries of a damaged segment read, as a queue would that wants them."""
        if self._sought:
            assert self._page_reader is not None
            plan = self._journal.locate(*self._sought[0], SEARCHED_BYTES_MAX)
            tell(self._page_reader, ReadPage(self.actor_ref, self.actor_ref, plan))

    def _end_search(self, read: EntriesRead) -> None:
        """Some were read: lost ones leave their queue at once."""
        queue_id, ranges = self._sought.popleft()
        if read.lost and self._listener is not None:
            tell(self._listener, EntriesLost(queue_id, read.lost))
        rest = ranges_without(ranges, [(0, read.through)])
        if rest:
            self._sought.appendleft((queue_id, rest))
        self._search()

    def _seek_compaction(self) -> None:
        """Have a segment rewritten, if one is worth it."""
        if self._maintenance is not None:
            plan = self._journal.begin_compaction()
            if plan is not None:
                tell(self._maintenance, Compact(self.actor_ref, plan))

    def _look_at_usage(self) -> None:
        """Now and then: it takes some microseconds for each segment."""
        figures, usage = self._timed.figures, self._journal.usage()
        figures.segments = usage.segments
        figures.live_bytes, figures.dead_bytes = usage.live_bytes, usage.dead_bytes
        figures.damaged_segments = usage.damaged_segments

    def _commit(self, disk_thread_bytes_min: float) -> None:
        if self._journal.is_short:
            self._make_do()
            return
        commit = self._journal.begin_commit(reclaim=True)
        if commit is None:
            # Nothing is to be written, so only those wait who ask whether the journal answers.
            _answer(self._answers)
            self._answers.clear()
            return
        work = _Work(commit, self._appends, self._answers)
        self._appends, self._answers = {}, []
        if commit.size_bytes < disk_thread_bytes_min:
            try:
                work.carry_out(self._trace, self._timed)
            except NoSpaceError as error:
                self._roll_back(work, error)
                self._make_do()
            else:
                self._wrote(commit)
                self._discard(commit)
            return
        if self._disk is None:
            self._disk = DiskActor.start_on(
                self.threads,
                self.actor_ref,
                self._log,
                self._on_fatal,
                self._trace,
                self._timed,
            )
        self._at_disk = work
        tell(self._disk, work)

    # --- While the disk is full

    def _roll_back(self, work: _Work, error: NoSpaceError) -> None:
        """A commit has met a full disk: its unwritten records are nacked, or wait.

        So are all records handed over meanwhile, because they would meet the same full disk.
        """
        lost = self._journal.roll_back(work.commit)
        # First: dead letters that are refused wait from then on.
        self._tell_watch(DiskFull(str(error)))
        for waiting in (work.appends, self._appends):
            for queue_ref, appends in waiting.items():
                unstored = [each for each in appends if _name_of(each) in lost]
                stored = [each for each in appends if _name_of(each) not in lost]
                if stored:
                    tell(queue_ref, Persisted(stored))
                if unstored:
                    tell(queue_ref, Unstored(unstored))
        self._appends = {}
        self._answers = work.answers + self._answers
        self._is_held_due, self._is_stuck = True, False

    def _make_do(self) -> None:
        """Write all but publishes, with the reserve's space for that; or wait until it has more.

        The journal writes settles when somebody asks for that, and now and then (`_seek`), so that
        they come in few records. That a segment is done with it writes at once, because that makes
        room.
        """
        _answer([each for each in self._answers if isinstance(each, AskJournal)])
        self._answers = [each for each in self._answers if isinstance(each, SettleSynced)]
        if self._is_stuck:
            return
        if self._is_held_due:
            self._is_held_due = False
            self._is_stuck = not self._write_held()
        if self._journal.may_remove:
            self._is_stuck = not self._commit_short(Purpose.REMOVAL)

    def _write_held(self) -> bool:
        """Write the held records, and answer those who wait; false if there is no room for them."""
        if not self._commit_short(Purpose.SETTLES):
            return False
        _answer(self._answers)
        self._answers = []
        return True

    def _commit_short(self, purpose: Purpose) -> bool:
        """Commit what this purpose is about, and use up the reserve for it as far as it may."""
        journal, room = self._journal, self._room
        while True:
            if purpose is Purpose.SETTLES:
                journal.write_held()
            commit = journal.begin_commit(reclaim=True)
            if commit is None:
                return True
            try:
                result = commit.run(self._timed.clock)
            except NoSpaceError:
                journal.roll_back(commit)
                if room is None or not room.reserve.release_step(purpose):
                    return False
                continue
            self._timed.note(0, result)
            self._discard(commit)
            if commit.going or commit.replacing:
                self._tell_watch(LookAtDisk())
            return True

    def _seek(self, message: SeekRoom) -> None:
        """Refill the reserve; on a disk that was full, find out whether there is room again."""
        if self._room is None:
            return
        has_room = self._room.seek(message.free_bytes)
        if not has_room:
            self._journal.leave_dead_segment()
        if self._journal.is_short:
            self._is_stuck = not self._write_held()
            if self._is_stuck or not has_room:
                return
            self._journal.end_shortage()
        if has_room:
            self._tell_watch(DiskHasRoom(message.full_count))

    def _discard(self, commit: Commit) -> None:
        if commit.replacing is not None:
            self._journal.install(commit)
            self._seek_compaction()
        if commit.going:
            self._log_undropped(commit.discard())

    def _log_undropped(self, undropped: Sequence[Undropped]) -> None:
        for undiscarded in undropped:
            # Nobody needs it: it is tried again with the next one, or at the next start.
            error = str(undiscarded.error)
            self._log.warning(JOURNAL_UNDISCARDED, file=undiscarded.name, error=error)

    def _wrote(self, commit: Commit) -> None:
        """Have the disk looked at when much has been written, before it is full."""
        if commit.closes_segments:
            self._seek_compaction()
        if self._room is not None and self._room.budget.wrote(commit.size_bytes):
            self._tell_watch(LookAtDisk())

    def _tell_watch(self, message: object) -> None:
        if self._watch is not None:
            tell(self._watch, message)

    def _stop_disk(self) -> None:
        if self._disk is not None:
            self._disk.stop()

    def on_stop(self) -> None:
        """Commit the remaining records, sync and close the files."""
        self._stop_disk()
        work = self._at_disk
        if work is not None and work.commit.no_space is not None:
            # What the disk's thread has said of it is behind the stop.
            self._roll_back(work, work.commit.no_space)
        if self._journal.is_usable:
            self._is_held_due, self._is_stuck = True, False
            self._commit(math.inf)
        self._journal.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the files: after an error nothing is written or synced any more."""
        self._stop_disk()
        self._journal.abandon()
