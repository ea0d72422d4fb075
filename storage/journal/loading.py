"""The messages of entries, read from the journal at a start, for queues that must look at them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from .ledger import (
    Block,
    Deadlines,
    EntryIds,
    EntryRange,
    LiveEntries,
    joined,
    ranges_in,
    ranges_without,
)
from .records import BodyRecord, EntriesRecord
from .replay import JournalPlace, QueueValues, Replay
from .report import Report, described, entries_words
from .segment_reader import SegmentReader

Decode = Callable[[bytes], Batch]
# Reads the segment of that number.
OpenSegmentReader = Callable[[int], SegmentReader]

# Batches that were decoded last are kept for entries of other queues, so many bytes of them.
DECODED_BYTES_MAX: Final = 8 * 1024 * 1024


class MessageRun(NamedTuple):
    """Entries with ids without gaps, from `first_entry_id` on, with their messages.

    They were delivered as often. `deadlines`: when they expire, aligned with them if not all expire
    at once. `due_times`: until when they are deferred, likewise.
    """

    batch: Batch
    indexes: Indexes
    first_entry_id: int
    attempts: int
    deadlines: Deadlines = 0
    due_times: Deadlines = 0


class Losses:
    """The findings of all loading since the start."""

    def __init__(self) -> None:
        self.report = Report()
        # By queue id the live entries of which no message was found.
        self.entries: dict[int, list[EntryRange]] = {}


class _Values:
    """Attempts, deadlines and due times of one queue, asked for in the order of entry ids."""

    def __init__(self, values: QueueValues) -> None:
        self.attempts_of = values.attempts.cursor()
        self._deadline_of = values.deadlines.cursor()
        self._due_time_of = values.due_times.cursor()

    def deadlines(self, first: int, last: int) -> Deadlines:
        """One for all, or each one's."""
        return _each(self._deadline_of, first, last)

    def due_times(self, first: int, last: int) -> Deadlines:
        """One for all, or each one's."""
        return _each(self._due_time_of, first, last)


def _each(number_of: Callable[[int], tuple[int, int]], first: int, last: int) -> Deadlines:
    value, until = number_of(first)
    if until >= last:
        return value
    return array("Q", [number_of(entry_id)[0] for entry_id in range(first, last + 1)])


