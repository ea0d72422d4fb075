"""The journal's records on the disk, and nothing else; docs/JOURNAL.md draws all of them.

`segment_header.py` has the record that begins a segment. All numbers are little-endian, and lists
of numbers are packed. A message's wire bytes go to the disk from where they were received, without
a copy. An entries record makes messages of a batch entries of a queue; in an identities record,
identities outlive the segment of their messages.

The head of a record proves that bytes are a record of one segment, and of no other:

    marker u32 | crc u32 | length u32 | before u32 | epoch u32 | kind u8 | ... `length` from kind on

- `marker` is where a reader behind damage searches for the next record.
- `crc` is the CRC-32 of all bytes behind it, begun with the segment's seed.
- `before` is the `crc` of the record before this one, so that a missing record is noticed although
  the bytes on both sides of it verify. The first record of a segment names the segment's header.
- `epoch` is the boot number of the broker that wrote the record. A segment has one writer, so a
  record of another epoch is an old block of the disk that was used for a file of this name before.

Marker and seed come from the directory's id, which is random and which no client ever sees, and
from the segment's number. So no client can publish bytes that would verify as a record if a reader
searched a damaged message body, and a block of another segment does not verify either.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from operator import ge
from struct import Struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from ...amqp_frames.messages.arrivals import (
    ARRIVED_NS_MAX,
    NOT_KNOWN,
    ArrivalRuns,
    Arrived,
    arrivals_of,
)
from ...amqp_frames.messages.batch import Batch, Indexes
from ..files import Buffer
from .identity_runs import IDENTITY_BYTES, Identities, IdentityRun
from .ledger import Deadlines, EntryIds, EntryRange

_LISTED_INDEX = array("I").itemsize
assert _LISTED_INDEX == 4, "array('I') is 32 bits wide wherever CPython runs today"


def little_endian(numbers: array[int]) -> bytes:
    """The bytes of a record; the array may be swapped in place."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def read_array(typecode: str, data: bytes, start: int, count: int) -> array[int]:
    """So many numbers from `start` on; ValueError if they are not all there."""
    numbers = array(typecode)
    numbers.frombytes(data[start : start + count * numbers.itemsize])
    if len(numbers) != count:
        msg = f"{count} numbers announced, {len(numbers)} there"
        raise ValueError(msg)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# The kinds of records. 0 is never one, and 1 is the segment header's (`segment_header.py`). Each
# has a codec below, and `decode_record` lists them. A broker takes a kind that it does not know for
# damage, so a new kind raises `FORMAT_VERSION` (`segment_header.py`).
BODY: Final = 2
ENTRIES: Final = 3
SETTLE: Final = 4
DELIVERED: Final = 5
REMOVED: Final = 6
# Since format version 3.
IDENTITIES: Final = 7
# Since format version 4.
COMMIT: Final = 8
# Since format version 5.
DEFERRED: Final = 9
# Since format version 6.
COMPACTED: Final = 10

DIRECTORY_ID_BYTES: Final = 16
EPOCH_MAX: Final = 0xFFFF_FFFF
RECORD_BYTES_MAX: Final = 0xFFFF_FFFF
# Above what any broker gives an entry, a batch or a segment: a record that says more is a fault,
# and what counts on from there would not fit into the next one.
NUMBER_MAX: Final = 10**18
# In one record: 64 TiB in segments of the size that they have by default.
SEGMENTS_LISTED_MAX: Final = 1 << 20
# What zlib.crc32 takes without releasing the interpreter's lock (CPython's zlibmodule.c).
CRC_PIECE_BYTES: Final = 5 * 1024

_mark = Struct("<II")
# What a link is, for the encoders' structures.
LINK: Final = "III"
_link = Struct("<" + LINK)
_mark_pack, _link_pack = _mark.pack, _link.pack
_whole_head = Struct("<IIIII")
HEAD_BYTES: Final = _whole_head.size
# What the CRC covers begins here.
_LINK_AT: Final = _mark.size


