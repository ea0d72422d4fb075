"""Messages that queues read back from the journal: exactly those that are live, and no others."""

from __future__ import annotations

import errno
from array import array
from random import Random

import earlier_segments
import pytest
from crashing_files import CrashingFiles
from leveret.amqp_frames.messages.arrivals import runs_of
from leveret.amqp_frames.messages.stored import stored_starts
from leveret.storage.journal import ledger, locating, reading, segment_facts
from leveret.storage.journal.ledger import EntryRange
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.records import BodyRecord, EntriesRecord
from leveret.storage.journal.scanning import PIECE_BYTES_MIN
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_reader import SegmentReader
from pages import DIRECTORY, QUEUES, Paged, ids_in, messages_of, read_page
from publishes import batch_of, kept

SEEDS = range(40)


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages have several places."""
    for module in (ledger, locating, reading, segment_facts):
        monkeypatch.setattr(module, "PLACES_STRIDE_BYTES", 700)
    monkeypatch.setattr(reading, "TOGETHER_BYTES_MAX", 900)


def random_ranges(random: Random, end: int) -> list[EntryRange]:
    """Ascending ranges of ids up to the end or beyond."""
    bounds = sorted(random.sample(range(1, end + 10), 2 * random.choice((1, 1, 2, 4))))
    return list(zip(bounds[::2], bounds[1::2], strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_of_any_ranges_give_exactly_the_live_messages(seed: int) -> None:
    random = Random(seed)
    paged = Paged(random)
    for _ in range(4):
        paged.steps(25)
        for queue_id in QUEUES:
            held = paged.held[queue_id]
            everything = [(1, paged.next_ids[queue_id] + 5)]
            for ranges in (everything, random_ranges(random, paged.next_ids[queue_id])):
                wanted = {each: held[each] for each in ids_in(ranges) if each in held}
                bytes_max = random.choice((1, 300, 1 << 20))
                joins = random.random() < 0.8
                found = paged.read(queue_id, ranges, bytes_max, joins)
                assert found == (wanted, [], [])


class Holder:
    """Which record holds what of which entries, read whole."""

    def __init__(self, paged: Paged) -> None:
        # Segment, first and last byte of a record, and the live entries that need it.
        self.needed: list[tuple[int, int, int, set[tuple[int, int]]]] = []
        bodies: dict[int, set[tuple[int, int]]] = {}
        for number in segment_numbers(paged.files, DIRECTORY):
            path = segment_path(DIRECTORY, number)
            data = bytes(paged.files.names[path].content)
            reader = SegmentReader(data, number, bytes(16), path)
            for offset, record in reader.records():
                entries: set[tuple[int, int]] = set()
                if isinstance(record, BodyRecord):
                    bodies[record.batch_number] = entries
                elif isinstance(record, EntriesRecord):
                    held = paged.held[record.queue_id]
                    entries |= {
                        (record.queue_id, each) for each in record.entry_ids if each in held
                    }
                    bodies.get(record.batch_number, set()).update(entries)
                self.needed.append((number, offset, reader.end, entries))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_loses_exactly_the_entries_that_need_its_record(seed: int) -> None:
    random = Random(seed)
    paged = Paged(random, segment_bytes_max=random.choice((4000, 100_000)))
    paged.steps(40)
    needed = [each for each in Holder(paged).needed if each[3] or random.random() < 0.1]
    if not needed:
        return
    number, start, end, entries = random.choice(needed)
    content = paged.files.names[segment_path(DIRECTORY, number)].content
    content[random.randrange(start, end)] ^= 1 << random.randrange(8)
    for queue_id in QUEUES:
        held = paged.held[queue_id]
        lost_ids = {each for queue, each in entries if queue == queue_id}
        wanted = {each: wire for each, wire in held.items() if each not in lost_ids}
        bytes_max = random.choice((1, 300, 1 << 20))
        found, lost, report = paged.read(queue_id, [(1, paged.next_ids[queue_id])], bytes_max)
        assert found == wanted
        assert lost == sorted(lost_ids)
        assert sum(line.entries or 0 for line in report if line.event == "lost") == len(lost)
        assert {line.event for line in report} == ({"damaged", "lost"} if lost else set())


def with_three() -> tuple[Paged, list[bytes]]:
    """Queue 1 with three messages of one byte, of a batch each."""
    paged = Paged(Random(1))
    batches = [batch_of([body], number) for number, body in enumerate([b"a", b"b", b"c"], 1)]
    for number, batch in enumerate(batches, 1):
        paged.journal.append(1, batch, range(1), range(number, number + 1))
        paged.journal.commit()
    return paged, [kept(batch, 0) for batch in batches]


def test_messages_published_one_by_one_are_joined_to_one_batch() -> None:
    paged, held = with_three()
    page = read_page(paged.journal, paged.reader, 1, [(1, 3)], 1 << 20)
    [(batch, indexes, first)] = page.rows
    assert (indexes, first, batch.number, batch.excerpted) == (range(3), 1, 0, None)
    assert list(messages_of(page.rows).values()) == held
    assert list(runs_of(batch.arrived, range(3))) == [(0, 1, 1001), (1, 2, 2001), (2, 3, 3001)]
    assert batch.wire_bytes == len(batch.wire)
    assert batch.journal_place is None


def test_while_they_are_traced_messages_keep_the_number_of_their_batch_and_theirs_in_it() -> None:
    paged = Paged(Random(1))
    batch = batch_of([b"a", b"b", b"c", b"d"], 7)
    paged.journal.append(1, batch, range(1, 3), range(1, 3))
    paged.journal.append(1, batch_of([b"e"], 8), range(1), range(3, 4))
    paged.journal.commit()
    page = read_page(paged.journal, paged.reader, 1, [(1, 3)], 1 << 20, joins=False)
    numbers = [(row.batch.number, row.batch.excerpted, row.first_entry_id) for row in page.rows]
    assert numbers == [(7, range(1, 3), 1), (8, None, 3)]


def test_a_page_has_about_the_bytes_asked_for_and_says_how_far_it_goes() -> None:
    paged, wires = with_three()
    page = read_page(paged.journal, paged.reader, 1, [(1, 3)], len(wires[0]) + 1)
    assert messages_of(page.rows) == {1: wires[0], 2: wires[1]}
    assert page.through == 2
    page = read_page(paged.journal, paged.reader, 1, [(3, 3)], 1)
    assert (messages_of(page.rows), page.through) == ({3: wires[2]}, 3)


def test_entries_that_are_not_live_are_neither_found_nor_lost() -> None:
    paged, _ = with_three()
    paged.journal.settle(1, [(2, 2)])
    page = read_page(paged.journal, paged.reader, 1, [(2, 2), (10, 12)], 1 << 20)
    assert page == ([], [], 12, [])
    page = read_page(paged.journal, paged.reader, 9, [(1, 5)], 1 << 20)
    assert page == ([], [], 5, [])


def test_a_message_larger_than_a_piece_is_read_and_one_of_others_is_passed() -> None:
    paged = Paged(Random(1), segment_bytes_max=100 << 20)
    large = [batch_of([bytes([number]) * (3 << 20)], number) for number in (1, 2)]
    for queue_id, batch in zip((1, 2), large, strict=True):
        paged.journal.append(queue_id, batch, range(1), range(1, 2))
    paged.journal.append(1, batch_of([b"small"], 3), range(1), range(2, 3))
    paged.journal.commit()
    held, lost, _ = paged.read(1, [(1, 2)])
    assert held == {1: kept(large[0], 0), 2: kept(batch_of([b"small"], 3), 0)}
    assert lost == []


def test_a_page_of_neighbours_is_read_in_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header and two; each further one would wait for the interpreter's lock, four times."""
    stride_bytes = 64 * 1024
    for module in (ledger, locating, reading, segment_facts):
        monkeypatch.setattr(module, "PLACES_STRIDE_BYTES", stride_bytes)
    monkeypatch.setattr(reading, "TOGETHER_BYTES_MAX", 1 << 20)
    paged = Paged(Random(1), segment_bytes_max=100 << 20)
    count = 2_000
    for number in range(1, count + 1):
        batch = batch_of([bytes(1_000)], number)
        paged.journal.append(1, batch, range(1), range(number, number + 1))
        paged.journal.commit()
    lengths: list[int] = []
    read = paged.files.read

    def counted(path: str, offset: int, length: int) -> bytes:
        lengths.append(length)
        return read(path, offset, length)

    paged.files.read = counted  # type: ignore[method-assign]
    page = read_page(paged.journal, paged.reader, 1, [(1, count)], 512 * 1024)
    assert sum(len(row.indexes) for row in page.rows) == page.through > 400
    assert len(lengths) <= 3
    assert sum(lengths) < 1024 * 1024
    lengths.clear()
    # Few bytes for a message that is sought alone.
    page = read_page(paged.journal, paged.reader, 1, [(1, 1)], 512 * 1024)
    assert page.through == 1
    assert sum(lengths) <= 2 * PIECE_BYTES_MIN


