"""Closed segments are indexed and verified while the broker runs.

Damage is reported as at a start.
"""

from __future__ import annotations

from random import Random

import pytest
from crashing_files import CrashingFiles
from journals import DIRECTORY, in_three_segments, opened, records_of
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.belonging import CatalogClaims
from leveret.storage.journal.background_check import BackgroundCheck
from leveret.storage.journal.journal import COMPACTION_RULES
from leveret.storage.journal.opening import begin_journal
from leveret.storage.journal.recovery import Recovery
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_path
from leveret.storage.journal.segment_index import index_path
from publishes import batch_of
from segments_at_random import written_at_random


def read(files: CrashingFiles, may_use_indexes: bool = True) -> Recovery:
    claims = CatalogClaims({1, 2}, directory_id=bytes(16))
    recovery = Recovery(files, DIRECTORY, claims, decode_publishes, may_use_indexes)
    recovery.read()
    return recovery


def checked(check: BackgroundCheck) -> list[ReportLine]:
    """Everything that there is to find."""
    found: list[ReportLine] = []
    check.look()
    while True:
        count, lines = check.step()
        found += lines
        if not count:
            return found


def test_closed_segments_get_an_index_and_the_newest_gets_none() -> None:
    files, _ = in_three_segments()
    opened(files)
    recovery = read(files)
    assert checked(recovery.background_check(files)) == []
    indexes = [number for number in range(1, 6) if index_path(DIRECTORY, number) in files.names]
    assert indexes == [1, 2, 3]
    assert read(files).unverified == [1, 2, 3]
    assert read(files, may_use_indexes=False).unverified == []


def test_it_knows_how_many_bytes_are_left() -> None:
    files, _ = in_three_segments()
    opened(files)
    check = read(files).background_check(files)
    assert check.left_bytes == 0
    check.look()
    sizes = [files.size(segment_path(DIRECTORY, number)) for number in (1, 2, 3)]
    assert check.left_bytes == sum(sizes)
    # A small segment is one piece.
    for at in range(1, 4):
        assert check.step() == (sizes[at - 1], [])
        assert check.left_bytes == sum(sizes[at:])
    assert check.step() == (0, [])
    assert check.left_bytes == 0


def test_a_segment_that_is_closed_later_is_found_at_the_next_look() -> None:
    files, _ = in_three_segments()
    journal, _ = opened(files)
    check = read(files).background_check(files)
    checked(check)
    assert not check.look()
    journal.append(1, batch_of([b"a message"], 9), range(1), range(9, 10))
    journal.commit()
    files.kill()
    opened(files)
    assert check.look()
    checked(check)
    assert index_path(DIRECTORY, 4) in files.names


def test_damage_behind_an_index_is_reported_as_at_a_start_and_once() -> None:
    files, _ = in_three_segments()
    opened(files)
    checked(read(files).background_check(files))
    [entries] = [each for each in records_of(files, 2) if each.what.startswith("entries")]
    files.flip(segment_path(DIRECTORY, 2), entries.start + 30)
    wanted = read(files, may_use_indexes=False)
    assert [line.event for line in wanted.recovered.report] == ["damaged", "lost"]
    recovery = read(files)
    assert (recovery.recovered.report, recovery.unverified) == ([], [1, 2, 3])
    check = recovery.background_check(files)
    assert checked(check) == wanted.recovered.report
    assert recovery.damaged == wanted.damaged == {2}
    assert (checked(check), check.unverified) == ([], 0)


def test_a_loss_that_the_check_has_counted_is_named_again_by_queue_and_id_when_it_is_read() -> None:
    files, _ = in_three_segments()
    opened(files)
    checked(read(files).background_check(files))
    [entries] = [each for each in records_of(files, 2) if each.what.startswith("entries")]
    files.flip(segment_path(DIRECTORY, 2), entries.start + 30)
    recovery = read(files)
    journal = begin_journal(
        DIRECTORY, files, 1 << 20, recovery, bytes(16), lambda: 0, 99, COMPACTION_RULES
    )
    by_check = checked(recovery.background_check(files))
    # Until then it counts.
    assert recovery.recovered.queues[1].entries == 3
    page = journal.reader(str).read(journal.locate(1, [(1, 3)], 1 << 20))
    assert page.lost == [(2, 2)]
    assert sum(len(row.indexes) for row in page.rows) == 2
    costs = [
        [line.entries for line in lines if line.event == "lost"]
        for lines in (by_check, page.report)
    ]
    assert costs == [[1], [1]]


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        ("body", "no body of batch 2 that verifies holds them"),
        ("entries", "no record that verifies holds them"),
    ],
)
def test_messages_that_a_queue_has_read_at_its_start_and_are_not_there_are_reported(
    what: str, fault: str
) -> None:
    files, _ = in_three_segments()
    opened(files)
    checked(read(files).background_check(files))
    [record] = [each for each in records_of(files, 2) if each.what.startswith(what)]
    files.flip(segment_path(DIRECTORY, 2), record.start + 50)
    recovered = read(files).recovered
    assert sum(len(run.indexes) for run in recovered.messages(1)) == 2
    assert recovered.losses.entries == {1: [(2, 2)]}
    [line] = [line for line in recovered.losses.report.lines() if line.event == "lost"]
    assert line == ReportLine("lost", f"1 entry of queue 1, ids 2: {fault}", 1)


def test_damage_that_a_start_has_reported_is_not_reported_again() -> None:
    files, _ = in_three_segments()
    opened(files)
    files.flip(segment_path(DIRECTORY, 2), records_of(files, 2)[0].start + 30)
    recovery = read(files)
    assert recovery.recovered.report
    assert checked(recovery.background_check(files)) == []
    assert index_path(DIRECTORY, 2) not in files.names


def test_a_segment_that_goes_while_it_is_read_is_no_damage() -> None:
    files, _ = in_three_segments()
    opened(files)
    checked(read(files).background_check(files))
    recovery = read(files)
    check = recovery.background_check(files)
    check.look()
    check.step()
    for number in (1, 2, 3):
        if segment_path(DIRECTORY, number) in files.names:
            files.remove(segment_path(DIRECTORY, number))
    assert checked(check) == []
    assert (recovery.damaged, check.unverified) == (set(), 0)


def test_a_disk_that_takes_no_index_costs_the_index_only() -> None:
    files, _ = in_three_segments()
    opened(files)
    for room in (0, 10, 100):
        files.capacity_bytes = files.used_bytes + room
        assert checked(read(files).background_check(files)) == []
        assert not [name for name in files.names if ".index" in name]


def test_whatever_a_broker_did_the_check_of_what_it_left_finds_nothing() -> None:
    for seed in range(10):
        files = written_at_random(Random(seed))
        opened(files)
        for _ in range(2):
            assert checked(read(files).background_check(files)) == [], f"seed {seed}"