class Salt(NamedTuple):
    """The marker and the seed of all records of one segment."""

    marker: int
    seed: int

    @property
    def marker_bytes(self) -> bytes:
        """The marker as it lies in a file."""
        return self.marker.to_bytes(4, "little")


def salt_of(directory_id: bytes, segment_number: int) -> Salt:
    """The salt of that segment in the directory with that id."""
    digest = blake2b(
        segment_number.to_bytes(8, "little"), digest_size=8, key=directory_id, person=b"leveret"
    ).digest()
    # Never 0, because a segment has zeros behind its last record.
    marker = int.from_bytes(digest[:4], "little") or 1
    return Salt(marker, int.from_bytes(digest[4:], "little"))


class Seal:
    """Puts the head before records of one segment, one behind the other.

    An encoder packs the link, which is `length`, `checksum` and `epoch`, together with what follows
    it: a call and a copy less for each record, of which a message published alone needs three.
    """

    __slots__ = ("_marker", "_seed", "checksum", "epoch")

    def __init__(
        self, directory_id: bytes, segment_number: int, epoch: int, checksum_before: int
    ) -> None:
        self._marker, self._seed = salt_of(directory_id, segment_number)
        self.epoch = epoch
        # The `crc` of the last record that was sealed.
        self.checksum = checksum_before

    def seal(self, linked: bytes) -> bytes:
        """The whole record of these bytes, which begin with its link."""
        checksum = self.checksum = crc32(linked, self._seed)
        return _mark_pack(self._marker, checksum) + linked

    def seal_before(self, linked: bytes, payload: Buffer) -> bytes:
        """The record that ends with the payload, up to there. The link counts the payload, too."""
        checksum = self.checksum = _crc_of(payload, crc32(linked, self._seed))
        return _mark_pack(self._marker, checksum) + linked

    def record(self, covered: bytes) -> bytes:
        """The whole record of these bytes, which begin with its kind."""
        return self.seal(_link_pack(len(covered), self.checksum, self.epoch) + covered)


class Head(NamedTuple):
    """The head of a record that verifies."""

    checksum: int
    checksum_before: int
    epoch: int
    # Where the record ends.
    end: int


def read_head(data: bytes, offset: int, salt: Salt) -> Head | None:
    """The head of the record at the offset; None if there is none that verifies."""
    if offset + HEAD_BYTES >= len(data):
        return None
    marker, checksum, length, before, epoch = _whole_head.unpack_from(data, offset)
    end = offset + HEAD_BYTES + length
    if marker != salt.marker or not length or end > len(data):
        return None
    covered = memoryview(data)[offset + _LINK_AT : end]
    return Head(checksum, before, epoch, end) if crc32(covered, salt.seed) == checksum else None


def _crc_of(payload: Buffer, crc: int) -> int:
    """crc32 in pieces for which zlib does not let go of the interpreter.

    It would for a longer one, which takes microseconds, and then the journal's thread would wait
    for a whole turn of the event loop to get it back, batch by batch.
    """
    if len(payload) <= CRC_PIECE_BYTES:
        return crc32(payload, crc)
    view = memoryview(payload)
    for start in range(0, len(view), CRC_PIECE_BYTES):
        crc = crc32(view[start : start + CRC_PIECE_BYTES], crc)
    return crc


# --- Identities that are written anew

RECORD_BYTES_AIMED_AT = 256 * 1024

_head = Struct("<BIQ")
_run = Struct("<IQQQ")


class IdentitiesRecord(NamedTuple):
    """Runs of one queue that were written anew.

    A run without identities says that the window which remembered its entries is no more.
    """

    queue_id: int
    # Their segment is the one that the record was read in; 0 here.
    runs: list[IdentityRun]


def identities_covered(queue_id: int, runs: Sequence[IdentityRun]) -> bytes:
    """The record from its kind on."""
    pieces = [_head.pack(IDENTITIES, len(runs), queue_id)]
    for run in runs:
        count = len(run.identities) // IDENTITY_BYTES
        pieces.append(_run.pack(count, run.first_entry_id, run.last_entry_id, run.until_ms))
    pieces += [bytes(run.identities) for run in runs]
    return b"".join(pieces)


