"""Files for messages of which nobody was promised that they survive, where memory has no room.

Transient messages, and all of queues that are not durable, may be lost when the broker stops. So
the files that they spill into are not synced, and a start removes them. They are segments with the
records of the journal, and are read by its reader: each record is verified, because a disk may err
here, too. A segment goes as soon as none of its messages is live.

A spill that fails, because the disk is full for one, costs nothing but memory: the messages are
still where they were. One that succeeds leaves so much room on the disk as publishers of persistent
messages need.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from ..amqp_frames.messages.arrivals import Arrived, arrivals_of, joined_arrivals
from ..amqp_frames.messages.batch import Batch, Indexes
from ..amqp_frames.messages.stored import read_stored
from .arrivals import WallDistance, arrived, no_distance
from .errors import NoSpaceError
from .files import DIRECT_BYTES_MIN, Buffer, Files, write_all
from .journal.ledger import Block, EntryRange, RunningLedger
from .journal.locating import locate
from .journal.log import Position
from .journal.reading import JOINED_BYTES, JournalReader, PageRead, ReadRow
from .journal.records import Seal, encode_entries, encode_messages
from .journal.segment_files import segment_numbers, segment_path
from .journal.segment_header import SegmentHeader, encode_header

# A segment is full at this size, unless the setting of this name says otherwise. They are smaller
# than the journal's, so that the room of messages that are gone comes back soon.
SPILL_SEGMENT_BYTES_MAX: Final = 16 * 1024 * 1024
# The size of a write: too small to go past the page cache, because nobody waits for the disk.
PIECE_BYTES_MAX: Final = DIRECT_BYTES_MIN // 2
# Several body records may have a batch in common, or the number 0 of joined ones. So the number of
# each is that of its batch and, above that, one of its own.
_BATCH_NUMBERS: Final = 2**40
_BODIES: Final = 2**24


class Spill:
    """The spilled messages of one node. For one thread."""

    def __init__(
        self,
        files: Files,
        directory: str,
        directory_id: bytes,
        free_bytes_min: int,
        name_of: Callable[[int], str] = "queue {}".format,
        segment_bytes_max: int = SPILL_SEGMENT_BYTES_MAX,
        wall_distance_ns: WallDistance = no_distance,
    ) -> None:
        """Nothing is spilled while less than `free_bytes_min` would be left on the disk.

        `name_of` is how a report calls a queue. `wall_distance_ns` is asked by the thread that
        spills.
        """
        self._wall_distance_ns = wall_distance_ns
        self._files = files
        self._directory = directory
        self._directory_id = directory_id
        self._free_bytes_min = free_bytes_min
        self._segment_bytes_max = segment_bytes_max
        self._ledger = RunningLedger()
        self._reader = JournalReader(
            self._read,
            directory_id,
            name_of,
            partial(read_stored, are_persistent=False),
            _BATCH_NUMBERS,
            places_are_exact=True,
        )
        self._seal: Seal | None = None
        self._number = 0
        # Of the open segment: its file, the end of its records, and those not written yet.
        self._handle = -1
        self._offset = 0
        self._buffers: list[Buffer] = []
        self._buffered_bytes = 0
        # How many body records there were, which tells them apart.
        self._bodies = 0

    def clear(self) -> None:
        """At the start: make the directory, and remove the files of an earlier broker."""
        self._files.make_directory(self._directory)
        for number in segment_numbers(self._files, self._directory):
            self._number = max(self._number, number)
            self._files.remove(segment_path(self._directory, number))

    def close(self) -> None:
        """Remove all files; an OSError leaves some, which the next start removes."""
        self._leave_segment()
        for number in list(self._ledger.live):
            with suppress(OSError):
                self._files.remove(segment_path(self._directory, number))
        self._ledger = RunningLedger()

    def write(self, queue_id: int, rows: Sequence[ReadRow], joins: bool = True) -> bool:
        """Write these messages, wherever their ids lie. Of an entry the last one counts.

        False: they are in no file, because there is no room, or the disk fails. `joins`: messages
        of several rows may come back in one batch.
        """
        sizes = [_row_bytes(row) for row in rows]
        try:
            if self._files.free_bytes(self._directory) < self._free_bytes_min + sum(sizes):
                return False
            for together in _joined(rows, sizes) if joins else ([row] for row in rows):
                self._add(queue_id, together)
            self._flush()
        except (NoSpaceError, OSError):
            # The file may hold a part of it: it is left as it is.
            self._leave_segment()
            for row in rows:
                self._ledger.withdraw(queue_id, _ids_of(row))
            self._remove_dead()
            return False
        return True

    def read(
        self, queue_id: int, ranges: Sequence[EntryRange], bytes_max: int, joins: bool = True
    ) -> PageRead:
        """As the journal's reader; what cannot be read is lost."""
        live_entries = self._ledger.queues.get(queue_id)
        return self._reader.read(locate(queue_id, live_entries, ranges, bytes_max), joins)

    def drop(self, queue_id: int, ranges: Sequence[EntryRange] | None) -> None:
        """These are settled; None: the queue is no more. Others may be among them."""
        if ranges is None:
            self._ledger.drop(queue_id)
        else:
            for first, last in ranges:
                self._ledger.withdraw(queue_id, range(first, last + 1))
        self._remove_dead()

    def _read(self, at: Position, length: int) -> bytes:
        path = segment_path(self._directory, at.segment)
        return self._files.read(path, at.offset, length)

    def _add(self, queue_id: int, rows: Sequence[ReadRow]) -> None:
        """Have rows whose ids follow each other written with the next `_flush`, as one record."""
        batch, indexes, first_id = rows[0]
        pieces = [_wire_of(row) for row in rows]
        size = sum(map(len, pieces))
        if self._handle >= 0 and self._offset + size > self._segment_bytes_max:
            self._flush()
            self._leave_segment()
        if self._handle < 0:
            self._begin_segment()
        assert self._seal is not None
        self._bodies = (self._bodies + 1) % _BODIES
        number = self._bodies * _BATCH_NUMBERS
        if len(rows) == 1:
            number += batch.number % _BATCH_NUMBERS
            received, wire = _received(batch, indexes), pieces[0]
        else:
            received, wire = range(sum(len(row.indexes) for row in rows)), b"".join(pieces)
        ids = range(first_id, first_id + len(received))
        head = encode_messages(self._seal, number, received, wire, self._arrived(rows))
        entries = encode_entries(self._seal, queue_id, number, received, ids)
        body_offset = self._offset
        entries_offset = body_offset + len(head) + len(wire)
        for piece in (head, *_in_pieces(wire), entries):
            if self._buffered_bytes + len(piece) > PIECE_BYTES_MAX:
                self._flush()
            self._buffers.append(piece)
            self._buffered_bytes += len(piece)
            self._offset += len(piece)
        segment, ledger = self._number, self._ledger
        ledger.withdraw(queue_id, ids)
        ledger.insert(queue_id, Block(ids, segment, segment, body_offset, entries_offset))

    def _arrived(self, rows: Sequence[ReadRow]) -> Arrived:
        """Of the messages of all rows, one row behind the other."""
        each = [
            (arrivals_of(arrived(row.batch, self._wall_distance_ns), row.indexes), len(row.indexes))
            for row in rows
        ]
        return joined_arrivals(each)

    def _begin_segment(self) -> None:
        number = self._number = self._number + 1
        header = SegmentHeader(number, 0, [(number, number)], self._directory_id)
        encoded, self._seal = encode_header(header)
        self._handle = self._files.create(segment_path(self._directory, number))
        self._ledger.open(number)
        write_all(self._files, self._handle, 0, [encoded])
        self._offset = len(encoded)

    def _flush(self) -> None:
        """Write the buffered records."""
        if self._buffers:
            buffers, self._buffers = self._buffers, []
            size, self._buffered_bytes = self._buffered_bytes, 0
            write_all(self._files, self._handle, self._offset - size, buffers)

    def _leave_segment(self) -> None:
        """Write to another one from now on; the buffered records are given up."""
        self._buffers, self._buffered_bytes = [], 0
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            self._files.close(handle)

    def _remove_dead(self) -> None:
        ledger = self._ledger
        number = ledger.open_segment
        if self._handle >= 0 and not ledger.live[number]:
            self._leave_segment()
        if self._handle < 0:
            # None is open.
            ledger.open_segment = 0
        for gone in ledger.removable():
            ledger.forget([gone])
            # A file that stays costs room up to the next start.
            with suppress(OSError):
                self._files.remove(segment_path(self._directory, gone))


