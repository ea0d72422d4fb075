"""The journal: one append-only log for the whole node, so that one sync serves all queues.

It belongs to one caller, which hands it what queues want kept, then calls `commit` once for all of
it, then tells the queues: group commit without a timer. It has no thread and no clock, and its
records go to a `Log` (log.py), of which it knows no more than that. Another thread may run a
commit, as actors/disk/journal.py does with large ones. docs/JOURNAL.md draws the files.

- A batch's wire bytes are written once, with the first `append` of it; each queue's entries are a
  short record that refers to the batch by number.
- `commit` writes with one writev, and syncs if an append, or a settle that asks for it, is
  among what it wrote. Its last record says up to where the journal was synced before it.
  A settle or a delivered record alone is written but not waited for: to lose it costs a redelivery.
- A segment that is full is synced before the next one is created, so a torn tail is possible in
  the last segment only.
- A write that meets a full disk is cut back to the commit before it, and `roll_back` says which
  appends are lost by that. The other records are kept and written later (storage/shortage.py).
- Any other error of the disk is final: nothing is known of what it left behind, so every later call
  raises, and the process is to exit without a confirm. Only a file that nobody needs any more, and
  that cannot be removed, may stay.

Live entries are counted as records are made (`ledger.py`); `reclaim` removes the segments that
nothing needs. Such a file may fail to be removed; because nobody needs it, that is reported and
tried again with the next files, and at the next start. Damaged files are renamed and kept for a
person. Recovery is `recovery.py`.

A commit, with the records gathered by then, is written and synced as a whole. It touches the log's
open segment and no other part of the journal, so that a large one can go to the disk on a thread
of its own while the journal accepts further records. There is one at a time.

A commit that meets a full disk is cut back: the log then ends where the last commit, or the header,
ended, and that is on the disk. A segment that such a commit has filled to its end stays as it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ..arrivals import WallDistance, arrived, no_distance
from ..errors import NoSpaceError
from ..shortage import Shortage
from .compaction import CompactionPlan, LiveRange, Rewritten
from .identity_runs import Identities, IdentityRun
from .ledger import (
    Deadlines,
    EntryIds,
    EntryRange,
    RunningLedger,
    Spoken,
    ranges_in,
    ranges_without,
)
from .locating import ReadPlan, locate
from .log import Log, Undropped
from .pins import Pins
from .reading import JournalReader
from .records import (
    COMPACTED_BYTES,
    DEFERRED_RANGE_BYTES,
    DELIVERED,
    RANGE_BYTES,
    RANGES_BYTES_MIN,
    SETTLE,
    CompactedRecord,
    DeferredRange,
    body_bytes_at_most,
    encode_body,
    encode_compacted,
    encode_deferred,
    encode_entries,
    encode_ranges,
    entries_bytes_at_most,
    identities_bytes,
    identities_covered,
    in_records,
    removed_covered,
)
from .replay import JournalPlace
from .segment_header import SegmentEnd, SegmentHeader, Stretch
from .segment_writer import Mark, SegmentWriter, Writing


class HandedAppend(NamedTuple):
    """Entries that were appended, in a record of this segment."""

    segment: int
    queue_id: int
    entry_ids: EntryIds
    # The batch whose body record stands before it.
    body: Batch | None
    identities: Identities | None


class HandedRanges(NamedTuple):
    """Entries that were settled or delivered."""

    segment: int
    kind: int
    queue_id: int
    ranges: Sequence[EntryRange]
    sync: bool


class HandedDeferral(NamedTuple):
    """Entries that were deferred."""

    segment: int
    queue_id: int
    ranges: Sequence[DeferredRange]


class HandedRemoval(NamedTuple):
    """Segments that were removed, and what each spoke of."""

    segment: int
    segments: Sequence[int]
    spoke_of: dict[int, Spoken]


class HandedRun(NamedTuple):
    """Identities that were written anew."""

    segment: int
    queue_id: int
    run: IdentityRun


class HandedForgetting(NamedTuple):
    """No start is to remember identities of the queue's entries below this id."""

    segment: int
    queue_id: int
    below: int


class HandedCompaction(NamedTuple):
    """The anchor of a segment that was rewritten."""

    segment: int
    rewritten: Rewritten


Handed = (
    HandedAppend
    | HandedRanges
    | HandedDeferral
    | HandedRemoval
    | HandedRun
    | HandedForgetting
    | HandedCompaction
)


