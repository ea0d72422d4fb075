"""From live entries to messages: the bodies of live entries, and the entries without one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ..belonging import CatalogClaims
from .ledger import Deadlines, EntryIds, EntryRange
from .recovered_entries import RecoveredEntries, stretches
from .replay import RecoveredBlock, Replay, StoredBody
from .report import Report, entries_words

Decode = Callable[[bytes], Batch]
# Reads so many bytes of a segment from an offset on.
ReadSegment = Callable[[int, int, int], bytes]

# So many ranges of entry ids are named in one line of a report.
_RANGES_MAX: Final = 8


class MessageRun(NamedTuple):
    """Entries with ids without gaps, from `first_entry_id` on, with their messages.

    They were delivered as often.

    `deadlines`: when they expire, aligned with them if not all expire at once. `due_times`: until
    when they are deferred, likewise.
    """

    batch: Batch
    indexes: Indexes
    first_entry_id: int
    attempts: int
    deadlines: Deadlines = 0
    due_times: Deadlines = 0


class Loading:
    """Binds every live entry to its message; an entry without a body is lost, reported and
    dropped."""

    def __init__(
        self,
        replay: Replay,
        read_segment: ReadSegment,
        decode: Decode,
        catalog: CatalogClaims,
        report: Report,
    ) -> None:
        self._replay = replay
        self._read_segment = read_segment
        self._decode = decode
        self._catalog = catalog
        self._report = report
        # Per queue the ids of entries without their message, ascending.
        self.dropped_entries: dict[int, list[EntryRange]] = {}

    def load(self, last_segment: int) -> dict[int, list[MessageRun]]:
        """The runs of every queue that has entries.

        What a crash tore is reported at the start after the crash: if it is in the last segment.
        """
        self._load_bodies()
        queues: dict[int, list[MessageRun]] = {}
        for queue_id, live_entries in self._replay.ledger.queues.items():
            runs: list[MessageRun] = []
            kept: list[RecoveredBlock] = []
            lost: list[RecoveredBlock] = []
            for block in live_entries:
                found = _runs(block)
                if found is None:
                    lost.append(block)
                else:
                    kept.append(block)
                    runs += found
            if lost:
                self._drop_entries(queue_id, lost, last_segment)
                live_entries.replace(kept)
            if runs:
                queues[queue_id] = runs
        return queues

    def _drop_entries(self, queue_id: int, lost: list[RecoveredBlock], last_segment: int) -> None:
        reported: dict[tuple[int, bool], list[EntryIds]] = defaultdict(list)
        for block in lost:
            ids = block.entry_ids
            self.dropped_entries.setdefault(queue_id, []).extend(
                (ids[start], ids[end - 1]) for start, end in stretches(ids)
            )
            # No identity is remembered whose message is lost: its publisher, which got no answer,
            # publishes it again, and must not get a confirm for the lost one.
            if block.identities:
                remembered = self._replay.ledger.remembered
                remembered.forget_these(queue_id, ids[0], ids[-1], block.identities)
            if not block.is_torn or block.entries_segment == last_segment:
                reported[block.batch_number, block.is_torn].append(ids)
        name = self._catalog.name_of(queue_id)
        for (batch_number, is_torn), several in reported.items():
            count = sum(map(len, several))
            ids_named = _described(several)
            text = f"{entries_words(count)} of {name}, {ids_named}: no body of batch {batch_number}"
            if is_torn:
                self._report.note("torn", f"{text} was written", count)
            else:
                self._report.note("lost", f"{text} that verifies holds them", count)

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
            data = self._read_segment(number, first, last - first)
            for body in wanted:
                self._decode_body(
                    body, data[body.place.wire_start - first : body.place.wire_end - first]
                )

    def _decode_body(self, body: StoredBody, wire: bytes) -> None:
        place = body.place
        try:
            batch = self._decode(wire)
        except ValueError as error:
            self._report.note("damaged", f"batch {body.batch_number} verifies, but: {error}")
            return
        batch.number = body.batch_number
        # A batch that is whole needs no translation when it is appended again.
        whole = place.received_indexes == range(len(batch))
        batch.journal_place = place._replace(received_indexes=None) if whole else place
        body.batch = batch


def _runs(block: RecoveredBlock) -> list[MessageRun] | None:
    """The block's entries with their messages; None if it has no body that holds them."""
    body = block.body
    if body is None or body.batch is None:
        return None
    batch = body.batch
    indexes = _positions(block.indexes, body.place.received_indexes, len(batch))
    if indexes is None:
        return None
    ids, deadlines, due_times = block.entry_ids, block.deadlines, block.due_times
    if ids[-1] - ids[0] + 1 == len(ids):
        return [MessageRun(batch, indexes, ids[0], block.attempts, deadlines, due_times)]
    return [
        MessageRun(
            batch,
            indexes[start:end],
            ids[start],
            block.attempts,
            deadlines if isinstance(deadlines, int) else deadlines[start:end],
            due_times if isinstance(due_times, int) else due_times[start:end],
        )
        for start, end in stretches(ids)
    ]


def _described(several: Iterable[EntryIds]) -> str:
    """Entry ids as ranges; the first ones, if they are many."""
    ranges = [
        f"{ids[start]} to {ids[end - 1]}" if end - start > 1 else f"{ids[start]}"
        for ids in several
        for start, end in stretches(ids)
    ]
    further = f" and {len(ranges) - _RANGES_MAX} ranges more" if len(ranges) > _RANGES_MAX else ""
    return "ids " + ", ".join(ranges[:_RANGES_MAX]) + further


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


def without_bodies(runs: Iterable[MessageRun]) -> RecoveredEntries:
    """The entries of these runs, which ascend."""
    entries = RecoveredEntries()
    for run in runs:
        deadlines, due_times = run.deadlines, run.due_times
        count = len(run.indexes)
        if isinstance(deadlines, int) and isinstance(due_times, int):
            entries.append(run.first_entry_id, count, run.attempts, deadlines, due_times)
            continue
        for position in range(count):
            entries.append(
                run.first_entry_id + position,
                1,
                run.attempts,
                deadlines if isinstance(deadlines, int) else deadlines[position],
                due_times if isinstance(due_times, int) else due_times[position],
            )
    return entries
