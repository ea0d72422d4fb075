"""Messages that spill into files: they come back as they were, and never cost the node anything."""

from __future__ import annotations

import errno
from array import array
from random import Random

import pytest
from crashing_files import CrashingFiles
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.journal.ledger import EntryRange
from leveret.storage.journal.reading import ReadRow
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.spill import Spill
from pages import Messages, ids_in, messages_of
from publishes import batch_of, kept, some_of, with_arrivals

DIRECTORY = "/spill"
ID = bytes(range(16))


def opened(files: CrashingFiles, segment_bytes_max: int = 4000) -> Spill:
    spill = Spill(files, DIRECTORY, ID, 0, segment_bytes_max=segment_bytes_max)
    spill.clear()
    return spill


def read_all(spill: Spill, queue_id: int, ranges: list[EntryRange], bytes_max: int) -> Messages:
    held: Messages = {}
    while ranges:
        page = spill.read(queue_id, ranges, bytes_max)
        assert page.lost == []
        held |= messages_of(page.rows)
        ranges = [
            (max(first, page.through + 1), last) for first, last in ranges if last > page.through
        ]
    return held


@pytest.mark.parametrize("seed", range(40))
def test_what_is_spilled_and_not_dropped_comes_back(seed: int) -> None:
    random = Random(seed)
    files = CrashingFiles()
    spill = opened(files)
    held: dict[int, Messages] = {1: {}, 2: {}, 3: {}}
    next_ids = dict.fromkeys(held, 1)
    for number in range(60):
        queue_id = random.choice((1, 2, 3))
        if random.random() < 0.6:
            rows: list[ReadRow] = []
            for _ in range(random.choice((1, 3))):
                size = random.choice((1, 5))
                bodies = [random.randbytes(random.choice((0, 50, 900))) for _ in range(size)]
                batch = with_arrivals(batch_of(bodies, number), random)
                indexes = some_of(random, range(size))
                first = next_ids[queue_id] + random.choice((0, 2))
                if not rows and random.random() < 0.3:
                    first = random.randrange(1, first + 1)
                if rows:
                    first = rows[-1].first_entry_id + len(rows[-1].indexes) + random.choice((0, 2))
                rows.append(ReadRow(batch, indexes, first))
                next_ids[queue_id] = max(next_ids[queue_id], first + len(indexes))
            assert spill.write(queue_id, rows, random.random() < 0.7)
            held[queue_id] |= messages_of(rows)
        elif random.random() < 0.9:
            first = random.randrange(1, next_ids[queue_id] + 1)
            ranges = [(random.choice((1, first)), first + random.choice((0, 5)))]
            spill.drop(queue_id, ranges)
            gone = set(ids_in(ranges))
            kept = {each: wire for each, wire in held[queue_id].items() if each not in gone}
            held[queue_id] = kept
        else:
            spill.drop(queue_id, None)
            held[queue_id] = {}
        asked = random.choice((1, 2, 3))
        everything = [(1, next_ids[asked] + 3)]
        assert read_all(spill, asked, everything, random.choice((1, 999, 1 << 20))) == held[asked]
    for queue_id in held:
        spill.drop(queue_id, [(1, next_ids[queue_id])])
    assert segment_numbers(files, DIRECTORY) == []


def row_of(body: bytes, entry_id: int = 1) -> ReadRow:
    return ReadRow(batch_of([body], 7), range(1), entry_id)


def test_nothing_is_synced() -> None:
    files = CrashingFiles()
    spill = opened(files)
    before = len(files.history)
    assert spill.write(1, [row_of(b"a")])
    assert {name for name, _ in files.history[before:]} == {"create", "write"}


def test_a_start_removes_the_files_of_a_broker_that_was_killed_and_a_stop_its_own() -> None:
    files = CrashingFiles()
    assert opened(files).write(1, [row_of(b"a")])
    files.kill()
    spill = opened(files)
    assert segment_numbers(files, DIRECTORY) == []
    assert spill.write(1, [row_of(b"b")])
    # A number is not used again.
    assert segment_numbers(files, DIRECTORY) == [2]
    assert spill.read(1, [(1, 1)], 1).lost == []
    spill.close()
    assert segment_numbers(files, DIRECTORY) == []


