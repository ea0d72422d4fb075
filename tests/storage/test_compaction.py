"""Closed segments rewritten without their dead entries: what stays, what goes, what a start finds.

`test_journal_model.py` has compactions at any point of random histories, and crashes in them.
"""

from __future__ import annotations

from array import array

import pytest
from compactions import compact_all, compacted_in_pieces
from crashing_files import CrashingFiles
from journals import DIRECTORY, contents, events
from leveret.storage.journal.compaction import Compaction
from leveret.storage.journal.identity_runs import Identities
from leveret.storage.journal.journal import CompactionRules, Journal
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.recovery import Recovered
from leveret.storage.journal.segment_facts import read_facts
from leveret.storage.journal.segment_files import REWRITTEN, segment_numbers, segment_path
from leveret.storage.journal.segment_index import index_path, write_index
from leveret.storage.journal.segment_reader import SegmentReader
from pages import read_page
from publishes import batch_of, kept

SEGMENT_BYTES = 16 * 1024
RULES = CompactionRules(live_share_max=0.25, segment_bytes_min=256)


def opened(files: CrashingFiles, segment_bytes: int = SEGMENT_BYTES) -> tuple[Journal, Recovered]:
    return open_journal(DIRECTORY, files, {1, 2, 3}, segment_bytes, compaction=RULES)


def journal_bytes(files: CrashingFiles) -> int:
    numbers = segment_numbers(files, DIRECTORY)
    return sum(files.size(segment_path(DIRECTORY, number)) for number in numbers)


