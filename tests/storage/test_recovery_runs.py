"""A recovery takes memory by runs of entries, and reads bodies only when asked for them."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from crashing_files import CrashingFiles
from journals import DIRECTORY, opened
from leveret.storage.journal.records import (
    DELIVERED,
    SETTLE,
    BodyRecord,
    EntriesRecord,
    RangesRecord,
    Record,
)
from leveret.storage.journal.recovered_entries import RecoveredRun
from leveret.storage.journal.replay import Replay
from leveret.storage.journal.segment_facts import FactsReading, SegmentFacts
from publishes import batch_of, kept

QUEUES = 10
SEGMENTS = 20
RECORDS = 2_000


def facts_of(number: int, records: list[Record]) -> SegmentFacts:
    """The facts of a segment with these records, 1,200 bytes apart."""
    reading = FactsReading(number)
    for position, record in enumerate(records):
        reading.add(record, 100 + 1_200 * position)
    return reading.finish()


def published_one_at_a_time(number: int, first_batch: int, next_ids: list[int]) -> list[Record]:
    """A body and an entries record for each message, over all queues in turns."""
    records: list[Record] = []
    for batch_number in range(first_batch, first_batch + RECORDS):
        queue = batch_number % QUEUES
        entry_id = next_ids[queue]
        next_ids[queue] += 1
        records.append(BodyRecord(batch_number, range(1), 0, 0))
        ids = range(entry_id, entry_id + 1)
        records.append(EntriesRecord(queue + 1, batch_number, range(1), ids))
    return records


def test_replaying_many_records_costs_memory_by_runs() -> None:
    """20 segments of 2,000 messages, published one at a time over ten queues in turns."""
    replay = Replay(frozenset(range(1, QUEUES + 1)))
    next_ids = [1] * QUEUES
    tracemalloc.start()
    held_before, _ = tracemalloc.get_traced_memory()
    for number in range(1, SEGMENTS + 1):
        records = published_one_at_a_time(number, 1 + RECORDS * (number - 1), next_ids)
        replay.apply(facts_of(number, records), 1 << 40)
        del records
    replay.finish()
    entries = replay.entries()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {queue_id: list(runs) for queue_id, runs in entries.items()} == {
        queue_id: [RecoveredRun(1, SEGMENTS * RECORDS // QUEUES)]
        for queue_id in range(1, QUEUES + 1)
    }
    blocks = [len(replay.ledger.queues[queue_id]) for queue_id in entries]
    assert blocks == [SEGMENTS] * QUEUES
    # A block and its rows of places: for each queue and segment about a kilobyte, whatever the
    # number of messages.
    assert held - held_before < SEGMENTS * QUEUES * 1_200


def test_a_segment_whose_messages_were_all_settled_in_it_leaves_no_entries() -> None:
    records: list[Record] = []
    for number in range(1, 1_001):
        records.append(BodyRecord(number, range(1), 0, 0))
        records.append(EntriesRecord(1, number, range(1), range(number, number + 1)))
        records.append(RangesRecord(DELIVERED, 1, [(number, number)]))
        records.append(RangesRecord(SETTLE, 1, [(number, number)]))
    facts = facts_of(1, records)
    queue = facts.queues[1]
    assert (list(queue.blocks), list(queue.settled), queue.last_entry_id) == ([], [], 1_000)
    assert (list(queue.attempts), list(queue.delivered)) == ([], [])
    replay = Replay({1})
    replay.apply(facts, 1 << 40)
    replay.finish()
    assert (replay.entries(), replay.next_entry_ids) == ({}, {1: 1_001})


def test_columns_are_rid_of_entries_that_are_gone() -> None:
    replay = Replay({1})
    for number in range(1, 51):
        ids = range(1_000 * number, 1_000 * number + 500)
        deadlines = array("Q", [7 + entry_id % 2 for entry_id in ids])
        body = BodyRecord(number, range(500), 0, 0)
        records = [body, EntriesRecord(1, number, range(500), ids, deadlines)]
        if number > 1:
            records.append(RangesRecord(SETTLE, 1, [(1, 1_000 * number - 1)]))
        replay.apply(facts_of(number, records), 1 << 40)
        assert replay.values_of(1).rows() < 5_000
    replay.finish()
    [entries] = replay.entries().values()
    assert (entries.entries, entries.runs) == (500, 500)


@pytest.mark.parametrize("queue_ids", [{1}, {2}, {1, 2}])
def test_messages_are_read_for_the_queues_that_ask(queue_ids: set[int]) -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=400)
    wanted = []
    for number in range(1, 9):
        batch = batch_of([b"%d %d" % (number, index) for index in range(3)], number)
        for queue_id in (1, 2):
            journal.append(queue_id, batch, range(3), range(3 * number, 3 * number + 3))
            if queue_id in queue_ids:
                found = [(3 * number + index, kept(batch, index)) for index in range(3)]
                wanted += [(queue_id, *each) for each in found if each[0] != 10]
        journal.commit()
    journal.settle(1, [(10, 10)])
    journal.settle(2, [(10, 10)])
    journal.commit()
    files.kill()
    _, recovered = opened(files, segment_bytes_max=400)
    read = [
        (queue_id, run.first_entry_id + position, kept(run.batch, index))
        for queue_id, run in recovered.messages_of(queue_ids)
        for position, index in enumerate(run.indexes)
    ]
    assert sorted(read) == sorted(wanted)
    for queue_id in queue_ids:
        ids = [entry_id for each, entry_id, _ in read if each == queue_id]
        assert ids == sorted(ids)
    assert len([name for name in files.names if DIRECTORY in name]) > 5
