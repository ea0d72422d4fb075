"""What a journal's segments say after a stop, a kill or a power cut, and making it safe to go on.

Recovery reads all segments in order. What does not verify is treated by where it is:
- in the last segment, it is the tail that a crash tore: reading stops there, the file is truncated
  there, and what was accepted is synced, for it may have been in the page cache only. Nothing is
  ever appended to that segment: the journal goes on in a new one, so no record can come to lie
  behind bytes that never verified, and from then on that segment is held to the next rule.
- in an earlier segment, synced before its successor was created, it is damage: reported with its
  place and what it cost, and passed over. The broker starts.
- a last segment of which not even the header is there was being created: it held nothing.

A segment that a `removed` record of the last one names is gone, whether the crash brought its
file back or not. A segment that the last header lists, that was not removed since and is not
there, is missing, and reported.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import groupby
from typing import NamedTuple

from ..amqp_frames.batch import Batch, Indexes
from .files import Files
from .identity_runs import IdentityRun
from .live_entries import Deadlines
from .records import RemovedRecord
from .replay import RecoveredBlock, Replay, StoredBody
from .segment_files import Damage, SegmentReader, segment_numbers, segment_path
from .segment_ledger import EntryRange, RunningLedger

Decode = Callable[[bytes], Batch]


class ReportLine(NamedTuple):
    """Something that recovery found and an operator should know."""

    # truncated, damaged, missing, lost or dropped.
    event: str
    text: str


class RecoveredRun(NamedTuple):
    """Entries with ids without gaps, from `first_entry_id` on, that were delivered as often.

    `deadlines`: when they expire, aligned with them if not all expire at once.
    """

    batch: Batch
    indexes: Indexes
    first_entry_id: int
    attempts: int
    deadlines: Deadlines = 0


class Recovered(NamedTuple):
    """What was in the journal: all that its queues still hold."""

    # Per known queue that has entries: runs ascending by entry id.
    queues: dict[int, list[RecoveredRun]]
    next_batch_number: int
    # Per known queue: above every entry id that the journal speaks of.
    next_entry_ids: dict[int, int]
    report: list[ReportLine]
    # Per queue with a dedup window: what it is to remember, in the order of entry ids.
    identities: dict[int, list[IdentityRun]]


class Recovery:
    """One recovery of one directory: `run`, then the attributes."""

    def __init__(
        self, files: Files, directory: str, known_queue_ids: Set[int], decode: Decode
    ) -> None:
        self._files = files
        self._directory = directory
        self._decode = decode
        self._replay = Replay(known_queue_ids)
        self._report: list[ReportLine] = []
        self.recovered: Recovered
        self.ledger: RunningLedger
        # The one in which a torn tail is no damage: the last, if it was in use.
        self._last = 0
        # Above every segment number that was ever seen.
        self.next_segment_number = 1
        # Files to remove once the journal's next segment is there.
        self.leftovers: list[int] = []
        # Segments in which something did not verify.
        self.damaged: set[int] = set()

    def run(self) -> None:
        """Read everything, truncate and sync the last segment, load what is live."""
        for number in self._segments_to_read():
            self._read_segment(number, stop_at_damage=number == self._last)
        replay = self._replay
        for queue_id, count in sorted(replay.dropped().items()):
            self._note("dropped", f"queue {queue_id} is not in the catalog: {count} entries")
        queues = self._load()
        self.ledger = replay.running_ledger()
        self.recovered = Recovered(
            queues,
            replay.next_batch_number,
            replay.next_entry_ids,
            self._report,
            self.ledger.remembered.lists(),
        )

    def _note(self, event: str, text: str) -> None:
        self._report.append(ReportLine(event, text))

    def _reader(self, number: int) -> SegmentReader:
        path = segment_path(self._directory, number)
        return SegmentReader(self._files.read(path, 0, self._files.size(path)), number)

    def _segments_to_read(self) -> list[int]:
        """The segments that count, ascending; sets aside those that do not."""
        numbers = segment_numbers(self._files, self._directory)
        self._last = numbers[-1] if numbers else 0
        self.next_segment_number = self._last + 1
        newest: SegmentReader | None = None
        while numbers and (newest := self._reader(numbers[-1])).torn_creation:
            self.leftovers.append(numbers.pop())
        if newest is None or not numbers:
            return numbers
        removed: set[int] = set()
        for _, record in newest.records(stop_at_damage=newest.number == self._last):
            if isinstance(record, RemovedRecord):
                removed.update(_numbers(record.segments))
        there = set(numbers) - removed
        if newest.header is not None:
            expected = set(_numbers(newest.header.present)) - removed
            for number in sorted(expected - there):
                self._note("missing", f"segment {number} is missing, with all that was in it")
            there &= expected
        self.leftovers += sorted(set(numbers) - there)
        return sorted(there)

    def _read_segment(self, number: int, stop_at_damage: bool) -> None:
        reader = self._reader(number)
        self._replay.open(number)
        if reader.header is not None:
            self._replay.take(reader.header)
        for offset, record in reader.records(stop_at_damage):
            try:
                self._replay.take(record)
            except ValueError as error:
                reader.damage.append(Damage(offset, offset, [f"contradiction: {error}"], True))
        if number == self._last:
            path = segment_path(self._directory, number)
            self._files.truncate(path, reader.verified_end)
            if reader.verified_end < reader.size:
                self._note_tail(reader)
        for damage in reader.damage:
            self.damaged.add(number)
            cost = "" if damage.bounded else ", and all that was behind it in this segment"
            self._note(
                "damaged",
                f"segment {number}, bytes {damage.start} to {damage.end} of {reader.size}"
                f"{_claimed(damage)}{cost}",
            )

    def _note_tail(self, reader: SegmentReader) -> None:
        torn = reader.damage.pop()
        # Zeros are what the journal itself writes ahead.
        if not reader.ends_with_zeros(torn.start):
            self._note(
                "truncated",
                f"segment {reader.number} at byte {torn.start}: {reader.size - torn.start} bytes "
                f"behind the last record that verifies{_claimed(torn)}",
            )

    def _load(self) -> dict[int, list[RecoveredRun]]:
        """Bind every live entry to its message; what has none is lost, reported and let go."""
        self._load_bodies()
        queues: dict[int, list[RecoveredRun]] = {}
        for queue_id, live_entries in self._replay.ledger.queues.items():
            runs: list[RecoveredRun] = []
            kept: list[RecoveredBlock] = []
            lost: Counter[int] = Counter()
            for block in live_entries:
                found = _runs(block)
                if found is None:
                    lost[block.batch_number] += len(block.entry_ids)
                else:
                    kept.append(block)
                    runs += found
            for batch_number, count in lost.items():
                self._note(
                    "lost",
                    f"{count} entries of queue {queue_id}: no body of batch {batch_number} "
                    "that verifies holds them",
                )
            live_entries.replace(kept)
            if runs:
                queues[queue_id] = runs
        return queues

    def _load_bodies(self) -> None:
        """Read the bodies that live entries refer to, a segment at a time."""
        bodies = {
            block.body
            for live_entries in self._replay.ledger.queues.values()
            for block in live_entries
            if block.body is not None
        }
        in_order = sorted(bodies, key=lambda body: body.place[:2])
        for number, group in groupby(in_order, lambda body: body.place.segment_number):
            wanted = list(group)
            first, last = wanted[0].place.wire_start, wanted[-1].place.wire_end
            data = self._files.read(segment_path(self._directory, number), first, last - first)
            for body in wanted:
                self._decode_body(
                    body, data[body.place.wire_start - first : body.place.wire_end - first]
                )

    def _decode_body(self, body: StoredBody, wire: bytes) -> None:
        place = body.place
        try:
            batch = self._decode(wire)
        except ValueError as error:
            self._note("damaged", f"batch {body.batch_number} verifies, but: {error}")
            return
        batch.number = body.batch_number
        # A batch that is whole needs no translation when it is appended again.
        whole = place.received_indexes == range(len(batch))
        batch.journal_place = place._replace(received_indexes=None) if whole else place
        body.batch = batch


def _runs(block: RecoveredBlock) -> list[RecoveredRun] | None:
    """The block's entries with their messages; None if it has no body that holds them."""
    body = block.body
    if body is None or body.batch is None:
        return None
    batch = body.batch
    indexes = _positions(block.indexes, body.place.received_indexes, len(batch))
    if indexes is None:
        return None
    ids, deadlines = block.entry_ids, block.deadlines
    if ids[-1] - ids[0] + 1 == len(ids):
        return [RecoveredRun(batch, indexes, ids[0], block.attempts, deadlines)]
    return [
        RecoveredRun(
            batch,
            indexes[start:end],
            ids[start],
            block.attempts,
            deadlines if isinstance(deadlines, int) else deadlines[start:end],
        )
        for start, end in _stretches(ids)
    ]


def _claimed(damage: Damage) -> str:
    if not damage.claims:
        return ""
    return ", that claim to be: " + "; ".join(damage.claims)


def _numbers(ranges: Iterable[EntryRange]) -> Iterator[int]:
    for first, last in ranges:
        yield from range(first, last + 1)


def _positions(wanted: Indexes, received: Indexes | None, count: int) -> Indexes | None:
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


def _stretches(ids: Indexes) -> Iterator[tuple[int, int]]:
    """Positions from where to where the numbers are without gaps."""
    start = 0
    for position in range(1, len(ids)):
        if ids[position] != ids[position - 1] + 1:
            yield start, position
            start = position
    yield start, len(ids)
