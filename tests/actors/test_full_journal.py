"""The journal's thread and a full disk: who is told what, and what is written all the same."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from client_frames import PERSISTENT, publish
from full_files import FullFiles
from leveret.actors.disk.journal import DISK_THREAD_BYTES_MIN, DiskBudget, JournalActor, Room
from leveret.actors.messages import (
    Append,
    AskJournal,
    DiskFull,
    DiskHasRoom,
    LookAtDisk,
    Persisted,
    RecordDeliveries,
    Ref,
    SeekRoom,
    SettleSynced,
    Unstored,
    WatchedBy,
)
from leveret.actors.runtime.thread_actor import stop_and_wait
from leveret.amqp_frames.decoder import Decoder
from leveret.storage.journal.opening import open_journal
from leveret.storage.reserve import STEPS, Purpose, Reserve
from recorders import TIMEOUT_SECONDS, RecordingReference

STEP_BYTES = 8192
KIB = 1024
# More than the journal writes ahead of itself.
BIG_BYTES = 400_000


class Bench:
    def __init__(self, directory: Path, segment_bytes_max: int) -> None:
        self.files = FullFiles()
        self.directory = directory
        self.failures: list[BaseException] = []
        journal, _ = open_journal(
            str(directory / "journal"), self.files, {1, 2}, segment_bytes_max=segment_bytes_max
        )
        self.reserve = Reserve(self.files, str(directory), STEPS * STEP_BYTES)
        assert self.reserve.refill(1 << 30, 0)
        # Is there room besides, when the reserve has what it wants?
        self.has_room = False
        self.journal: Ref = JournalActor.start_alone(
            journal,
            structlog.get_logger("test"),
            lambda _actor, error: self.failures.append(error),
            room=Room(DiskBudget(0), lambda _free: self.has_room, self.reserve),
        )
        self.queues: list[Any] = [RecordingReference(), RecordingReference()]
        self.watch: Any = RecordingReference()
        self.asking: Any = RecordingReference()
        self.journal.tell(WatchedBy(self.watch))
        self._next_batch_number = 1

    def append(self, queue: int, first_entry_id: int, body_bytes: int = 10) -> Append:
        data = publish("q", bytes(body_bytes), PERSISTENT)
        [read] = Decoder(1 << 20, 10_000_000, 10_000_000).feed(data)
        batch: Any = read.batch  # type: ignore[union-attr]
        batch.number = self._next_batch_number
        self._next_batch_number += 1
        ids = range(first_entry_id, first_entry_id + 1)
        append = Append(self.queues[queue], queue + 1, (), batch, range(1), ids)
        self.journal.tell(append)
        return append

    def settle(self, queue: int, *entry_ids: int) -> None:
        ranges = [(entry_id, entry_id) for entry_id in entry_ids]
        self.journal.tell(RecordDeliveries(queue + 1, [], ranges))

    def handled(self) -> None:
        """Return when the journal has handled all that it was told."""
        self.journal.ask(RecordDeliveries(1, [], []), timeout=TIMEOUT_SECONDS)

    def entries(self) -> dict[int, list[int]]:
        """By queue the entry ids that a start finds; the journal is at an end by that."""
        self.files.room = None
        stop_and_wait(self.journal)
        return found_in(self.directory)

    def entries_now(self, copied: Path) -> dict[int, list[int]]:
        """The entries that a start finds if the process dies at this moment."""
        shutil.copytree(self.directory / "journal", copied / "journal")
        return found_in(copied)


def found_in(directory: Path) -> dict[int, list[int]]:
    _, recovered = open_journal(str(directory / "journal"), known_queue_ids={1, 2})
    assert recovered.report == []
    return {
        queue_id: [run.first_entry_id for run in recovered.messages(queue_id)]
        for queue_id in recovered.queues
    }


@pytest.fixture
def segment_bytes_max() -> int:
    return 1024 * KIB


@pytest.fixture
def bench(tmp_path: Path, segment_bytes_max: int) -> Iterator[Bench]:
    (tmp_path / "data").mkdir()
    made = Bench(tmp_path / "data", segment_bytes_max)
    yield made
    made.files.room = None
    made.files.release()
    stop_and_wait(made.journal)
    assert made.failures == []


small_segments = pytest.mark.parametrize("segment_bytes_max", [64 * KIB])


def numbers(told: RecordingReference, kind: type) -> list[int]:
    """The entries of all messages of this kind that the queue was told, in that order."""
    messages = [message for message in told.received if isinstance(message, kind)]
    return [append.entry_ids[0] for message in messages for append in message.appends]


def test_appends_without_room_are_unstored_and_the_rest_of_their_commit_is_written_with_the_reserve(
    bench: Bench, tmp_path: Path
) -> None:
    # So large that nothing is written ahead.
    bench.append(0, 1, 200_000)
    bench.queues[0].wait_for(1)
    bench.files.room = 0
    bench.files.hold()
    # In one commit: a message that there is no room for, and what is settled.
    bench.append(0, 2, BIG_BYTES)
    bench.settle(0, 1)
    bench.files.release()
    queue = bench.queues[0]
    queue.wait_for(2)
    assert (numbers(queue, Persisted), numbers(queue, Unstored)) == ([1], [2])
    [full] = [each for each in bench.watch.wait_for(1) if isinstance(each, DiskFull)]
    path = bench.directory / "journal" / f"{1:020d}.journal"
    assert full.reason == f"no space left on the disk: {path}"
    bench.handled()
    assert bench.reserve.size_bytes == (STEPS - 1) * STEP_BYTES
    # The entry that was settled is gone, also if the process dies now; and the lost one was never.
    assert bench.entries_now(tmp_path / "copied") == {}


def test_until_there_is_room_publishes_are_unstored_without_a_look_at_the_disk(
    bench: Bench,
) -> None:
    bench.files.room = 0
    bench.append(0, 1, BIG_BYTES)
    bench.queues[0].wait_for(1)
    bench.files.room = None
    bench.append(1, 1)
    bench.queues[1].wait_for(1)
    # There is room, and none to spare for the reserve.
    bench.journal.tell(SeekRoom(1 << 20))
    bench.append(1, 2)
    bench.queues[1].wait_for(2)
    bench.has_room = True
    bench.journal.tell(SeekRoom(1 << 30))
    bench.append(1, 3)
    bench.queues[1].wait_for(3)
    assert (numbers(bench.queues[1], Unstored), numbers(bench.queues[1], Persisted)) == (
        [1, 2],
        [3],
    )
    assert bench.watch.received[-1] == DiskHasRoom()
    assert bench.entries() == {2: [3]}


def test_appends_that_gather_while_a_large_commit_meets_a_full_disk_are_unstored_with_it(
    bench: Bench,
) -> None:
    kept = bench.append(0, 1)
    bench.queues[0].wait_for(1)
    bench.files.hold()
    bench.append(0, 2)
    bench.files.wait_until_syncing()
    bench.files.room = 100_000
    # On the disk's own thread, while the journal's goes on.
    large = bench.append(0, 3, DISK_THREAD_BYTES_MIN)
    bench.files.release()
    gathered = bench.append(1, 1)
    bench.queues[1].wait_for(1)
    # Behind the answers to the other queue.
    bench.handled()
    told = [each for queue in bench.queues for each in queue.received]
    stored = [each for one in told if isinstance(one, Persisted) for each in one.appends]
    unstored = [each for one in told if isinstance(one, Unstored) for each in one.appends]
    assert kept in stored
    assert large in unstored
    assert gathered in unstored
    assert len(stored) + len(unstored) == 4
    assert bench.entries() == {1: [1, 2]}


@small_segments
def test_appends_of_a_cut_commit_that_lie_in_full_segments_are_stored(bench: Bench) -> None:
    bench.files.hold()
    bench.append(0, 1)
    bench.files.wait_until_syncing()
    # Three segments, of which two find room.
    bench.files.room = 60 * KIB
    for number in range(2, 8):
        bench.append(0, number, 25 * KIB)
    bench.files.release()
    bench.handled()
    queue = bench.queues[0]
    stored, unstored = numbers(queue, Persisted), numbers(queue, Unstored)
    assert sorted(stored + unstored) == list(range(1, 8))
    assert stored[:3] == [1, 2, 3]
    assert unstored[-1:] == [7]
    assert bench.entries() == {1: stored}


def test_a_purge_is_answered_when_it_is_on_the_disk_however_long_that_takes(
    bench: Bench,
) -> None:
    # So large that nothing is written ahead: cut off, it would be room.
    bench.append(0, 1, 200_000)
    bench.queues[0].wait_for(1)
    while bench.reserve.release_step(Purpose.SETTLES):
        pass
    bench.files.room = 0
    bench.append(0, 2, BIG_BYTES)
    bench.queues[0].wait_for(2)
    bench.journal.tell(SettleSynced(1, [(1, 2)], bench.asking, "purged"))
    # Who asks whether the journal answers is answered.
    bench.journal.tell(AskJournal(bench.asking, "alive"))
    assert bench.asking.wait_for(1) == ["alive"]
    bench.files.room = None
    bench.journal.tell(SeekRoom(1 << 20))
    assert bench.asking.wait_for(2) == ["alive", "purged"]
    assert bench.entries() == {}


@small_segments
def test_a_segment_that_is_done_with_is_removed_with_the_last_of_the_reserve(
    bench: Bench,
) -> None:
    for number in range(1, 6):
        bench.append(0, number, 25 * KIB)
        bench.queues[0].wait_for(number)
    while bench.reserve.release_step(Purpose.SETTLES):
        pass
    left = bench.reserve.size_bytes
    bench.files.room = 0
    bench.append(0, 6, 60 * KIB)
    bench.queues[0].wait_for(6)
    segments = len(list((bench.directory / "journal").glob("*.journal")))
    for number in (1, 2, 3, 4):
        bench.settle(0, number)
    bench.handled()
    # What was written ahead is room, too, when it is cut off.
    assert bench.reserve.size_bytes >= left - STEP_BYTES
    assert len(list((bench.directory / "journal").glob("*.journal"))) < segments
    assert LookAtDisk() in bench.watch.received
    assert (bench.files.room or 0) > 64 * KIB
    assert bench.entries() == {1: [5]}


def test_a_stop_on_a_full_disk_loses_a_settle_at_most(bench: Bench) -> None:
    for number in (1, 2):
        bench.append(0, number)
        bench.queues[0].wait_for(number)
    while bench.reserve.release_step(Purpose.START):
        pass
    bench.files.room = 0
    bench.append(0, 3, BIG_BYTES)
    bench.queues[0].wait_for(3)
    bench.settle(0, 1)
    stop_and_wait(bench.journal)
    assert found_in(bench.directory) in ({1: [1, 2]}, {1: [2]})


def test_a_stop_while_a_large_commit_meets_a_full_disk_leaves_a_sound_journal(
    bench: Bench,
) -> None:
    bench.append(0, 1)
    bench.queues[0].wait_for(1)
    bench.files.hold()
    bench.append(0, 2)
    bench.files.wait_until_syncing()
    bench.files.room = 100_000
    bench.append(0, 3, DISK_THREAD_BYTES_MIN)
    stopping = threading.Thread(target=stop_and_wait, args=(bench.journal,))
    stopping.start()
    bench.files.release()
    stopping.join(TIMEOUT_SECONDS)
    assert found_in(bench.directory) == {1: [1, 2]}