def test_a_full_disk_leaves_the_messages_where_they_were() -> None:
    files = CrashingFiles()
    spill = opened(files, 100_000)
    assert spill.write(1, [row_of(b"first")])
    files.capacity_bytes = 2000
    assert not spill.write(1, [row_of(b"x", 2), row_of(b"y" * 3000, 3)])
    assert spill.read(1, [(1, 3)], 1 << 20)[1:3] == ([], 3)
    assert read_all(spill, 1, [(1, 3)], 1) == {1: kept(batch_of([b"first"], 7), 0)}
    files.capacity_bytes = None
    assert spill.write(1, [row_of(b"x", 2)])
    assert list(read_all(spill, 1, [(1, 3)], 1)) == [1, 2]


def test_room_that_publishers_need_is_left() -> None:
    files = CrashingFiles()
    spill = Spill(files, DIRECTORY, ID, free_bytes_min=1000)
    spill.clear()
    files.capacity_bytes = 1040
    assert not spill.write(1, [row_of(b"x" * 50)])
    assert segment_numbers(files, DIRECTORY) == []


@pytest.mark.parametrize("name", ["create", "write"])
def test_an_error_of_the_disk_is_none_of_the_node(name: str) -> None:
    files = CrashingFiles()
    spill = opened(files)
    files.failing[name] = OSError(errno.EIO, "broken")
    assert not spill.write(1, [row_of(b"a")])
    assert spill.write(1, [row_of(b"b")])
    assert read_all(spill, 1, [(1, 1)], 1) == {1: kept(batch_of([b"b"], 7), 0)}


def test_entries_may_be_spilled_in_any_order_and_again() -> None:
    spill = opened(CrashingFiles(), 100_000)
    for entry_id in (1, 5, 3):
        assert spill.write(1, [row_of(b"%d" % entry_id, entry_id)])
    spill.drop(1, [(5, 5)])
    assert spill.write(1, [row_of(b"two", 2)])
    assert spill.write(1, [row_of(b"%d again" % each, each) for each in (3, 4, 5)])
    bodies = (b"1", b"two", b"3 again", b"4 again", b"5 again")
    wanted = {each: kept(batch_of([body], 7), 0) for each, body in enumerate(bodies, 1)}
    for bytes_max in (1, 1 << 20):
        assert read_all(spill, 1, [(1, 9)], bytes_max) == wanted
    assert read_all(spill, 1, [(3, 4)], 1) == {each: wanted[each] for each in (3, 4)}


def test_rows_whose_ids_follow_each_other_are_one_record_unless_they_are_traced() -> None:
    rows = [row_of(b"a", 1), row_of(b"b", 2), row_of(b"c", 4)]
    spill = opened(CrashingFiles())
    assert spill.write(1, rows)
    page = spill.read(1, [(1, 4)], 1, joins=False)
    assert [(row.batch.number, row.indexes) for row in page.rows] == [(0, range(2))]
    assert spill.write(1, rows, joins=False)
    page = spill.read(1, [(1, 4)], 1 << 20, joins=False)
    assert [(row.batch.number, row.indexes) for row in page.rows] == [(7, range(1))] * 3


def test_a_flipped_bit_costs_the_messages_in_its_record_and_is_reported() -> None:
    files = CrashingFiles()
    spill = opened(files)
    assert spill.write(1, [row_of(b"aaaa", 1), row_of(b"bbbb", 2), row_of(b"cccc", 3)], False)
    content = files.names[segment_path(DIRECTORY, 1)].content
    content[content.index(b"bbbb")] ^= 1
    page = spill.read(1, [(1, 3)], 1 << 20)
    assert (sorted(messages_of(page.rows)), page.lost) == ([1, 3], [(2, 2)])
    assert [line.event for line in page.report] == ["damaged", "lost"]


def test_a_message_keeps_whether_it_is_persistent_and_its_number() -> None:
    transient = batch_of([b"a", b"b", b"c"], 7).wire.replace(b"\x10\x00\x02", b"\x10\x00\x01")
    batch: Batch = batch_of([b"x"], 1)
    mixed = decode_publishes(transient + batch.wire)
    mixed.number = 9
    spill = opened(CrashingFiles())
    assert spill.write(1, [ReadRow(mixed, array("I", [1, 3]), 1)])
    [(read, indexes, first)] = spill.read(1, [(1, 2)], 1 << 20).rows
    assert (indexes, first, list(read.persistent)) == (range(2), 1, [0, 1])
    assert (read.number, list(read.excerpted or ())) == (9, [1, 3])