def _ids_of(row: ReadRow) -> range:
    return range(row.first_entry_id, row.first_entry_id + len(row.indexes))


def _is_one_piece(batch: Batch, indexes: Indexes) -> bool:
    """Do these messages lie in the batch one behind the other, with nothing between them?"""
    return batch.contiguous and indexes[-1] - indexes[0] + 1 == len(indexes)


def _row_bytes(row: ReadRow) -> int:
    batch, indexes, _ = row
    if _is_one_piece(batch, indexes):
        return batch.ends[indexes[-1]] - batch.starts[indexes[0]]
    return sum(batch.ends[index] - batch.starts[index] for index in indexes)


def _joined(rows: Sequence[ReadRow], sizes: Sequence[int]) -> Iterator[list[ReadRow]]:
    """Rows whose ids follow each other, up to JOINED_BYTES together; and each other one.

    `sizes` are those of the rows, in bytes.
    """
    together: list[ReadRow] = []
    size = next_id = 0
    for row, row_bytes in zip(rows, sizes, strict=True):
        if together and (next_id != row.first_entry_id or size + row_bytes > JOINED_BYTES):
            yield together
            together, size = [], 0
        together.append(row)
        size += row_bytes
        next_id = row.first_entry_id + len(row.indexes)
    if together:
        yield together


def _received(batch: Batch, indexes: Indexes) -> Indexes:
    """The numbers of these messages in the batch as it was received."""
    numbers = batch.excerpted
    return indexes if numbers is None else array("I", [numbers[index] for index in indexes])


def _wire_of(row: ReadRow) -> Buffer:
    """The bytes of its messages, and no others."""
    batch, indexes, _ = row
    view = memoryview(batch.wire)
    if _is_one_piece(batch, indexes):
        return view[batch.starts[indexes[0]] : batch.ends[indexes[-1]]]
    return b"".join([view[batch.starts[index] : batch.ends[index]] for index in indexes])


def _in_pieces(wire: Buffer) -> list[Buffer]:
    """The same in pieces that a write takes."""
    if len(wire) <= PIECE_BYTES_MAX:
        return [wire]
    return [wire[at : at + PIECE_BYTES_MAX] for at in range(0, len(wire), PIECE_BYTES_MAX)]
