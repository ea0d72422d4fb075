"""The journal: one append-only log for the whole node, so that one sync serves all queues.

It belongs to one caller, which hands it what queues want kept, then calls `commit` once for all of
it, then tells the queues: group commit without a timer. It has no thread and no clock, and touches
the disk through `Files` only. A commit may be run on another thread (`commit.py`).
docs/JOURNAL.md draws what is on the disk.

- A batch's wire bytes are written once, with the first `append` of it; each queue's entries are a
  short record that refers to the batch by number.
- `commit` writes with one writev, and syncs if an append, or a settle that asks for it, is
  among what it wrote.
  A settle or a delivered record alone is written but not waited for: to lose it costs a redelivery.
- A segment that is full is synced before the next one is created, so a torn tail is possible in
  the last segment only.
- Any error of the disk is final: nothing is known of what it left behind, so every later call
  raises, and the process is to exit without a confirm.

What is live is counted as records are made (`segment_ledger.py`); `reclaim` removes the segments
that nothing needs. Recovery is `recovery.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.publishes import decode_publishes
from .commit import Commit, CommitResult
from .entries_record import encode_entries, entries_bytes_at_most
from .files import Files, OperatingSystemFiles
from .identities_record import identities_bytes, in_records
from .identity_runs import Identities
from .live_entries import Deadlines, EntryIds
from .records import (
    DELIVERED,
    SETTLE,
    body_bytes_at_most,
    encode_body,
    encode_identities,
    encode_ranges,
    encode_removed,
    ranges_bytes,
)
from .recovery import Decode, Recovered, Recovery
from .replay import JournalPlace
from .segment_files import encode_header, segment_path
from .segment_ledger import EntryRange
from .segment_writer import SegmentWriter

SEGMENT_BYTES_MAX = 64 * 1024 * 1024
# Identities that are written anew go to the open segment if they are no more than this part of one.
FEW_IDENTITIES = 16


_NOTHING = CommitResult(False, 0, 0)


class Journal:
    """An open journal. Made by `Journal.open`; not to be shared between threads."""

    def __init__(
        self, directory: str, files: Files, segment_bytes_max: int, recovery: Recovery
    ) -> None:
        self._directory = directory
        self._files = files
        self._ledger = recovery.ledger
        self._ledger.remembered.few_bytes_max = segment_bytes_max // FEW_IDENTITIES
        self._damaged = recovery.damaged
        self._next_batch_number = recovery.recovered.next_batch_number
        self._must_sync = False
        self._writer = SegmentWriter(
            files, directory, segment_bytes_max, recovery.next_segment_number, self._open_segment
        )
        # Only now that a header does not list them: should the removal not survive a crash, they
        # are leftovers again, and one that lay above all others does not pass for the last.
        for number in recovery.leftovers:
            files.remove(segment_path(directory, number))
        self.reclaim()

    @classmethod
    def open(
        cls,
        directory: str,
        files: Files | None = None,
        known_queue_ids: Set[int] = frozenset(),
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        decode: Decode = decode_publishes,
    ) -> tuple[Journal, Recovered]:
        """Recover what the directory holds and go on in a new segment.

        When it returns, all that it gives back is on the disk. Entries of queues that are not
        known are dropped. JournalVersionError if a segment is of another format version.
        """
        files = OperatingSystemFiles() if files is None else files
        files.make_directory(directory)
        recovery = Recovery(files, directory, known_queue_ids, decode)
        recovery.run()
        return cls(directory, files, segment_bytes_max, recovery), recovery.recovered

    def append(
        self,
        queue_id: int,
        batch: Batch,
        indexes: Indexes,
        entry_ids: EntryIds,
        deadlines: Deadlines = 0,
        identities: Identities | None = None,
    ) -> None:
        """Messages of the batch become entries of the queue; on the disk after the next commit.

        `indexes` and `entry_ids` are aligned, ascending and not empty, and the ids lie above all
        that were appended to the queue before. `deadlines`: when the entries expire, and aligned
        if not all expire at once. `identities` is for the dedup window of a queue that has one.
        """
        place = batch.journal_place
        writer = self._writer
        size = entries_bytes_at_most(len(indexes), deadlines, identities)
        # A batch outlives its body if it is appended again after all its entries were settled.
        if isinstance(place, JournalPlace) and place.segment_number in self._ledger.live:
            writer.make_room(size)
        else:
            # The body and the first entries record go to the same segment.
            writer.make_room(size + body_bytes_at_most(batch))
            place = self._append_body(batch)
        if place.received_indexes is not None:
            received = place.received_indexes
            indexes = array("I", [received[index] for index in indexes])
        record = encode_entries(
            queue_id, batch.number, indexes, entry_ids, writer.number, deadlines, identities
        )
        self._ledger.extend(queue_id, entry_ids, place.segment_number, writer.number)
        if identities is not None:
            self._ledger.remembered.append(queue_id, writer.number, entry_ids, identities)
        writer.take(record)
        self._must_sync = True

    def settle(self, queue_id: int, ranges: Sequence[EntryRange], sync: bool = False) -> None:
        """Entries were acked or dropped. Ids that were never appended may lie in the ranges.

        If `sync`, as a purge asks for, they are gone for good after the next commit, and so is all
        that was settled before.
        """
        self._writer.make_room(ranges_bytes(len(ranges)))
        if self._ledger.settle(queue_id, ranges) or sync:
            self._take_ranges(SETTLE, queue_id, ranges)
            self._must_sync = self._must_sync or sync

    def delivered(self, queue_id: int, ranges: Sequence[EntryRange]) -> None:
        """Entries were sent to a consumer: at recovery they have one attempt more."""
        self._writer.make_room(ranges_bytes(len(ranges)))
        if self._ledger.delivered(queue_id, ranges):
            self._take_ranges(DELIVERED, queue_id, ranges)

    def forget_identities(self, queue_id: int, below: int) -> None:
        """The queue's window remembers no entry with an id below this. Nothing is written."""
        self._writer.check()
        self._ledger.forget_identities(queue_id, below)

    def drop_queue(self, queue_id: int) -> None:
        """The queue is no more, and the catalog has committed that: all its entries are dead.

        Nothing is written: recovery drops what belongs to a queue that the catalog does not know.
        Nothing may be appended for the queue afterwards.
        """
        self._writer.check()
        self._ledger.drop(queue_id)

    def begin_commit(self, reclaim: bool = False) -> Commit | None:
        """All that was handed over since the last commit, to be written; None if there is nothing.

        It may be run on another thread, while more is handed over here; the next commit begins
        when it is done. `reclaim`: it also removes the segments that nothing needs.
        """
        writer = self._writer
        writer.check()
        going = self._take_removal() if reclaim else ()
        if not writer.records:
            return None
        sync, self._must_sync = self._must_sync, False
        return Commit(writer.segment, writer.begin(), sync, going, self._discard)

    @property
    def is_usable(self) -> bool:
        """Has nothing failed, and is it open?"""
        return not self._writer.segment.unusable

    def commit(self) -> CommitResult:
        """Write all that was handed over since the last commit, and sync it if it must be.

        An OSError is fatal: the caller confirms nothing and the process ends.
        """
        commit = self.begin_commit()
        return _NOTHING if commit is None else commit.run()

    def reclaim(self) -> int:
        """Commit, and remove the segments that nothing needs; returns how many."""
        commit = self.begin_commit(reclaim=True)
        if commit is None:
            return 0
        commit.run()
        return commit.discard()

    def _take_removal(self) -> Sequence[int]:
        """Write down which segments can go. It costs next to nothing while there are none.

        The record is synced before any file goes: it makes the removal of all of them one step,
        and it puts on the disk the settles because of which they may go. The removal itself need
        not be synced: until the next segment's header lists what is there, the record stands.
        """
        going = self._ledger.removable()
        if going:
            # Before the removal: the identities in them that windows still remember.
            self._carry(set(going))
            ranges = _ranges(going)
            self._writer.make_room(ranges_bytes(len(ranges)))
            self._writer.take(encode_removed(ranges, self._writer.number))
            self._ledger.forget(going)
            self._must_sync = True
        return going

    def close(self) -> None:
        """Write and sync what is left, and close. After an error: close only."""
        self._writer.close()

    def abandon(self) -> None:
        """Close the files as they are: what is left may be half of something."""
        self._writer.segment.unusable = self._writer.segment.unusable or "abandoned"
        self._writer.close()

    def _carry(self, segments: set[int]) -> None:
        """Write the identities that lie in these segments anew; many, to segments of their own."""
        writer, remembered = self._writer, self._ledger.remembered
        carried_bytes = sum(remembered.bytes_in.get(number, 0) for number in segments)
        have_own = carried_bytes > remembered.few_bytes_max
        if have_own:
            writer.roll()
        first = writer.number
        for queue_id, runs in remembered.within(segments).items():
            for together in in_records(runs):
                writer.make_room(identities_bytes(together))
                writer.take(encode_identities(queue_id, together, writer.number))
                for run in together:
                    remembered.move(run, writer.number)
        if have_own:
            for number in range(first, writer.number + 1):
                remembered.made[number] = remembered.bytes_in[number]
            writer.roll()

    def _append_body(self, batch: Batch) -> JournalPlace:
        writer = self._writer
        head, wire = encode_body(batch, writer.number)
        writer.take(head)
        start = writer.offset
        writer.take_payload(wire)
        place = JournalPlace(writer.number, start, writer.offset, None)
        batch.journal_place = place
        if batch.number >= self._next_batch_number:
            self._next_batch_number = batch.number + 1
        return place

    def _take_ranges(self, kind: int, queue_id: int, ranges: Sequence[EntryRange]) -> None:
        writer = self._writer
        writer.take(encode_ranges(kind, queue_id, ranges, writer.number))

    def _open_segment(self, number: int) -> bytes:
        """Count from here on for this segment; returns the header that its file will begin with."""
        self._ledger.open(number)
        return encode_header(number, self._next_batch_number, _ranges(sorted(self._ledger.live)))

    def _discard(self, number: int) -> None:
        """Remove a segment's file; one that is damaged is kept, under another name, as evidence."""
        path = segment_path(self._directory, number)
        if number in self._damaged:
            self._files.rename(path, path + ".damaged")
        else:
            self._files.remove(path)


def _ranges(numbers: Sequence[int]) -> list[EntryRange]:
    """Ascending numbers as ranges."""
    ranges: list[EntryRange] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
