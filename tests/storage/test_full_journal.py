"""A commit that meets a full disk, wherever in it that happens."""

from __future__ import annotations

from copy import deepcopy

import pytest
from crashing_files import CrashingFiles
from journals import contents, events, opened
from leveret.storage.errors import NoSpaceError
from leveret.storage.journal.identity_runs import Identities
from leveret.storage.journal.journal import Commit
from publishes import batch_of, kept

# Two batches fill a segment.
SEGMENT_BYTES_MAX = 700
# More than all that is handed over takes.
ROOM_BYTES_MAX = 3000


class Run:
    """A journal with a message of queue 1 on the disk, and a commit at hand that goes further.

    That commit settles the message, and appends four batches, through several segments.
    """

    def __init__(self) -> None:
        self.files = CrashingFiles()
        self.journal, _ = opened(self.files, segment_bytes_max=SEGMENT_BYTES_MAX)
        self.first = batch_of([b"first"], 1)
        self.journal.append(1, self.first, range(1), range(1, 2))
        self.journal.append(2, self.first, range(1), range(1, 2))
        self.journal.commit()
        self.batches = [batch_of([b"%d" % number * 60] * 2, number) for number in range(2, 6)]
        self.journal.settle(1, [(1, 1)])
        self.append(range(4))
        self.commit: Commit | None = self.journal.begin_commit()

    def append(self, numbers: range | list[int], later: int = 0) -> None:
        """To both queues; a batch's entries begin at ten times its number."""
        for number in numbers:
            first = 10 * (number + 1) + later
            for queue_id in (1, 2):
                self.journal.append(
                    queue_id, self.batches[number], range(2), range(first, first + 2)
                )

    def wanted(self, lost: set[tuple[int, int]], later: int = 0) -> dict[tuple[int, int], bytes]:
        """The entries that must be there; a lost one has another id if it is appended again."""
        found = {(2, 1): kept(self.first, 0)}
        for number, batch in enumerate(self.batches):
            for queue_id in (1, 2):
                first = 10 * (number + 1)
                if (queue_id, first) in lost:
                    if not later:
                        continue
                    first += later
                found |= {(queue_id, first + each): kept(batch, each) for each in range(2)}
        return found


