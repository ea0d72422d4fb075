"""From the facts of segments, in order, to live entries: the bookkeeping of a recovery.

`Replay` ends with the ledger with which the journal goes on (`ledger.py`), and with the attempts,
deadlines and due times of the live entries. It reads no file and holds no body, and what it costs
grows with the runs of entries, not with messages or records.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Set
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Indexes
from .entry_values import EntryValues
from .identity_runs import Identities
from .ledger import EntryIds, EntryRange, RunningLedger, ranges_in
from .recovered_entries import RecoveredEntries
from .segment_facts import (
    APPENDED,
    DROPPED,
    REWRITTEN,
    BodyPlaces,
    IdentityNote,
    QueueFacts,
    Reference,
    SegmentFacts,
    own_parts,
    ranges_of,
)

# A queue's columns are rid of entries that are gone when they have this many rows, and twice as
# many as were left the last time.
ROWS_KEPT_MIN: Final = 4096


class JournalPlace(NamedTuple):
    """Where a batch's messages are in the journal: a batch's `journal_place`."""

    segment_number: int
    wire_start: int
    wire_end: int
    # Which messages of the batch as it was received these are, if the batch was read back and
    # holds only these; None if its indexes are those that records speak of.
    received_indexes: Indexes | None
    # Where its record begins.
    offset: int


class Contradiction(NamedTuple):
    """Entries of a segment that cannot be, after what earlier segments say."""

    offset: int
    text: str


class Bodiless(NamedTuple):
    """Entries of one record whose body is in neither of the segments where it should be."""

    queue_id: int
    # Of the entries record.
    segment: int
    reference: Reference
    # Was the body being written when a crash came?
    is_torn: bool


class QueueValues:
    """Attempts, deadlines and due times of one queue's entries; of some that are gone, too."""

    __slots__ = ("attempts", "deadlines", "due_times", "rows_max")

    def __init__(self) -> None:
        self.attempts = EntryValues()
        self.deadlines = EntryValues()
        self.due_times = EntryValues()
        self.rows_max = ROWS_KEPT_MIN

    def add(self, queue: QueueFacts) -> None:
        """Those of a segment's own entries."""
        first = queue.first_own
        for own, values in (
            (self.attempts, queue.attempts),
            (self.deadlines, queue.deadlines),
            (self.due_times, queue.due_times),
        ):
            if own.last_id >= first:
                # An id that was lost in a hole is given again.
                own.clear(first, own.last_id)
            for start, end, value in values:
                if value:
                    own.assign(start, end, value)

    def rows(self) -> int:
        """How many rows there are."""
        return len(self.attempts) + len(self.deadlines) + len(self.due_times)

    def keep(self, ranges: list[EntryRange]) -> None:
        """Forget those of other entries."""
        for values in (self.attempts, self.deadlines, self.due_times):
            values.keep(ranges)
        self.rows_max = max(ROWS_KEPT_MIN, 2 * self.rows())