class Stream:
    """Messages that pass through queue 2, each settled as soon as it is stored."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.number = 1000
        self.next_id = 1

    def passes(self, messages: int, size: int = 200) -> None:
        for _ in range(messages):
            batch = batch_of([b"%d" % self.number * (size // 4)], self.number)
            self.journal.append(2, batch, range(1), range(self.next_id, self.next_id + 1))
            self.journal.commit()
            self.journal.delivered(2, [(self.next_id, self.next_id)])
            self.journal.settle(2, [(self.next_id, self.next_id)])
            self.number += 1
            self.next_id += 1


def test_an_old_message_does_not_keep_its_neighbours() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    old = batch_of([b"old"], 1)
    journal.append(1, old, range(1), range(1, 2))
    journal.delivered(1, [(1, 1)])
    stream = Stream(journal)
    sizes = []
    for _ in range(40):
        stream.passes(100)
        journal.reclaim()
        compact_all(journal)
        sizes.append(journal_bytes(files))
    # Some 800 KB have passed.
    assert max(sizes) < 6 * SEGMENT_BYTES, sizes
    files.kill()
    _, recovered = opened(files)
    assert contents(recovered) == {(1, 1): kept(old, 0)}
    [run] = recovered.messages(1)
    assert (run.attempts, recovered.report) == (1, [])


def test_a_later_segment_may_refer_to_a_body_that_has_only_its_live_messages() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, 8 * 1024)
    batch = batch_of([b"%d" % index * 500 for index in range(10)], 1)
    journal.append(2, batch, range(10), range(1, 11))
    journal.commit()
    filler = batch_of([b"x" * 6_000], 2)
    journal.append(2, filler, range(1), range(11, 12))
    journal.append(1, batch, range(10), range(1, 11))
    journal.commit()
    closing = batch_of([b"y" * 6_000], 3)
    journal.append(3, closing, range(1), range(1, 2))
    journal.commit()
    journal.settle(2, [(1, 10)])
    journal.settle(1, [(1, 3), (5, 5), (7, 10)])
    journal.commit()
    before = files.size(segment_path(DIRECTORY, 1))
    # More than a quarter of the second segment's entries is live, so its record stays as it is.
    assert compact_all(journal) == 1
    assert files.size(segment_path(DIRECTORY, 1)) < before // 2
    files.kill()
    _, recovered = opened(files)
    assert contents(recovered) == {
        (1, 4): kept(batch, 3),
        (1, 6): kept(batch, 5),
        (2, 11): kept(filler, 0),
        (3, 1): kept(closing, 0),
    }


def test_queues_that_are_read_together_have_each_the_body_that_their_records_refer_to() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, 8 * 1024)
    batch = batch_of([b"%d" % index * 500 for index in range(10)], 1)
    journal.append(2, batch, range(10), range(1, 11))
    journal.commit()
    for number in (2, 3):
        journal.append(3, batch_of([b"x" * 6_000], number), range(1), range(number, number + 1))
        journal.commit()
    # Its body is written once more, for the first lies too far back.
    journal.append(1, batch, range(10), range(1, 11))
    journal.commit()
    journal.append(3, batch_of([b"y" * 6_000], 4), range(1), range(4, 5))
    journal.commit()
    journal.settle(2, [(1, 5), (7, 10)])
    journal.commit()
    assert compact_all(journal) == 1
    files.kill()
    _, recovered = opened(files)
    found = {
        (queue_id, run.first_entry_id + position): kept(run.batch, index)
        for queue_id, run in recovered.messages_of({1, 2})
        for position, index in enumerate(run.indexes)
    }
    expected = {(1, index + 1): kept(batch, index) for index in range(10)}
    assert found == {**expected, (2, 6): kept(batch, 5)}
    assert recovered.losses.report.lines() == []


def mostly_dead() -> tuple[CrashingFiles, Journal]:
    """Segment 1 has a live message here and there, with all that a message may have."""
    files = CrashingFiles()
    journal, _ = opened(files, 64 * 1024)
    for number in range(1, 9):
        bodies = [b"%d-%d" % (number, index) * 50 for index in range(10)]
        first = number * 10
        ids = range(first, first + 10)
        octets = b"".join(b"%16d" % entry_id for entry_id in ids)
        due = array("Q", [77 + index for index in range(10)])
        batch = batch_of(bodies, number)
        journal.append(1, batch, range(10), ids, due, Identities(octets, 10**13))
        journal.append(2, batch, range(10), ids, 5, None, due)
    journal.delivered(1, [(13, 13), (25, 40)])
    journal.delivered(1, [(25, 25)])
    journal.deferred(1, [(13, 25, 99)])
    for queue_id in (1, 2):
        journal.settle(queue_id, [(0, 12), (14, 24), (26, 56), (58, 89)])
    journal.commit()
    for number in (100, 101, 102):
        journal.append(3, batch_of([b"x" * 60_000], number), range(1), range(number, number + 1))
        journal.commit()
    return files, journal


def everything(recovered: Recovered) -> list[object]:
    return [
        (
            *(queue_id, run.first_entry_id, run.attempts, run.deadlines, run.due_times),
            *(kept(run.batch, index) for index in run.indexes),
        )
        for queue_id in sorted(recovered.queues)
        for run in recovered.messages(queue_id)
    ]


def started(files: CrashingFiles) -> Recovered:
    files.kill()
    _, recovered = opened(files)
    return recovered


def test_live_entries_keep_deadlines_due_times_attempts_and_identities() -> None:
    files, _ = mostly_dead()
    expected = started(files)
    assert len(everything(expected)) >= 6
    files, journal = mostly_dead()
    before = files.size(segment_path(DIRECTORY, 1))
    assert compact_all(journal) == 1
    assert files.size(segment_path(DIRECTORY, 1)) < before / 4
    found = started(files)
    assert everything(found) == everything(expected)
    assert found.report == []
    # Ids that nothing speaks of any more may be used again, as after a removal.
    assert all(found.next_entry_ids[key] > entry_id for key, entry_id in contents(found))

    def remembered(recovered: Recovered) -> list[bytes]:
        return [bytes(run.identities) for run in recovered.identities[1]]

    assert b"".join(remembered(found)) == b"".join(remembered(expected))


def test_a_segment_is_rewritten_again_when_more_of_it_has_gone() -> None:
    files, journal = mostly_dead()
    compact_all(journal)
    journal.settle(1, [(0, 80)])
    journal.settle(2, [(0, 50)])
    before = files.size(segment_path(DIRECTORY, 1))
    assert compact_all(journal) == 1
    assert files.size(segment_path(DIRECTORY, 1)) < before
    recovered = started(files)
    assert [key for key in contents(recovered) if key[0] != 3] == [(2, 57)]
    assert recovered.report == []


def test_a_reader_that_knows_a_segment_reads_what_took_its_place() -> None:
    files, journal = mostly_dead()
    journal.commit()
    files.kill()
    # Another boot: the replacement has another epoch than the segment.
    journal, _ = opened(files)
    reader = journal.reader(str)
    before = read_page(journal, reader, 2, [(57, 57)], 1 << 20)
    assert compact_all(journal) >= 1
    after = read_page(journal, reader, 2, [(57, 57)], 1 << 20)
    for page in (before, after):
        assert (page.lost, page.report) == ([], [])
        assert [row.first_entry_id for row in page.rows] == [57]


def test_a_segment_that_is_being_emptied_is_left_alone() -> None:
    _, journal = mostly_dead()
    assert journal.begin_compaction() is None
    journal.settle(1, [(0, 60)])
    journal.settle(2, [(0, 50)])
    assert journal.begin_compaction() is None
    assert journal.begin_compaction() is not None


def test_what_is_settled_while_a_segment_is_rewritten_stays_settled() -> None:
    files, journal = mostly_dead()
    for pieces, _ in enumerate(compacted_in_pieces(journal)):
        if pieces == 2:
            # It was said to be live, and is in the replacement.
            journal.settle(1, [(57, 57)])
            journal.settle(2, [(57, 57)])
    journal.reclaim()
    # The settle keeps its segment for as long as the replacement has the entry.
    compact_all(journal)
    assert (1, 57) not in contents(started(files))
    assert (2, 57) not in contents(started(files))


def test_a_body_stays_for_the_entries_of_the_next_segment() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    batch = batch_of([b"%d" % index * 100 for index in range(50)], 1)
    journal.append(1, batch, range(50), range(1, 51))
    journal.append(2, batch_of([b"x" * 11_000], 2), range(1), range(1, 2))
    journal.append(3, batch, range(7, 9), range(1, 3))
    for number in (3, 4, 5):
        journal.append(2, batch_of([b"x" * 12_000], number), range(1), range(number, number + 1))
        journal.commit()
    journal.settle(1, [(1, 50)])
    assert compact_all(journal) >= 1
    found = contents(started(files))
    assert found[3, 1] == kept(batch, 7)
    assert found[3, 2] == kept(batch, 8)


def test_a_segment_that_is_read_for_another_one_goes_when_that_is_read() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    batch = batch_of([b"%d" % index * 100 for index in range(50)], 1)
    journal.append(1, batch, range(50), range(1, 51))
    journal.append(2, batch_of([b"x" * 11_000], 2), range(1), range(1, 2))
    journal.append(3, batch, range(7, 9), range(1, 3))
    for number in (3, 4, 5):
        journal.append(2, batch_of([b"x" * 12_000], number), range(1), range(number, number + 1))
        journal.commit()
    journal.settle(1, [(1, 49)])
    journal.settle(2, [(1, 4)])
    plan = None
    for _ in range(2):
        plan = plan or journal.begin_compaction()
    assert plan is not None
    assert (plan.segment, list(plan.users)) == (1, [2])
    compaction = Compaction(journal.log, plan)
    journal.settle(3, [(1, 2)])
    # Nothing needs it any more, and it goes as far as the records are concerned.
    journal.reclaim()
    assert 2 in segment_numbers(files, DIRECTORY)
    list(compaction.survey())
    for question in compaction.questions():
        compaction.answer(question.queue_id, journal.live_among(*question))
    list(compaction.write())
    assert journal.end_compaction(compaction.result) == []
    assert 2 not in segment_numbers(files, DIRECTORY)
    journal.reclaim()
    assert contents(started(files))[1, 50] == kept(batch, 49)


def test_a_replacement_that_did_not_take_its_place_does_not_count() -> None:
    files, journal = mostly_dead()
    for _ in compacted_in_pieces(journal):
        pass
    assert any(name.endswith(REWRITTEN) for name in files.names)
    expected = started(mostly_dead()[0])
    found = started(files)
    assert everything(found) == everything(expected)
    assert found.report == []
    assert not any(name.endswith(REWRITTEN) for name in files.names)


def test_a_replacement_that_no_record_names_is_damage() -> None:
    files, journal = mostly_dead()
    for _ in compacted_in_pieces(journal):
        pass
    files.kill()
    path = segment_path(DIRECTORY, 1)
    files.rename(path + REWRITTEN, path)
    _, recovered = opened(files)
    assert events(recovered.report) == ["damaged"]
    assert "segment 1" in recovered.report[0].text


def compacted() -> CrashingFiles:
    files, journal = mostly_dead()
    compact_all(journal)
    files.kill()
    # Its anchor is in a later header by now.
    opened(files)
    files.kill()
    return files


def test_a_flipped_bit_in_a_rewritten_segment_is_reported_with_what_it_cost() -> None:
    files = compacted()
    path = segment_path(DIRECTORY, 1)
    start = bytes(files.names[path].content).index(b"5-7" * 20)
    files.flip(path, start)
    _, recovered = opened(files)
    assert set(events(recovered.report)) == {"damaged", "lost"}
    # The bodies of entries 57 of both queues.
    assert [line.entries for line in recovered.report if line.event == "lost"] == [1, 1]


def test_a_rewritten_segment_that_is_missing_is_reported_with_what_it_had() -> None:
    files = compacted()
    files.remove(segment_path(DIRECTORY, 1))
    _, recovered = opened(files)
    assert [(line.event, line.entries) for line in recovered.report] == [("missing", 6)]


def test_a_rewritten_segment_that_is_cut_off_is_damage() -> None:
    files = compacted()
    path = segment_path(DIRECTORY, 1)
    files.truncate(path, files.size(path) - 10)
    _, recovered = opened(files)
    assert "damaged" in events(recovered.report)


def test_a_damaged_segment_is_not_rewritten() -> None:
    files, journal = mostly_dead()
    path = segment_path(DIRECTORY, 1)
    files.flip(path, files.size(path) // 2)
    before = bytes(files.names[path].content)
    compact_all(journal)
    assert bytes(files.names[path].content) == before
    # Nor is it tried again and again.
    assert (journal.begin_compaction(), journal.begin_compaction()) == (None, None)


def test_the_index_of_a_rewritten_segment_goes_with_what_it_was_of() -> None:
    files, journal = mostly_dead()
    for number in (1, 2):
        path = segment_path(DIRECTORY, number)
        data = files.read(path, 0, files.size(path))
        write_index(files, DIRECTORY, read_facts(SegmentReader(data, number, bytes(16), path)))
    assert compact_all(journal) == 1
    assert index_path(DIRECTORY, 1) not in files.names
    assert index_path(DIRECTORY, 2) in files.names


def test_a_segment_is_rewritten_although_its_index_cannot_be_removed() -> None:
    files, journal = mostly_dead()
    before = files.size(segment_path(DIRECTORY, 1))
    files.failing["remove"] = OSError(5, "the disk is ill")
    assert compact_all(journal) == 1
    assert files.size(segment_path(DIRECTORY, 1)) < before


@pytest.mark.parametrize("operation", ["create", "write", "sync_data"])
def test_an_error_of_the_disk_leaves_the_segment_as_it_was(operation: str) -> None:
    files, journal = mostly_dead()
    expected = everything(started(mostly_dead()[0]))
    pieces = compacted_in_pieces(journal)
    next(pieces)
    files.failing[operation] = OSError(5, "the disk is ill")
    with pytest.raises(OSError, match="ill"):
        list(pieces)
    files.failing.clear()
    assert everything(started(files)) == expected


def test_a_segment_of_notes_alone_is_rewritten_once() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"old"], 1), range(1), range(1, 2))
    stream = Stream(journal)
    stream.passes(100)
    for _ in range(200):
        # Attempts of an entry of the first segment, in those behind it.
        journal.delivered(1, [(1, 1)])
    stream.passes(100)
    stream.passes(100)
    journal.commit()
    while compact_all(journal):
        pass
    assert (journal.begin_compaction(), journal.begin_compaction()) == (None, None)
    files.kill()
    _, recovered = opened(files)
    [run] = recovered.messages(1)
    assert run.attempts == 200