@pytest.mark.parametrize("ends_with", ["a kill", "a power cut", "a stop"])
def test_a_commit_is_cut_back_wherever_the_disk_is_full_and_can_be_made_again(
    ends_with: str,
) -> None:
    outcomes: set[int] = set()
    for room in range(0, ROOM_BYTES_MAX, 17):
        run = Run()
        run.files.capacity_bytes = run.files.used_bytes + room
        assert run.commit is not None
        lost: set[tuple[int, int]] = set()
        try:
            run.commit.run()
        except NoSpaceError:
            lost = run.journal.roll_back(run.commit)
            assert run.files.used_bytes <= run.files.capacity_bytes
        outcomes.add(len(lost))
        if lost:
            check_crash(run, lost)
        # There is room again.
        run.files.capacity_bytes = None
        if lost:
            run.journal.write_held()
            run.journal.commit()
            run.journal.end_shortage()
            again = sorted({first // 10 - 1 for _, first in lost})
            for number in again:
                for queue_id in (1, 2):
                    if (queue_id, 10 * (number + 1)) in lost:
                        first = 10 * (number + 1) + 5
                        ids = range(first, first + 2)
                        run.journal.append(queue_id, run.batches[number], range(2), ids)
            # Purge-ok waits for such a one.
            run.journal.settle(1, [(0, 0)], sync=True)
            assert run.journal.commit().synced
        if ends_with == "a stop":
            run.journal.close()
        elif ends_with == "a power cut":
            run.files.synced_names = dict(run.files.names)
            for file in run.files.names.values():
                file.content = bytearray(file.synced)
        check(run.files, run.wanted(lost, later=5))
    # Nothing was lost, something of it, and all.
    assert {0, 8} < outcomes


def check_crash(run: Run, lost: set[tuple[int, int]]) -> None:
    """A process that dies at this moment leaves what the journal says."""
    copied = CrashingFiles()
    copied.names = deepcopy(run.files.names)
    check(copied, run.wanted(lost) | {(1, 1): kept(run.first, 0)}, may_be_settled={(1, 1)})


def check(
    files: CrashingFiles,
    wanted: dict[tuple[int, int], bytes],
    may_be_settled: set[tuple[int, int]] = frozenset(),  # type: ignore[assignment]
) -> None:
    for _ in range(2):
        files.kill()
        _, recovered = opened(files, segment_bytes_max=SEGMENT_BYTES_MAX)
        found = contents(recovered)
        assert {**wanted, **found} == wanted
        assert wanted.keys() - found.keys() <= may_be_settled
        assert set(events(recovered.report)) <= {"truncated", "torn"}


def test_identities_of_what_was_lost_are_not_remembered_and_others_are() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    known = [bytes([number]) * 15 + b"\2" for number in (1, 2)]
    journal.append(1, batch_of([b"1"], 1), range(1), range(1, 2), 0, Identities(known[0], 0))
    journal.commit()
    files.capacity_bytes = files.used_bytes
    journal.append(
        1, batch_of([b"2" * 300_000], 2), range(1), range(2, 3), 0, Identities(known[1], 0)
    )
    with pytest.raises(NoSpaceError):
        journal.commit()
    files.capacity_bytes = None
    journal.end_shortage()
    journal.append(1, batch_of([b"3"], 3), range(1), range(3, 4), 0, Identities(known[1], 0))
    journal.close()
    _, recovered = opened(files)
    octets = b"".join(bytes(run.identities) for run in recovered.identities[1])
    assert octets == known[0] + known[1]


def test_identities_outlive_their_segment_also_where_its_removal_had_no_room() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=SEGMENT_BYTES_MAX)
    known = [bytes([number]) * 15 + b"\2" for number in range(1, 9)]
    for number, identity in enumerate(known, 1):
        identities = Identities(identity, 0)
        batch = batch_of([b"x" * 100], number)
        journal.append(1, batch, range(1), range(number, number + 1), 0, identities)
        journal.commit()
    files.capacity_bytes = files.used_bytes
    journal.settle(1, [(1, 8)])
    commit = journal.begin_commit(reclaim=True)
    assert commit is not None
    removed = list(commit.going)
    assert removed
    with pytest.raises(NoSpaceError):
        commit.run()
    assert journal.roll_back(commit) == set()
    # The settles do without room: what is removed needs none.
    files.capacity_bytes = files.used_bytes + 600
    commit = journal.begin_commit(reclaim=True)
    assert commit is not None
    assert set(commit.going) >= set(removed)
    commit.run()
    commit.discard()
    files.kill()
    files.capacity_bytes = None
    _, recovered = opened(files, segment_bytes_max=SEGMENT_BYTES_MAX)
    octets = b"".join(bytes(run.identities) for run in recovered.identities[1])
    assert octets == b"".join(known)


def test_identities_of_a_segment_that_is_cut_back_and_stays_are_not_written_anew() -> None:
    files = CrashingFiles()
    # Too large for zeros to be written behind them, which would be room for the settle.
    segment_bytes_max = 400_000
    journal, _ = opened(files, segment_bytes_max=segment_bytes_max)
    known = [bytes([number]) * 15 + b"\2" for number in (1, 2)]
    first, second = batch_of([b"1" * 300_000], 1), batch_of([b"2" * 200_000], 2)
    journal.append(1, first, range(1), range(1, 2), 0, Identities(known[0], 0))
    journal.commit()
    files.capacity_bytes = files.used_bytes
    # The settle is for the open segment, which can go then; the append fills another.
    journal.settle(1, [(1, 1)])
    journal.append(1, second, range(1), range(2, 3), 0, Identities(known[1], 0))
    commit = journal.begin_commit(reclaim=True)
    assert commit is not None
    assert list(commit.going) == [1]
    with pytest.raises(NoSpaceError):
        commit.run()
    assert journal.roll_back(commit) == {(1, 2)}
    files.capacity_bytes = None
    journal.write_held()
    journal.reclaim()
    journal.end_shortage()
    journal.append(1, second, range(1), range(3, 4), 0, Identities(known[1], 0))
    journal.close()
    _, recovered = opened(files, segment_bytes_max=segment_bytes_max)
    assert list(contents(recovered)) == [(1, 3)]
    octets = b"".join(bytes(run.identities) for run in recovered.identities[1])
    assert octets == known[0] + known[1]


def test_identities_that_are_forgotten_for_good_while_the_disk_is_full_do_not_come_back() -> None:
    files = CrashingFiles()
    # Too large for zeros to be written behind it, as above.
    segment_bytes_max = 400_000
    journal, _ = opened(files, segment_bytes_max=segment_bytes_max)
    known = [bytes([number]) * 15 + b"\2" for number in (1, 2)]
    first = batch_of([b"1" * 300_000], 1)
    journal.append(1, first, range(1), range(1, 2), 0, Identities(known[0], 0))
    journal.commit()
    files.capacity_bytes = files.used_bytes
    journal.drop_identities(1, 2)
    with pytest.raises(NoSpaceError):
        journal.commit()
    files.capacity_bytes = None
    journal.write_held()
    journal.commit()
    journal.end_shortage()
    journal.append(1, batch_of([b"2"], 2), range(1), range(2, 3), 0, Identities(known[1], 0))
    journal.close()
    _, recovered = opened(files, segment_bytes_max=segment_bytes_max)
    assert list(contents(recovered)) == [(1, 1), (1, 2)]
    assert b"".join(bytes(run.identities) for run in recovered.identities[1]) == known[1]
