"""Segments that are being read stay on the disk as they are until that is over."""

from __future__ import annotations

from crashing_files import CrashingFiles
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.segment_files import segment_numbers
from pages import DIRECTORY, messages_of
from publishes import batch_of, kept


def test_a_segment_goes_when_the_last_plan_that_reads_it_is_released() -> None:
    files = CrashingFiles()
    journal, _ = open_journal(DIRECTORY, files, {1}, segment_bytes_max=4096)
    batches = [batch_of([b"%d" % number * 3000], number) for number in (1, 2, 3)]
    for number, batch in enumerate(batches, 1):
        journal.append(1, batch, range(1), range(number, number + 1))
    journal.commit()
    assert segment_numbers(files, DIRECTORY) == [1, 2, 3]
    plans = [journal.locate(1, [(1, 1)], 1), journal.locate(1, [(1, 2)], 1 << 20)]
    journal.settle(1, [(1, 2)])
    journal.reclaim()
    assert segment_numbers(files, DIRECTORY) == [1, 2, 3]
    reader = journal.reader(str)
    rows = reader.read(plans[1]).rows
    assert messages_of(rows) == {1: kept(batches[0], 0), 2: kept(batches[1], 0)}
    assert journal.is_pinned(2)
    assert journal.release(plans[1]) == []
    assert not journal.is_pinned(2)
    assert segment_numbers(files, DIRECTORY) == [1, 3]
    journal.release(plans[0])
    assert segment_numbers(files, DIRECTORY) == [3]


def test_a_segment_that_is_needed_stays_when_its_plan_is_released() -> None:
    files = CrashingFiles()
    journal, _ = open_journal(DIRECTORY, files, {1}, segment_bytes_max=4096)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    journal.commit()
    journal.release(journal.locate(1, [(1, 1)], 1))
    assert segment_numbers(files, DIRECTORY) == [1]


def test_what_could_not_be_removed_when_it_was_released_is_said() -> None:
    files = CrashingFiles()
    journal, _ = open_journal(DIRECTORY, files, {1}, segment_bytes_max=4096)
    for number in (1, 2):
        batch = batch_of([b"x" * 3000], number)
        journal.append(1, batch, range(1), range(number, number + 1))
    journal.commit()
    plan = journal.locate(1, [(1, 1)], 1)
    journal.settle(1, [(1, 1)])
    journal.reclaim()
    files.failing["remove"] = OSError("not now")
    assert [each.segment for each in journal.release(plan)] == [1]
    journal.settle(1, [(2, 2)])
    journal.append(1, batch_of([b"x" * 3000], 3), range(1), range(3, 4))
    journal.reclaim()
    assert segment_numbers(files, DIRECTORY) == [3]
