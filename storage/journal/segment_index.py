"""The index of a closed segment: a small file beside it, which a start reads in its place.

It has the segment's facts (`segment_facts.py`), so that a start reads a few kilobytes where the
segment has 64 MiB. It is written in the background when the segment is closed, under another name
and then renamed, and never synced: a start that finds it missing, damaged or stale reads the
segment, which costs time only.

    magic "LEVERETX" 8 | version u32 | directory id 16 | segment u64 | epoch u32 |
    crc of the header u32 | last record u64 | its end u64 | its crc u32 |
    octets before compression u32 | deflated columns | CRC-32 of everything before u32

An index holds for its segment only if the directory's id, the number, the epoch, and the checksum
of the header agree, if the file ends where the index says, and if the last record there verifies
and has that checksum. Records before it may have been damaged since: they are verified when they
are read, and by a background pass. No index is written of a segment with a hole.

The columns are arrays of u64, each after its length, and octets of identities, after theirs:

    facts    entries behind the last commit, entries, synced segment, its end, catalog change, next
             batch number, has messages; then passages
    removals per record: offset, ranges; then first and last of each
    compacted  per record: its numbers
    bodies   first batch numbers; counts; offsets
    references   per entries record: offset, batch number, entries, has identities; then ids of all
    queues   per queue: its id, the highest id that a record speaks of, the lowest of an entries
             record; rows of six columns; blocks; notes about identities
    rows     per queue and column: first ids, last ids, numbers
    blocks   per block: first id, entries, is its body here, where its places begin, how many
             numbers these are; then places; then ids of blocks with gaps
    notes    kind, first id, last id, until when, octets; then octets of all
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, pairwise
from struct import Struct
from sys import maxsize
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from ..errors import NoSpaceError
from ..files import Files, write_all
from .entry_values import EntryValues
from .identity_runs import IDENTITY_BYTES, IdentityRun
from .ledger import PLACES_WIDTH, Block, EntryIds
from .records import (
    DIRECTORY_ID_BYTES,
    CompactedRecord,
    check_numbers,
    check_segments,
    little_endian,
    read_array,
    read_head,
    salt_of,
)
from .segment_facts import (
    APPENDED,
    DROPPED,
    REWRITTEN,
    BodyPlaces,
    IdentityNote,
    Passage,
    QueueFacts,
    Reference,
    Removal,
    SegmentFacts,
)
from .segment_header import SegmentHeader

MAGIC: Final = b"LEVERETX"
VERSION: Final = 1
_head = Struct("<8sI16sQIIQQII")
_crc = Struct("<I")
_count = Struct("<I")
_SUFFIX: Final = ".index"
_UNFINISHED: Final = ".index.new"
_QUEUE_WIDTH: Final = 11
_BLOCK_WIDTH: Final = 5
_NOTE_WIDTH: Final = 5
_ANCHOR_WIDTH: Final = 5
_FACTS: Final = 7


def index_path(directory: str, number: int) -> str:
    """Where the index of the segment of that number lies."""
    return os.path.join(directory, f"{number:020}{_SUFFIX}")


def is_index_name(name: str) -> bool:
    """Is the file an index, or the begin of one?"""
    return name.endswith((_SUFFIX, _UNFINISHED))


class Bound(NamedTuple):
    """The segment that an index is of, as it says."""

    directory_id: bytes
    number: int
    epoch: int
    header_checksum: int
    last_record: int
    end: int
    checksum: int


def may_be_indexed(facts: SegmentFacts) -> bool:
    """Has the segment a header and a record, and is there nothing else in it?"""
    header = facts.header
    is_known = header is not None and len(header.directory_id) == DIRECTORY_ID_BYTES
    return is_known and not facts.holes and bool(facts.last_record) and facts.end == facts.size


def encode_index(facts: SegmentFacts) -> bytes:
    """The file of a segment that may be indexed."""
    header = facts.header
    assert header is not None
    columns = _columns(facts)
    head = _head.pack(
        MAGIC,
        VERSION,
        header.directory_id,
        facts.number,
        header.epoch,
        header.checksum,
        facts.last_record,
        facts.end,
        facts.checksum,
        len(columns),
    )
    data = head + zlib.compress(columns, 1)
    return data + _crc.pack(crc32(data))


def decode_bound(data: bytes) -> Bound | None:
    """Which segment the index is of; None if it does not verify."""
    if len(data) < _head.size + _crc.size:
        return None
    magic, version, *bound, _ = _head.unpack_from(data)
    (crc,) = _crc.unpack_from(data, len(data) - _crc.size)
    if magic != MAGIC or version != VERSION or crc != crc32(data[: -_crc.size]):
        return None
    return Bound(*bound)


def decode_index(data: bytes, header: SegmentHeader) -> SegmentFacts | None:
    """The facts of the segment with this header; None if the index is not of it, or senseless."""
    bound = decode_bound(data)
    if bound is None or bound[:4] != (
        header.directory_id,
        header.number,
        header.epoch,
        header.checksum,
    ):
        return None
    facts = SegmentFacts(bound.number)
    facts.header = header
    facts.last_record, facts.end, facts.checksum = bound[4:]
    facts.size = facts.end
    octets = _head.unpack_from(data)[-1]
    try:
        # No more than it says: what else it may hold is not to fill the memory.
        columns = zlib.decompressobj().decompress(data[_head.size : -_crc.size], octets + 1)
        if len(columns) != octets:
            return None
        _read_columns(facts, _Columns(columns))
        _check(facts)
    except (ValueError, IndexError, OverflowError, struct.error, zlib.error):
        return None
    return facts


def is_of_segment(
    facts: SegmentFacts, files: Files, path: str, size: int, header: SegmentHeader
) -> bool:
    """Does the segment's file end as the index says, with that last record?"""
    if size != facts.end or not 0 < facts.last_record < facts.end:
        return False
    last = files.read(path, facts.last_record, facts.end - facts.last_record)
    head = read_head(last, 0, salt_of(header.directory_id, header.number))
    return (
        head is not None
        and (head.checksum, head.epoch) == (facts.checksum, header.epoch)
        and facts.last_record + head.end == facts.end
    )


