"""Reading a segment: the records that verify, wherever they are, and the holes between them.

A hole is a stretch that does not verify. In a segment since format version 4 every record that
verifies behind a hole is found by its marker. `recovery.py` decides whether a hole is a tear by a
crash or damage, because a reader does not know the synced position.

Segments of format versions 1 to 3 have a shorter head and no marker to search for:

    length u32 | crc u32 | kind u8 | ... `length` bytes from kind on

where crc is the CRC-32 of those `length` bytes, begun with the segment's number. Behind a record
that does not verify, reading follows the lengths as long as they lead to records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, Protocol

from isal.isal_zlib import crc32

from .records import (
    HEAD_BYTES,
    BodyRecord,
    DeferredRecord,
    EntriesRecord,
    IdentitiesRecord,
    RangesRecord,
    Record,
    check_numbers,
    decode_record,
    read_head,
    read_segments,
    salt_of,
)
from .report import entries_words
from .segment_header import (
    FORMAT_VERSIONS_READ,
    PREFIX_BYTES,
    SEALED_VERSION_MIN,
    SEGMENT,
    SegmentHeader,
    decode_header,
    decode_prefix,
)

_head = Struct("<II")
EARLIER_HEAD_BYTES = _head.size
_segment = Struct("<BIQQ")


def plausible_end(data: bytes, offset: int) -> int | None:
    """Where the record at the offset would end by its length, if that lies within the segment."""
    if offset + EARLIER_HEAD_BYTES >= len(data):
        return None
    length, _ = _head.unpack_from(data, offset)
    end = int(offset + EARLIER_HEAD_BYTES + length)
    return end if length and end <= len(data) else None


def verified_end(data: bytes, offset: int, segment_number: int) -> int | None:
    """Where the record at the offset ends, if there is one that verifies."""
    end = plausible_end(data, offset)
    if end is None:
        return None
    _, crc = _head.unpack_from(data, offset)
    covered = memoryview(data)[offset + EARLIER_HEAD_BYTES : end]
    return end if crc32(covered, segment_number) == crc else None


def decode_earlier_header(data: bytes) -> SegmentHeader | None:
    """The header of a segment; None if it does not verify or makes no sense."""
    start = PREFIX_BYTES + EARLIER_HEAD_BYTES
    if len(data) < start + _segment.size or data[start] != SEGMENT:
        return None
    _, count, number, next_batch_number = _segment.unpack_from(data, start)
    end = verified_end(data, PREFIX_BYTES, number)
    if end is None:
        return None
    try:
        present = read_segments(data, start + _segment.size, count, end)
        check_numbers(number, next_batch_number)
    except (ValueError, OverflowError, struct.error):
        return None
    return SegmentHeader(number, next_batch_number, present)


# So many of the records in a hole are described, by what they claim to be.
CLAIMS_MAX: Final = 8


class Hole(NamedTuple):
    """A stretch of a segment that does not verify; empty: records are missing at this place."""

    start: int
    end: int
    # What the records in it claim to be.
    claims: list[str]
    # Can there be no record that verifies behind it and was not found?
    is_bounded: bool = True


class Beginning(NamedTuple):
    """The values of a segment's first bytes; None where they do not verify."""

    version: int | None
    header: SegmentHeader | None
    # Where the first record behind the header begins.
    header_bytes: int | None

    @property
    def is_whole(self) -> bool:
        """Do prefix and header verify?"""
        return self.version is not None and self.header is not None


def read_beginning(data: bytes, path: str) -> Beginning:
    """Of the segment's bytes, or of its first ones; JournalVersionError with the path."""
    prefix = decode_prefix(data, path)
    if prefix is not None:
        header = decode_header(data, prefix.version) or decode_earlier_header(data)
        return Beginning(prefix.version, header, prefix.header_bytes)
    sealed = (decode_header(data, version) for version in reversed(FORMAT_VERSIONS_READ))
    header = next(filter(None, sealed), None) or decode_earlier_header(data)
    return Beginning(None, header, None)


class _Records(Protocol):
    """How records are found in a segment of one format."""

    head_bytes: int
    # Of the last record that verified.
    checksum: int

    def end_of(self, offset: int) -> int | None:
        """Where the record at the offset ends, if there is one that verifies."""

    def is_next(self, checksum: int) -> bool:
        """Does the record that verified last name this as the checksum of the one before?"""

    def resume(self, offset: int) -> Hole:
        """The hole that begins at the offset, up to a record that verifies or the very end."""


class _SealedRecords:
    """Since version 4: by the marker."""

    head_bytes = HEAD_BYTES

    def __init__(self, data: bytes, number: int, directory_id: bytes, epoch: int | None) -> None:
        self._data = data
        self._salt = salt_of(directory_id, number)
        # The writer's, as the header says, or else the first record that verifies.
        self._epoch = epoch
        self.checksum = self._checksum_before = 0

    def end_of(self, offset: int) -> int | None:
        head = read_head(self._data, offset, self._salt)
        if head is None or self._epoch not in (None, head.epoch):
            return None
        self._epoch = head.epoch
        self.checksum, self._checksum_before = head.checksum, head.checksum_before
        return head.end

    def is_next(self, checksum: int) -> bool:
        return self._checksum_before == checksum

    def resume(self, offset: int) -> Hole:
        marker = self._salt.marker_bytes
        starts = [offset]
        position = offset
        while (position := self._data.find(marker, position + 1)) >= 0:
            if self.end_of(position) is not None:
                break
            starts.append(position)
        end = len(self._data) if position < 0 else position
        claims = [
            _claim(self._data, start + HEAD_BYTES, self._claimed_end(start, next_start))
            for start, next_start in pairwise([*starts[:CLAIMS_MAX], end])
        ]
        if len(starts) > CLAIMS_MAX:
            claims[-1] = f"and {len(starts) - CLAIMS_MAX + 1} more"
        return Hole(offset, end, claims)

    def _claimed_end(self, start: int, end: int) -> int:
        length = int.from_bytes(self._data[start + 8 : start + 12], "little")
        return min(start + HEAD_BYTES + length, end)


