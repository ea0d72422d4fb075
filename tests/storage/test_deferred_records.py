"""Due times in the journal: over starts, with torn records, and while the disk is full."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from crashing_files import CrashingFiles
from hypothesis import given
from hypothesis import strategies as st
from journals import DIRECTORY, events, opened, records_of
from leveret.storage.errors import NoSpaceError
from leveret.storage.journal.records import (
    HEAD_BYTES,
    NUMBER_MAX,
    RANGES_BYTES_MIN,
    DeferredRecord,
    EntriesRecord,
    Seal,
    decode_record,
    encode_deferred,
    encode_entries,
    entries_bytes_at_most,
)
from leveret.storage.journal.recovery import Recovered
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.shortage import joined_deferred
from publishes import batch_of

DUE_MS = 1_700_000_000_000


def found_in(recovered: Recovered, queue_id: int = 1) -> dict[int, tuple[int, int]]:
    """By entry id: how often it was delivered, and when it is due."""
    found = {}
    for run in recovered.messages(queue_id):
        for position in range(len(run.indexes)):
            due_ms = run.due_times if isinstance(run.due_times, int) else run.due_times[position]
            found[run.first_entry_id + position] = (run.attempts, due_ms)
    return found


def after_starts(files: CrashingFiles) -> dict[int, tuple[int, int]]:
    """What two starts find, the same."""
    files.kill()
    first = found_in(opened(files)[1])
    files.kill()
    assert found_in(opened(files)[1]) == first
    return first


def verified(record: bytes) -> bytes:
    return record[HEAD_BYTES:]


@pytest.mark.parametrize("is_closed", [True, False])
def test_due_times_come_back_with_attempts(is_closed: bool) -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    due_times = array("Q", [0, DUE_MS, DUE_MS + 1])
    journal.append(1, batch_of([b"x"] * 3, 1), range(3), range(1, 4), due_times=due_times)
    journal.append(1, batch_of([b"y"] * 2, 2), range(2), range(4, 6), due_times=DUE_MS + 5)
    journal.append(1, batch_of([b"z"] * 3, 3), range(3), range(6, 9))
    journal.delivered(1, [(6, 8)])
    journal.deferred(1, [(6, 6, DUE_MS + 7), (8, 8, DUE_MS + 8)])
    journal.commit()
    if is_closed:
        journal.close()
    assert after_starts(files) == {
        1: (0, 0),
        2: (0, DUE_MS),
        3: (0, DUE_MS + 1),
        4: (0, DUE_MS + 5),
        5: (0, DUE_MS + 5),
        6: (1, DUE_MS + 7),
        7: (1, 0),
        8: (1, DUE_MS + 8),
    }


def test_a_delivered_entry_is_deferred_no_more_and_the_last_due_time_counts() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"x"] * 3, 1), range(3), range(1, 4), due_times=DUE_MS)
    journal.delivered(1, [(1, 2)])
    journal.deferred(1, [(2, 2, DUE_MS + 1)])
    journal.deferred(1, [(2, 2, DUE_MS + 2)])
    journal.commit()
    assert after_starts(files) == {1: (1, 0), 2: (1, DUE_MS + 2), 3: (0, DUE_MS)}


def test_a_settled_entry_s_due_time_goes_with_it() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"x"] * 4, 1), range(4), range(1, 5), due_times=DUE_MS)
    journal.settle(1, [(2, 3)])
    # Of entries that are gone nothing is written.
    size = journal.commit().bytes
    journal.deferred(1, [(2, 3, DUE_MS + 1)])
    assert (journal.commit().records, size > 0) == (0, True)
    assert after_starts(files) == {1: (0, DUE_MS), 4: (0, DUE_MS)}


def test_a_due_time_stays_until_its_entry_goes_and_then_its_segment_goes() -> None:
    """The records lie in three segments; each is kept for as long as it is needed."""
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=400)
    batch = batch_of([b"x" * 250], 1)
    journal.append(1, batch, range(1), range(1, 2))
    journal.commit()
    for number in (2, 3):
        journal.append(2, batch_of([b"y" * 250], number), range(1), range(number, number + 1))
        journal.delivered(1, [(1, 1)])
        journal.deferred(1, [(1, 1, DUE_MS + number)])
        journal.settle(2, [(number, number)])
        journal.commit()
        journal.reclaim()
    assert after_starts(files) == {1: (2, DUE_MS + 3)}
    journal, _ = opened(files, segment_bytes_max=400)
    journal.settle(1, [(1, 1)])
    journal.commit()
    journal.reclaim()
    journal.reclaim()
    assert len(segment_numbers(files, DIRECTORY)) == 1


def test_a_torn_deferral_costs_an_early_delivery_and_is_reported_by_what_it_was() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"x"], 1), range(1), range(1, 2))
    journal.commit()
    journal.delivered(1, [(1, 1)])
    journal.deferred(1, [(1, 1, DUE_MS)])
    journal.settle(1, [(7, 7)], sync=True)
    journal.commit()
    files.kill()
    [torn] = [each for each in records_of(files) if each.what == "DeferredRecord"]
    content = files.names[segment_path(DIRECTORY, 1)].content
    content[torn.end - 1] ^= 1
    files.kill()
    _, recovered = opened(files)
    assert found_in(recovered) == {1: (1, 0)}
    assert events(recovered.report) == ["torn"]
    assert "deferred record of queue 1" in recovered.report[0].text
    assert after_starts(files) == {1: (1, 0)}


def test_a_deferral_of_a_queue_that_is_gone_or_of_entries_never_seen_does_no_harm() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(2, batch_of([b"x"], 1), range(1), range(1, 2))
    journal.deferred(2, [(1, 1, DUE_MS)])
    journal.commit()
    files.kill()
    _, recovered = opened(files, known={1})
    assert (recovered.queues, events(recovered.report)) == ({}, ["dropped"])


def test_deferrals_while_the_disk_is_full_are_written_when_there_is_room() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"x" * 300_000] * 4, 1), range(4), range(1, 5))
    journal.commit()
    files.capacity_bytes = files.used_bytes
    journal.delivered(1, [(1, 4)])
    journal.deferred(1, [(1, 4, DUE_MS)])
    journal.append(1, batch_of([b"y" * 300_000], 2), range(1), range(5, 6), due_times=DUE_MS)
    with pytest.raises(NoSpaceError):
        journal.commit()
    # One is delivered again, one besides is deferred again, one is acked.
    journal.delivered(1, [(1, 2)])
    journal.deferred(1, [(2, 2, DUE_MS + 9)])
    journal.settle(1, [(4, 4)])
    files.capacity_bytes = None
    journal.write_held()
    journal.commit()
    journal.end_shortage()
    # Of several deliveries during the shortage one is kept.
    assert after_starts(files) == {1: (1, 0), 2: (1, DUE_MS + 9), 3: (1, DUE_MS)}


def test_many_deferrals_while_the_disk_is_full_are_kept_as_few() -> None:
    random = Random(12)
    ranges = []
    expected: dict[int, int] = {}
    for _ in range(400):
        first = random.randrange(100)
        last, due_ms = first + random.randrange(20), random.choice((0, 5, 6))
        ranges.append((first, last, due_ms))
        expected.update(dict.fromkeys(range(first, last + 1), due_ms))
    found = joined_deferred(ranges)
    assert {entry: due_ms for first, last, due_ms in found for entry in range(first, last + 1)} == {
        entry: due_ms for entry, due_ms in expected.items() if due_ms
    }
    assert found == sorted(found)
    assert len(found) < 100


numbers = st.integers(min_value=1, max_value=NUMBER_MAX)


@given(ranges=st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=5))
def test_a_deferred_record_comes_back(ranges: list[tuple[int, int, int]]) -> None:
    record = encode_deferred(Seal(b"", 1, 1, 0), 7, ranges)
    assert len(record) == RANGES_BYTES_MIN + 24 * len(ranges)
    covered = verified(record)
    assert decode_record(covered, 0, len(covered)) == DeferredRecord(7, ranges)
    for end in range(1, len(covered)):
        with pytest.raises(ValueError, match=r"ranges announced|unpack_from"):
            decode_record(covered, 0, end)


@given(each=st.lists(numbers, min_size=1, max_size=5), deadline=st.integers(0, 1))
def test_due_times_of_entries_come_back_one_for_all_or_one_for_each(
    each: list[int], deadline: int
) -> None:
    count = len(each)
    for due_times in (array("Q", each), each[0]):
        ids = range(1, 1 + count)
        record = encode_entries(
            Seal(b"", 1, 1, 0), 1, 2, range(count), ids, deadline, None, due_times
        )
        assert len(record) <= entries_bytes_at_most(count, deadline, None, due_times)
        covered = verified(record)
        decoded = decode_record(covered, 0, len(covered))
        assert isinstance(decoded, EntriesRecord)
        assert (decoded.due_times, decoded.deadlines) == (due_times, deadline)