class Loading:
    """Reads segments for the messages of live entries."""

    def __init__(
        self,
        replay: Replay,
        open_reader: OpenSegmentReader,
        decode: Decode,
        losses: Losses,
        name_of: Callable[[int], str],
    ) -> None:
        """`name_of` is how a report calls a queue."""
        self._losses = losses
        self._report = losses.report
        self._name_of = name_of
        self._replay = replay
        self._open_reader = open_reader
        self._decode = decode
        # By batch number: where bodies lie, of one segment and of the one before it.
        self._bodies: dict[int, tuple[SegmentReader, BodyRecord, int]] = {}
        self._bodies_before: dict[int, tuple[SegmentReader, BodyRecord, int]] = {}
        # By segment and offset of the body: a batch may have several, and a rewritten one has
        # other messages than the rest.
        self._decoded: OrderedDict[tuple[int, int], Batch] = OrderedDict()
        self._decoded_bytes = 0
        # By queue id: the entries of which the message was found. By queue id and batch number:
        # those of which only the entries record was.
        self._found: dict[int, list[EntryRange]] = {}
        self._bodiless: dict[tuple[int, int], list[EntryRange]] = {}

    def runs(self, queue_ids: Set[int]) -> Iterator[tuple[int, MessageRun]]:
        """The entries of these queues; those of each queue ascend by entry id.

        Entries whose records do not verify any more, or make no sense, are left out; at the end
        they are among the losses.
        """
        queues = self._replay.ledger.queues
        wanted = {queue_id: queues[queue_id] for queue_id in queue_ids if queue_id in queues}
        values = {queue_id: _Values(self._replay.values_of(queue_id)) for queue_id in wanted}
        needed: dict[int, set[int]] = {}
        for live in wanted.values():
            for block in live:
                needed.setdefault(block.entries_segment, set()).add(block.body_segment)
        before = 0
        for number in sorted(needed):
            reader = self._open_reader(number)
            self._bodies_before = self._bodies if before == number - 1 else {}
            self._bodies = {}
            for other in sorted(needed[number]):
                if other != number and not (other == before == number - 1):
                    self._add_bodies(other)
            before = number
            for offset, record in reader.records():
                if isinstance(record, BodyRecord):
                    self._bodies[record.batch_number] = reader, record, offset
                elif isinstance(record, EntriesRecord) and record.queue_id in wanted:
                    queue_id = record.queue_id
                    for run in self._runs_of(record, wanted[queue_id], values[queue_id]):
                        last = run.first_entry_id + len(run.indexes) - 1
                        _extend(self._found.setdefault(queue_id, []), run.first_entry_id, last)
                        yield queue_id, run
        for queue_id, live in wanted.items():
            self._note_lost(
                queue_id, [each for block in live for each in ranges_in(block.entry_ids)]
            )

    def _note_lost(self, queue_id: int, live: Sequence[EntryRange]) -> None:
        """Report those of the live entries that were not found."""
        missing = ranges_without(live, joined(self._found.get(queue_id, ())))
        if not missing:
            return
        self._losses.entries[queue_id] = list(missing)
        known: list[EntryRange] = []
        for (of_queue, batch_number), ranges in self._bodiless.items():
            if of_queue == queue_id:
                known += ranges
                self._note(queue_id, ranges, f"no body of batch {batch_number} that verifies")
        if others := ranges_without(missing, joined(known)):
            self._note(queue_id, others, "no record that verifies")

    def _note(self, queue_id: int, ranges: Sequence[EntryRange], what: str) -> None:
        count = sum(last - first + 1 for first, last in ranges)
        ids = described(range(first, last + 1) for first, last in ranges)
        text = f"{entries_words(count)} of {self._name_of(queue_id)}, {ids}: {what} holds them"
        self._report.note("lost", text, count)

    def _add_bodies(self, number: int) -> None:
        reader = self._open_reader(number)
        for offset, record in reader.records():
            if isinstance(record, BodyRecord):
                self._bodies_before[record.batch_number] = reader, record, offset

    def _runs_of(
        self, record: EntriesRecord, live: LiveEntries[Block], values: _Values
    ) -> Iterator[MessageRun]:
        ids = record.entry_ids
        for block in live.within(ids[0], ids[-1]):
            start, end = _common(ids, block.entry_ids)
            parts = [(start, end)]
            if end - start != ids[end - 1] - ids[start] + 1:
                there = set(block.entry_ids)
                of_block = [each for each in ids[start:end] if each in there]
                parts = [
                    (at := bisect_left(ids, first), at + last - first + 1)
                    for first, last in ranges_in(of_block)
                ]
            for part_start, part_end in parts:
                yield from self._alike(record, part_start, part_end, values)

    def _alike(
        self, record: EntriesRecord, start: int, end: int, values: _Values
    ) -> Iterator[MessageRun]:
        """These entries of the record, whose ids have no gaps, divided by their attempts."""
        found = self._message_positions(record, start, end)
        if found is None:
            bodiless = self._bodiless.setdefault((record.queue_id, record.batch_number), [])
            _extend(bodiless, record.entry_ids[start], record.entry_ids[end - 1])
            return
        batch, positions = found
        begin = start
        while start < end:
            first = record.entry_ids[start]
            attempts, until = values.attempts_of(first)
            count = min(end - start, until - first + 1)
            last = first + count - 1
            indexes = positions[start - begin : start - begin + count]
            deadlines, due_times = values.deadlines(first, last), values.due_times(first, last)
            yield MessageRun(batch, indexes, first, attempts, deadlines, due_times)
            start += count

    def _message_positions(
        self, record: EntriesRecord, start: int, end: int
    ) -> tuple[Batch, Indexes] | None:
        """The record's batch, and where the messages of these entries are in it.

        None if they are not there. Those of its other entries need not be: a body that was
        rewritten has what live entries need.
        """
        number = record.batch_number
        found = self._bodies.get(number) or self._bodies_before.get(number)
        if found is None:
            return None
        reader, body, offset = found
        batch = self._decoded.get((reader.number, offset))
        if batch is None:
            batch = self._decode_body(reader, body, offset)
            if batch is None:
                return None
        positions = positions_of(record.indexes[start:end], body.indexes, len(batch))
        return None if positions is None else (batch, positions)

    def _decode_body(self, reader: SegmentReader, body: BodyRecord, offset: int) -> Batch | None:
        number = body.batch_number
        try:
            batch = self._decode(reader.bytes_between(body.wire_start, body.wire_end))
        except ValueError as error:
            self._report.note("damaged", f"batch {number} verifies, but: {error}")
            return None
        batch.number = number
        batch.arrived = body.arrived
        # A batch that is whole needs no translation when it is appended again.
        received = None if body.indexes == range(len(batch)) else body.indexes
        batch.journal_place = JournalPlace(
            reader.number, body.wire_start, body.wire_end, received, offset
        )
        self._decoded[reader.number, offset] = batch
        self._decoded_bytes += len(batch.wire)
        while self._decoded_bytes > DECODED_BYTES_MAX and len(self._decoded) > 1:
            _, oldest = self._decoded.popitem(last=False)
            self._decoded_bytes -= len(oldest.wire)
        return batch


def _extend(known: list[EntryRange], first: int, last: int) -> None:
    if known and known[-1][1] + 1 == first:
        first = known.pop()[0]
    known.append((first, last))


def _common(ids: EntryIds, others: EntryIds) -> tuple[int, int]:
    """From which to which position the ids lie within the others' first and last."""
    return bisect_left(ids, others[0]), bisect_right(ids, others[-1])


def positions_of(wanted: Indexes, received: Indexes | None, count: int) -> Indexes | None:
    """Where the wanted messages, numbered as received, are in a batch of those stored.

    None if one of them is not there, or if the batch is not of `count` messages.
    """
    assert received is not None
    if len(received) != count:
        return None
    if wanted[0] - received[0] == 0 and wanted == received:
        return range(count)
    if isinstance(received, range):
        if wanted[0] < received[0] or wanted[-1] > received[-1]:
            return None
        first = received[0]
        if isinstance(wanted, range):
            return range(wanted[0] - first, wanted[-1] - first + 1)
        return wanted if first == 0 else array("I", [index - first for index in wanted])
    positions = array("I", [bisect_left(received, index) for index in wanted])
    for position, index in zip(positions, wanted, strict=True):
        if position == count or received[position] != index:
            return None
    return positions