class UnreadableFiles(CrashingFiles):
    """Blocks of the disk that it cannot read."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[int] = set()
        self.error = errno.EIO

    def read(self, path: str, offset: int, length: int) -> bytes:
        if any(
            offset < 4096 * (block + 1) and 4096 * block < offset + length for block in self.bad
        ):
            raise OSError(self.error, "cannot be read", path)
        return super().read(path, offset, length)


def with_blocks() -> tuple[UnreadableFiles, Paged]:
    """A segment with a message in about each block."""
    files = UnreadableFiles()
    paged = Paged(Random(1), segment_bytes_max=1 << 20)
    paged.files = files
    paged.open()
    for number in range(1, 11):
        paged.journal.append(
            1, batch_of([b"%d" % number * 3000], number), range(1), range(number, number + 1)
        )
    paged.journal.commit()
    return files, paged


def test_a_block_that_the_disk_cannot_read_costs_the_messages_in_it_and_no_others() -> None:
    files, paged = with_blocks()
    files.bad = {2}
    held, lost, report = paged.read(1, [(1, 10)])
    assert sorted([*held, *lost]) == list(range(1, 11))
    assert 1 <= len(lost) <= 3
    assert {line.event for line in report} == {"damaged", "lost"}
    assert any("cannot be read" in line.text for line in report)
    files.bad = set()
    assert paged.read(1, [(1, 10)])[1] == []


def test_an_error_that_is_not_the_disk_s_loses_nothing_and_is_raised() -> None:
    files, paged = with_blocks()
    files.bad, files.error = {2}, errno.ENOMEM
    with pytest.raises(OSError, match="cannot be read"):
        paged.read(1, [(1, 10)])


def test_a_segment_that_is_gone_is_reported_with_what_was_in_it() -> None:
    paged, _ = with_three()
    del paged.files.names[segment_path(DIRECTORY, 1)]
    held, lost, report = paged.read(1, [(1, 3)])
    assert (held, lost) == ({}, [1, 2, 3])
    assert report[-1].text == "3 entries of queue 1, ids 1 to 3: no record that verifies holds them"


def test_ten_queues_that_share_a_batch_have_its_messages_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_into: list[int] = []

    def starts(wire: memoryview) -> array[int]:
        looked_into.append(len(wire))
        return stored_starts(wire)

    monkeypatch.setattr(reading, "stored_starts", starts)
    queues = range(1, 11)
    journal, _ = open_journal(DIRECTORY, CrashingFiles(), set(queues))
    batch = batch_of([b"%d" % number * 20 for number in range(100)], 1)
    for queue_id in queues:
        journal.append(queue_id, batch, array("I", range(queue_id - 1, 100, 10)), range(1, 11))
    journal.commit()
    reader = journal.reader(str)
    for queue_id in queues:
        page = read_page(journal, reader, queue_id, [(1, 10)], 1 << 20)
        assert [len(row.batch) for row in page.rows] == [10]
    assert looked_into == [len(batch.wire)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_messages_in_segments_of_earlier_formats_are_read_back(version: int) -> None:
    files, stages = earlier_segments.written_step_by_step(version)
    paged = Paged(Random(1))
    paged.files = files
    paged.open()
    held = {each: wire for (queue_id, each), wire in stages[-1][1].items() if queue_id == 1}
    assert paged.read(1, [(1, 20)]) == (held, [], [])
    # The lengths lead on behind a body that does not verify.
    content = files.names[segment_path(DIRECTORY, 1)].content
    content[content.index(b"3 1")] ^= 1
    found, lost, _ = paged.read(2, [(1, 20)])
    assert (sorted(found), lost) == (list(range(3, 9)), [9, 10, 11])


def test_a_flipped_bit_in_a_header_loses_nothing() -> None:
    paged, wires = with_three()
    content = paged.files.names[segment_path(DIRECTORY, 1)].content
    first_record = next(SegmentReader(bytes(content), 1, bytes(16), "").records())[0]
    for position in range(first_record):
        content[position] ^= 1
        assert paged.read(1, [(1, 3)]) == (dict(enumerate(wires, 1)), [], [])
        content[position] ^= 1