def identities_bytes(runs: Sequence[IdentityRun]) -> int:
    """The size of the record of these runs."""
    covered = _head.size + sum(_run.size + len(run.identities) for run in runs)
    return HEAD_BYTES + covered


def in_records(runs: Sequence[IdentityRun]) -> Iterator[Sequence[IdentityRun]]:
    """The runs divided among records, of which none is much larger than the bound."""
    start = size = 0
    for position, run in enumerate(runs):
        size += _run.size + len(run.identities)
        if size >= RECORD_BYTES_AIMED_AT:
            yield runs[start : position + 1]
            start, size = position + 1, 0
    if start < len(runs):
        yield runs[start:]


def decode_identities(data: bytes, start: int, end: int) -> IdentitiesRecord:
    """The covered bytes of a record that verified; ValueError if they make no sense."""
    _, count, queue_id = _head.unpack_from(data, start)
    position = start + _head.size
    octets_at = position + count * _run.size
    runs: list[IdentityRun] = []
    for _ in range(count):
        identities, first, last, until_ms = _run.unpack_from(data, position)
        position += _run.size
        octets_end = octets_at + identities * IDENTITY_BYTES
        octets = bytearray(data[octets_at:octets_end])
        runs.append(IdentityRun(0, first, last, until_ms, octets))
        octets_at = octets_end
        check_numbers(queue_id, first, last)
    if octets_at != end or not count:
        msg = f"identities record of {end - start} bytes ends at {octets_at - start}"
        raise ValueError(msg)
    return IdentitiesRecord(queue_id, runs)


# --- Entries

# Forms of a body or entries record: numbers listed one by one, not only first and count.
INDEXES_LISTED = 1
ENTRY_IDS_LISTED = 2
# Since format version 2: one deadline for all entries, or one for each.
DEADLINE = 4
DEADLINES_LISTED = 8
# Since format version 3: until when the entries' identities are remembered, and each one's.
IDENTITIES_LISTED = 16
# Since format version 5: one due time for all entries, or one for each.
DUE_TIME = 32
DUE_TIMES_LISTED = 64
# Of a body record, since format version 7: when all its messages arrived, or when runs of them did.
ARRIVED: Final = 2
ARRIVALS_LISTED: Final = 4

_entries = Struct("<BBIQQIQ")
_ENTRIES_BYTES = _entries.size
_linked_entries = Struct(f"<{LINK}BBIQQIQ")
_deadline = Struct("<Q")
_until = Struct("<Q")
_entries_pack = _linked_entries.pack


class EntriesRecord(NamedTuple):
    """Messages of a batch that became entries of a queue."""

    queue_id: int
    batch_number: int
    indexes: Indexes
    entry_ids: EntryIds
    # When they expire, in milliseconds since the epoch; 0: never.
    deadlines: Deadlines = 0
    # Of a queue with a dedup window.
    identities: Identities | None = None
    # Until when they are deferred, in milliseconds since the epoch; 0: not at all.
    due_times: Deadlines = 0


def entries_bytes_at_most(
    count: int,
    deadlines: Deadlines = 0,
    identities: Identities | None = None,
    due_times: Deadlines = 0,
) -> int:
    """The size of an entries record of so many entries, or more."""
    size = HEAD_BYTES + _entries.size + (20 if deadlines else 12) * count + _deadline.size
    if due_times:
        size += _deadline.size * max(count, 1)
    return size if identities is None else size + _until.size + IDENTITY_BYTES * count