def write_index(files: Files, directory: str, facts: SegmentFacts) -> int:
    """Write the index of a segment that may be indexed; returns its octets.

    It is not synced. An OSError or NoSpaceError leaves the index that was there.
    """
    data = encode_index(facts)
    path = index_path(directory, facts.number)
    unfinished = path + ".new"
    with suppress(FileNotFoundError):
        files.remove(unfinished)
    handle = files.create(unfinished)
    try:
        write_all(files, handle, 0, [data])
    except (OSError, NoSpaceError):
        files.close(handle)
        files.remove(unfinished)
        raise
    files.close(handle)
    files.rename(unfinished, path)
    return len(data)


def read_index(
    files: Files, directory: str, path: str, size: int, header: SegmentHeader | None
) -> SegmentFacts | None:
    """The facts of the segment in the file `path` from its index.

    None if there is none that holds, or if it cannot be read.
    """
    if header is None or not header.directory_id:
        return None
    own = index_path(directory, header.number)
    try:
        facts = decode_index(files.read(own, 0, files.size(own)), header)
        if facts is not None and is_of_segment(facts, files, path, size, header):
            return facts
    except OSError:
        pass
    return None


# --- The columns


class _Columns:
    """Reads columns one behind the other; ValueError if they are not all there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self) -> array[int]:
        count = self._count()
        numbers = read_array("Q", self._data, self._at, count)
        self._at += 8 * count
        # One column says by this that a queue has no entries record in the segment.
        check_numbers(0, *(number for number in numbers if number != maxsize))
        return numbers

    def octets(self) -> bytes:
        count = self._count()
        octets = self._data[self._at : self._at + count]
        if len(octets) != count:
            msg = f"{count} octets announced, {len(octets)} there"
            raise ValueError(msg)
        self._at += count
        return octets

    def _count(self) -> int:
        (count,) = _count.unpack_from(self._data, self._at)
        self._at += _count.size
        return int(count)


def _column(numbers: Sequence[int]) -> bytes:
    return _count.pack(len(numbers)) + little_endian(array("Q", numbers))


def _octets(octets: bytes) -> bytes:
    return _count.pack(len(octets)) + octets


def _columns(facts: SegmentFacts) -> bytes:
    numbers = [
        facts.entries_behind,
        facts.entries_read,
        *facts.synced,
        facts.catalog_change,
        facts.next_batch_number,
        int(facts.has_messages),
    ]
    for passage in facts.passages:
        numbers += passage
    removals: list[int] = []
    for offset, segments in facts.removals:
        removals += (offset, len(segments))
        for first, last in segments:
            removals += (first, last)
    bodies = facts.bodies
    references: list[int] = []
    referring = array("Q")
    of_references = b""
    for offset, (batch_number, ids, octets) in facts.references.items():
        references += (offset, batch_number, len(ids), int(bool(octets)))
        referring.extend(ids)
        of_references += octets
    return b"".join(
        [
            _column(numbers),
            _column(removals),
            _column(list(chain.from_iterable(facts.compacted))),
            _column(bodies.firsts),
            _column(bodies.counts),
            _column(bodies.offsets),
            _column(references),
            _column(referring),
            _octets(of_references),
            *_queue_columns(facts),
        ]
    )


def _queue_columns(facts: SegmentFacts) -> list[bytes]:
    queues, rows, blocks, notes = array("Q"), array("Q"), array("Q"), array("Q")
    places, listed = array("Q"), array("Q")
    octets: list[bytes] = []
    for queue_id, queue in facts.queues.items():
        queues.extend((queue_id, queue.last_entry_id, queue.first_own))
        for values in _values_of(queue):
            queues.append(len(values))
            for column in values.columns():
                rows.extend(column)
        queues.extend((len(queue.blocks), len(queue.identities)))
        # Blocks that were split share their places.
        places_at: dict[int, int] = {}
        for block in queue.blocks:
            ids, own = block.entry_ids, block.places
            start = places_at.get(id(own))
            if start is None:
                start = places_at[id(own)] = len(places)
                places += own
            is_here = int(block.body_segment == facts.number)
            blocks.extend((ids[0], len(ids), is_here, start, len(own)))
            if ids[-1] - ids[0] + 1 != len(ids):
                blocks[-4] = 0
                listed.append(len(ids))
                listed.extend(ids)
        for kind, run in queue.identities:
            identities = bytes(run.identities)
            notes.extend(
                (kind, run.first_entry_id, run.last_entry_id, run.until_ms, len(identities))
            )
            octets.append(identities)
    columns = [_column(each) for each in (queues, rows, blocks, places, listed, notes)]
    return [*columns, _octets(b"".join(octets))]


def _values_of(queue: QueueFacts) -> tuple[EntryValues, ...]:
    return (
        queue.delivered,
        queue.deferred,
        queue.settled,
        queue.attempts,
        queue.deadlines,
        queue.due_times,
    )


def _read_columns(facts: SegmentFacts, columns: _Columns) -> None:
    numbers = columns.numbers()
    facts.entries_behind, facts.entries_read = numbers[:2]
    facts.synced = (numbers[2], numbers[3])
    facts.catalog_change, facts.next_batch_number = numbers[4:6]
    facts.has_messages = bool(numbers[6])
    _demand(len(numbers) >= _FACTS and (len(numbers) - _FACTS) % 3 == 0)
    facts.passages = [Passage(*numbers[at : at + 3]) for at in range(_FACTS, len(numbers), 3)]
    removals = columns.numbers()
    at = 0
    while at < len(removals):
        offset, count = removals[at : at + 2]
        at += 2
        flat = removals[at : at + 2 * count]
        at += 2 * count
        facts.removals.append(Removal(offset, list(zip(flat[::2], flat[1::2], strict=True))))
    anchors = columns.numbers()
    _demand(len(anchors) % _ANCHOR_WIDTH == 0)
    facts.compacted = [
        CompactedRecord(*anchors[at : at + _ANCHOR_WIDTH])
        for at in range(0, len(anchors), _ANCHOR_WIDTH)
    ]
    bodies = facts.bodies = BodyPlaces()
    bodies.firsts, bodies.counts = columns.numbers(), columns.numbers()
    bodies.offsets = columns.numbers()
    references, referring, octets = columns.numbers(), columns.numbers(), columns.octets()
    ids_at = octets_at = 0
    for at in range(0, len(references), 4):
        offset, batch_number, count, has_identities = references[at : at + 4]
        ids = _ids(referring[ids_at : ids_at + count])
        ids_at += count
        octets_end = octets_at + IDENTITY_BYTES * count * has_identities
        facts.references[offset] = Reference(batch_number, ids, octets[octets_at:octets_end])
        octets_at = octets_end
    _read_queues(facts, columns)


def _read_queues(facts: SegmentFacts, columns: _Columns) -> None:
    queues, rows, blocks, places, listed, notes = (columns.numbers() for _ in range(6))
    octets = columns.octets()
    rows_at = blocks_at = listed_at = notes_at = octets_at = 0
    for at in range(0, len(queues), _QUEUE_WIDTH):
        queue_id, last_entry_id, first_own, *lengths, blocks_count, notes_count = queues[
            at : at + _QUEUE_WIDTH
        ]
        queue = facts.queues[queue_id] = QueueFacts()
        queue.last_entry_id, queue.first_own = last_entry_id, first_own
        for values, count in zip(_values_of(queue), lengths, strict=True):
            values.replace(
                rows[rows_at : rows_at + count],
                rows[rows_at + count : rows_at + 2 * count],
                rows[rows_at + 2 * count : rows_at + 3 * count],
            )
            rows_at += 3 * count
        own: list[Block] = []
        shared: dict[int, array[int]] = {}
        for _ in range(blocks_count):
            first, count, is_here, start, width = blocks[blocks_at : blocks_at + _BLOCK_WIDTH]
            blocks_at += _BLOCK_WIDTH
            ids: EntryIds = range(first, first + count)
            if not count:
                count = listed[listed_at]
                ids = listed[listed_at + 1 : listed_at + 1 + count]
                listed_at += 1 + count
            body_segment = facts.number if is_here else facts.number - 1
            block = Block(ids, body_segment, facts.number, 0, 0)
            if start not in shared:
                shared[start] = places[start : start + width]
            block.places = shared[start]
            own.append(block)
        queue.blocks = own
        for _ in range(notes_count):
            kind, first, last, until_ms, length = notes[notes_at : notes_at + _NOTE_WIDTH]
            notes_at += _NOTE_WIDTH
            identities = bytearray(octets[octets_at : octets_at + length])
            octets_at += length
            run = IdentityRun(0, first, last, until_ms, identities)
            queue.identities.append(IdentityNote(kind, run))


def _check(facts: SegmentFacts) -> None:
    """ValueError if the columns do not fit together, so that whoever applies them need not look.

    The checksum has shown that the file is as it was written; this is for a fault in writing it.
    """
    bodies = facts.bodies
    _demand(len(bodies.firsts) == len(bodies.counts) == len(bodies.offsets))
    for _, segments in facts.removals:
        _demand(all(first <= last for first, last in segments))
        check_segments(segments)
    for _, ids, octets in facts.references.values():
        _demand(len(octets) in (0, IDENTITY_BYTES * len(ids)) and _ascends(ids))
    for queue_id, queue in facts.queues.items():
        check_numbers(queue_id, queue.last_entry_id)
        for values in _values_of(queue):
            bounds = chain.from_iterable((first, last) for first, last, _ in values)
            _demand(all(low <= high for low, high in pairwise(bounds)))
        last = -1
        for block in queue.blocks:
            ids, places = block.entry_ids, block.places
            _demand(_ascends(ids) and ids[0] > last)
            _demand(len(places) >= PLACES_WIDTH and not len(places) % PLACES_WIDTH)
            _demand(block.body_segment == facts.number or places[2] in facts.references)
            last = ids[-1]
        for kind, run in queue.identities:
            _demand(kind in (APPENDED, REWRITTEN, DROPPED))
            _demand(kind == DROPPED or run.first_entry_id <= run.last_entry_id)
            _demand(not len(run.identities) % IDENTITY_BYTES)


def _demand(is_so: bool) -> None:
    if not is_so:
        msg = "the columns of an index do not fit together"
        raise ValueError(msg)


def _ascends(ids: EntryIds) -> bool:
    return bool(ids) and (isinstance(ids, range) or all(low < high for low, high in pairwise(ids)))


def _ids(numbers: array[int]) -> EntryIds:
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return range(numbers[0], numbers[-1] + 1)
    return numbers
