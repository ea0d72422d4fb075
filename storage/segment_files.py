"""A segment as a file: its name, how one is made, and how its records are read back.

A segment begins with its header, which is on the disk, and so is its name, before any record
follows. So a header that does not verify with nothing readable behind it is a creation that a
crash cut short; anything else that does not verify is either the tail that a crash tore, which
only the last segment can have, or damage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from .entries_record import EntriesRecord
from .errors import StorageError
from .files import Files, write_all
from .identities_record import IdentitiesRecord
from .records import (
    HEAD,
    HEAD_BYTES,
    BodyRecord,
    RangesRecord,
    Record,
    SegmentRecord,
    decode_record,
    encode_segment,
)
from .segment_ledger import EntryRange

# A file no longer than this, in which not even the first bytes verify, was never a segment.
TORN_HEADER_BYTES_MAX = 4096
# What is written. Version 2 added deadlines to entries records; version 3 identities, and records
# of these alone.
FORMAT_VERSION = 3
FORMAT_VERSIONS_READ = (1, 2, 3)
MAGIC = b"LEVERETJ"

_prefix = Struct("<8sII")
_crc = Struct("<I")
PREFIX_BYTES = _prefix.size + _crc.size
_NAME = re.compile(r"([0-9]{20})\.journal")


class Prefix(NamedTuple):
    """What begins a segment in any format version, now and later."""

    version: int
    # Where the first record behind the header begins.
    header_bytes: int


def encode_prefix(header_bytes: int) -> bytes:
    """Magic, version, size of the header, and their CRC."""
    prefix = _prefix.pack(MAGIC, FORMAT_VERSION, header_bytes)
    return prefix + _crc.pack(crc32(prefix))


def decode_prefix(data: bytes) -> Prefix | None:
    """The prefix that a segment's first bytes are; None if they do not verify."""
    if len(data) < PREFIX_BYTES:
        return None
    magic, version, header_bytes = _prefix.unpack_from(data)
    (crc,) = _crc.unpack_from(data, _prefix.size)
    if magic != MAGIC or crc != crc32(data[: _prefix.size]):
        return None
    return Prefix(version, header_bytes)


class JournalVersionError(StorageError):
    """A segment was written in a format that this broker does not read."""


class Damage(NamedTuple):
    """A stretch of a segment that does not verify: `start` to `end`, and what is known of it."""

    start: int
    end: int
    # What the records in it claim to be, as far as their lengths lead on to one that verifies.
    claims: list[str]
    # Does a record that verifies follow, or the end of the file exactly?
    bounded: bool


def segment_path(directory: str, number: int) -> str:
    """Names sort as numbers do."""
    return os.path.join(directory, f"{number:020d}.journal")


def segment_numbers(files: Files, directory: str) -> list[int]:
    """The segments that are there, ascending."""
    names = map(_NAME.fullmatch, files.list_directory(directory))
    return sorted(int(name[1]) for name in names if name)


def encode_header(number: int, next_batch_number: int, present: Sequence[EntryRange]) -> bytes:
    """All that stands in a segment before its records: prefix and first record."""
    record = encode_segment(number, next_batch_number, present)
    return encode_prefix(PREFIX_BYTES + len(record)) + record


def create_segment(files: Files, directory: str, number: int, header: bytes) -> int:
    """A new segment, open; its header and its name are on the disk."""
    handle = files.create(segment_path(directory, number))
    write_all(files, handle, 0, [header])
    files.sync_data(handle)
    files.sync_directory(directory)
    return handle