def encode_entries(
    seal: Seal,
    queue_id: int,
    batch_number: int,
    indexes: Indexes,
    entry_ids: EntryIds,
    deadlines: Deadlines = 0,
    identities: Identities | None = None,
    due_times: Deadlines = 0,
) -> bytes:
    """The record; all columns are aligned and not empty; indexes and entry ids ascend."""
    count = len(indexes)
    first_index, first_id = indexes[0], entry_ids[0]
    listed = b""
    form = 0
    if indexes[-1] - first_index + 1 != count:
        form = INDEXES_LISTED
        listed = little_endian(array("I", indexes))
    if entry_ids[-1] - first_id + 1 != count:
        form |= ENTRY_IDS_LISTED
        listed += little_endian(array("Q", entry_ids))
    if deadlines:
        if isinstance(deadlines, int):
            form |= DEADLINE
            listed += _deadline.pack(deadlines)
        else:
            form |= DEADLINES_LISTED
            listed += little_endian(array("Q", deadlines))
    if identities is not None:
        form |= IDENTITIES_LISTED
        listed += _until.pack(identities.until_ms) + identities.octets
        assert len(identities.octets) == IDENTITY_BYTES * count
    if due_times:
        if isinstance(due_times, int):
            form |= DUE_TIME
            listed += _deadline.pack(due_times)
        else:
            form |= DUE_TIMES_LISTED
            listed += little_endian(array("Q", due_times))
    linked = _entries_pack(
        _ENTRIES_BYTES + len(listed),
        seal.checksum,
        seal.epoch,
        ENTRIES,
        form,
        count,
        queue_id,
        batch_number,
        first_index,
        first_id,
    )
    return seal.seal(linked + listed if form else linked)


def decode_entries(data: bytes, start: int, end: int) -> EntriesRecord:
    """The covered bytes of a record that verified; ValueError if they make no sense."""
    _, form, count, queue_id, batch_number, first_index, first_id = _entries.unpack_from(
        data, start
    )
    position = start + _entries.size
    indexes: Indexes = range(first_index, first_index + count)
    entry_ids: EntryIds = range(first_id, first_id + count)
    deadlines: Deadlines = 0
    if form & INDEXES_LISTED:
        indexes = read_array("I", data, position, count)
        position += 4 * count
    if form & ENTRY_IDS_LISTED:
        entry_ids = read_array("Q", data, position, count)
        position += 8 * count
    if form & DEADLINE:
        (deadlines,) = _deadline.unpack_from(data, position)
        position += _deadline.size
    elif form & DEADLINES_LISTED:
        deadlines = read_array("Q", data, position, count)
        position += 8 * count
    identities = None
    if form & IDENTITIES_LISTED:
        (until_ms,) = _until.unpack_from(data, position)
        position += _until.size
        octets = data[position : position + IDENTITY_BYTES * count]
        identities = Identities(octets, until_ms)
        position += IDENTITY_BYTES * count
    due_times: Deadlines = 0
    if form & DUE_TIME:
        (due_times,) = _deadline.unpack_from(data, position)
        position += _deadline.size
    elif form & DUE_TIMES_LISTED:
        due_times = read_array("Q", data, position, count)
        position += 8 * count
    if position != end or not count:
        msg = f"entries record of {end - start} bytes ends at {position - start}"
        raise ValueError(msg)
    check_numbers(batch_number, queue_id, entry_ids[-1])
    return EntriesRecord(
        queue_id, batch_number, indexes, entry_ids, deadlines, identities, due_times
    )


# --- Bodies, ranges of entries, removed segments, commits

_body = Struct("<BBIQI")
_arrived = Struct("<Q")
_arrived_pack = _arrived.pack
_arrival_runs = Struct("<I")
# Of each run: where it ends, counted in messages of the record, and its time.
_ARRIVAL_RUN_BYTES: Final = 4 + 8
_ranges = Struct("<BIQ")
_commit = Struct("<BQQQQ")
_compacted = Struct("<BQQQQQ")
# The same behind a link.
_BODY_BYTES = _body.size
_body_pack = Struct(f"<{LINK}BBIQI").pack
_ONE_RANGE_BYTES = _ranges.size + 16
_one_range_pack = Struct(f"<{LINK}BIQQQ").pack
_COMMIT_BYTES = _commit.size
_commit_pack = Struct(f"<{LINK}BQQQQ").pack


class BodyRecord(NamedTuple):
    """Where a batch's messages are, and which of the batch they are."""

    batch_number: int
    indexes: Indexes
    wire_start: int
    wire_end: int
    # Of the messages in the record, by their places there.
    arrived: Arrived = NOT_KNOWN