class _EarlierRecords:
    """Up to version 3: by the lengths."""

    head_bytes = EARLIER_HEAD_BYTES
    checksum = 0

    def __init__(self, data: bytes, number: int) -> None:
        self._data = data
        self._number = number

    def end_of(self, offset: int) -> int | None:
        return verified_end(self._data, offset, self._number)

    def is_next(self, checksum: int) -> bool:
        # Nothing names it.
        del checksum
        return True

    def resume(self, offset: int) -> Hole:
        claims: list[str] = []
        position = offset
        while (end := plausible_end(self._data, position)) is not None:
            claims.append(_claim(self._data, position + EARLIER_HEAD_BYTES, end))
            position = end
            if position == len(self._data) or self.end_of(position):
                return Hole(offset, position, claims)
        return Hole(offset, len(self._data), [], is_bounded=False)


class SegmentReader:
    """One segment's bytes; `directory_id` is for one whose header does not say it.

    While `records` runs, `holes` collects what does not verify, `end` becomes the end of the last
    record that does, and `checksum` that record's; `first_record` is where it begins to read.
    """

    def __init__(self, data: bytes, number: int, directory_id: bytes, path: str) -> None:
        self.number = number
        self.size = len(data)
        self._data = data
        beginning = read_beginning(data, path)
        self.header = beginning.header
        self._records = self._records_of(beginning, directory_id)
        self.is_sealed = isinstance(self._records, _SealedRecords)
        self._is_damaged_at_begin = not beginning.is_whole
        self.first_record = min(self._find_first_record(beginning), self.size)
        self.holes: list[Hole] = []
        self.end = self.first_record
        self.checksum = 0

    def _records_of(self, beginning: Beginning, directory_id: bytes) -> _Records:
        header, version = beginning.header, beginning.version
        if header is not None and header.directory_id:
            return _SealedRecords(self._data, self.number, header.directory_id, header.epoch)
        if header is not None or (version is not None and version < SEALED_VERSION_MIN):
            return _EarlierRecords(self._data, self.number)
        sealed = _SealedRecords(self._data, self.number, directory_id, None)
        if version is None and sealed.resume(0).end == self.size:
            earlier = _EarlierRecords(self._data, self.number)
            if earlier.resume(PREFIX_BYTES).is_bounded:
                return earlier
        return sealed

    def _find_first_record(self, beginning: Beginning) -> int:
        """A bad spot in the header does not hide the records behind it."""
        records = self._records
        if self.is_sealed and beginning.header is None:
            # Wherever it is: bytes may be missing before it.
            return records.resume(0).end
        if beginning.header_bytes is not None:
            return beginning.header_bytes
        return records.end_of(PREFIX_BYTES) or records.resume(PREFIX_BYTES).end

    def verified_bytes(self) -> int:
        """How much of the segment verifies, without its header."""
        total = 0
        for offset, _ in self.records():
            total += self.end - offset
        return total

    def records(self) -> Iterator[tuple[int, Record]]:
        """The records behind the header that verify, in order, with their offsets."""
        records, end = self._records, len(self._data)
        self.holes = [Hole(0, self.first_record, ["the header"])] * self._is_damaged_at_begin
        offset = self.end = self.first_record
        checksum = self.header.checksum if self.header is not None else None
        self.checksum = checksum or 0
        while offset < end:
            record_end = records.end_of(offset)
            if record_end is None:
                hole = records.resume(offset)
                self.holes.append(hole)
                offset, checksum = hole.end, None
                continue
            if checksum is not None and not records.is_next(checksum):
                self.holes.append(Hole(offset, offset, []))
            checksum = self.checksum = records.checksum
            self.end = record_end
            try:
                yield offset, decode_record(self._data, offset + records.head_bytes, record_end)
            except ValueError as error:
                # What verifies and makes no sense all the same is lost, too.
                self.holes.append(Hole(offset, record_end, [f"verifies, but: {error}"]))
            offset = record_end

    def bytes_between(self, start: int, end: int) -> bytes:
        """These bytes of the segment."""
        return self._data[start:end]

    def has_zeros(self, offset: int) -> bool:
        """Is there nothing but zeros from the offset on?"""
        return not self._data[offset:].strip(b"\0")


def _claim(data: bytes, start: int, end: int) -> str:
    """Describe a record that does not verify by its own claims."""
    try:
        record = decode_record(data, start, end)
    except (ValueError, IndexError):
        return "unreadable"
    if isinstance(record, EntriesRecord):
        ids = f"{record.entry_ids[0]} to {record.entry_ids[-1]}"
        entries = entries_words(len(record.entry_ids))
        return f"{entries} of queue {record.queue_id}, {ids}"
    if isinstance(record, BodyRecord):
        count = len(record.indexes)
        return f"{count} message{'s' * (count != 1)} of batch {record.batch_number}"
    if isinstance(record, RangesRecord):
        return f"settle or delivered record of queue {record.queue_id}"
    if isinstance(record, DeferredRecord):
        return f"deferred record of queue {record.queue_id}"
    if isinstance(record, IdentitiesRecord):
        return f"identities of queue {record.queue_id}"
    return "bookkeeping of the journal"
