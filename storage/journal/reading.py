"""Messages that are read back from the journal while the broker runs.

A queue with more messages than fit in memory keeps the entry ids of most of them and no bytes. To
deliver them it asks the journal, which makes a plan (`locating.py`) and pins the segments; then
this module reads them, on another thread. It reads stretches of segments in pieces, verifies every
record, and joins small bodies to batches of some size, so that messages that were published one by
one cost no more afterwards than others.

Live entries whose records are not there, or do not verify, are lost. They are reported in the words
of a start (`loading.py`), and none of their neighbours goes with them.

A batch that was read holds just the messages of the queue, and is not for another append: a message
that is published anew, a dead letter for one, gets a batch of its own. It has the number of the
batch that its messages were published in, and `excerpted` their numbers in it, by which the trace
knows a message, unless messages of several batches were joined. Then the number is 0.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from ...amqp_frames.messages.arrivals import (
    ARRIVED_NS_MAX,
    NOT_KNOWN,
    Arrived,
    arrivals_of,
    joined_arrivals,
)
from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.stored import read_stored, stored_starts
from .ledger import PLACES_STRIDE_BYTES, EntryIds, EntryRange, ranges_in, ranges_without
from .loading import positions_of
from .locating import ReadPlan, Sought
from .log import Position
from .records import (
    ARRIVED,
    BODY,
    COMMIT,
    DELIVERED,
    ENTRIES,
    ENTRY_IDS_LISTED,
    HEAD_BYTES,
    INDEXES_LISTED,
    SETTLE,
    BodyRecord,
    decode_entries,
    decode_record,
)
from .report import ReportLine, described, entries_words
from .scanning import PIECE_BYTES_MIN, Gap, RawRecord, ReadLog, Scan, Sealing

# Small bodies are joined up to about this size: beyond it, a batch costs no less for each message.
# A delivery holds its whole batch.
JOINED_BYTES: Final = 256 * 1024
# Bodies and entries records no farther apart are read on one way. A body of one large read of a
# socket lies between them.
TOGETHER_BYTES_MAX: Final = 1024 * 1024
# One read goes on to further places until it has read so many bytes of segments, whatever it found
# there: others wait for theirs. How much of it is wanted, settings say.
READ_BYTES_MAX: Final = 8 * 1024 * 1024
# Of so many segments the reader knows how their records verify.
SEALINGS_MAX: Final = 1_000
# Where the messages lie in bodies that several queues share is remembered in so many bytes, four
# for each message.
SHARED_BYTES_MAX: Final = 4 * 1024 * 1024
# About what a body takes in that beside its messages.
_SHARED_BODY_BYTES: Final = 400

# Of an entries record from its kind on: form, count, first index and first entry id.
_entries = Struct("<xBI16xIQ").unpack_from
# Of a body record from its kind on, without listed indexes: form, count and first index.
_body_struct = Struct("<xBI8xI")
_body, _BODY_BYTES = _body_struct.unpack_from, _body_struct.size
_arrived_struct = Struct("<Q")
_arrived, _ARRIVED_BYTES = _arrived_struct.unpack_from, _arrived_struct.size
# Most of the records that nothing is sought in.
_PASSED_OVER: Final = frozenset((SETTLE, DELIVERED, COMMIT))


class ReadRow(NamedTuple):
    """Messages of one batch with consecutive entry ids, `first_entry_id` on."""

    batch: Batch
    indexes: Indexes
    first_entry_id: int


class PageRead(NamedTuple):
    """The answer to a plan, up to the entry id `through`."""

    rows: list[ReadRow]
    # Sought, and not there.
    lost: list[EntryRange]
    through: int
    # What an operator should know of that.
    report: list[ReportLine]


# Plain tuples, for there may be one of each for each message.
#
# An entries record of the queue: entry ids, indexes, the eight octets of the batch number, the body
# record that lies before it on the way, if it does, and its own offset.
_Entries = tuple[EntryIds, Indexes, bytes, RawRecord | None, int]
# Entries whose messages are in one body: the bytes, in several pieces where they are not
# neighbours there; the entry ids; the eight octets of the batch number; the numbers of the messages
# in the batch as it was received; when they arrived.
_Part = tuple[Sequence[memoryview], EntryIds, bytes, Indexes, Arrived]


class _Stored(NamedTuple):
    """A body whose messages are sought."""

    # The messages that it holds, as numbered in the batch.
    received: Indexes
    wire: memoryview
    # Segment, offset and head of its record.
    key: tuple[int, int, bytes]
    arrived: Arrived


class JournalReader:
    """Carries plans out. For one thread; it remembers where shared messages lie, and how the
    records of segments verify."""

    def __init__(
        self,
        read: ReadLog,
        directory_id: bytes,
        name_of: Callable[[int], str] = "queue {}".format,
        decode: Callable[[bytes], Batch] = read_stored,
        batch_numbers: int = 2**64,
        *,
        places_are_exact: bool = False,
    ) -> None:
        """`name_of` is how a report calls a queue; `decode` makes a batch of stored bytes.

        Above `batch_numbers`, records tell batches apart that have a number in common.
        `places_are_exact`: a place in a plan is that of one record. If not, the entries of a queue
        lie in the order of their ids.
        """
        self._read = read
        self._directory_id = directory_id
        self._name_of = name_of
        self._decode = decode
        self._batch_numbers = batch_numbers
        self._places_are_exact = places_are_exact
        self._shared = SharedBodies(SHARED_BYTES_MAX)
        # By segment; of segments as they were when so many had been replaced.
        self._sealings: dict[int, Sealing] = {}
        self._replaced_count = 0

    def read(self, plan: ReadPlan, joins: bool = True) -> PageRead:
        """Read what the plan says, as far as its bytes go.

        `joins`: messages of several batches may come in one. OSError if the machine, not the disk,
        is at fault.
        """
        if plan.replaced_count != self._replaced_count or len(self._sealings) > SEALINGS_MAX:
            # A rewritten segment has another writer's epoch.
            self._sealings.clear()
            self._replaced_count = plan.replaced_count
        gathered = _Gathered(self._decode, self._batch_numbers, joins)
        search = _Search(
            plan.queue_id,
            self._read,
            self._directory_id,
            self._shared,
            self._sealings,
            self._places_are_exact,
        )
        lost: list[EntryRange] = []
        report: list[ReportLine] = []
        through = plan.through
        # More than the wanted messages take up, with those before the first in its stretch.
        together_max = plan.bytes_max + PLACES_STRIDE_BYTES
        for sought, together_bytes in zip(plan.sought, _extents(plan.sought), strict=True):
            found: list[EntryRange] = []
            done = sought.ranges[-1][1]
            for part in search.parts(sought, min(together_bytes, together_max)):
                found += ranges_in(part[1])
                gathered.add(part)
                if gathered.bytes >= plan.bytes_max:
                    done = part[1][-1]
                    break
            if missing := ranges_without(_up_to(sought.ranges, done), found):
                lost += missing
                report += self._report(plan.queue_id, missing, search)
            is_enough = gathered.bytes >= plan.bytes_max or search.bytes_read >= READ_BYTES_MAX
            if is_enough and done != plan.sought[-1].ranges[-1][1]:
                through = done
                break
        rows, broken = gathered.rows()
        if broken:
            lost = sorted([*lost, *broken])
            report += self._report(plan.queue_id, broken, search)
        return PageRead(rows, lost, through, report)

    def _report(
        self, queue_id: int, missing: Sequence[EntryRange], search: _Search
    ) -> list[ReportLine]:
        name = self._name_of(queue_id)
        lines = [ReportLine("damaged", text) for text in search.pop_damage()]
        bodiless = search.pop_bodiless()
        for batch_number, ranges in bodiless.items():
            count = sum(last - first + 1 for first, last in ranges)
            text = f"{entries_words(count)} of {name}, {_words(ranges)}: no body of batch "
            lines.append(
                ReportLine("lost", f"{text}{batch_number} that verifies holds them", count)
            )
        known = sorted(each for ranges in bodiless.values() for each in ranges)
        if others := ranges_without(missing, known):
            count = sum(last - first + 1 for first, last in others)
            text = f"{entries_words(count)} of {name}, {_words(others)}: no record that verifies"
            lines.append(ReportLine("lost", f"{text} holds them", count))
        return lines


class _Walk:
    """A scan, and the records behind it that may be looked for again."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        # By the eight octets of their batch numbers.
        self.bodies: dict[bytes, RawRecord] = {}
        # Of the queue, ascending.
        self.entries: list[_Entries] = []

    def covers(self, segment: int, offset: int) -> bool:
        """Has it read from there on, or can it? Few records may lie before, in the same piece."""
        scan = self.scan
        end = max(scan.position, scan.base + len(scan.data))
        return scan.number == segment and scan.begin <= offset <= end