class RangesRecord(NamedTuple):
    """Entries of a queue that were settled or delivered."""

    kind: int
    queue_id: int
    ranges: list[EntryRange]


# First and last entry id, both inclusive, and until when these are deferred, in milliseconds since
# the epoch.
DeferredRange = tuple[int, int, int]


class DeferredRecord(NamedTuple):
    """Entries of a queue that came back, and are not ready before they are due."""

    queue_id: int
    ranges: list[DeferredRange]


class RemovedRecord(NamedTuple):
    """Segments that count as gone, whether their files still show or not."""

    segments: list[EntryRange]


class CommitRecord(NamedTuple):
    """The last record of a commit, since format version 4.

    When it was written the journal was synced up to `end` in segment `segment`, which is the end
    of an earlier commit, and all segments before that one were synced to their end.
    """

    segment: int
    end: int
    # Entries appended to the journal since its directory was made, this commit's included.
    entries: int
    # The catalog's change number: no record before this one depends on a later change.
    catalog_change: int


class CompactedRecord(NamedTuple):
    """A closed segment was rewritten: from here on it counts in this form, once it is there.

    Its records have a chain of their own, which ends here.
    """

    segment: int
    # How often it was rewritten by then, as its header says.
    rewritten: int
    # Its size, and the `crc` of its last record.
    end: int
    checksum: int
    # How many entries are in its entries records.
    entries: int


Record = (
    BodyRecord
    | EntriesRecord
    | RangesRecord
    | DeferredRecord
    | RemovedRecord
    | IdentitiesRecord
    | CommitRecord
    | CompactedRecord
)


def body_bytes_at_most(batch: Batch) -> int:
    """The size of the batch's body record, or more."""
    arrived = batch.arrived
    runs = 0 if isinstance(arrived, int) else len(arrived.ends)
    size = HEAD_BYTES + _body.size + 4 * len(batch.starts) + batch.wire_bytes
    return size + _arrived.size + _ARRIVAL_RUN_BYTES * runs


# The size of a record of ranges: so much, and for each of them so much more.
RANGES_BYTES_MIN: Final = HEAD_BYTES + _ranges.size
RANGE_BYTES: Final = 16
DEFERRED_RANGE_BYTES: Final = 24

# The size of the record that ends a commit, and of one that anchors a rewritten segment.
COMMIT_BYTES = HEAD_BYTES + _COMMIT_BYTES
COMPACTED_BYTES: Final = HEAD_BYTES + _compacted.size


def encode_body(seal: Seal, batch: Batch, arrived: Arrived = NOT_KNOWN) -> tuple[bytes, Buffer]:
    """The record with the wire bytes of the batch's durable messages, and of no others.

    The wire bytes come apart from what stands before them. `arrived` is of all its messages.
    """
    indexes = range(len(batch.starts)) if batch.durable is None else batch.durable
    count = len(indexes)
    first, last = indexes[0], indexes[-1]
    is_whole = last - first + 1 == count
    starts, ends = batch.starts, batch.ends
    wire: Buffer
    if batch.contiguous and is_whole:
        wire = memoryview(batch.wire)[starts[first] : ends[last]]
    else:
        view = memoryview(batch.wire)
        wire = b"".join([view[starts[index] : ends[index]] for index in indexes])
    arrived = arrivals_of(arrived, indexes)
    return encode_messages(seal, batch.number, indexes, wire, arrived), wire


def encode_messages(
    seal: Seal, batch_number: int, indexes: Indexes, wire: Buffer, arrived: Arrived = NOT_KNOWN
) -> bytes:
    """The record before the wire bytes of these messages of a batch, which `arrived` then."""
    count, first = len(indexes), indexes[0]
    form, listed = 0, b""
    if indexes[-1] - first + 1 != count:
        form, listed = INDEXES_LISTED, little_endian(array("I", indexes))
    if arrived:
        if isinstance(arrived, int):
            form |= ARRIVED
            listed += _arrived_pack(arrived)
        else:
            form |= ARRIVALS_LISTED
            listed += _listed_arrivals(arrived)
    length = _BODY_BYTES + len(listed) + len(wire)
    assert length <= RECORD_BYTES_MAX
    linked = _body_pack(length, seal.checksum, seal.epoch, BODY, form, count, batch_number, first)
    return seal.seal_before(linked + listed if form else linked, wire)


