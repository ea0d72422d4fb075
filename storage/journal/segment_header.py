"""The begin of a segment: a prefix that every format version shares, then the first record.

    prefix   magic "LEVERETJ" 8 | format version u32 | header bytes u32 | CRC-32 of these 16 u32
    record   head (records.py) | kind 1 u8 | present u32 | torn u32 | segment number u64 |
             next batch number u64 | directory id 16 | segment before u64 | its end u64 |
             entries when it was created u64 | entries now u64 | catalog change u64 |
             rewritten u32 | compacted u32 |
             present: (first u64, last u64) each | torn: (segment u64, start u64, end u64) each |
             compacted: (segment u64, rewritten u64, end u64, checksum u64, entries u64) each

The header is on the disk, and so is its name, before any record follows. It carries the directory's
id, which its own salt is made from, so that a header is read without knowing anything. Versions 4
and 5 have neither `rewritten` nor `compacted`. Segments of versions 1 to 3 have another first
record, which `segment_reader.py` reads.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from ..errors import StorageError
from .ledger import EntryRange
from .records import (
    HEAD_BYTES,
    CompactedRecord,
    Seal,
    check_numbers,
    listed,
    little_endian,
    read_array,
    read_head,
    read_segments,
    salt_of,
)

# The fields of the header. Version 2 added deadlines to entries records, version 3 identities and
# records of these alone. Version 4 has another head before each record, commit records, and this
# header. Version 5 added due times to entries records, and deferred records. Version 6 has segments
# that were rewritten, and the records that anchor them. Version 7 added times of arrival to body
# records.
FORMAT_VERSION = 7
FORMAT_VERSIONS_READ = (1, 2, 3, 4, 5, 6, 7)
# Since this version every record has a marker, a seal and a link.
SEALED_VERSION_MIN = 4
# Since this version the header counts rewritings.
COMPACTED_VERSION_MIN = 6
MAGIC = b"LEVERETJ"
SEGMENT = 1

_prefix = Struct("<8sII")
_crc = Struct("<I")
PREFIX_BYTES = _prefix.size + _crc.size
_header = Struct("<BIIQQ16sQQQQQ")
_rewritten = Struct("<II")


class JournalVersionError(StorageError):
    """A segment was written in a format that this broker does not read."""


class Prefix(NamedTuple):
    """The first bytes of a segment, in any format version, now and later."""

    version: int
    # Where the first record behind the header begins.
    header_bytes: int


class SegmentEnd(NamedTuple):
    """Up to where a segment was written and synced when the next one was created."""

    segment: int
    end: int
    # The `crc` of its last record; 0: not known.
    checksum: int = 0
    # As in a commit record, when the segment was created.
    entries: int = 0


class Stretch(NamedTuple):
    """Bytes of a segment that a crash tore before they were synced. A start has accepted that."""

    segment: int
    start: int
    end: int


class SegmentHeader(NamedTuple):
    """The first record of a segment; what versions before 4 do not say is empty or 0."""

    number: int
    # Batch numbers below this one may have been used in earlier segments.
    next_batch_number: int
    # The segments that were there when this one was created, this one included.
    present: list[EntryRange]
    directory_id: bytes = b""
    # The boot number of the broker that writes this segment.
    epoch: int = 0
    before: SegmentEnd = SegmentEnd(0, 0)
    # As in a commit record.
    entries: int = 0
    catalog_change: int = 0
    # Of segments that are present.
    torn: Sequence[Stretch] = ()
    # How often this segment was rewritten; otherwise the header is what it was at first.
    rewritten: int = 0
    # The present segments that had been rewritten when this one was created.
    compacted: Sequence[CompactedRecord] = ()
    # Its own `crc`, which the first record behind it names; 0 before version 4.
    checksum: int = 0


def encode_header(header: SegmentHeader) -> tuple[bytes, Seal]:
    """All that stands in a segment before its records, and the seal for these."""
    before = header.before
    seal = Seal(header.directory_id, header.number, header.epoch, before.checksum)
    covered = _header.pack(
        SEGMENT,
        len(header.present),
        len(header.torn),
        header.number,
        header.next_batch_number,
        header.directory_id,
        before.segment,
        before.end,
        before.entries,
        header.entries,
        header.catalog_change,
    )
    covered += _rewritten.pack(header.rewritten, len(header.compacted))
    torn = little_endian(array("Q", chain.from_iterable(header.torn)))
    compacted = little_endian(array("Q", chain.from_iterable(header.compacted)))
    record = seal.record(covered + listed(header.present) + torn + compacted)
    return encode_prefix(FORMAT_VERSION, PREFIX_BYTES + len(record)) + record, seal


def encode_prefix(version: int, header_bytes: int) -> bytes:
    """Magic, version, size of the header, and their CRC."""
    prefix = _prefix.pack(MAGIC, version, header_bytes)
    return prefix + _crc.pack(crc32(prefix))


def decode_prefix(data: bytes, path: str) -> Prefix | None:
    """The prefix that a segment's first bytes are; None if they do not verify.

    JournalVersionError with the path if it verifies and is of a version that is not read.
    """
    if len(data) < PREFIX_BYTES:
        return None
    magic, version, header_bytes = _prefix.unpack_from(data)
    (crc,) = _crc.unpack_from(data, _prefix.size)
    if magic != MAGIC or crc != crc32(data[: _prefix.size]):
        return None
    if version not in FORMAT_VERSIONS_READ:
        msg = (
            f"journal segment {path} has format version {version}; "
            f"this broker reads versions 1 to {FORMAT_VERSION}"
        )
        raise JournalVersionError(msg)
    return Prefix(version, header_bytes)


def decode_header(data: bytes, version: int = FORMAT_VERSION) -> SegmentHeader | None:
    """The header of a segment of this version, or of an earlier sealed one.

    None if it does not verify or makes no sense.
    """
    start = PREFIX_BYTES + HEAD_BYTES
    if len(data) < start + _header.size or data[start] != SEGMENT:
        return None
    _, present, torn, number, next_batch_number, directory_id, *rest = _header.unpack_from(
        data, start
    )
    segment_before, end_before, entries_before, entries, catalog_change = rest
    head = read_head(data, PREFIX_BYTES, salt_of(directory_id, number))
    if head is None:
        return None
    present_at = start + _header.size
    rewritten = compacted = 0
    try:
        if version >= COMPACTED_VERSION_MIN:
            rewritten, compacted = _rewritten.unpack_from(data, present_at)
            present_at += _rewritten.size
        torn_at = present_at + 16 * present
        compacted_at = torn_at + 24 * torn
        ranges = read_segments(data, present_at, present, torn_at)
        numbers = read_array("Q", data, torn_at, 3 * torn)
        anchors = read_array("Q", data, compacted_at, 5 * compacted)
        check_numbers(number, next_batch_number, *rest, *numbers, *anchors)
    except (ValueError, OverflowError, struct.error):
        return None
    if compacted_at + 40 * compacted != head.end:
        return None
    return SegmentHeader(
        number,
        next_batch_number,
        ranges,
        directory_id,
        head.epoch,
        SegmentEnd(segment_before, end_before, head.checksum_before, entries_before),
        entries,
        catalog_change,
        [Stretch(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)],
        rewritten,
        [CompactedRecord(*anchors[at : at + 5]) for at in range(0, len(anchors), 5)],
        head.checksum,
    )


def numbers_in(ranges: Iterable[EntryRange]) -> Iterator[int]:
    """Every number in the ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)