class _Search:
    """Finds entries of one queue, place by place."""

    def __init__(
        self,
        queue_id: int,
        read: ReadLog,
        directory_id: bytes,
        shared: SharedBodies,
        sealings: dict[int, Sealing],
        places_are_exact: bool,
    ) -> None:
        self._places_are_exact = places_are_exact
        self._queue_octets = queue_id.to_bytes(8, "little")
        self._read = read
        self._directory_id = directory_id
        self._shared = shared
        self._sealings = sealings
        # Of entries records, with the bodies on the way, and of bodies that lie apart from them.
        self._walk: _Walk | None = None
        self._body_walk: _Walk | None = None
        self._bytes_before = 0
        self._damage: list[str] = []
        # Per batch: entries whose record is there, and no body of it.
        self._bodiless: dict[int, list[EntryRange]] = {}
        # The body that was looked into last: several records may refer to one.
        self._last: tuple[RawRecord, _Stored | None] | None = None

    @property
    def bytes_read(self) -> int:
        """How many bytes of segments it has read."""
        walks = (self._walk, self._body_walk)
        return self._bytes_before + sum(walk.scan.bytes_read for walk in walks if walk)

    def pop_damage(self) -> list[str]:
        """What it met since the last call that does not verify, in the words of a start."""
        damage, self._damage = self._damage, []
        return damage

    def pop_bodiless(self) -> dict[int, list[EntryRange]]:
        """The entries found since the last call without their bodies."""
        bodiless, self._bodiless = self._bodiless, {}
        return bodiless

    def parts(self, sought: Sought, together_bytes: int) -> Iterator[_Part]:
        """The sought entries that are there, ascending.

        So many bytes from there on are read at once, because others follow that are sought.
        """
        body, entries = sought.body, sought.entries
        are_together = (
            body.segment == entries.segment
            and 0 <= entries.offset - body.offset <= TOGETHER_BYTES_MAX
        )
        begin = body.offset if are_together else entries.offset
        walk = self._walk = self._at(self._walk, entries.segment, begin, together_bytes)
        ranges = sought.ranges
        last = ranges[-1][1]
        limit = entries.offset
        if not self._places_are_exact:
            limit += PLACES_STRIDE_BYTES
            del walk.entries[: bisect_left(walk.entries, ranges[0][0], key=_last_id)]
        scan = walk.scan
        for record in self._records(walk, limit):
            if self._places_are_exact and record[4] != entries.offset:
                continue
            ids = record[0]
            first_id, last_id = ids[0], ids[-1]
            if first_id > last:
                return
            first, end = ranges[bisect_left(ranges, first_id, key=_last_of)]
            if first > last_id:
                continue
            if not are_together:
                scan, raw = self._body_apart(record[2], body)
                record = (*record[:3], raw, record[4])
            if first <= first_id and last_id <= end:
                part = self._whole_part(record) or self._part(scan, record, 0, len(ids))
                if part is not None:
                    yield part
            else:
                yield from self._parts_of(scan, record, ranges)
            if last_id >= last:
                return

    def _parts_of(
        self, scan: Scan, record: _Entries, ranges: Sequence[EntryRange]
    ) -> Iterator[_Part]:
        """The parts of a record some of whose entries are sought."""
        ids = record[0]
        for first, last in ranges:
            low, high = bisect_left(ids, first), bisect_right(ids, last)
            if low < high:
                part = self._part(scan, record, low, high)
                if part is not None:
                    yield part

    def _records(self, walk: _Walk, limit: int) -> Iterator[_Entries]:
        """The queue's entries records that the walk keeps, and those that it comes to."""
        kept = walk.entries
        position = 0
        while True:
            while position < len(kept):
                position += 1
                yield kept[position - 1]
            if not self._walk_on(walk, limit):
                return

    def _at(self, walk: _Walk | None, segment: int, offset: int, together_bytes: int = 0) -> _Walk:
        """The walk, if it has been there or goes on there, or a new one."""
        if walk is not None:
            if walk.covers(segment, offset):
                return walk
            self._note_error(walk.scan)
            self._bytes_before += walk.scan.bytes_read
        sealing = self._sealings.get(segment)
        first_bytes = max(together_bytes, PIECE_BYTES_MIN)
        scan = Scan(self._read, segment, offset, self._directory_id, sealing, first_bytes)
        if scan.sealing.epoch is not None:
            # Else the header could not be read, and may be the next time.
            self._sealings[segment] = scan.sealing
        return _Walk(scan)

    def _walk_on(self, walk: _Walk, limit: int) -> bool:
        """Go past some more records; false if there is none up to the limit."""
        scan = walk.scan
        if held := scan.held(limit):
            data, base = scan.data, scan.base
            for start, end in held:
                if data[start] in _PASSED_OVER:
                    continue
                self._pass(walk, (base + start - HEAD_BYTES, data, start, end))
            return True
        record = scan.next(limit)
        if record is None:
            self._note_error(scan)
            return False
        if isinstance(record, Gap):
            self._damage.append(
                f"segment {scan.number}: bytes {record.offset} to {record.end} do not verify"
            )
        else:
            self._pass(walk, record)
        return True

    def _pass(self, walk: _Walk, record: RawRecord) -> None:
        """Note a record on the way."""
        _, data, start, end = record
        kind = data[start]
        if kind == BODY:
            walk.bodies[data[start + 6 : start + 14]] = record
        elif kind == ENTRIES and data[start + 6 : start + 14] == self._queue_octets:
            if end > len(data):
                _, data, start, end = walk.scan.whole(record)
            octets = data[start + 14 : start + 22]
            form, count, first_index, first_id = _entries(data, start)
            ids: EntryIds = range(first_id, first_id + count)
            indexes: Indexes = range(first_index, first_index + count)
            if form & (INDEXES_LISTED | ENTRY_IDS_LISTED):
                try:
                    decoded = decode_entries(data, start, end)
                except (ValueError, struct.error) as error:
                    self._note_nonsense(walk.scan, record, error)
                    return
                ids, indexes = decoded.entry_ids, decoded.indexes
            walk.entries.append((ids, indexes, octets, walk.bodies.get(octets), record[0]))

    def _note_nonsense(self, scan: Scan, record: RawRecord, error: Exception) -> None:
        where = f"segment {scan.number}: the record at byte {record[0]}"
        self._damage.append(f"{where} verifies, but: {error}")

    def _note_error(self, scan: Scan) -> None:
        if scan.error is not None:
            self._damage.append(f"segment {scan.number}: {scan.error}")
            scan.error = None

    def _body_apart(self, batch_number: bytes, body: Position) -> tuple[Scan, RawRecord | None]:
        """A body that does not lie on the way to the entries records."""
        walk = self._body_walk = self._at(self._body_walk, body.segment, body.offset)
        while batch_number not in walk.bodies:
            if not self._walk_on(walk, body.offset + PLACES_STRIDE_BYTES):
                return walk.scan, None
        return walk.scan, walk.bodies[batch_number]

    def _whole_part(self, record: _Entries) -> _Part | None:
        """All of the record, if it is just what its body holds, in the simplest form; else None."""
        ids, indexes, batch_number, raw, _ = record
        if raw is None:
            return None
        _, data, start, end = raw
        form, count, first = _body(data, start)
        if (
            form & ~ARRIVED
            or end > len(data)
            or count != len(indexes)
            or first != indexes[0]
            or not isinstance(indexes, range)
        ):
            return None
        at = start + _BODY_BYTES
        arrived = NOT_KNOWN
        if form:
            if at + _ARRIVED_BYTES > end:
                return None
            (arrived,) = _arrived(data, at)
            at += _ARRIVED_BYTES
            if arrived > ARRIVED_NS_MAX:
                return None
        return (memoryview(data)[at:end],), ids, batch_number, indexes, arrived

    def _part(self, scan: Scan, record: _Entries, low: int, high: int) -> _Part | None:
        """The entries from low to high - 1 of the record; None if no body holds them."""
        ids, indexes, batch_number, raw, _ = record
        if high - low != len(ids):
            ids, indexes = ids[low:high], indexes[low:high]
        stored = None if raw is None else self._stored(scan, raw)
        if stored is not None:
            received = stored.received
            if indexes == received:
                return (stored.wire,), ids, batch_number, indexes, stored.arrived
            positions = positions_of(indexes, received, len(received))
            if positions is not None:
                starts = self._shared.starts(stored)
                if starts is not None:
                    wire = stored.wire
                    pieces = [
                        wire[starts[first] : starts[last + 1]]
                        for first, last in ranges_in(positions)
                    ]
                    arrived = arrivals_of(stored.arrived, positions)
                    return pieces, ids, batch_number, indexes, arrived
        without = self._bodiless.setdefault(int.from_bytes(batch_number, "little"), [])
        without += ranges_in(ids)
        return None

    def _stored(self, scan: Scan, raw: RawRecord) -> _Stored | None:
        """Look into the body."""
        if self._last is not None and self._last[0] is raw:
            return self._last[1]
        offset, data, start, end = scan.whole(raw)
        stored = None
        try:
            decoded = decode_record(data, start, end)
            assert isinstance(decoded, BodyRecord)
            wire = memoryview(data)[decoded.wire_start : decoded.wire_end]
            key = (scan.number, offset, data[max(0, start - HEAD_BYTES) : start])
            stored = _Stored(decoded.indexes, wire, key, decoded.arrived)
        except ValueError as error:
            self._note_nonsense(scan, raw, error)
        self._last = raw, stored
        return stored