def _listed_arrivals(arrived: ArrivalRuns) -> bytes:
    ends, times_ns = (array(each.typecode, each) for each in arrived)
    return _arrival_runs.pack(len(ends)) + little_endian(ends) + little_endian(times_ns)


def encode_body_part(
    seal: Seal,
    batch_number: int,
    indexes: Sequence[int],
    messages: Sequence[Buffer],
    arrived: Arrived,
) -> bytes:
    """A body record of these messages, with their indexes in the batch as received."""
    wire = b"".join(messages)
    return encode_messages(seal, batch_number, array("I", indexes), wire, arrived) + wire


def encode_ranges(seal: Seal, kind: int, queue_id: int, ranges: Sequence[EntryRange]) -> bytes:
    """A settle or delivered record."""
    if len(ranges) == 1:
        first, last = ranges[0]
        return seal.seal(
            _one_range_pack(
                _ONE_RANGE_BYTES, seal.checksum, seal.epoch, kind, 1, queue_id, first, last
            )
        )
    return seal.record(_ranges.pack(kind, len(ranges), queue_id) + listed(ranges))


def encode_deferred(seal: Seal, queue_id: int, ranges: Sequence[DeferredRange]) -> bytes:
    """A deferred record."""
    numbers = little_endian(array("Q", chain.from_iterable(ranges)))
    return seal.record(_ranges.pack(DEFERRED, len(ranges), queue_id) + numbers)


def removed_covered(segments: Sequence[EntryRange]) -> bytes:
    """The record after which these segments are gone, even if a crash brings their files back."""
    return _ranges.pack(REMOVED, len(segments), 0) + listed(segments)


def encode_commit(seal: Seal, segment: int, end: int, entries: int, catalog_change: int) -> bytes:
    """The record that ends a commit."""
    return seal.seal(
        _commit_pack(
            _COMMIT_BYTES,
            seal.checksum,
            seal.epoch,
            COMMIT,
            segment,
            end,
            entries,
            catalog_change,
        )
    )


def encode_compacted(seal: Seal, compacted: CompactedRecord) -> bytes:
    """The record that anchors a rewritten segment."""
    return seal.record(_compacted.pack(COMPACTED, *compacted))


def decode_record(data: bytes, start: int, end: int) -> Record:
    """Read the covered bytes, kind first, of a record that verified; ValueError if senseless."""
    kind = data[start]
    try:
        if kind == BODY:
            return _decode_body(data, start, end)
        if kind == ENTRIES:
            return decode_entries(data, start, end)
        if kind in (SETTLE, DELIVERED):
            _, count, queue_id = _ranges.unpack_from(data, start)
            ranges = read_ranges(data, start + _ranges.size, count, end)
            check_numbers(queue_id, *(last for _, last in ranges))
            return RangesRecord(kind, queue_id, ranges)
        if kind == DEFERRED:
            return _decode_deferred(data, start, end)
        if kind == COMMIT and end - start == _commit.size:
            numbers = _commit.unpack_from(data, start)[1:]
            check_numbers(*numbers)
            return CommitRecord(*numbers)
        if kind == COMPACTED and end - start == _compacted.size:
            numbers = _compacted.unpack_from(data, start)[1:]
            check_numbers(*numbers)
            return CompactedRecord(*numbers)
        if kind == REMOVED:
            _, count, _ = _ranges.unpack_from(data, start)
            return RemovedRecord(read_segments(data, start + _ranges.size, count, end))
        if kind == IDENTITIES:
            return decode_identities(data, start, end)
    except (IndexError, OverflowError, struct.error) as error:
        raise ValueError(str(error)) from error
    msg = f"unknown kind {kind}"
    raise ValueError(msg)


# So much of a body record says which batch it is of.
BODY_BEGIN_BYTES: Final = HEAD_BYTES + _body.size


