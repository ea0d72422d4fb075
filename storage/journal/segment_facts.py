"""The effect of one segment on a start: everything that recovery needs of it but the bodies.

A segment is read record by record into `SegmentFacts`, which then change the state that the
segments before it have left (`replay.py`). So the facts can also come from a small file beside the
segment (`segment_index.py`), and the start does not read the segment.

The facts about a queue are, in the order in which they take effect:
- entries of earlier segments that were delivered, deferred or settled, as ranges;
- the entries of this segment that were live at its end, as blocks with the places of their records
  (`ledger.py`), with their attempts, deadlines and due times;
- identities that its window is to remember.
Entries that were appended and settled in the same segment are in none of these. So the facts cost
memory by runs, not by messages.

An entries record refers to a body in its own segment or in the one before. For the latter the facts
have the number of the batch, and where the bodies of this segment lie, for the next one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from sys import maxsize
from typing import Final, NamedTuple

from .entry_values import EntryValues
from .identity_runs import IDENTITY_BYTES, RUN_BYTES_MAX, IdentityRun
from .ledger import PLACES_STRIDE_BYTES, Block, EntryIds, EntryRange, LiveEntries, RunningLedger
from .records import (
    DELIVERED,
    BodyRecord,
    CommitRecord,
    CompactedRecord,
    DeferredRange,
    DeferredRecord,
    EntriesRecord,
    IdentitiesRecord,
    RangesRecord,
    Record,
    RemovedRecord,
)
from .segment_header import SegmentHeader
from .segment_reader import Hole, SegmentReader

# The kinds of a note about identities: of entries of this segment; written anew; forgotten, all of
# entries up to the last of the run.
APPENDED: Final = 0
REWRITTEN: Final = 1
DROPPED: Final = 2


class IdentityNote(NamedTuple):
    """Identities that a record of the segment speaks of, and how."""

    kind: int
    run: IdentityRun


class Reference(NamedTuple):
    """The entries of one record whose body is not in its segment."""

    batch_number: int
    entry_ids: EntryIds
    # Of the entries, aligned with them; empty: they have none.
    identities: bytes

    def identities_of(self, ids: EntryIds) -> bytes:
        """The identities of these of the entries."""
        if not self.identities:
            return b""
        octets = self.identities
        starts = (self.entry_ids.index(each) * IDENTITY_BYTES for each in ids)
        return b"".join([octets[start : start + IDENTITY_BYTES] for start in starts])


class Removal(NamedTuple):
    """A record that says which segments are gone."""

    offset: int
    segments: list[EntryRange]


class Passage(NamedTuple):
    """From one commit record to a later one."""

    # The holes of the segment up to here.
    holes: int
    # Entries read since the passage before.
    entries: int
    # Entries that had been appended to the journal by here.
    counted: int


class BodyPlaces:
    """About where the bodies of a segment lie: a run for batches with consecutive numbers.

    The body record of each of them begins at the run's offset, or up to PLACES_STRIDE_BYTES behind.
    """

    __slots__ = ("counts", "firsts", "offsets")

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.counts = array("Q")
        self.offsets = array("Q")

    @classmethod
    def of(cls, offsets: dict[int, int]) -> BodyPlaces:
        """Those of these batches."""
        places = cls()
        for batch_number in sorted(offsets):
            offset = offsets[batch_number]
            if places.firsts:
                begin = places.offsets[-1]
                follows = places.firsts[-1] + places.counts[-1] == batch_number
                if follows and begin <= offset <= begin + PLACES_STRIDE_BYTES:
                    places.counts[-1] += 1
                    continue
            places.firsts.append(batch_number)
            places.counts.append(1)
            places.offsets.append(offset)
        return places

    def offset_of(self, batch_number: int) -> int | None:
        """About where the body of the batch lies; None: not in this segment."""
        at = bisect_right(self.firsts, batch_number) - 1
        if at < 0 or batch_number >= self.firsts[at] + self.counts[at]:
            return None
        return self.offsets[at]


class QueueFacts:
    """The effect of a segment on one queue."""

    __slots__ = (
        "attempts",
        "blocks",
        "deadlines",
        "deferred",
        "delivered",
        "due_times",
        "first_own",
        "identities",
        "last_entry_id",
        "settled",
    )

    def __init__(self) -> None:
        # Of entries of earlier segments: how often they were delivered, their due times, and 1 for
        # each that was settled.
        self.delivered = EntryValues()
        self.deferred = EntryValues()
        self.settled = EntryValues()
        # Of this segment's entries.
        self.blocks: Sequence[Block] = ()
        self.attempts = EntryValues()
        self.deadlines = EntryValues()
        self.due_times = EntryValues()
        # The lowest id of an entries record here.
        self.first_own = maxsize
        self.identities: list[IdentityNote] = []
        # The highest id that a record speaks of; 0: none.
        self.last_entry_id = 0


class SegmentFacts:
    """All that recovery needs of one segment."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.header: SegmentHeader | None = None
        # Has the segment markers and seals, as since format version 4?
        self.is_sealed = True
        self.size = 0
        # Of the last record that verifies: where it begins and ends, and its checksum.
        self.last_record = self.end = 0
        self.checksum = 0
        self.holes: list[Hole] = []
        # Are there only zeros from the last hole on?
        self.ends_in_zeros = False
        self.passages: list[Passage] = []
        # Entries read behind the last passage, and in the whole segment.
        self.entries_behind = 0
        self.entries_read = 0
        # The farthest position that a commit record names as synced: segment and offset.
        self.synced = (0, 0)
        self.catalog_change = 0
        self.removals: list[Removal] = []
        # Of segments that were rewritten.
        self.compacted: list[CompactedRecord] = []
        # Above every batch number that a record has.
        self.next_batch_number = 1
        # Has it messages or entries; not identities alone?
        self.has_messages = False
        self.bodies = BodyPlaces()
        # By the offset of the entries record.
        self.references: dict[int, Reference] = {}
        self.queues: dict[int, QueueFacts] = {}


