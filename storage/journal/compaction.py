"""Rewrites a closed segment without its dead entries, so that a few old ones do not keep the rest.

`Compaction` carries out a plan of the journal's (`Journal.begin_compaction`), on another thread
than the journal's and piece by piece: it reads the segment, asks which of its entries are live, and
writes a replacement with these only, under the same number. The journal then anchors that by a
record, and only then it takes the segment's place (`Journal.install`). The old segment or the new
one counts after any crash, never a part of one.

The replacement keeps, in their order,
- entries records with the live entries only, without identities: the journal has written those
  anew by then, as it does before a segment goes;
- body records with the messages that live entries need, also entries of later segments;
- settles of entries in earlier segments, while such a segment has entries that are dead;
- deliveries and deferrals of entries that are live;
- the records of segments, and the last commit record.

It asks for the live ones while further ones are settled. An entry never comes back to life, so an
answer is true or lists too many, and the settles of those are later than the plan: the ledger knows
their segments (`SegmentLedger.begin_rewrite`).

The segment is read three times, so that memory holds little more than the live part: once for its
entry ids, once for the messages that live entries need, once to write. The first two times pass
over the messages; the third verifies everything.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.messages.arrivals import arrivals_of
from ...amqp_frames.messages.publishes import decode_publishes
from ..files import Buffer
from .ledger import Deadlines, EntryIds, EntryRange, Moved, joined, ranges_in, ranges_without
from .log import Log, Position, Replacement
from .records import (
    BODY,
    BODY_BEGIN_BYTES,
    HEAD_BYTES,
    SETTLE,
    BodyRecord,
    CommitRecord,
    CompactedRecord,
    DeferredRecord,
    EntriesRecord,
    IdentitiesRecord,
    RangesRecord,
    Record,
    RemovedRecord,
    body_begin,
    decode_record,
    encode_body_part,
    encode_commit,
    encode_deferred,
    encode_entries,
    encode_ranges,
    read_head,
    salt_of,
)
from .segment_header import SegmentHeader, encode_header
from .segment_reader import read_beginning

# So much is read and written at once; a piece of work ends with it, or with so many records.
READ_BYTES: Final = 256 * 1024
PIECE_RECORDS: Final = 128
# So much, where the messages between the records are passed over.
SKIM_BYTES: Final = 32 * 1024
# An answer of the journal's costs it no more than so many entry ids, or ranges of them, one by one.
ASKED_IDS_MAX: Final = 16_384
ASKED_RANGES_MAX: Final = 256


class CompactionPlan(NamedTuple):
    """A segment to be rewritten, as the journal sees it."""

    segment: int
    directory_id: bytes
    # Of the broker that rewrites it.
    epoch: int
    size_bytes: int
    # A replacement that is larger is not worth it.
    bytes_max: int
    # Later segments with live entries whose body records are in this one.
    users: Sequence[int]
    # Do earlier segments have dead entries that it may have settles of?
    keeps_settles: bool
    # The segments that its other records speak of.
    notes: frozenset[int]


class LiveRange(NamedTuple):
    """Entries of a queue that are live, first and last inclusive, and the segment they are in."""

    first: int
    last: int
    segment: int


class Rewritten(NamedTuple):
    """The result of a compaction."""

    segment: int
    # None: nothing in the segment is needed, and there is no replacement.
    anchor: CompactedRecord | None
    # The segments that the notes in the replacement are about; and are there settles in it?
    notes: frozenset[int]
    keeps_settles: bool
    moved: Sequence[Moved]


class NotCompactableError(Exception):
    """The segment stays as it is; the text says why."""


class Question(NamedTuple):
    """Which of these entries are live?"""

    queue_id: int
    ranges: Sequence[EntryRange]


class _Placed(NamedTuple):
    """A record, where it begins, and its bytes from its kind on."""

    offset: int
    # The places of a body's wire bytes are those in `covered`.
    record: Record
    covered: bytes


class _Segment:
    """The records of one sealed segment, each verified, read bit by bit."""

    def __init__(self, log: Log, number: int) -> None:
        self._log = log
        self.number = number
        beginning = read_beginning(log.read(Position(number, 0), READ_BYTES), "")
        if beginning.header is None and beginning.header_bytes is not None:
            data = log.read(Position(number, 0), beginning.header_bytes)
            beginning = read_beginning(data, "")
        header = beginning.header
        if header is None or beginning.header_bytes is None or not header.directory_id:
            raise NotCompactableError(f"segment {number} has no header of format 4 or later")
        self.header: SegmentHeader = header
        self._first_record = beginning.header_bytes

    def in_pieces(self, *, skims: bool = False) -> Iterator[tuple[_Placed, int]]:
        """Each record, and how many bytes have been read if it ends a piece of work, else 0.

        `skims`: without the messages of bodies, which are not read and not verified.
        """
        records = read = 0
        for placed in self._records(skims):
            records += 1
            read += len(placed.covered)
            if records == PIECE_RECORDS or read >= READ_BYTES:
                yield placed, read
                records = read = 0
            else:
                yield placed, 0

    def _records(self, skims: bool) -> Iterator[_Placed]:
        """NotCompactableError at a hole."""
        salt = salt_of(self.header.directory_id, self.number)
        checksum = self.header.checksum
        offset = self._first_record
        read_bytes = SKIM_BYTES if skims else READ_BYTES
        data, base = b"", offset
        while True:
            position = offset - base
            if position + BODY_BEGIN_BYTES > len(data):
                data, base, position = self._read(offset, read_bytes), offset, 0
                if not data:
                    return
            length = int.from_bytes(data[position + 8 : position + 12], "little")
            if skims and length > BODY_BEGIN_BYTES and data[position + HEAD_BYTES] == BODY:
                begin = data[position : position + BODY_BEGIN_BYTES]
                checksum = int.from_bytes(begin[4:8], "little")
                yield _Placed(offset, body_begin(begin, HEAD_BYTES), begin)
                offset += HEAD_BYTES + length
                continue
            if position + HEAD_BYTES + length > len(data):
                data = self._read(offset, max(read_bytes, HEAD_BYTES + length))
                base, position = offset, 0
            head = read_head(data, position, salt)
            if head is None or head.checksum_before != checksum:
                where = f"segment {self.number} at byte {offset}"
                raise NotCompactableError(f"{where}: what is there does not verify")
            checksum = head.checksum
            start = position + HEAD_BYTES
            try:
                record = decode_record(data, start, head.end)
            except ValueError as error:
                raise NotCompactableError(f"segment {self.number}: {error}") from error
            if isinstance(record, BodyRecord):
                record = record._replace(
                    wire_start=record.wire_start - start, wire_end=record.wire_end - start
                )
            yield _Placed(offset, record, data[start : head.end])
            offset = base + head.end

    def _read(self, offset: int, length: int) -> bytes:
        return self._log.read(Position(self.number, offset), length)


class _LiveIds:
    """The live entries of one queue, among those asked for."""

    def __init__(self, live: Sequence[LiveRange]) -> None:
        self._live = sorted(live)
        self._lasts = [each.last for each in self._live]

    def positions(self, ids: EntryIds) -> list[int]:
        """Of the live ones among these."""
        found: list[int] = []
        for first, last, _ in self._within(ids[0], ids[-1]):
            found += range(bisect_left(ids, first), bisect_right(ids, last))
        return found

    def among(self, first: int, last: int) -> list[LiveRange]:
        """The live ones from the first to the last id."""
        return [
            LiveRange(max(first, each.first), min(last, each.last), each.segment)
            for each in self._within(first, last)
        ]

    def _within(self, first: int, last: int) -> Iterator[LiveRange]:
        place = bisect_left(self._lasts, first)
        while place < len(self._live) and self._live[place].first <= last:
            yield self._live[place]
            place += 1


class Compaction:
    """One plan: `survey`, then an answer to each of the `questions`, then `write`.

    Both yield how many bytes they have read or written since; whoever runs them sets the pace.
    NotCompactableError or OSError ends them, and nothing is left behind.
    """

    def __init__(self, log: Log, plan: CompactionPlan) -> None:
        self._log = log
        self._plan = plan
        # The numbers of the segment's batches, ascending.
        self._batches: array[int] = array("Q")
        # Per queue: the ids of the segment's own entries, and of all entries to ask for.
        self._own: dict[int, list[EntryRange]] = {}
        self._asked: dict[int, list[EntryRange]] = {}
        self._live: dict[int, list[LiveRange]] = defaultdict(list)
        self._live_ids: dict[int, _LiveIds] = {}
        # Per batch the indexes of messages that live entries need.
        self._needed: dict[int, set[int]] = defaultdict(set)
        # Entries in later segments whose bodies are in this one: batch, and their places.
        self._used_elsewhere: list[tuple[int, Moved]] = []
        self.result: Rewritten | None = None

    def survey(self) -> Iterator[int]:
        """Find out which entries there are."""
        own: dict[int, list[EntryRange]] = defaultdict(list)
        noted: dict[int, list[EntryRange]] = defaultdict(list)
        batches: set[int] = set()
        for placed, read in _Segment(self._log, self._plan.segment).in_pieces(skims=True):
            record = placed.record
            if isinstance(record, EntriesRecord):
                _extend(own[record.queue_id], ranges_in(record.entry_ids))
            elif isinstance(record, BodyRecord):
                batches.add(record.batch_number)
            elif isinstance(record, RangesRecord) and record.kind != SETTLE:
                _extend(noted[record.queue_id], record.ranges)
            elif isinstance(record, DeferredRecord):
                ranges = [(first, last) for first, last, _ in record.ranges]
                _extend(noted[record.queue_id], ranges)
            if read:
                yield read
        self._batches = array("Q", sorted(batches))
        for user in self._plan.users:
            for placed, read in _Segment(self._log, user).in_pieces(skims=True):
                record = placed.record
                if isinstance(record, EntriesRecord) and self._has(record.batch_number):
                    _extend(noted[record.queue_id], ranges_in(record.entry_ids))
                if read:
                    yield read
        self._own = {queue_id: joined(ranges) for queue_id, ranges in own.items()}
        self._asked = {
            queue_id: joined([*own.get(queue_id, ()), *noted.get(queue_id, ())])
            for queue_id in own.keys() | noted.keys()
        }

    def _has(self, batch_number: int) -> bool:
        place = bisect_left(self._batches, batch_number)
        return place < len(self._batches) and self._batches[place] == batch_number

    def questions(self) -> Iterator[Question]:
        """For the journal; each costs it little."""
        for queue_id, ranges in sorted(self._asked.items()):
            asked: list[EntryRange] = []
            ids = 0
            for first, last in ranges:
                for start in range(first, last + 1, ASKED_IDS_MAX):
                    end = min(last, start + ASKED_IDS_MAX - 1)
                    if asked and (
                        ids + end - start >= ASKED_IDS_MAX or len(asked) == ASKED_RANGES_MAX
                    ):
                        yield Question(queue_id, asked)
                        asked, ids = [], 0
                    asked.append((start, end))
                    ids += end - start + 1
            yield Question(queue_id, asked)

    def answer(self, queue_id: int, live: Sequence[LiveRange]) -> None:
        """The live ones of a question."""
        self._live[queue_id] += live

    def write(self) -> Iterator[int]:
        """Write the replacement; then there is a `result`.

        NoSpaceError if it has no room: it may be called again.
        """
        self._used_elsewhere = []
        self._live_ids = {queue_id: _LiveIds(live) for queue_id, live in self._live.items()}
        yield from self._find_needed()
        segment = _Segment(self._log, self._plan.segment)
        writing = _Writing(self._log, self._plan, segment.header)
        try:
            for placed, read in segment.in_pieces():
                self._keep(writing, placed)
                written = writing.flush(READ_BYTES)
                if read or written:
                    yield read + written
            for batch_number, moved in self._used_elsewhere:
                body_offset = writing.body_offsets.get(batch_number)
                if body_offset is not None:
                    writing.moved.append(moved._replace(body_offset=body_offset))
            self.result = writing.finish()
        finally:
            if self.result is None or self.result.anchor is None:
                writing.discard()

    def _find_needed(self) -> Iterator[int]:
        for number in (self._plan.segment, *self._plan.users):
            for placed, read in _Segment(self._log, number).in_pieces(skims=True):
                record = placed.record
                if isinstance(record, EntriesRecord) and self._has(record.batch_number):
                    self._need(record, number, placed.offset)
                if read:
                    yield read

    def _need(self, record: EntriesRecord, segment: int, offset: int) -> None:
        positions = self._positions(record)
        if not positions:
            return
        indexes = record.indexes
        self._needed[record.batch_number].update([indexes[position] for position in positions])
        if segment != self._plan.segment:
            first, last = record.entry_ids[positions[0]], record.entry_ids[positions[-1]]
            moved = Moved(record.queue_id, first, last, None, segment, offset)
            self._used_elsewhere.append((record.batch_number, moved))

    def _positions(self, record: EntriesRecord) -> list[int]:
        live = self._live_ids.get(record.queue_id)
        return live.positions(record.entry_ids) if live is not None else []

    def _keep(self, writing: _Writing, placed: _Placed) -> None:
        """Write the needed part of the record."""
        record = placed.record
        if isinstance(record, EntriesRecord):
            positions = self._positions(record)
            if positions:
                writing.entries(record, positions, self._has(record.batch_number))
        elif isinstance(record, BodyRecord):
            needed = self._needed.get(record.batch_number)
            if needed:
                writing.body(record, placed.covered, needed)
        elif isinstance(record, RangesRecord) and record.kind == SETTLE:
            if self._plan.keeps_settles:
                own = self._own.get(record.queue_id, ())
                ranges = ranges_without(record.ranges, own)
                if ranges:
                    writing.settle(record.queue_id, ranges)
        elif isinstance(record, RangesRecord | DeferredRecord):
            live = self._live_ids.get(record.queue_id)
            if live is not None:
                writing.note(record, live)
        elif isinstance(record, IdentitiesRecord):
            # What it remembers is written anew elsewhere; what it forgets was in earlier segments.
            if self._plan.notes and any(not run.identities for run in record.runs):
                writing.forgetting(placed.covered)
        elif isinstance(record, RemovedRecord | CompactedRecord):
            writing.add_covered(placed.covered)
        else:
            writing.last_commit = record


def _extend(known: list[EntryRange], ranges: Sequence[EntryRange]) -> None:
    """Add ranges; those in order are joined."""
    for first, last in ranges:
        if known and known[-1][1] + 1 == first:
            known[-1] = known[-1][0], last
        else:
            known.append((first, last))


def _picked(column: Deadlines, positions: Sequence[int]) -> Deadlines:
    if isinstance(column, int):
        return column
    return array("Q", [column[position] for position in positions])


class _Writing:
    """The replacement as it is being written."""

    def __init__(self, log: Log, plan: CompactionPlan, header: SegmentHeader) -> None:
        self._plan = plan
        header = header._replace(epoch=plan.epoch, rewritten=header.rewritten + 1)
        encoded, self._seal = encode_header(header)
        self._rewritten = header.rewritten
        self._replacement: Replacement | None = None
        self._log = log
        self._buffers: list[Buffer] = [encoded]
        self._flushed = 0
        self._end = len(encoded)
        self._entries = 0
        # Is there anything but records of segments?
        self._is_needed = False
        self._notes: set[int] = set()
        self._has_settles = False
        self.last_commit: CommitRecord | None = None
        # Where the last body record of each batch begins.
        self.body_offsets: dict[int, int] = {}
        self.moved: list[Moved] = []

    def _add(self, record: bytes) -> None:
        self._buffers.append(record)
        self._end += len(record)
        if self._end > self._plan.bytes_max:
            raise NotCompactableError(
                f"segment {self._plan.segment}: more than {self._plan.bytes_max} bytes are needed"
            )

    def add_covered(self, covered: bytes) -> None:
        """A record as it was."""
        self._add(self._seal.record(covered))

    def flush(self, bytes_min: int) -> int:
        """Write the buffered bytes, if there are so many; returns how many."""
        size = self._end - self._flushed
        if not size or size < bytes_min:
            return 0
        if self._replacement is None:
            self._replacement = self._log.rewrite(self._plan.segment)
        self._replacement.append(self._buffers)
        self._buffers = []
        self._flushed = self._end
        return size

    def body(self, record: BodyRecord, covered: bytes, needed: set[int]) -> None:
        """The messages with these indexes, as they were received."""
        self._is_needed = True
        self.body_offsets[record.batch_number] = self._end
        positions = [position for position, index in enumerate(record.indexes) if index in needed]
        if len(positions) == len(record.indexes):
            self.add_covered(covered)
            return
        wire = covered[record.wire_start : record.wire_end]
        batch = decode_publishes(wire)
        if len(batch.starts) != len(record.indexes):
            raise NotCompactableError(f"batch {record.batch_number} has other messages")
        indexes = [record.indexes[position] for position in positions]
        arrived = arrivals_of(record.arrived, positions)
        messages = [wire[batch.starts[each] : batch.ends[each]] for each in positions]
        self._add(encode_body_part(self._seal, record.batch_number, indexes, messages, arrived))

    def entries(self, record: EntriesRecord, positions: Sequence[int], has_body: bool) -> None:
        """The entries at these positions of the record."""
        self._is_needed = True
        self._entries += len(positions)
        ids: EntryIds = array("Q", [record.entry_ids[position] for position in positions])
        number = record.batch_number
        body_offset = self.body_offsets.get(number) if has_body else None
        place = Moved(record.queue_id, ids[0], ids[-1], body_offset, self._plan.segment, self._end)
        self.moved.append(place)
        self._add(
            encode_entries(
                self._seal,
                record.queue_id,
                number,
                array("I", [record.indexes[position] for position in positions]),
                ids,
                _picked(record.deadlines, positions),
                None,
                _picked(record.due_times, positions),
            )
        )

    def settle(self, queue_id: int, ranges: Sequence[EntryRange]) -> None:
        """Entries of earlier segments."""
        self._is_needed = self._has_settles = True
        self._add(encode_ranges(self._seal, SETTLE, queue_id, ranges))

    def note(self, record: RangesRecord | DeferredRecord, live: _LiveIds) -> None:
        """A delivered or deferred record, for the entries that are live."""
        segments: set[int] = set()
        if isinstance(record, RangesRecord):
            ranges = [each for pair in record.ranges for each in live.among(*pair)]
            segments.update(each.segment for each in ranges)
            kept = [(first, last) for first, last, _ in ranges]
            if kept:
                self._add(encode_ranges(self._seal, record.kind, record.queue_id, kept))
        else:
            deferred = [
                (each, due_ms)
                for first, last, due_ms in record.ranges
                for each in live.among(first, last)
            ]
            segments.update(each.segment for each, _ in deferred)
            due = [(each.first, each.last, due_ms) for each, due_ms in deferred]
            if due:
                self._add(encode_deferred(self._seal, record.queue_id, due))
        if segments:
            self._is_needed = True
            self._notes |= segments

    def forgetting(self, covered: bytes) -> None:
        """A record that windows are no more."""
        self._is_needed = True
        self._notes |= self._plan.notes
        self.add_covered(covered)

    def finish(self) -> Rewritten:
        """Write the rest, synced, unless nothing was needed."""
        plan = self._plan
        if not self._is_needed:
            return Rewritten(plan.segment, None, frozenset(), False, ())
        last = self.last_commit
        if last is not None:
            # All before it was synced when it counted first.
            self._add(
                encode_commit(
                    self._seal, plan.segment, self._end, last.entries, last.catalog_change
                )
            )
        self.flush(0)
        assert self._replacement is not None
        self._replacement.finish()
        anchor = CompactedRecord(
            plan.segment, self._rewritten, self._end, self._seal.checksum, self._entries
        )
        return Rewritten(
            plan.segment, anchor, frozenset(self._notes), self._has_settles, self.moved
        )

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._replacement is not None:
            self._replacement.discard()
