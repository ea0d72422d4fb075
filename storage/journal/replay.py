"""From records, read in order, to live entries: the bookkeeping of a recovery.

`Replay` takes each record with its place and ends with the live entries of every known queue,
bound to the body records that hold their messages, and with a ledger of what keeps which segment.
It reads no file: bodies are loaded once it is known which are live, by `recovery.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import NamedTuple, Self

from ...amqp_frames.messages.batch import Batch, Indexes
from .identity_runs import IDENTITY_BYTES
from .ledger import Block, Deadlines, EntryIds, RunningLedger, SegmentLedger
from .records import (
    DELIVERED,
    BodyRecord,
    DeferredRecord,
    EntriesRecord,
    IdentitiesRecord,
    RangesRecord,
    Record,
)
from .segment_header import SegmentHeader


class JournalPlace(NamedTuple):
    """Where a batch's messages are in the journal: a batch's `journal_place`."""

    segment_number: int
    wire_start: int
    wire_end: int
    # Which messages of the batch as it was received these are, if the batch was read back and
    # holds only these; None if its indexes are those that records speak of.
    received_indexes: Indexes | None
    # Where its record begins.
    offset: int


class StoredBody:
    """A body record that entries refer to; `batch` once it has been loaded."""

    __slots__ = ("batch", "batch_number", "place")

    def __init__(self, batch_number: int, place: JournalPlace) -> None:
        self.batch_number = batch_number
        self.place = place
        self.batch: Batch | None = None


class RecoveredBlock(Block):
    """Live entries that know their messages and how often they were delivered.

    `indexes`, aligned with the entry ids, are those of the batch as it was received, and so are
    `deadlines` and `due_times`, if several. A body of None: no record of it verified; then
    `identities` are those of the entries, aligned with them, and `is_torn` says whether the body
    was being written.
    """

    __slots__ = (
        "attempts",
        "batch_number",
        "body",
        "deadlines",
        "due_times",
        "identities",
        "indexes",
        "is_torn",
    )

    def __init__(
        self,
        entry_ids: EntryIds,
        entries_segment: int,
        batch_number: int,
        body: StoredBody | None,
        indexes: Indexes,
        deadlines: Deadlines,
        due_times: Deadlines,
        offset: int,
    ) -> None:
        """The offset is that of the entries record."""
        if body is None:
            super().__init__(entry_ids, entries_segment, entries_segment, offset, offset)
        else:
            place = body.place
            super().__init__(entry_ids, place.segment_number, entries_segment, place.offset, offset)
        self.batch_number = batch_number
        self.body = body
        self.indexes = indexes
        self.deadlines = deadlines
        self.due_times = due_times
        self.attempts = 0
        self.identities = b""
        self.is_torn = False

    def split(self, position: int) -> Self:
        """As of any block; both parts keep the body and the attempts."""
        rest = super().split(position)
        rest.indexes = self.indexes[position:]
        self.indexes = self.indexes[:position]
        rest.deadlines = self.deadlines
        if not isinstance(self.deadlines, int):
            rest.deadlines = self.deadlines[position:]
            self.deadlines = self.deadlines[:position]
        rest.due_times = self.due_times
        if not isinstance(self.due_times, int):
            rest.due_times = self.due_times[position:]
            self.due_times = self.due_times[:position]
        rest.identities = self.identities[position * IDENTITY_BYTES :]
        self.identities = self.identities[: position * IDENTITY_BYTES]
        rest.is_torn = self.is_torn
        rest.batch_number = self.batch_number
        rest.body = self.body
        rest.attempts = self.attempts
        return rest


class Replay:
    """The live entries, according to the records read so far."""

    def __init__(self, known_queue_ids: Set[int]) -> None:
        self.ledger: SegmentLedger[RecoveredBlock] = SegmentLedger()
        self.next_batch_number = 1
        self.next_entry_ids: dict[int, int] = dict.fromkeys(known_queue_ids, 1)
        # The highest queue id that a record speaks of.
        self.queue_id_max = 0
        # Queues that the catalog does not know: followed only to say how much is dropped.
        self._unknown: SegmentLedger[RecoveredBlock] = SegmentLedger()
        self._known_queue_ids = known_queue_ids
        self._bodies: dict[int, StoredBody] = {}
        self._torn_from = 0
        # Segments that have messages or entries; not identities alone.
        self._with_messages: set[int] = set()

    def open(self, segment_number: int, torn_from: int) -> None:
        """The records that follow are of this segment, which lies above all before it.

        Bodies that records from the offset `torn_from` on miss were being written.
        """
        self.ledger.open(segment_number)
        self._unknown.open(segment_number)
        self._torn_from = torn_from

    def apply_header(self, header: SegmentHeader) -> None:
        """Apply the header of the open segment."""
        self.next_batch_number = max(self.next_batch_number, header.next_batch_number)

    def apply(self, record: Record, offset: int) -> None:
        """One record of the open segment; ValueError if it contradicts an earlier one.

        Records about segments and commits are for whoever reads the segments.
        """
        if isinstance(record, EntriesRecord):
            self._apply_entries(record, offset)
        elif isinstance(record, BodyRecord):
            self._with_messages.add(self.ledger.open_segment)
            number = record.batch_number
            place = JournalPlace(
                self.ledger.open_segment,
                record.wire_start,
                record.wire_end,
                record.indexes,
                offset,
            )
            # A body written again, because its first segment was gone, replaces the first.
            self._bodies[number] = StoredBody(number, place)
            self.next_batch_number = max(self.next_batch_number, number + 1)
        elif isinstance(record, RangesRecord):
            self._apply_ranges(record)
        elif isinstance(record, DeferredRecord):
            self._apply_deferred(record)
        elif isinstance(record, IdentitiesRecord):
            self._apply_identities(record)

    def _ledger_of(self, queue_id: int) -> SegmentLedger[RecoveredBlock]:
        self.queue_id_max = max(self.queue_id_max, queue_id)
        return self.ledger if queue_id in self._known_queue_ids else self._unknown

    def _apply_entries(self, record: EntriesRecord, offset: int) -> None:
        self._with_messages.add(self.ledger.open_segment)
        ledger = self._ledger_of(record.queue_id)
        body = self._bodies.get(record.batch_number)
        block = RecoveredBlock(
            record.entry_ids,
            ledger.open_segment,
            record.batch_number,
            body,
            record.indexes,
            record.deadlines,
            record.due_times,
            offset,
        )
        if body is None:
            block.is_torn = offset >= self._torn_from
            block.identities = record.identities.octets if record.identities else b""
        ledger.append(record.queue_id, block)
        # The body record may be lost; its number is not to be used again all the same.
        self.next_batch_number = max(self.next_batch_number, record.batch_number + 1)
        self._used(record.queue_id, record.entry_ids[-1])
        if record.identities is not None and record.queue_id in self._known_queue_ids:
            segment, ids = ledger.open_segment, record.entry_ids
            ledger.remembered.append(record.queue_id, segment, ids, record.identities)

    def _apply_identities(self, record: IdentitiesRecord) -> None:
        self._ledger_of(record.queue_id)
        if record.queue_id in self._known_queue_ids:
            for run in record.runs:
                run.segment = self.ledger.open_segment
                if run.identities:
                    self.ledger.remembered.add_rewritten(record.queue_id, run)
                else:
                    self.ledger.drop_identities(record.queue_id, run.last_entry_id + 1)
                self._used(record.queue_id, run.last_entry_id)

    def _apply_ranges(self, record: RangesRecord) -> None:
        ledger = self._ledger_of(record.queue_id)
        if record.ranges:
            self._used(record.queue_id, max(last for _, last in record.ranges))
        if record.kind != DELIVERED:
            ledger.settle(record.queue_id, record.ranges)
        elif ledger.delivered(record.queue_id, record.ranges):
            live_entries = ledger.queues[record.queue_id]
            for first, last in record.ranges:
                for block in live_entries.isolate(first, last):
                    block.attempts += 1
                    # A start has messages in flight ready at once.
                    block.due_times = 0

    def _apply_deferred(self, record: DeferredRecord) -> None:
        ledger = self._ledger_of(record.queue_id)
        for first, last, due_ms in record.ranges:
            self._used(record.queue_id, last)
            if ledger.delivered(record.queue_id, [(first, last)]):
                for block in ledger.queues[record.queue_id].isolate(first, last):
                    block.due_times = due_ms

    def _used(self, queue_id: int, last_entry_id: int) -> None:
        if last_entry_id >= self.next_entry_ids.get(queue_id, last_entry_id + 1):
            self.next_entry_ids[queue_id] = last_entry_id + 1

    def dropped(self) -> Counter[int]:
        """How many live entries there are per queue that is not known; those with none left out."""
        return Counter(
            {
                queue_id: sum(len(block.entry_ids) for block in live_entries)
                for queue_id, live_entries in self._unknown.queues.items()
                if live_entries
            }
        )

    def running_ledger(self) -> RunningLedger:
        """The same as plain blocks, joined where they continue each other."""
        running = RunningLedger()
        running.live = dict.fromkeys(self.ledger.live, 0)
        running.speaks_of = self.ledger.speaks_of
        running.may_remove = True
        remembered = running.remembered = self.ledger.remembered
        identities_alone = remembered.bytes_in.keys() - self._with_messages
        remembered.made = {number: remembered.bytes_in[number] for number in identities_alone}
        for queue_id, live_entries in self.ledger.queues.items():
            for block in live_entries:
                # An entries record made one block, and the blocks that were split off it share its
                # places.
                _, body_offset, entries_offset = block.places
                running.extend(
                    queue_id,
                    block.entry_ids,
                    block.body_segment,
                    block.entries_segment,
                    body_offset,
                    entries_offset,
                )
        return running
