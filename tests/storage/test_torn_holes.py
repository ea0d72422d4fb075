"""Holes that a crash tore: what verifies behind them counts, and does no harm.

In each test the last commit was not named as synced, because nothing was written behind it: what is
missing of it may have been lost by a power cut.
"""

from __future__ import annotations

import pytest
from crashing_files import CrashingFiles
from journals import (
    DIRECTORY,
    contents,
    events,
    in_three_segments,
    opened,
    records_of,
    started_twice,
)
from leveret.storage.journal.identity_runs import Identities
from leveret.storage.journal.segment_files import segment_path
from publishes import batch_of


def lose(files: CrashingFiles, segment: int, *whats: str) -> None:
    """The pages with these records were never written."""
    content = files.names[segment_path(DIRECTORY, segment)].content
    for placed in records_of(files, segment):
        if placed.what in whats:
            content[placed.start : placed.end] = bytes(placed.end - placed.start)


def three_batches_in_one_commit() -> CrashingFiles:
    files = CrashingFiles()
    journal, _ = opened(files)
    for number in (1, 2, 3):
        batch = batch_of([b"%d" % number] * 2, number)
        ids = range(2 * number, 2 * number + 2)
        journal.append(1, batch, range(2), ids)
    journal.commit()
    files.kill()
    return files


def test_records_behind_a_torn_hole_count_and_no_later_start_calls_it_damage() -> None:
    files = three_batches_in_one_commit()
    lose(files, 1, "entries 1 of 2")
    found, report = started_twice(files)
    assert found.keys() == {(1, 2), (1, 3), (1, 6), (1, 7)}
    assert events(report) == ["torn", "torn"]
    assert report[1].entries == 2
    for number in (4, 5, 6):
        journal, recovered = opened(files)
        assert contents(recovered) == found
        assert recovered.report == []
        journal.append(2, batch_of([b"more"], number), range(1), range(number, number + 1))
        journal.settle(2, [(number, number)])
        journal.commit()
        files.kill()


def test_later_damage_beside_a_torn_hole_is_damage() -> None:
    files = three_batches_in_one_commit()
    lose(files, 1, "entries 1 of 2")
    found, _ = started_twice(files)
    [placed] = [each for each in records_of(files) if each.what == "entries 1 of 3"]
    files.flip(segment_path(DIRECTORY, 1), placed.start + 30)
    left, report = started_twice(files)
    assert left.keys() == found.keys() - {(1, 6), (1, 7)}
    assert events(report) == ["damaged", "lost"]


def test_entries_without_their_body_were_being_written() -> None:
    files = three_batches_in_one_commit()
    lose(files, 1, "body 2")
    found, report = started_twice(files)
    assert found.keys() == {(1, 2), (1, 3), (1, 6), (1, 7)}
    assert events(report) == ["torn", "torn"]
    assert "2 entries of queue 1, ids 4 to 5: no body of batch 2 was written" in report[1].text
    # Their ids are not given again.
    assert opened(files)[1].next_entry_ids[1] == 8


def test_an_identity_whose_message_was_torn_is_not_remembered() -> None:
    """Its publisher was not answered, publishes again, and must not be told that it is there."""
    files = CrashingFiles()
    journal, _ = opened(files)
    octets = [bytes([number]) * 16 for number in range(1, 7)]
    for number in (1, 2):
        batch = batch_of([b"%d" % number] * 3, number)
        identities = Identities(b"".join(octets[3 * number - 3 : 3 * number]), 0)
        first = 3 * number
        journal.append(1, batch, range(3), range(first, first + 3), 0, identities)
    # One of those whose body will be lost was settled at once: it was delivered.
    journal.settle(1, [(7, 7)])
    journal.commit()
    files.kill()
    lose(files, 1, "body 2")
    for _ in range(2):
        _, recovered = opened(files)
        assert contents(recovered).keys() == {(1, 3), (1, 4), (1, 5)}
        remembered = b"".join(bytes(run.identities) for run in recovered.identities[1])
        assert remembered == b"".join((*octets[:3], octets[4]))
        files.kill()


@pytest.mark.parametrize("settled", [(0, 99), (6, 8), (8, 8), (3, 6)])
def test_a_later_settle_does_not_bring_back_the_identity_of_a_message_that_was_torn(
    settled: tuple[int, int],
) -> None:
    """A settle may speak of ids between its own; what it speaks of passes for consumed."""
    files = CrashingFiles()
    journal, _ = opened(files)
    octets = [bytes([number]) * 16 for number in range(1, 7)]
    for number in (1, 2):
        batch = batch_of([b"%d" % number] * 3, number)
        identities = Identities(b"".join(octets[3 * number - 3 : 3 * number]), 0)
        first = 3 * number
        journal.append(1, batch, range(3), range(first, first + 3), 0, identities)
    journal.commit()
    files.kill()
    lose(files, 1, "body 2")
    # The start after the crash, and one more that must know of what that one has let go.
    for _ in range(2):
        journal, _ = opened(files)
        journal.append(1, batch_of([b"keeps the segment"], 9), range(1), range(20, 21))
        journal.settle(1, [settled, (20, 20)], sync=True)
        journal.commit()
        files.kill()
    _, recovered = opened(files)
    remembered = b"".join(bytes(run.identities) for run in recovered.identities[1])
    assert remembered == b"".join(octets[:3])
    first, last = settled
    assert {key for _, key in contents(recovered)} == {3, 4, 5} - set(range(first, last + 1))


def removal_with_a_torn_settle(*, is_discarded: bool) -> CrashingFiles:
    files, _ = in_three_segments()
    journal, _ = opened(files)
    journal.append(2, batch_of([b"stays"], 9), range(1), range(1, 2))
    journal.commit()
    journal.settle(1, [(1, 2)])
    commit = journal.begin_commit(reclaim=True)
    assert commit is not None
    commit.run()
    if is_discarded:
        commit.discard()
    files.kill()
    lose(files, 4, "settle")
    return files


def test_a_removal_behind_a_torn_hole_removes_nothing() -> None:
    """The settle because of which the segments could go is not there."""
    found, report = started_twice(removal_with_a_torn_settle(is_discarded=False))
    assert found.keys() == {(1, 1), (1, 2), (1, 3), (2, 1)}
    assert events(report) == ["torn"]


def test_segments_that_a_removal_behind_a_hole_names_are_not_missed() -> None:
    """They went after the sync, so it is no crash that tore the hole, and nothing tells."""
    found, report = started_twice(removal_with_a_torn_settle(is_discarded=True))
    assert found.keys() == {(1, 3), (2, 1)}
    assert events(report) == ["torn"]


def test_more_torn_holes_than_a_header_lists_are_one() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    for number in range(1, 601):
        batch = batch_of([b"%d" % number], number)
        journal.append(1, batch, range(1), range(number, number + 1))
    journal.commit()
    files.kill()
    lose(files, 1, *(f"entries 1 of {number}" for number in range(1, 601, 2)))
    found, report = started_twice(files)
    assert found.keys() == {(1, number) for number in range(2, 601, 2)}
    assert set(events(report)) == {"torn"}
    assert opened(files)[1].report == []