def read_facts(reader: SegmentReader) -> SegmentFacts:
    """Read the whole segment."""
    reading = FactsReading(reader.number)
    last_record = 0
    for offset, record in reader.records():
        last_record = offset
        if isinstance(record, CommitRecord):
            reading.add_commit(record, len(reader.holes))
            continue
        try:
            reading.add(record, offset)
        except ValueError as error:
            reader.holes.append(Hole(offset, offset, [f"contradiction: {error}"]))
    facts = reading.finish()
    facts.last_record = last_record
    facts.header, facts.is_sealed = reader.header, reader.is_sealed
    facts.size, facts.end, facts.checksum = reader.size, reader.end, reader.checksum
    holes = facts.holes = reader.holes
    facts.ends_in_zeros = bool(holes) and reader.has_zeros(holes[-1].start)
    return facts


class FactsReading:
    """Gathers the facts from the records of one segment."""

    def __init__(self, number: int, bodies: dict[int, int] | None = None) -> None:
        """`bodies` is where the caller notes the offsets of body records, by batch number."""
        facts = self.facts = SegmentFacts(number)
        self._number = number
        # The entries of this segment that are live so far. A body that is not here counts as one of
        # the segment before.
        self._ledger = RunningLedger()
        self._ledger.open(facts.number - 1)
        self._ledger.open(facts.number)
        self._bodies = {} if bodies is None else bodies

    def add_commit(self, record: CommitRecord, holes: int) -> None:
        """A commit record, behind so many holes."""
        facts = self.facts
        facts.synced = max(facts.synced, (record.segment, record.end))
        facts.catalog_change = max(facts.catalog_change, record.catalog_change)
        entries, facts.entries_behind = facts.entries_behind, 0
        passages = facts.passages
        if passages and passages[-1].holes == holes:
            entries += passages.pop().entries
        passages.append(Passage(holes, entries, record.entries))

    def add(self, record: Record, offset: int) -> None:
        """Any other record; ValueError if it contradicts an earlier one of the segment."""
        facts = self.facts
        if isinstance(record, EntriesRecord):
            self._add_entries(record, offset)
        elif isinstance(record, BodyRecord):
            facts.has_messages = True
            # A body written again replaces the first.
            self._bodies[record.batch_number] = offset
            facts.next_batch_number = max(facts.next_batch_number, record.batch_number + 1)
        elif isinstance(record, RangesRecord):
            queue = self._queue(record.queue_id)
            live = self._ledger.queues.get(record.queue_id)
            if record.kind == DELIVERED:
                _add_deliveries(queue, live, record.ranges)
            else:
                _add_settles(queue, live, record.ranges)
        elif isinstance(record, DeferredRecord):
            queue = self._queue(record.queue_id)
            _add_deferrals(queue, self._ledger.queues.get(record.queue_id), record.ranges)
        elif isinstance(record, IdentitiesRecord):
            queue = self._queue(record.queue_id)
            for run in record.runs:
                kind = REWRITTEN if run.identities else DROPPED
                queue.identities.append(IdentityNote(kind, run))
                queue.last_entry_id = max(queue.last_entry_id, run.last_entry_id)
        elif isinstance(record, RemovedRecord):
            facts.removals.append(Removal(offset, record.segments))
        elif isinstance(record, CompactedRecord):
            facts.compacted.append(record)

    def finish(self) -> SegmentFacts:
        """The facts by now."""
        facts = self.facts
        facts.bodies = BodyPlaces.of(self._bodies)
        for queue_id, live in self._ledger.queues.items():
            queue = facts.queues[queue_id]
            queue.blocks = list(live)
            ranges = ranges_of(queue.blocks)
            for values in (queue.attempts, queue.deadlines, queue.due_times):
                if values:
                    values.keep(ranges)
        in_use = {
            block.places[2]
            for queue in facts.queues.values()
            for block in queue.blocks
            if block.body_segment != facts.number
        }
        facts.references = {
            offset: each for offset, each in facts.references.items() if offset in in_use
        }
        return facts

    def _queue(self, queue_id: int) -> QueueFacts:
        queue = self.facts.queues.get(queue_id)
        if queue is None:
            queue = self.facts.queues[queue_id] = QueueFacts()
        return queue

    def add_run(
        self,
        queue_id: int,
        batch_number: int,
        ids: EntryIds,
        offset: int,
        identities: bytes = b"",
    ) -> QueueFacts:
        """Entries of a queue; ValueError if they contradict earlier ones of the segment."""
        facts, number = self.facts, self._number
        queue = facts.queues.get(queue_id) or self._queue(queue_id)
        count = len(ids)
        facts.has_messages = True
        facts.entries_read += count
        facts.entries_behind += count
        body_offset = self._bodies.get(batch_number)
        if body_offset is None:
            self._ledger.append(queue_id, Block(ids, number - 1, number, 0, offset))
            facts.references[offset] = Reference(batch_number, ids, identities)
        else:
            self._ledger.extend(queue_id, ids, number, number, body_offset, offset)
        if batch_number >= facts.next_batch_number:
            # The body record may be lost; its number is not to be used again all the same.
            facts.next_batch_number = batch_number + 1
        if ids[-1] > queue.last_entry_id:
            queue.last_entry_id = ids[-1]
        if queue.first_own == maxsize:
            queue.first_own = ids[0]
        return queue

    def _add_entries(self, record: EntriesRecord, offset: int) -> None:
        ids = record.entry_ids
        octets = record.identities.octets if record.identities else b""
        queue = self.add_run(record.queue_id, record.batch_number, ids, offset, octets)
        if record.deadlines:
            queue.deadlines.assign_each(ids, record.deadlines)
        if record.due_times:
            queue.due_times.assign_each(ids, record.due_times)
        if record.identities is not None:
            _add_identities(queue, ids, record.identities.octets, record.identities.until_ms)