class CommitResult(NamedTuple):
    """The result of a commit."""

    # Is everything that was handed to the journal before it began on the disk now?
    synced: bool
    bytes: int
    records: int
    # How long write and sync took, by the clock of the caller, if it gave one.
    write_seconds: float = 0.0
    sync_seconds: float = 0.0


def _no_clock() -> float:
    return 0.0


class Commit:
    """Made by `Journal.begin_commit`. `run`, then tell of it, then `discard`."""

    __slots__ = (
        "_log",
        "_pins",
        "_sync",
        "_writing",
        "going",
        "handed",
        "no_space",
        "replacing",
        "size_bytes",
    )

    def __init__(
        self,
        log: Log,
        pins: Pins,
        writing: Writing,
        sync: bool,
        going: Sequence[int],
        handed: Sequence[Handed],
        replacing: Rewritten | None,
    ) -> None:
        self._log = log
        self._pins = pins
        self._writing = writing
        self._sync = sync
        # Segments that nothing needs, once this is on the disk.
        self.going = going
        # What it is made of, should it be taken back.
        self.handed = handed
        # A replacement that may take its segment's place, once this is on the disk.
        self.replacing = replacing
        # What it has met, if it has run and was cut back.
        self.no_space: NoSpaceError | None = None
        self.size_bytes = writing.size_bytes()

    def run(self, clock: Callable[[], float] = _no_clock) -> CommitResult:
        """Write, and sync if it must be; `clock`, in seconds, times both.

        NoSpaceError if the disk is full: `Journal.roll_back` is to be told. An OSError is fatal:
        nothing of it may be confirmed.
        """
        try:
            begin = clock()
            written = self._writing.write(self._log)
            middle = clock()
            if self._sync:
                self._log.sync()
        except NoSpaceError as error:
            self.no_space = error
            raise
        records = self._writing.records
        return CommitResult(self._sync, written, records, middle - begin, clock() - middle)

    @property
    def closes_segments(self) -> bool:
        """Does it fill a segment to its end?"""
        return bool(self._writing.full)

    def mark_in(self, number: int) -> Mark:
        """Where it begins in this segment, to which it has been cut back."""
        return self._writing.mark_in(number)

    def discard(self) -> list[Undropped]:
        """Drop the segments that nothing needs any more; returns those that could not be.

        After `run`, and after its confirms are told: removing takes its time. A segment
        that is pinned goes when its last plan is released.
        """
        return self._log.drop(self._pins.keep(self.going))


SEGMENT_BYTES_MAX = 64 * 1024 * 1024
# Identities that are written anew go to the open segment if they are no more than this part of one.
FEW_IDENTITIES = 16
# An entries record refers to a body in its own segment, or so many segments before.
BODY_SEGMENTS_BEFORE: Final = 1
# An open segment that is smaller is not worth a new one.
LEFT_BYTES_MIN = 64 * 1024

_NOTHING = CommitResult(False, 0, 0)


class Found(NamedTuple):
    """The state that a recovery has found, to go on from."""

    directory_id: bytes
    ledger: RunningLedger
    next_segment_number: int
    # Of the last segment.
    before: SegmentEnd
    torn: list[Stretch]
    # Per queue the ids of entries whose message is lost.
    dropped_entries: Mapping[int, Sequence[EntryRange]]
    next_batch_number: int
    # Entries that have ever been appended.
    entries: int
    # Segments in which something does not verify: they stay as they are.
    damaged: Set[int] = frozenset()
    # Of the segments that were rewritten.
    compacted: Sequence[CompactedRecord] = ()


class CompactionRules(NamedTuple):
    """When a closed segment is rewritten without its dead entries."""

    # With no more than this part of its entries live.
    live_share_max: float = 0.25
    # If it is as large as this, and the replacement has no more than so much of it.
    segment_bytes_min: int = 256 * 1024
    kept_share_max: float = 0.5


COMPACTION_RULES: Final = CompactionRules()


class JournalUsage(NamedTuple):
    """Segments, and their bytes: of messages that are still in queues, and all others."""

    segments: int
    live_bytes: int
    dead_bytes: int
    # In which damage was found.
    damaged_segments: int


class _Refusal(NamedTuple):
    """The state of a segment when it was rewritten, or was not worth it."""

    live: int
    had_settles: bool


