"""The runs of entries that a start finds: packed, joined, and without bodies."""

from __future__ import annotations

import tracemalloc
from array import array
from itertools import pairwise

import pytest
from crashing_files import CrashingFiles
from hypothesis import given
from hypothesis import strategies as st
from journals import opened
from leveret.storage.journal.recovered_entries import RecoveredEntries, RecoveredRun
from publishes import batch_of

# Deadlines, attempts and due times are drawn from few, so that neighbours are often alike.
FEW = st.integers(0, 2)
GAPS_AND_RUNS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), FEW, FEW, FEW), max_size=30
)


@given(GAPS_AND_RUNS)
def test_runs_come_back_as_they_were_appended_and_neighbours_that_are_alike_are_one(
    drawn: list[tuple[int, int, int, int, int]],
) -> None:
    entries = RecoveredEntries()
    wanted = {}
    first = 1
    for gap, count, attempts, deadline_ms, due_ms in drawn:
        first += gap
        entries.append(first, count, attempts, deadline_ms, due_ms)
        wanted.update(dict.fromkeys(range(first, first + count), (attempts, deadline_ms, due_ms)))
        first += count
    runs = list(entries)
    found = {
        first_entry_id + position: rest
        for first_entry_id, count, *rest in runs
        for position in range(count)
    }
    assert {entry_id: tuple(rest) for entry_id, rest in found.items()} == wanted
    assert (entries.entries, entries.runs) == (len(wanted), len(runs))
    for before, after in pairwise(runs):
        gap = after.first_entry_id - before.first_entry_id - before.entries
        assert gap > 0 or (gap == 0 and before[2:] != after[2:])


def test_ids_with_gaps_are_a_run_for_each_stretch() -> None:
    entries = RecoveredEntries()
    entries.append_ids(array("Q", [1, 2, 4, 5, 9]), attempts=3)
    assert list(entries) == [RecoveredRun(1, 2, 3), RecoveredRun(4, 2, 3), RecoveredRun(9, 1, 3)]


def test_ids_that_do_not_ascend_are_refused() -> None:
    entries = RecoveredEntries()
    entries.append(5, 5)
    with pytest.raises(ValueError, match="entry id 9 does not ascend"):
        entries.append(9, 1)


def test_a_million_entries_in_order_cost_one_run_and_as_many_due_times_24_bytes_each() -> None:
    in_order, each_due = RecoveredEntries(), RecoveredEntries()
    tracemalloc.start()
    for entry_id in range(1, 100_001):
        in_order.append(entry_id, 1)
        each_due.append(entry_id, 1, due_ms=entry_id)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (in_order.runs, each_due.runs) == (1, 100_000)
    # An array has room for an eighth more.
    assert held < 100_000 * 24 * 9 / 8 + 10_000


def test_a_start_finds_the_runs_of_its_messages() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a", b"b", b"c"], 1), range(3), range(1, 4), 70)
    journal.append(1, batch_of([b"d"], 2), range(1), range(4, 5), 70)
    journal.append(1, batch_of([b"e", b"f"], 3), range(2), range(5, 7), array("Q", [0, 70]))
    journal.append(2, batch_of([b"g"], 4), range(1), range(9, 10), 0, None, 1_000)
    journal.delivered(1, [(2, 2)])
    journal.settle(1, [(4, 4)])
    journal.commit()
    files.kill()
    _, recovered = opened(files)
    assert {queue_id: list(runs) for queue_id, runs in recovered.queues.items()} == {
        1: [
            RecoveredRun(1, 1, 0, 70),
            RecoveredRun(2, 1, 1, 70),
            RecoveredRun(3, 1, 0, 70),
            RecoveredRun(5, 1),
            RecoveredRun(6, 1, 0, 70),
        ],
        2: [RecoveredRun(9, 1, 0, 0, 1_000)],
    }
    for queue_id, runs in recovered.queues.items():
        ids = [run.first_entry_id for run in recovered.messages(queue_id)]
        assert ids[0] == next(iter(runs)).first_entry_id