def _add_identities(queue: QueueFacts, ids: EntryIds, octets: bytes, until_ms: int) -> None:
    if queue.identities:
        kind, run = queue.identities[-1]
        if kind == APPENDED and run.until_ms == until_ms and len(run.identities) < RUN_BYTES_MAX:
            run.identities += octets
            run.last_entry_id = ids[-1]
            return
    run = IdentityRun(0, ids[0], ids[-1], until_ms, bytearray(octets))
    queue.identities.append(IdentityNote(APPENDED, run))


def _earlier(queue: QueueFacts, first: int, last: int) -> Iterator[EntryRange]:
    """The parts of the range that are entries of earlier segments, and were not settled here."""
    last = min(last, queue.first_own - 1)
    if first > last:
        return
    for settled_first, settled_last, _ in queue.settled.within(first, last):
        if first < settled_first:
            yield first, settled_first - 1
        first = settled_last + 1
    if first <= last:
        yield first, last


def ranges_of(blocks: Iterable[Block]) -> list[EntryRange]:
    """From the first to the last id of each; with ids in gaps."""
    return [(block.entry_ids[0], block.entry_ids[-1]) for block in blocks]


def own_parts(live: LiveEntries[Block] | None, first: int, last: int) -> Iterator[EntryRange]:
    """The parts of the range in which there are live entries. Ids in gaps may be among them."""
    if live is None:
        return
    for block in live.within(first, last):
        yield max(first, block.entry_ids[0]), min(last, block.entry_ids[-1])


def _add_deliveries(
    queue: QueueFacts, live: LiveEntries[Block] | None, ranges: Sequence[EntryRange]
) -> None:
    for first, last in ranges:
        queue.last_entry_id = max(queue.last_entry_id, last)
        for start, end in _earlier(queue, first, last):
            queue.delivered.add(start, end, 1)
            queue.deferred.clear(start, end)
        for start, end in own_parts(live, max(first, queue.first_own), last):
            queue.attempts.add(start, end, 1)
            # A start has messages in flight ready at once.
            queue.due_times.clear(start, end)


def _add_deferrals(
    queue: QueueFacts, live: LiveEntries[Block] | None, ranges: Sequence[DeferredRange]
) -> None:
    for first, last, due_ms in ranges:
        queue.last_entry_id = max(queue.last_entry_id, last)
        for start, end in _earlier(queue, first, last):
            queue.deferred.assign(start, end, due_ms)
        for start, end in own_parts(live, max(first, queue.first_own), last):
            queue.due_times.assign(start, end, due_ms)


def _add_settles(
    queue: QueueFacts, live: LiveEntries[Block] | None, ranges: Sequence[EntryRange]
) -> None:
    for first, last in ranges:
        queue.last_entry_id = max(queue.last_entry_id, last)
        if first < queue.first_own:
            queue.settled.assign(first, min(last, queue.first_own - 1), 1)
        if live is not None and last >= queue.first_own:
            live.cut(max(first, queue.first_own), last)