class SegmentReader:
    """One segment's bytes and what can be read of them.

    `header` is None if it does not verify. While `records` runs, `damage` collects what does not
    verify, and `verified_end` becomes the place of the first record that does not.
    """

    def __init__(self, data: bytes, number: int) -> None:
        prefix = decode_prefix(data)
        if prefix is not None and prefix.version not in FORMAT_VERSIONS_READ:
            msg = (
                f"journal segment {number} has format version {prefix.version}; "
                f"this broker reads versions 1 to {FORMAT_VERSION}"
            )
            raise JournalVersionError(msg)
        self.number = number
        self.size = len(data)
        self.damage: list[Damage] = []
        self.verified_end = len(data)
        self.header: SegmentRecord | None = None
        self._data = data
        end = self._verify(PREFIX_BYTES)
        record = self._decode(PREFIX_BYTES, end) if end else None
        if isinstance(record, SegmentRecord):
            self.header = record
        # A header names its size twice, so that one bad spot in it does not hide the records.
        known = prefix.header_bytes if prefix else end or self._resume(PREFIX_BYTES)[0]
        self._first_record = min(known, self.size)
        damaged = prefix is None or self.header is None
        known_size = prefix is not None or self.header is not None
        self.torn_creation = (
            damaged
            and self._first_record == self.size
            and (known_size or self.size <= TORN_HEADER_BYTES_MAX or self.ends_with_zeros(0))
        )
        if damaged:
            self.damage.append(Damage(0, self._first_record, ["the header"], True))

    def records(self, stop_at_damage: bool) -> Iterator[tuple[int, Record]]:
        """The records behind the header, with their offsets: up to the first bad one, or all good.

        Past damage the lengths lead on, if they do; else what is behind it is lost.
        """
        offset = self._first_record
        while offset < self.size:
            end = self._verify(offset)
            if end:
                record = self._decode(offset, end)
                if record is not None:
                    yield offset, record
                offset = end
                continue
            resume, claims = self._resume(offset)
            self.verified_end = min(offset, self.verified_end)
            self.damage.append(Damage(offset, resume, claims, bool(claims)))
            if stop_at_damage:
                return
            offset = resume

    def ends_with_zeros(self, offset: int) -> bool:
        """Is there nothing but zeros from the offset on?"""
        return not self._data[offset:].strip(b"\0")

    def _verify(self, offset: int) -> int | None:
        """Where the record at the offset ends, if there is one that verifies."""
        end = self._plausible_end(offset)
        if end is None:
            return None
        crc = int.from_bytes(self._data[offset + 4 : offset + 8], "little")
        covered = memoryview(self._data)[offset + HEAD_BYTES : end]
        return end if crc32(covered, self.number) == crc else None

    def _plausible_end(self, offset: int) -> int | None:
        if offset + HEAD_BYTES >= self.size:
            return None
        length, _ = HEAD.unpack_from(self._data, offset)
        end = int(offset + HEAD_BYTES + length)
        return end if length and end <= self.size else None

    def _resume(self, offset: int) -> tuple[int, list[str]]:
        """Follow the lengths from a bad record to one that verifies, or to the very end.

        Gives that place and what the records passed claim to be; the end and no claims if the
        lengths lead nowhere.
        """
        claims: list[str] = []
        position = offset
        while (end := self._plausible_end(position)) is not None:
            claims.append(self._claim(position, end))
            position = end
            if position == self.size or self._verify(position):
                return position, claims
        return self.size, []

    def _claim(self, offset: int, end: int) -> str:
        """What a record that does not verify says it is."""
        try:
            record = decode_record(self._data, offset + HEAD_BYTES, end)
        except ValueError:
            return "unreadable"
        if isinstance(record, EntriesRecord):
            return f"{len(record.entry_ids)} entries of queue {record.queue_id}"
        if isinstance(record, BodyRecord):
            return f"{len(record.indexes)} messages of batch {record.batch_number}"
        if isinstance(record, RangesRecord):
            return f"settle or delivered record of queue {record.queue_id}"
        if isinstance(record, IdentitiesRecord):
            return f"identities of queue {record.queue_id}"
        return "bookkeeping of segments"

    def _decode(self, offset: int, end: int) -> Record | None:
        """The record of bytes that verify; what makes no sense all the same is damage."""
        try:
            return decode_record(self._data, offset + HEAD_BYTES, end)
        except ValueError as error:
            self.damage.append(Damage(offset, end, [f"verifies, but: {error}"], True))
            return None
