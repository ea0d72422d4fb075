"""The journal's promises one by one, on a disk in memory."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from crashing_files import CrashingFiles
from leveret.storage.journal.journal import CommitResult, Journal
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.recovery import Recovered
from publishes import batch_of, message, publish

DIRECTORY = "/journal"


@pytest.fixture
def files() -> CrashingFiles:
    return CrashingFiles()


def opened(files: CrashingFiles, *queue_ids: int, **settings: int) -> tuple[Journal, Recovered]:
    return open_journal(DIRECTORY, files, set(queue_ids), **settings)


def contents(recovered: Recovered) -> dict[int, list[tuple[int, bytes, int]]]:
    """Per queue: entry id, wire bytes and attempts of every entry."""
    return {
        queue_id: [
            (run.first_entry_id + position, message(run.batch, index), run.attempts)
            for run in recovered.messages(queue_id)
            for position, index in enumerate(run.indexes)
        ]
        for queue_id in recovered.queues
    }


def restarted(files: CrashingFiles, *queue_ids: int) -> dict[int, list[tuple[int, bytes, int]]]:
    """The entries that two starts in a row recover, the same both times."""
    files.kill()
    journal, first = opened(files, *queue_ids)
    assert first.report == []
    files.kill()
    del journal
    _, second = opened(files, *queue_ids)
    assert contents(second) == contents(first)
    return contents(second)


def test_a_new_journal_is_empty(files: CrashingFiles) -> None:
    _, recovered = opened(files, 1)
    assert recovered == Recovered({}, 1, {1: 1}, [], {}, recovered.messages_of, recovered.losses)
    assert list(recovered.messages(1)) == []


def test_an_appended_batch_comes_back_after_its_commit(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    batch = batch_of([b"a", b"b", b"c"], 7)
    journal.append(1, batch, range(3), range(10, 13))
    result = journal.commit()
    assert result == CommitResult(True, result.bytes, 2)
    files.kill()
    _, recovered = opened(files, 1)
    assert contents(recovered) == {
        1: [(10, publish(b"a"), 0), (11, publish(b"b"), 0), (12, publish(b"c"), 0)]
    }
    assert recovered.next_batch_number == 8
    assert recovered.next_entry_ids == {1: 13}
    assert [run.batch.number for run in recovered.messages(1)] == [7]


def test_a_commit_is_one_write_and_one_sync(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1, 2)
    before = len(files.history)
    for number in range(1, 20):
        batch = batch_of([b"x"] * 10, number)
        journal.append(1, batch, range(10), range(number * 10, number * 10 + 10))
        journal.append(2, batch, range(5), range(number * 5, number * 5 + 5))
    journal.settle(1, [(10, 15)])
    journal.commit()
    assert [name for name, _ in files.history[before:]] == ["write", "sync_data"]


def test_settles_and_deliveries_alone_are_written_and_not_synced(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    journal.append(1, batch_of([b"a", b"b"], 1), range(2), range(1, 3))
    journal.commit()
    before = len(files.history)
    journal.delivered(1, [(1, 2)])
    journal.settle(1, [(1, 1)])
    result = journal.commit()
    assert not result.synced
    assert result.records == 2
    assert [name for name, _ in files.history[before:]] == ["write"]
    assert restarted(files, 1) == {1: [(2, publish(b"b"), 1)]}


def test_a_commit_of_nothing_touches_no_disk(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    before = len(files.history)
    assert journal.commit() == CommitResult(False, 0, 0)
    assert len(files.history) == before


def test_a_settle_of_entries_never_journalled_is_not_written(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    journal.settle(1, [(1, 100)])
    journal.delivered(1, [(1, 100)])
    assert journal.commit().records == 0


def test_a_body_is_written_once_for_all_queues_and_commits(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1, 2, 3)
    batch = batch_of([b"once" * 100, b"two" * 100], 1)
    journal.append(1, batch, range(2), range(1, 3))
    journal.append(2, batch, range(1, 2), range(5, 6))
    first = journal.commit()
    journal.append(3, batch, range(1), range(9, 10))
    second = journal.commit()
    assert first.records == 3
    assert second.records == 1
    assert second.bytes < 120
    assert restarted(files, 1, 2, 3) == {
        1: [(1, message(batch, 0), 0), (2, message(batch, 1), 0)],
        2: [(5, message(batch, 1), 0)],
        3: [(9, message(batch, 0), 0)],
    }


@pytest.mark.parametrize(
    "durable", [range(1, 3), array("I", [0, 2]), array("I", [1, 2, 4]), range(5), array("I", [3])]
)
def test_only_durable_messages_are_stored(
    files: CrashingFiles, durable: range | array[int]
) -> None:
    journal, _ = opened(files, 1, 2)
    batch = batch_of([b"0", b"1", b"2", b"3", b"4"], 1, durable)
    journal.append(1, batch, durable, range(1, len(durable) + 1))
    journal.append(2, batch, durable[:1], range(1, 2))
    journal.commit()
    files.kill()
    _, recovered = opened(files, 1, 2)
    wanted = [publish(b"%d" % index) for index in durable]
    assert [wire for _, wire, _ in contents(recovered)[1]] == wanted
    assert [wire for _, wire, _ in contents(recovered)[2]] == wanted[:1]
    assert next(recovered.messages(1)).batch.wire == b"".join(wanted)


def test_a_body_is_written_again_for_a_segment_that_does_not_follow_its_own(
    files: CrashingFiles,
) -> None:
    journal, _ = opened(files, 1, 2, 3, 4, segment_bytes_max=4096)
    batch = batch_of([b"early" * 200], 1)
    journal.append(1, batch, range(1), range(1, 2))
    filler = [batch_of([b"x" * 3000], number) for number in (2, 3)]
    journal.append(4, filler[0], range(1), range(1, 2))
    journal.append(2, batch, range(1), range(1, 2))
    # The two fillers, the early body once, and an entries record of each.
    assert journal.commit().records == 5
    journal.append(4, filler[1], range(1), range(2, 3))
    journal.append(3, batch, range(1), range(1, 2))
    assert journal.commit().records == 4
    entry = [(1, publish(b"early" * 200), 0)]
    others = {4: [(1, publish(b"x" * 3000), 0), (2, publish(b"x" * 3000), 0)]}
    assert restarted(files, 1, 2, 3, 4) == {1: entry, 2: entry, 3: entry} | others


def test_messages_with_gaps_between_them_are_gathered(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    batch = batch_of([b"0", b"other channel", b"2"], 1)
    for column in (batch.starts, batch.headers, batch.ends, batch.keys):
        del column[1]
    del batch.persistent[1]
    batch.contiguous = False
    journal.append(1, batch, range(2), range(1, 3))
    journal.commit()
    assert restarted(files, 1) == {1: [(1, publish(b"0"), 0), (2, publish(b"2"), 0)]}


def test_entry_ids_with_gaps_come_back_as_runs_without(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    batch = batch_of([b"%d" % index for index in range(6)], 1)
    journal.append(1, batch, range(6), array("Q", [1, 2, 5, 7, 8, 2**40]))
    journal.commit()
    files.kill()
    _, recovered = opened(files, 1)
    assert [(run.first_entry_id, list(run.indexes)) for run in recovered.messages(1)] == [
        (1, [0, 1]),
        (5, [2]),
        (7, [3, 4]),
        (2**40, [5]),
    ]
    assert recovered.next_entry_ids == {1: 2**40 + 1}


def test_attempts_split_runs(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    batch = batch_of([b"%d" % index for index in range(6)], 1)
    journal.append(1, batch, range(6), range(1, 7))
    journal.delivered(1, [(2, 4)])
    journal.delivered(1, [(3, 3), (6, 9)])
    journal.commit()
    files.kill()
    _, recovered = opened(files, 1)
    assert [(run.first_entry_id, run.attempts) for run in recovered.queues[1]] == [
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 1),
        (5, 0),
        (6, 1),
    ]


def test_a_settle_is_synced_when_asked_with_all_before_it(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    journal.append(1, batch_of([b"a", b"b", b"c"], 1), range(3), range(1, 4))
    journal.commit()
    journal.settle(1, [(1, 1)])
    journal.commit()
    journal.settle(1, [(7, 9)], sync=True)
    assert journal.commit().synced
    files.cut_power(Random(0))
    assert restarted(files, 1) == {1: [(2, publish(b"b"), 0), (3, publish(b"c"), 0)]}


def test_entries_of_a_queue_that_is_not_known_are_dropped_and_said_so(
    files: CrashingFiles,
) -> None:
    journal, _ = opened(files, 1, 2)
    batch = batch_of([b"a", b"b"], 1)
    journal.append(1, batch, range(2), range(1, 3))
    journal.append(2, batch, range(2), range(1, 3))
    journal.commit()
    files.kill()
    _, recovered = opened(files, 2)
    assert sorted(contents(recovered)) == [2]
    assert [line.event for line in recovered.report] == ["dropped"]
    assert recovered.next_entry_ids == {2: 3}


def test_a_recovered_batch_can_be_appended_again(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1, 2)
    durable = array("I", [1, 3, 4])
    journal.append(1, batch_of([b"%d" % i for i in range(5)], 1, durable), durable, range(1, 4))
    journal.commit()
    files.kill()
    journal, recovered = opened(files, 1, 2)
    run = next(recovered.messages(1))
    journal.append(2, run.batch, array("I", [0, 2]), range(1, 3))
    assert journal.commit().records == 1
    assert restarted(files, 1, 2)[2] == [(1, publish(b"1"), 0), (2, publish(b"4"), 0)]


def test_a_body_whose_segment_is_gone_is_written_again(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1, 2, segment_bytes_max=400)
    first = batch_of([b"a" * 50], 1)
    journal.append(1, first, range(1), range(1, 2))
    journal.settle(1, [(1, 1)])
    for number in range(2, 9):
        journal.append(1, batch_of([b"b" * 100], number), range(1), range(number, number + 1))
    journal.commit()
    journal.settle(1, [(2, 8)])
    journal.commit()
    assert journal.reclaim() > 0
    journal.append(2, first, range(1), range(1, 2))
    journal.commit()
    assert restarted(files, 1, 2) == {2: [(1, publish(b"a" * 50), 0)]}


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(files: CrashingFiles) -> None:
    files.write_bytes_max = 13
    journal, _ = opened(files, 1)
    journal.append(1, batch_of([b"a" * 100, b"b"], 1), range(2), range(1, 3))
    journal.commit()
    assert restarted(files, 1) == {1: [(1, publish(b"a" * 100), 0), (2, publish(b"b"), 0)]}


def test_entry_ids_must_ascend(files: CrashingFiles) -> None:
    journal, _ = opened(files, 1)
    batch = batch_of([b"a"], 1)
    journal.append(1, batch, range(1), range(5, 6))
    with pytest.raises(ValueError, match="does not ascend"):
        journal.append(1, batch, range(1), range(5, 6))