class Journal:
    """An open journal. Not to be shared between threads."""

    def __init__(
        self,
        log: Log,
        found: Found,
        segment_bytes_max: int,
        catalog_change: Callable[[], int],
        epoch: int,
        compaction: CompactionRules = COMPACTION_RULES,
        wall_distance_ns: WallDistance = no_distance,
    ) -> None:
        """Go on behind the recovered records, which are on the disk, in a new segment.

        `catalog_change` gives the number of the last change that the catalog has on the disk; a
        change is there before anything that depends on it is appended. `epoch` is the boot number,
        above that of every broker before. `wall_distance_ns` is asked by the thread that appends.
        An OSError may leave a segment behind, which the next start ignores.
        """
        self._wall_distance_ns = wall_distance_ns
        self._directory_id = found.directory_id
        self._epoch = epoch
        self._ledger = found.ledger
        self._ledger.remembered.few_bytes_max = segment_bytes_max // FEW_IDENTITIES
        self._torn = found.torn
        self._dropped = found.dropped_entries
        self._pins = Pins()
        self._next_batch_number = found.next_batch_number
        self._entries = found.entries
        self._catalog_change = catalog_change
        # The last change that a commit has named. Is one due to name another, without records?
        self._named_change = catalog_change()
        self._must_name_change = False
        self._must_sync = False
        # The records handed over since the last commit began, with their segment.
        self._handed: list[Handed] = []
        # While the disk is full.
        self._shortage: Shortage | None = None
        self._compaction = compaction
        # Segments that are not to be rewritten; and that were not worth it.
        self._damaged = found.damaged
        self._refused: dict[int, _Refusal] = {}
        # How many live entries segments had when they were looked at last.
        self._looked_at: dict[int, int] = {}
        # The segment that is being rewritten, 0 if there is none; and its replacement, if that is
        # still to be anchored.
        self._rewriting = 0
        # Later segments that are read for it: they are pinned. The ledger keeps the segment itself.
        self._read_for_rewriting: Sequence[int] = ()
        self._replacement: Rewritten | None = None
        # An anchored one, which waits for readers of the segment.
        self._anchored: Rewritten | None = None
        # How many rewritten segments have taken their places.
        self._replaced_count = 0
        # The anchors of segments that were rewritten; two while one of them is not in place yet.
        self._anchors = {each.segment: [each] for each in found.compacted}
        self._writer = SegmentWriter(
            log, segment_bytes_max, found.next_segment_number, found.before, self._open_segment
        )
        # Only now that a header does not list them: should the removal not survive a crash, they
        # are leftovers again, and one that lay above all others does not pass for the last.
        self.undiscarded = log.drop_leftovers()
        commit = self.begin_commit(reclaim=True)
        if commit is not None:
            commit.run()
            self.undiscarded += commit.discard()

    def append(
        self,
        queue_id: int,
        batch: Batch,
        indexes: Indexes,
        entry_ids: EntryIds,
        deadlines: Deadlines = 0,
        identities: Identities | None = None,
        due_times: Deadlines = 0,
    ) -> None:
        """Messages of the batch become entries of the queue; on the disk after the next commit.

        `indexes` and `entry_ids` are aligned, ascending and not empty, and the ids lie above all
        ids appended to the queue before. `deadlines`: when the entries expire, and aligned if not
        all expire at once. `identities` is for the dedup window of a queue that has one.
        `due_times`: until when they are deferred, as the deadlines.
        """
        place = batch.journal_place
        writer = self._writer
        body: Batch | None = None
        size = entries_bytes_at_most(len(indexes), deadlines, identities, due_times)
        # A batch outlives its body if it is appended again after all its entries were settled.
        if isinstance(place, JournalPlace) and place.segment_number in self._ledger.live:
            writer.make_room(size)
        else:
            place = None
        # So a reader has to remember the bodies of one segment for the next one only.
        if place is None or place.segment_number < writer.number - BODY_SEGMENTS_BEFORE:
            # The body and the first entries record go to the same segment.
            writer.make_room(size + body_bytes_at_most(batch))
            place = self._append_body(batch)
            body = batch
        if place.received_indexes is not None:
            received = place.received_indexes
            indexes = array("I", [received[index] for index in indexes])
        record = encode_entries(
            writer.seal,
            queue_id,
            batch.number,
            indexes,
            entry_ids,
            deadlines,
            identities,
            due_times,
        )
        self._ledger.extend(
            queue_id,
            entry_ids,
            place.segment_number,
            writer.number,
            place.offset,
            writer.offset,
        )
        if identities is not None:
            self._ledger.remembered.append(queue_id, writer.number, entry_ids, identities)
        writer.add(record)
        self._handed.append(HandedAppend(writer.number, queue_id, entry_ids, body, identities))
        self._entries += len(indexes)
        self._must_sync = True

    def settle(self, queue_id: int, ranges: Sequence[EntryRange], sync: bool = False) -> None:
        """Entries were acked or dropped. Ids that were never appended may lie in the ranges.

        If `sync`, as a purge asks for, they are gone for good after the next commit, and so are all
        entries settled before.
        """
        if self._dropped:
            # A settled entry counts as consumed, and a start remembers its identity.
            ranges = ranges_without(ranges, self._dropped.get(queue_id, ()))
        self._make_room_for(ranges)
        if self._ledger.settle(queue_id, ranges) or sync:
            self._record_ranges(SETTLE, queue_id, ranges, sync)

    def delivered(self, queue_id: int, ranges: Sequence[EntryRange]) -> None:
        """Entries were sent to a consumer: at recovery they have one attempt more."""
        self._make_room_for(ranges)
        if self._ledger.delivered(queue_id, ranges):
            self._record_ranges(DELIVERED, queue_id, ranges, False)

    def deferred(self, queue_id: int, ranges: Sequence[DeferredRange]) -> None:
        """Entries came back, and are not ready before they are due.

        Written with the next commit and not synced: to lose it costs an early redelivery.
        """
        if self._shortage is None:
            self._writer.make_room(RANGES_BYTES_MIN + DEFERRED_RANGE_BYTES * len(ranges))
        if not self._ledger.delivered(queue_id, [(first, last) for first, last, _ in ranges]):
            return
        writer, shortage = self._writer, self._shortage
        if shortage is not None:
            shortage.add_deferred(queue_id, ranges)
            shortage.spoken.add(self._ledger.speaks_of[writer.number])
            return
        writer.add(encode_deferred(writer.seal, queue_id, ranges))
        self._handed.append(HandedDeferral(writer.number, queue_id, ranges))

    def forget_identities(self, queue_id: int, below: int) -> None:
        """The queue's window remembers no entry with an id below this. Nothing is written."""
        self._writer.check()
        self._ledger.forget_identities(queue_id, below)

    def drop_identities(self, queue_id: int, below: int) -> None:
        """The queue has no window any more: no start remembers an entry with an id below this.

        Written with the next commit and not synced, like a settle.
        """
        writer = self._writer
        writer.check()
        everything = [IdentityRun(0, 1, below - 1, 0, bytearray())]
        writer.make_room(identities_bytes(everything))
        self._ledger.drop_identities(queue_id, below)
        writer.add(writer.seal.record(identities_covered(queue_id, everything)))
        self._handed.append(HandedForgetting(writer.number, queue_id, below))

    def drop_queue(self, queue_id: int) -> None:
        """The queue is no more, and the catalog has committed that: all its entries are dead.

        Nothing is written: recovery drops what belongs to a queue that the catalog does not know.
        Nothing may be appended for the queue afterwards.
        """
        self._writer.check()
        self._ledger.drop(queue_id)

    def name_catalog_change(self) -> None:
        """Have the next commit name the catalog's last change even if it has no records.

        Many changes that nothing in the journal depends on cost one write, not one each.
        """
        self._must_name_change = self._catalog_change() > self._named_change

    def begin_commit(self, reclaim: bool = False) -> Commit | None:
        """The records handed over since the last commit, to be written; None if there is nothing.

        It may be run on another thread, while more is handed over here; the next commit begins
        when it is done. `reclaim`: it also removes the segments that nothing needs.
        """
        writer = self._writer
        writer.check()
        going = self._record_removal() if reclaim else ()
        replacing = None
        if reclaim and self._replacement is not None:
            replacing = self._record_compaction(self._replacement)
        if not (writer.records or self._must_name_change):
            return None
        sync, self._must_sync = self._must_sync, False
        # Each commit names it, so that an older catalog is not taken for this one.
        self._named_change = self._catalog_change()
        self._must_name_change = False
        writing = writer.begin(self._entries, self._named_change)
        handed, self._handed = self._handed, []
        return Commit(writer.log, self._pins, writing, sync, going, handed, replacing)

    @property
    def log(self) -> Log:
        """Holds the records; others may read closed segments from it."""
        return self._writer.log

    @property
    def is_usable(self) -> bool:
        """Has nothing failed, and is it open?"""
        return not self._writer.log.unusable

    def commit(self) -> CommitResult:
        """Write all records handed over since the last commit, and sync them if required.

        An OSError is fatal: the caller confirms nothing and the process ends. NoSpaceError is not,
        and is raised when the journal has gone back.
        """
        commit = self.begin_commit()
        if commit is None:
            return _NOTHING
        try:
            return commit.run()
        except NoSpaceError:
            self.roll_back(commit)
            raise

    def reclaim(self) -> int:
        """Commit, and remove the segments that nothing needs; returns how many."""
        commit = self.begin_commit(reclaim=True)
        if commit is None:
            return 0
        commit.run()
        self.install(commit)
        stayed = {undropped.segment for undropped in commit.discard()}
        return len(set(commit.going) - stayed)

    def _record_removal(self) -> Sequence[int]:
        """Write down which segments can go. It costs next to nothing while there are none.

        The record is synced before any file goes: it makes the removal of all of them one step,
        and it puts on the disk the settles because of which they may go. The removal itself need
        not be synced: until the next segment's header lists the present segments, the record
        stands.
        """
        # Rarely has a segment become removable since the last commit.
        going = self._ledger.removable() if self._ledger.may_remove else []
        spoke_of: dict[int, Spoken] = {}
        shortage = self._shortage
        if going:
            # Before the removal: the identities in them that windows still remember.
            self._carry(set(going))
            spoke_of = self._ledger.forget(going)
        if shortage is not None and (shortage.removed or shortage.runs):
            self._write_runs(shortage.runs)
            going += shortage.removed
            shortage.runs, shortage.removed = [], []
        if going:
            writer = self._writer
            ranges = ranges_in(sorted(going))
            writer.make_room(RANGES_BYTES_MIN + RANGE_BYTES * len(ranges))
            writer.add(writer.seal.record(removed_covered(ranges)))
            self._handed.append(HandedRemoval(writer.number, tuple(going), spoke_of))
            self._must_sync = True
        return going

    def usage(self) -> JournalUsage:
        """What there is on the disk; a segment's bytes are divided as its entries are.

        Not for each commit: it asks the disk for the size of each closed segment. One whose size
        is not known counts without bytes.
        """
        ledger, writer = self._ledger, self._writer
        all_bytes = live_bytes = 0
        for number, live in ledger.live.items():
            size_bytes = 0
            if number == writer.number:
                size_bytes = writer.offset
            else:
                with suppress(OSError):
                    size_bytes = writer.log.size_bytes(number)
            all_bytes += size_bytes
            # Entries of a later segment may need a body in this one.
            live_bytes += size_bytes * live // max(live, ledger.appended[number], 1)
        dead_bytes = all_bytes - live_bytes
        return JournalUsage(len(ledger.live), live_bytes, dead_bytes, len(self._damaged))

    # --- Reading back

    def reader(self, name_of: Callable[[int], str]) -> JournalReader:
        """What carries out plans, on one thread of its own; `name_of` is how it calls a queue."""
        return JournalReader(self._writer.log.read, self._directory_id, name_of)

    def locate(self, queue_id: int, ranges: Sequence[EntryRange], bytes_max: int) -> ReadPlan:
        """Where to read these entries, whose ranges ascend and are not empty.

        A commit with them has run. The segments stay as they are until `release`.
        """
        plan = locate(queue_id, self._ledger.queues.get(queue_id), ranges, bytes_max)
        plan = plan._replace(replaced_count=self._replaced_count)
        self._pins.pin(plan.segments())
        return plan

    def release(self, plan: ReadPlan) -> list[Undropped]:
        """The plan was carried out. Drop the segments that waited for that; returns those that
        could not be."""
        going = self._pins.unpin(plan.segments())
        self._install_anchored()
        return self._writer.log.drop(going) if going else []

    def entries_in(self, segment: int) -> list[tuple[int, list[EntryRange]]]:
        """Per queue id the live entries of which a record, or the message, is in this segment."""
        found: list[tuple[int, list[EntryRange]]] = []
        for queue_id, live_entries in self._ledger.queues.items():
            ranges = [
                each
                for block in live_entries
                if segment in (block.entries_segment, block.body_segment)
                for each in ranges_in(block.entry_ids)
            ]
            if ranges:
                found.append((queue_id, ranges))
        return found

    def is_pinned(self, segment: int) -> bool:
        """Is it being read? Then it is not to be replaced."""
        return self._pins.is_pinned(segment)

    # --- Compaction

    def begin_compaction(self) -> CompactionPlan | None:
        """A segment that is worth rewriting now, if there is one and none is being rewritten.

        To be called now and then, since a segment that is being emptied is left alone: between two
        calls not half of its entries have gone. A plan ends with `end_compaction`.
        """
        ledger, rules = self._ledger, self._compaction
        if self._rewriting or not self.is_usable:
            return None
        looked_at, self._looked_at = self._looked_at, dict(ledger.live)
        for number, live in sorted(ledger.live.items()):
            # A body may be used by entries of the next segment: until that is closed, by new ones.
            if number + BODY_SEGMENTS_BEFORE >= self._writer.log.number:
                break
            if live > ledger.appended[number] * rules.live_share_max:
                continue
            is_at_rest = not live or (number in looked_at and 2 * live > looked_at[number])
            if number in self._damaged or ledger.remembered.keeps(number) or not is_at_rest:
                continue
            if not (ledger.needs(number) or live):
                # It goes with the next commit.
                continue
            spoken = ledger.speaks_of[number]
            if not self._is_worth(number, live, has_settles=bool(spoken.settles)):
                continue
            size_bytes = self._writer.log.size_bytes(number)
            if size_bytes < rules.segment_bytes_min:
                continue
            users = [entries for body, entries in sorted(ledger.elsewhere) if body == number]
            self._rewriting, self._read_for_rewriting = number, users
            ledger.begin_rewrite(number)
            self._pins.pin(users)
            return CompactionPlan(
                number,
                self._directory_id,
                self._epoch,
                size_bytes,
                int(size_bytes * rules.kept_share_max),
                users,
                bool(spoken.settles),
                frozenset(spoken.notes),
            )
        return None

    def _is_worth(self, number: int, live: int, *, has_settles: bool) -> bool:
        refused = self._refused.get(number)
        if refused is None:
            return True
        return 2 * live < refused.live or (refused.had_settles and not has_settles)

    def _refuse(self, number: int) -> None:
        """Do not rewrite it again before more can be left out."""
        had_settles = bool(self._ledger.speaks_of[number].settles)
        self._refused[number] = _Refusal(self._ledger.live[number], had_settles)

    def live_among(self, queue_id: int, ranges: Sequence[EntryRange]) -> list[LiveRange]:
        """Those of the queue's entries that are live, in order."""
        live_entries = self._ledger.queues.get(queue_id)
        if live_entries is None:
            return []
        return [
            LiveRange(max(first, start), min(last, end), block.entries_segment)
            for first, last in ranges
            for block in live_entries.within(first, last)
            for start, end in ranges_in(block.entry_ids)
            if start <= last and first <= end
        ]

    def end_compaction(
        self, rewritten: Rewritten | None, *, may_retry: bool = False
    ) -> list[Undropped]:
        """The plan has been carried out; None: the segment stays as it is.

        It is not tried again before more of it has gone, unless `may_retry`. The next commit that
        reclaims anchors the replacement, and `install` follows. Drops the segments that waited for
        the end of the reading; returns those that could not be.
        """
        number = self._rewriting
        going = self._pins.unpin(self._read_for_rewriting)
        self._read_for_rewriting = ()
        if rewritten is None:
            if not may_retry:
                self._refuse(number)
            self._ledger.end_rewrite(number)
            self._rewriting = 0
        elif rewritten.anchor is None:
            # The identities in it are written anew before it goes.
            self._ledger.rewritten(number, Spoken(), 0)
            self._rewriting = 0
        else:
            self._replacement = rewritten
        return self._writer.log.drop(going) if going else []

    def _record_compaction(self, rewritten: Rewritten) -> Rewritten:
        """Anchor the replacement, before it takes its segment's place."""
        anchor = rewritten.anchor
        assert anchor is not None
        writer = self._writer
        self._replacement = None
        # It is without the identities that windows still remember.
        self._carry({anchor.segment})
        writer.make_room(COMPACTED_BYTES)
        self._anchors.setdefault(anchor.segment, []).append(anchor)
        writer.add(encode_compacted(writer.seal, anchor))
        self._handed.append(HandedCompaction(writer.number, rewritten))
        self._must_sync = True
        return rewritten

    def install(self, commit: Commit) -> None:
        """After the commit has run: its replacement, if it has one, takes the segment's place.

        It waits for those that read the segment. An OSError is fatal.
        """
        if commit.replacing is not None:
            self._anchored = commit.replacing
            self._install_anchored()

    def _install_anchored(self) -> None:
        rewritten = self._anchored
        if rewritten is None or self.is_pinned(rewritten.segment):
            # Readers know the places of the records as they are now.
            return
        self._anchored = None
        number = rewritten.segment
        self._writer.log.replace(number)
        self._replaced_count += 1
        assert rewritten.anchor is not None
        self._anchors[number] = [rewritten.anchor]
        # Its own settles are of earlier segments, of those that the ledger has for it.
        settles = self._ledger.speaks_of[number].settles if rewritten.keeps_settles else set()
        spoken = Spoken(settles, dict.fromkeys(rewritten.notes))
        self._ledger.rewritten(number, spoken, rewritten.anchor.entries)
        self._ledger.move(rewritten.moved)
        self._rewriting = 0
        self._refuse(number)

    # --- While the disk is full

    @property
    def is_short(self) -> bool:
        """Is there something that had no room? Then nothing may be appended."""
        return self._shortage is not None

    @property
    def may_remove(self) -> bool:
        """May it be that a segment can go, or become smaller, which makes room?"""
        return self._ledger.may_remove or self._replacement is not None

    def roll_back(self, commit: Commit) -> set[tuple[int, int]]:
        """A commit has met a full disk: everything that is not on the disk by now counts as not
        handed over.

        But for settles and the like, which are kept for `write_held`. Returns the appends that are
        lost, each by queue id and first entry id; the other appends are on the disk.
        """
        number = self._writer.log.number
        mark = commit.mark_in(number)
        shortage = self._shortage = self._shortage or Shortage()
        self._writer.log.writes_ahead = False
        undone = [each for each in (*commit.handed, *self._handed) if each.segment >= number]
        lost = set()
        for each in undone:
            if isinstance(each, HandedAppend):
                self._withdraw(each)
                lost.add((each.queue_id, each.entry_ids[0]))
            elif isinstance(each, HandedRanges):
                shortage.add_ranges(each.kind, each.queue_id, each.ranges)
                shortage.must_sync = shortage.must_sync or each.sync
            elif isinstance(each, HandedDeferral):
                shortage.add_deferred(each.queue_id, each.ranges)
            elif isinstance(each, HandedForgetting):
                # Of several of one queue the last says all.
                shortage.forgotten[each.queue_id] = each.below
        self._ledger.roll_back(number)
        for each in undone:
            if isinstance(each, HandedRemoval):
                # Segments behind are no more, and this one goes on.
                shortage.removed += [gone for gone in each.segments if gone < number]
                self._ledger.speak(each.spoke_of.get(number, Spoken()))
            elif isinstance(each, HandedCompaction):
                self._replacement = each.rewritten
                self._anchors[each.rewritten.segment].pop()
            elif isinstance(each, HandedRun):
                self._ledger.remembered.undo_rewrite(each.queue_id, each.run, number)
                shortage.runs.append((each.queue_id, each.run))
        if not (shortage.removed or self._replacement):
            # Their segment is not removed after all, so the identities are still where they were.
            shortage.runs.clear()
        shortage.spoken.add(self._ledger.speaks_of[number])
        shortage.spoken.keep(range(number + 1))
        self._writer.roll_back(mark)
        self._entries = mark.entries
        self._named_change = mark.catalog_change
        self._handed = []
        self._must_sync = False
        return lost

    def write_held(self) -> None:
        """Hand over the records that had no room, for the next commit; should that have none, it is
        kept."""
        shortage = self._shortage
        assert shortage is not None
        writer = self._writer
        for kind, queue_id, ranges in shortage.pop_ranges():
            writer.make_room(RANGES_BYTES_MIN + RANGE_BYTES * len(ranges))
            self._ledger.speak(shortage.spoken)
            writer.add(encode_ranges(writer.seal, kind, queue_id, ranges))
            self._handed.append(HandedRanges(writer.number, kind, queue_id, ranges, False))
        # Behind the deliveries, which say of an entry that it is not deferred.
        for queue_id, deferred in shortage.pop_deferred():
            writer.make_room(RANGES_BYTES_MIN + DEFERRED_RANGE_BYTES * len(deferred))
            self._ledger.speak(shortage.spoken)
            writer.add(encode_deferred(writer.seal, queue_id, deferred))
            self._handed.append(HandedDeferral(writer.number, queue_id, deferred))
        forgotten, shortage.forgotten = shortage.forgotten, {}
        for queue_id, below in forgotten.items():
            self.drop_identities(queue_id, below)
        self._must_sync = self._must_sync or shortage.must_sync
        shortage.must_sync = False

    def leave_dead_segment(self) -> None:
        """Go on in a new segment, if the open one can be removed then, and that makes room.

        It never goes by itself, and on a small disk it may be what most of the room went to.
        """
        ledger, number = self._ledger, self._writer.number
        if (
            not ledger.live[number]
            and not ledger.needs(number)
            and self._writer.offset >= LEFT_BYTES_MIN
        ):
            self._writer.roll()

    def end_shortage(self) -> None:
        """There is room again: write the records that had none, by a commit that reclaims."""
        shortage = self._shortage
        assert shortage is None or shortage.is_over, "a segment would stay until the next start"
        self._shortage = None
        self._writer.log.writes_ahead = True

    def _withdraw(self, append: HandedAppend) -> None:
        self._ledger.withdraw(append.queue_id, append.entry_ids)
        if append.body is not None:
            append.body.journal_place = None
        if append.identities is not None:
            first, last = append.entry_ids[0], append.entry_ids[-1]
            octets = append.identities.octets
            self._ledger.remembered.forget_these(append.queue_id, first, last, octets)

    def close(self) -> None:
        """Write and sync the remaining records, and close. After an error: close only.

        What finds no room is left out: settles, which costs redeliveries.
        """
        if self.is_usable:
            if self._shortage is not None:
                self.write_held()
            self.name_catalog_change()
            with suppress(NoSpaceError):
                self.commit()
        self._writer.close(self._entries, self._catalog_change())

    def abandon(self) -> None:
        """Close the files as they are: the rest may be half of a record."""
        self._writer.log.abandon("abandoned")

    def _carry(self, segments: set[int]) -> None:
        """Write the identities that lie in these segments anew; many, to segments of their own."""
        writer, remembered = self._writer, self._ledger.remembered
        carried_bytes = sum(remembered.bytes_in.get(number, 0) for number in segments)
        have_own = carried_bytes > remembered.few_bytes_max
        if have_own:
            writer.roll()
        first = writer.number
        for queue_id, runs in remembered.within(segments).items():
            self._write_runs([(queue_id, run) for run in runs])
        if have_own:
            for number in range(first, writer.number + 1):
                remembered.made[number] = remembered.bytes_in[number]
            writer.roll()

    def _write_runs(self, held: Sequence[tuple[int, IdentityRun]]) -> None:
        """Write these identities anew, unless their windows have forgotten them meanwhile."""
        writer, remembered = self._writer, self._ledger.remembered
        for queue_id, pairs in groupby(held, key=itemgetter(0)):
            runs = remembered.still_there(queue_id, [run for _, run in pairs])
            for together in in_records(runs):
                writer.make_room(identities_bytes(together))
                writer.add(writer.seal.record(identities_covered(queue_id, together)))
                for run in together:
                    remembered.move(run, writer.number)
                    self._handed.append(HandedRun(writer.number, queue_id, run))

    def _append_body(self, batch: Batch) -> JournalPlace:
        writer = self._writer
        head, wire = encode_body(writer.seal, batch, arrived(batch, self._wall_distance_ns))
        offset = writer.offset
        writer.add(head)
        start = writer.offset
        writer.add_payload(wire)
        place = JournalPlace(writer.number, start, writer.offset, None, offset)
        batch.journal_place = place
        if batch.number >= self._next_batch_number:
            self._next_batch_number = batch.number + 1
        return place

    def _make_room_for(self, ranges: Sequence[EntryRange]) -> None:
        """Before they are counted, for they count for the segment that they are written to."""
        if self._shortage is None:
            self._writer.make_room(RANGES_BYTES_MIN + RANGE_BYTES * len(ranges))

    def _record_ranges(
        self, kind: int, queue_id: int, ranges: Sequence[EntryRange], sync: bool
    ) -> None:
        writer, shortage = self._writer, self._shortage
        if shortage is not None:
            shortage.add_ranges(kind, queue_id, ranges)
            shortage.spoken.add(self._ledger.speaks_of[writer.number])
            shortage.must_sync = shortage.must_sync or sync
            return
        writer.add(encode_ranges(writer.seal, kind, queue_id, ranges))
        self._handed.append(HandedRanges(writer.number, kind, queue_id, ranges, sync))
        self._must_sync = self._must_sync or sync

    def _open_segment(self, number: int, before: SegmentEnd) -> SegmentHeader:
        """Count from here on for this segment; returns the header that its file will begin with."""
        self._ledger.open(number)
        live = self._ledger.live
        self._torn = [stretch for stretch in self._torn if stretch.segment in live]
        self._anchors = {each: its for each, its in self._anchors.items() if each in live}
        self._refused = {each: its for each, its in self._refused.items() if each in live}
        return SegmentHeader(
            number,
            self._next_batch_number,
            ranges_in(sorted(live)),
            self._directory_id,
            self._epoch,
            before,
            self._entries,
            self._catalog_change(),
            self._torn,
            compacted=[each for number in sorted(self._anchors) for each in self._anchors[number]],
        )