class SharedBodies:
    """Where the messages lie in bodies of which several queues have some: the ones used lately."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._known: OrderedDict[tuple[int, int, bytes], array[int]] = OrderedDict()

    def starts(self, body: _Stored) -> array[int] | None:
        """Where each message of the body begins, and where the last ends; None if they are none."""
        known = self._known
        starts = known.get(body.key)
        if starts is not None:
            known.move_to_end(body.key)
            return starts
        try:
            starts = stored_starts(body.wire)
        except ValueError:
            return None
        if len(starts) != len(body.received) + 1:
            return None
        known[body.key] = starts
        self._bytes += _SHARED_BODY_BYTES + starts.itemsize * len(starts)
        while self._bytes > self._bytes_max:
            _, oldest = known.popitem(last=False)
            self._bytes -= _SHARED_BODY_BYTES + oldest.itemsize * len(oldest)
        return starts


class _Gathered:
    """Parts on their way to batches."""

    def __init__(self, decode: Callable[[bytes], Batch], batch_numbers: int, joins: bool) -> None:
        self._decode = decode
        self._batch_numbers = batch_numbers
        self._joins = joins
        self.bytes = 0
        self._rows: list[ReadRow] = []
        self._broken: list[EntryRange] = []
        # Gathered for the next batch.
        self._parts: list[_Part] = []
        self._parts_bytes = 0

    def add(self, part: _Part) -> None:
        """Add a part behind those before."""
        if self._parts and not self._joins:
            self._finish()
        self._parts.append(part)
        size = sum(map(len, part[0]))
        self._parts_bytes += size
        self.bytes += size
        if self._parts_bytes >= JOINED_BYTES:
            self._finish()

    def rows(self) -> tuple[list[ReadRow], list[EntryRange]]:
        """All rows, and the entries whose bodies verify and are no messages."""
        self._finish()
        return self._rows, self._broken

    def _finish(self) -> None:
        """Make a batch of the gathered parts."""
        parts = self._parts
        if not parts:
            return
        self._parts, self._parts_bytes = [], 0
        count = sum(len(part[1]) for part in parts)
        try:
            batch = self._decode(b"".join(chain.from_iterable(part[0] for part in parts)))
            if len(batch) != count:
                msg = f"{count} messages announced, {len(batch)} there"
                raise ValueError(msg)
        except ValueError:
            if len(parts) == 1:
                self._broken += ranges_in(parts[0][1])
                return
            # One of them is no message; the others are.
            for part in parts:
                self._parts = [part]
                self._finish()
            return
        if len(parts) == 1:
            # Let the trace know whose messages these are.
            _, _, number, received, arrived = parts[0]
            batch.number = int.from_bytes(number, "little") % self._batch_numbers
            if received != range(count):
                batch.excerpted = received
            batch.arrived = arrived
        else:
            batch.arrived = joined_arrivals((part[4], len(part[1])) for part in parts)
        self._add_rows(batch, parts)

    def _add_rows(self, batch: Batch, parts: list[_Part]) -> None:
        start = at = 0
        first_id = next_id = parts[0][1][0]
        for _, ids, _, _, _ in parts:
            if ids[0] == next_id and isinstance(ids, range):
                next_id = ids.stop
                at += len(ids)
                continue
            for first, last in ranges_in(ids):
                if first != next_id:
                    self._rows.append(ReadRow(batch, range(start, at), first_id))
                    start, first_id = at, first
                next_id = last + 1
                at += next_id - first
        self._rows.append(ReadRow(batch, range(start, at), first_id))


def _extents(sought: Sequence[Sought]) -> list[int]:
    """How far it is from each place to the last of those that follow it without much between."""
    extents = [0] * len(sought)
    for at in range(len(sought) - 2, -1, -1):
        here, following = sought[at].entries, sought[at + 1].entries
        distance = following.offset - here.offset
        # A stretch ends with the first record that begins behind it.
        if here.segment == following.segment and 0 <= distance <= 2 * PLACES_STRIDE_BYTES:
            extents[at] = extents[at + 1] + distance
    return extents


def _words(ranges: Sequence[EntryRange]) -> str:
    return described(range(first, last + 1) for first, last in ranges)


def _last_of(range_: EntryRange) -> int:
    return range_[1]


def _last_id(record: _Entries) -> int:
    return int(record[0][-1])


def _up_to(ranges: Sequence[EntryRange], through: int) -> list[EntryRange]:
    """The parts of ascending ranges that do not lie behind this id."""
    return [(first, min(last, through)) for first, last in ranges if first <= through]