def body_begin(data: bytes, start: int) -> BodyRecord:
    """The batch's number of a body record, from its kind on, and nothing more of it."""
    _, _, _, batch_number, _ = _body.unpack_from(data, start)
    return BodyRecord(batch_number, range(0), 0, 0)


def _decode_body(data: bytes, start: int, end: int) -> BodyRecord:
    _, form, count, batch_number, first = _body.unpack_from(data, start)
    check_numbers(batch_number)
    position = start + _body.size
    indexes: Indexes = range(first, first + count)
    if form & INDEXES_LISTED:
        indexes = read_array("I", data, position, count)
        position += 4 * count
    arrived: Arrived = NOT_KNOWN
    if form & ARRIVED:
        (time_ns,) = _arrived.unpack_from(data, position)
        position += _arrived.size
        _check_arrived(time_ns)
        arrived = time_ns
    elif form & ARRIVALS_LISTED:
        arrived, position = _read_arrivals(data, position, count)
    if position > end:
        msg = f"body record of {end - start} bytes ends at {position - start}"
        raise ValueError(msg)
    return BodyRecord(batch_number, indexes, position, end, arrived)


def _read_arrivals(data: bytes, start: int, count: int) -> tuple[ArrivalRuns, int]:
    (runs,) = _arrival_runs.unpack_from(data, start)
    position = start + _arrival_runs.size
    ends = read_array("I", data, position, runs)
    position += 4 * runs
    times_ns = read_array("Q", data, position, runs)
    if not runs or ends[-1] != count or any(map(ge, (0, *ends), ends)):
        msg = f"times of arrival of other messages than the record's {count}"
        raise ValueError(msg)
    _check_arrived(max(times_ns))
    return ArrivalRuns(ends, times_ns), position + 8 * runs


def _check_arrived(time_ns: int) -> None:
    """ValueError if it is above what a delivery can say."""
    if time_ns > ARRIVED_NS_MAX:
        msg = f"{time_ns} is no time of arrival"
        raise ValueError(msg)


def _decode_deferred(data: bytes, start: int, end: int) -> DeferredRecord:
    _, count, queue_id = _ranges.unpack_from(data, start)
    position = start + _ranges.size
    if end - position != DEFERRED_RANGE_BYTES * count:
        msg = f"{count} ranges announced, {end - position} bytes there"
        raise ValueError(msg)
    numbers = read_array("Q", data, position, 3 * count)
    check_numbers(queue_id, *numbers[1::3])
    ranges = list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
    return DeferredRecord(queue_id, ranges)


def check_numbers(*numbers: int) -> None:
    """ValueError if one is above NUMBER_MAX."""
    if max(numbers) > NUMBER_MAX:
        msg = f"{max(numbers)} is no number that a broker gives"
        raise ValueError(msg)


def listed(ranges: Sequence[EntryRange]) -> bytes:
    """Ranges as records hold them: first and last of each."""
    return little_endian(array("Q", chain.from_iterable(ranges)))


def read_ranges(data: bytes, start: int, count: int, end: int) -> list[EntryRange]:
    """So many ranges, which must fill the bytes up to the end; ValueError if they do not."""
    if end - start != 16 * count:
        msg = f"{count} ranges announced, {end - start} bytes there"
        raise ValueError(msg)
    numbers = read_array("Q", data, start, 2 * count)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def read_segments(data: bytes, start: int, count: int, end: int) -> list[EntryRange]:
    """So many ranges of segment numbers, as `read_ranges` reads them.

    ValueError also if they are of more segments than a journal has: whoever reads them lists each.
    """
    ranges = read_ranges(data, start, count, end)
    check_segments(ranges)
    return ranges


def check_segments(ranges: Sequence[EntryRange]) -> None:
    """ValueError if these are of more segments, or of higher numbers, than a journal has."""
    check_numbers(0, *(last for _, last in ranges))
    if sum(max(last - first + 1, 0) for first, last in ranges) > SEGMENTS_LISTED_MAX:
        msg = f"more than {SEGMENTS_LISTED_MAX} segments announced"
        raise ValueError(msg)
