"""The journal's records: how they look on disk, and nothing else. docs/JOURNAL.md draws them.

All numbers are little-endian. A record is

    length u32 | crc u32 | kind u8 | ... `length` bytes from kind on

where crc is the CRC-32 of those `length` bytes, begun with the segment's number: a record that
strays into another segment, as old disk blocks may after a power cut, does not verify there.
Neither does a run of zeros: a record is never empty, and no kind is 0.

Encoders give a list of buffers, so that a message's wire bytes go to the disk from where they
were received, without a copy.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from ..amqp_frames.batch import Batch, Indexes
from .entries_record import ENTRIES, INDEXES_LISTED, EntriesRecord, decode_entries
from .files import Buffer
from .identities_record import (
    IDENTITIES,
    IdentitiesRecord,
    decode_identities,
    identities_covered,
)
from .identity_runs import IdentityRun
from .number_lists import little_endian, read_array
from .segment_ledger import EntryRange

# Kinds. 0 is never one.
SEGMENT = 1
BODY = 2
SETTLE = 4
DELIVERED = 5
REMOVED = 6

RECORD_BYTES_MAX = 0xFFFF_FFFF
HEAD = Struct("<II")
HEAD_BYTES = HEAD.size

_segment = Struct("<BIQQ")
_body = Struct("<BBIQI")
_ranges = Struct("<BIQ")
_one_range = Struct("<BIQQQ")
_head_pack = HEAD.pack


class SegmentRecord(NamedTuple):
    """The first record of a segment."""

    segment_number: int
    # Batch numbers below this one may have been used in earlier segments.
    next_batch_number: int
    # The segments that were there when this one was created, this one included.
    present: list[EntryRange]


class BodyRecord(NamedTuple):
    """Where a batch's messages are, and which of the batch they are."""

    batch_number: int
    indexes: Indexes
    wire_start: int
    wire_end: int


class RangesRecord(NamedTuple):
    """Entries of a queue that were settled or delivered."""

    kind: int
    queue_id: int
    ranges: list[EntryRange]


class RemovedRecord(NamedTuple):
    """Segments that are to be taken as gone, whether their files still show or not."""

    segments: list[EntryRange]


# What zlib.crc32 takes without releasing the interpreter's lock (CPython's zlibmodule.c).
CRC_PIECE_BYTES = 5 * 1024

Record = (
    SegmentRecord | BodyRecord | EntriesRecord | RangesRecord | RemovedRecord | IdentitiesRecord
)


def encode_segment(number: int, next_batch_number: int, present: Sequence[EntryRange]) -> bytes:
    """The first record of a segment."""
    covered = _segment.pack(SEGMENT, len(present), number, next_batch_number) + _listed(present)
    return _whole(covered, number)


def body_bytes_at_most(batch: Batch) -> int:
    """The size of the batch's body record, or more."""
    return HEAD_BYTES + _body.size + 4 * len(batch) + batch.wire_bytes()


def ranges_bytes(count: int) -> int:
    """The size of a record of so many ranges."""
    return HEAD_BYTES + _ranges.size + 16 * count


def encode_body(batch: Batch, segment_number: int) -> tuple[bytes, Buffer]:
    """The record with the wire bytes of the batch's durable messages, and of no others."""
    indexes = range(len(batch)) if batch.durable is None else batch.durable
    count = len(indexes)
    first, last = indexes[0], indexes[-1]
    wire: Buffer
    if last - first + 1 == count:
        fixed = _body.pack(BODY, 0, count, batch.number, first)
    else:
        fixed = _body.pack(BODY, INDEXES_LISTED, count, batch.number, first) + little_endian(
            array("I", indexes)
        )
    starts, ends = batch.starts, batch.ends
    if batch.contiguous and last - first + 1 == count:
        wire = memoryview(batch.wire)[starts[first] : ends[last]]
    else:
        view = memoryview(batch.wire)
        wire = b"".join([view[starts[index] : ends[index]] for index in indexes])
    length = len(fixed) + len(wire)
    assert length <= RECORD_BYTES_MAX
    return _head_pack(length, _crc_of(wire, crc32(fixed, segment_number))) + fixed, wire


def _crc_of(wire: Buffer, crc: int) -> int:
    """crc32 in pieces for which zlib does not let go of the interpreter.

    It would for a longer one, which takes microseconds, and then the journal's thread would wait
    for a whole turn of the event loop to get it back, batch by batch.
    """
    if len(wire) <= CRC_PIECE_BYTES:
        return crc32(wire, crc)
    view = memoryview(wire)
    for start in range(0, len(view), CRC_PIECE_BYTES):
        crc = crc32(view[start : start + CRC_PIECE_BYTES], crc)
    return crc


def encode_ranges(
    kind: int, queue_id: int, ranges: Sequence[EntryRange], segment_number: int
) -> bytes:
    """A settle or delivered record."""
    if len(ranges) == 1:
        first, last = ranges[0]
        covered = _one_range.pack(kind, 1, queue_id, first, last)
    else:
        covered = _ranges.pack(kind, len(ranges), queue_id) + _listed(ranges)
    return _head_pack(len(covered), crc32(covered, segment_number)) + covered


def encode_removed(segments: Sequence[EntryRange], segment_number: int) -> bytes:
    """The record after which these segments are gone, even if a crash brings their files back."""
    covered = _ranges.pack(REMOVED, len(segments), 0) + _listed(segments)
    return _whole(covered, segment_number)


def encode_identities(queue_id: int, runs: Sequence[IdentityRun], segment_number: int) -> bytes:
    """The record that keeps these identities, so that the segment they are in may go."""
    return _whole(identities_covered(queue_id, runs), segment_number)


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
            ranges = _read_ranges(data, start + _ranges.size, count, end)
            return RangesRecord(kind, queue_id, ranges)
        if kind == REMOVED:
            _, count, _ = _ranges.unpack_from(data, start)
            return RemovedRecord(_read_ranges(data, start + _ranges.size, count, end))
        if kind == IDENTITIES:
            return decode_identities(data, start, end)
        if kind == SEGMENT:
            _, count, number, next_batch_number = _segment.unpack_from(data, start)
            present = _read_ranges(data, start + _segment.size, count, end)
            return SegmentRecord(number, next_batch_number, present)
    except (IndexError, OverflowError, struct.error) as error:
        raise ValueError(str(error)) from error
    msg = f"unknown kind {kind}"
    raise ValueError(msg)


def _decode_body(data: bytes, start: int, end: int) -> BodyRecord:
    _, form, count, batch_number, first = _body.unpack_from(data, start)
    position = start + _body.size
    if form & INDEXES_LISTED:
        return BodyRecord(
            batch_number, read_array("I", data, position, count), position + 4 * count, end
        )
    return BodyRecord(batch_number, range(first, first + count), position, end)


def _whole(covered: bytes, segment_number: int) -> bytes:
    return _head_pack(len(covered), crc32(covered, segment_number)) + covered


def _listed(ranges: Sequence[EntryRange]) -> bytes:
    return little_endian(array("Q", chain.from_iterable(ranges)))


def _read_ranges(data: bytes, start: int, count: int, end: int) -> list[EntryRange]:
    if end - start != 16 * count:
        msg = f"{count} ranges announced, {end - start} bytes there"
        raise ValueError(msg)
    numbers = read_array("Q", data, start, 2 * count)
    return list(zip(numbers[::2], numbers[1::2], strict=True))
