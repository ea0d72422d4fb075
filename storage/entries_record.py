"""The record that makes messages of a batch entries of a queue. docs/JOURNAL.md draws it."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from ..amqp_frames.batch import Indexes
from .identity_runs import IDENTITY_BYTES, Identities
from .live_entries import Deadlines, EntryIds
from .number_lists import little_endian, read_array

# Kind of the record; records.py has the others.
ENTRIES = 3

# Forms of a body or entries record: numbers listed one by one, not only first and count.
INDEXES_LISTED = 1
ENTRY_IDS_LISTED = 2
# Since format version 2: one deadline for all entries, or one for each.
DEADLINE = 4
DEADLINES_LISTED = 8
# Since format version 3: until when the entries' identities are remembered, and each one's.
IDENTITIES_LISTED = 16

_HEAD = Struct("<II")
_entries = Struct("<BBIQQIQ")
_deadline = Struct("<Q")
_until = Struct("<Q")
_head_pack = _HEAD.pack
_entries_pack = _entries.pack


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


def entries_bytes_at_most(
    count: int, deadlines: Deadlines = 0, identities: Identities | None = None
) -> int:
    """The size of an entries record of so many entries, or more."""
    size = _HEAD.size + _entries.size + (20 if deadlines else 12) * count + _deadline.size
    return size if identities is None else size + _until.size + IDENTITY_BYTES * count


def encode_entries(
    queue_id: int,
    batch_number: int,
    indexes: Indexes,
    entry_ids: EntryIds,
    segment_number: int,
    deadlines: Deadlines = 0,
    identities: Identities | None = None,
) -> bytes:
    """The record; all columns are aligned, ascending but for the deadlines, and not empty."""
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
    covered = _entries_pack(ENTRIES, form, count, queue_id, batch_number, first_index, first_id)
    if form:
        covered += listed
    return _head_pack(len(covered), crc32(covered, segment_number)) + covered


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
    if position != end or not count:
        msg = f"entries record of {end - start} bytes ends at {position - start}"
        raise ValueError(msg)
    return EntriesRecord(queue_id, batch_number, indexes, entry_ids, deadlines, identities)