class Replay:
    """The live entries, according to the segments read so far."""

    def __init__(self, known_queue_ids: Set[int]) -> None:
        self.ledger = RunningLedger()
        self.next_batch_number = 1
        self.next_entry_ids: dict[int, int] = dict.fromkeys(known_queue_ids, 1)
        # The highest queue id that a record speaks of.
        self.queue_id_max = 0
        self.bodiless: list[Bodiless] = []
        # Queues that the catalog does not know: followed only to say how much is dropped.
        self._unknown = RunningLedger()
        self._known_queue_ids = known_queue_ids
        self._values: dict[int, QueueValues] = {}
        self._before = 0
        self._bodies_before = BodyPlaces()
        # Segments that have messages or entries; not identities alone.
        self._with_messages: set[int] = set()
        # Per segment how many entries it has, dead ones, too.
        self._appended: dict[int, int] = {}

    def apply(self, facts: SegmentFacts, torn_from: int) -> list[Contradiction]:
        """Apply a segment that lies above all before it; its facts are not to be used again.

        Bodies that records from the offset `torn_from` on miss were being written.
        """
        number = facts.number
        self.ledger.open(number)
        self._unknown.open(number)
        self._appended[number] = facts.entries_read
        if facts.header is not None:
            self.next_batch_number = max(self.next_batch_number, facts.header.next_batch_number)
        self.next_batch_number = max(self.next_batch_number, facts.next_batch_number)
        if facts.has_messages:
            self._with_messages.add(number)
        contradictions: list[Contradiction] = []
        for queue_id, queue in facts.queues.items():
            self.queue_id_max = max(self.queue_id_max, queue_id)
            last_entry_id = queue.last_entry_id
            if last_entry_id >= self.next_entry_ids.get(queue_id, last_entry_id + 1):
                self.next_entry_ids[queue_id] = last_entry_id + 1
            is_known = queue_id in self._known_queue_ids
            self._change_earlier(queue_id, queue, is_known)
            self._append(queue_id, queue, facts, torn_from, contradictions)
            if is_known:
                for note in queue.identities:
                    self._note_identities(queue_id, note)
                self._add_values(queue_id, queue)
        self._before, self._bodies_before = number, facts.bodies
        return contradictions

    def _change_earlier(self, queue_id: int, queue: QueueFacts, is_known: bool) -> None:
        ledger = self.ledger if is_known else self._unknown
        live = ledger.queues.get(queue_id)
        values = self._values.get(queue_id)
        if values is None and is_known and (queue.delivered or queue.deferred):
            values = self._values[queue_id] = QueueValues()
        for first, last, count in queue.delivered:
            ledger.delivered(queue_id, [(first, last)])
            if values is not None:
                for start, end in own_parts(live, first, last):
                    values.attempts.add(start, end, count)
                    # A start has messages in flight ready at once.
                    values.due_times.clear(start, end)
        for first, last, due_ms in queue.deferred:
            if due_ms:
                ledger.delivered(queue_id, [(first, last)])
                if values is not None:
                    for start, end in own_parts(live, first, last):
                        values.due_times.assign(start, end, due_ms)
        for first, last, _ in queue.settled:
            ledger.settle(queue_id, [(first, last)])

    def _append(
        self,
        queue_id: int,
        queue: QueueFacts,
        facts: SegmentFacts,
        torn_from: int,
        contradictions: list[Contradiction],
    ) -> None:
        is_known = queue_id in self._known_queue_ids
        ledger = self.ledger if is_known else self._unknown
        bodiless: set[int] = set()
        for each in queue.blocks:
            block = each
            live = ledger.queues.get(queue_id)
            tail = live.tail() if live is not None else None
            ids, offset = block.entry_ids, block.places[2]
            if tail is not None and tail.entry_ids[-1] >= ids[0]:
                contradictions.append(Contradiction(offset, f"entry id {ids[0]} does not ascend"))
                position = bisect_right(ids, tail.entry_ids[-1])
                if position == len(ids):
                    continue
                block = block.split(position)
            if block.body_segment != facts.number:
                reference = facts.references[offset]
                body_offset = None
                if self._before == block.body_segment:
                    body_offset = self._bodies_before.offset_of(reference.batch_number)
                if body_offset is not None:
                    block.places[1] = body_offset
                else:
                    block.body_segment, block.places[1] = facts.number, offset
                    if is_known and offset not in bodiless:
                        bodiless.add(offset)
                        is_torn = offset >= torn_from
                        self.bodiless.append(Bodiless(queue_id, facts.number, reference, is_torn))
            ledger.append(queue_id, block)

    def _note_identities(self, queue_id: int, note: IdentityNote) -> None:
        ledger, run = self.ledger, note.run
        number = ledger.open_segment
        if note.kind == APPENDED:
            ids = range(run.first_entry_id, run.last_entry_id + 1)
            identities = Identities(bytes(run.identities), run.until_ms)
            ledger.remembered.append(queue_id, number, ids, identities)
        elif note.kind == REWRITTEN:
            run.segment = number
            ledger.remembered.add_rewritten(queue_id, run)
        else:
            assert note.kind == DROPPED
            ledger.drop_identities(queue_id, run.last_entry_id + 1)

    def _add_values(self, queue_id: int, queue: QueueFacts) -> None:
        values = self._values.get(queue_id)
        if values is None:
            if not (queue.attempts or queue.deadlines or queue.due_times):
                return
            values = self._values[queue_id] = QueueValues()
        values.add(queue)
        if values.rows() > values.rows_max:
            live = self.ledger.queues.get(queue_id)
            values.keep([] if live is None else ranges_of(live))

    def dropped(self) -> Counter[int]:
        """How many live entries there are per queue that is not known; those with none left out."""
        return Counter(
            {
                queue_id: sum(len(block.entry_ids) for block in live_entries)
                for queue_id, live_entries in self._unknown.queues.items()
                if live_entries
            }
        )

    def live_parts(self, each: Bodiless) -> list[EntryIds]:
        """The entries of the record that are live at the end."""
        ids = each.reference.entry_ids
        return [
            block.entry_ids for block in self.ledger.queues[each.queue_id].isolate(ids[0], ids[-1])
        ]

    def bind(self, each: Bodiless, segment: int, body_offset: int) -> None:
        """The body of the record's entries has been found in this earlier segment."""
        ids = each.reference.entry_ids
        for block in self.ledger.queues[each.queue_id].isolate(ids[0], ids[-1]):
            count = len(block.entry_ids)
            self.ledger.count(block.body_segment, block.entries_segment, -count)
            block.body_segment = segment
            block.places = array("Q", (block.entry_ids[0], body_offset, block.places[2]))
            self.ledger.count(segment, block.entries_segment, count)

    def let_go(self, each: Bodiless) -> None:
        """The record's entries are lost. So are their identities.

        A publisher that got no answer publishes again, and must not get a confirm for the lost one.
        """
        ids = each.reference.entry_ids
        remembered = self.ledger.remembered
        for block in self.ledger.queues[each.queue_id].cut(ids[0], ids[-1]):
            lost = block.entry_ids
            self.ledger.count(block.body_segment, block.entries_segment, -len(lost))
            octets = each.reference.identities_of(lost)
            if octets:
                remembered.forget_these(each.queue_id, lost[0], lost[-1], octets)

    def finish(self) -> None:
        """All segments are applied: make the ledger one to go on with."""
        self.ledger.may_remove = True
        self.ledger.appended.update(self._appended)
        remembered = self.ledger.remembered
        identities_alone = remembered.bytes_in.keys() - self._with_messages
        remembered.made = {number: remembered.bytes_in[number] for number in identities_alone}

    def values_of(self, queue_id: int) -> QueueValues:
        """Attempts, deadlines and due times of the queue."""
        return self._values.get(queue_id) or QueueValues()

    def entries(self) -> dict[int, RecoveredEntries]:
        """The live entries of each queue that has some."""
        return {
            queue_id: recovered
            for queue_id in self.ledger.queues
            if (recovered := self._entries_of(queue_id)).runs
        }

    def _entries_of(self, queue_id: int) -> RecoveredEntries:
        recovered = RecoveredEntries()
        values = self._values.get(queue_id)
        for block in self.ledger.queues[queue_id]:
            if values is None:
                recovered.append_ids(block.entry_ids)
        if values is not None:
            for first, last, attempts, deadline_ms, due_ms in self._alike(queue_id, values):
                recovered.append(first, last - first + 1, attempts, deadline_ms, due_ms)
        return recovered

    def _alike(
        self, queue_id: int, values: QueueValues
    ) -> Iterator[tuple[int, int, int, int, int]]:
        attempts_of = values.attempts.cursor()
        deadline_of = values.deadlines.cursor()
        due_time_of = values.due_times.cursor()
        for block in self.ledger.queues[queue_id]:
            for first_id, last in ranges_in(block.entry_ids):
                first = first_id
                while first <= last:
                    attempts, until = attempts_of(first)
                    deadline_ms, deadline_until = deadline_of(first)
                    due_ms, due_until = due_time_of(first)
                    until = min(last, until, deadline_until, due_until)
                    yield first, until, attempts, deadline_ms, due_ms
                    first = until + 1
