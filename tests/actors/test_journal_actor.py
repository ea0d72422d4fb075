"""The journal's thread: it answers what is on disk, once a queue, and nothing after an error."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest
import structlog
from client_frames import FRAME_MAX_BYTES, PERSISTENT, publish
from collecting_actor import collecting
from gated_files import GatedFiles
from leveret.actors.disk.journal import DISK_THREAD_BYTES_MIN, JournalActor
from leveret.actors.messages import Append, DropQueue, Persisted, RecordDeliveries, Ref
from leveret.actors.runtime.thread_actor import stop_and_wait
from leveret.amqp_frames.decoder import Decoder
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.opening import open_journal
from timeouts import TIMEOUT_SECONDS


class Bench:
    def __init__(self, directory: Path, files: GatedFiles) -> None:
        self.files = files
        self.failures: list[BaseException] = []
        self.has_failed = threading.Event()
        journal, _ = open_journal(str(directory), files)
        self.journal: Ref = JournalActor.start_alone(
            journal, structlog.get_logger("test"), self._failed
        )
        self.queues: list[Ref] = [collecting(), collecting()]
        self._next_batch_number = 1

    def _failed(self, _actor: str, error: BaseException) -> None:
        self.failures.append(error)
        self.has_failed.set()

    def append(self, queue: int, first_entry_id: int, count: int = 1, body: bytes = b"1") -> Append:
        [read] = Decoder(FRAME_MAX_BYTES, 10_000, 10_000).feed(
            publish("q", body, PERSISTENT) * count
        )
        batch: Any = read.batch  # type: ignore[union-attr]
        batch.number = self._next_batch_number
        self._next_batch_number += 1
        entry_ids = range(first_entry_id, first_entry_id + count)
        append = Append(self.queues[queue], queue + 1, (), batch, range(count), entry_ids)
        self.journal.tell(append)
        return append

    def received(self, queue: int) -> list[Any]:
        """The messages that the queue has received by now."""
        answer: list[Any] = self.queues[queue].ask("what?", timeout=TIMEOUT_SECONDS)
        return answer

    def settled(self) -> None:
        """Return when the journal has answered everything told before."""
        self.journal.ask(RecordDeliveries(1, [], []), timeout=TIMEOUT_SECONDS)


@pytest.fixture
def bench(tmp_path: Path, files: GatedFiles) -> Iterator[Bench]:
    bench = Bench(tmp_path / "journal", files)
    yield bench
    files.release()
    for actor in (*bench.queues, bench.journal):
        actor.stop()


def test_nothing_is_answered_before_the_sync(bench: Bench) -> None:
    bench.files.hold()
    append = bench.append(0, 1)
    bench.files.wait_until_syncing()
    assert bench.received(0) == []
    bench.files.release()
    bench.settled()
    assert bench.received(0) == [Persisted([append])]


def test_appends_that_gather_during_a_sync_get_one_sync_and_one_answer_per_queue(
    bench: Bench,
) -> None:
    bench.files.hold()
    first = bench.append(0, 1)
    bench.files.wait_until_syncing()
    mine = [bench.append(0, entry_id) for entry_id in (2, 3, 4)]
    other = bench.append(1, 1, count=5)
    mine.append(bench.append(0, 5))
    bench.files.release()
    bench.settled()
    assert bench.files.syncs_begun == 2
    assert bench.received(0) == [Persisted([first]), Persisted(mine)]
    assert bench.received(1) == [Persisted([other])]


def test_a_settle_alone_is_not_synced(bench: Bench) -> None:
    bench.append(0, 1, count=3)
    bench.settled()
    bench.files.hold()
    bench.journal.tell(RecordDeliveries(1, [(1, 3)], [(1, 2)]))
    bench.settled()
    assert bench.files.syncs_begun == 0


def test_a_queue_that_is_dropped_is_not_answered_to(bench: Bench) -> None:
    append = bench.append(0, 1)
    bench.settled()
    bench.queues[0].stop()
    bench.append(0, 2)
    bench.journal.tell(DropQueue(1))
    other = bench.append(1, 1)
    bench.settled()
    assert bench.received(1) == [Persisted([other])]
    assert bench.failures == []
    assert append.batch.journal_place is not None


@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_after_an_error_nothing_is_answered_or_written_any_more(
    bench: Bench, operation: str
) -> None:
    error = OSError(errno.EIO, "Input/output error")
    bench.files.failing[operation] = error
    bench.append(0, 1)
    assert bench.has_failed.wait(TIMEOUT_SECONDS)
    assert bench.failures == [error]
    assert not bench.journal.is_alive()
    assert bench.received(0) == []
    bench.files.hold()
    with pytest.raises(pykka.ActorDeadError):
        bench.append(0, 2)
    bench.journal.stop()
    assert bench.files.syncs_begun == 0


def test_a_stop_syncs_what_was_told_before(bench: Bench, tmp_path: Path) -> None:
    append = bench.append(0, 1, count=2)
    bench.journal.tell(RecordDeliveries(1, [], [(1, 1)]))
    bench.journal.stop()
    assert bench.received(0) == [Persisted([append])]
    _, recovered = open_journal(str(tmp_path / "journal"), known_queue_ids={1})
    [run] = recovered.messages(1)
    assert (run.first_entry_id, len(run.indexes)) == (2, 1)


LARGE = bytes(DISK_THREAD_BYTES_MIN // 80)


def test_while_a_large_commit_is_synced_the_next_is_taken_and_not_answered(bench: Bench) -> None:
    bench.files.hold()
    large = bench.append(0, 1, count=81, body=LARGE)
    bench.files.wait_until_syncing()
    # The journal answers an ask: it does not wait for the disk.
    bench.settled()
    small = bench.append(0, 82)
    other = bench.append(1, 1)
    bench.settled()
    assert small.batch.journal_place is not None
    assert bench.files.syncs_begun == 1
    assert (bench.received(0), bench.received(1)) == ([], [])
    bench.files.release()
    bench.journal.stop()
    # The second commit, and the end that a clean stop names.
    assert bench.files.syncs_begun == 3
    assert bench.received(0) == [Persisted([large]), Persisted([small])]
    assert bench.received(1) == [Persisted([other])]


def test_a_stop_waits_for_a_large_commit_and_syncs_what_came_behind_it(
    bench: Bench, tmp_path: Path
) -> None:
    bench.files.hold()
    bench.append(0, 1, count=81, body=LARGE)
    bench.files.wait_until_syncing()
    bench.append(0, 82)
    stopping = threading.Thread(target=bench.journal.stop)
    stopping.start()
    bench.files.release()
    stopping.join(TIMEOUT_SECONDS)
    assert [len(persisted.appends) for persisted in bench.received(0)] == [1, 1]
    _, recovered = open_journal(str(tmp_path / "journal"), known_queue_ids={1})
    assert recovered.queues[1].entries == 82


@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_after_an_error_of_a_large_commit_nothing_is_answered_or_written_any_more(
    bench: Bench, operation: str
) -> None:
    error = OSError(errno.EIO, "Input/output error")
    bench.files.failing[operation] = error
    bench.append(0, 1, count=81, body=LARGE)
    assert bench.has_failed.wait(TIMEOUT_SECONDS)
    assert bench.failures == [error]
    bench.files.hold()
    bench.append(0, 82)
    bench.journal.stop()
    assert bench.received(0) == []
    assert bench.files.syncs_begun == 0


def test_a_mistake_of_ours_leaves_what_was_not_committed_unwritten(
    bench: Bench, tmp_path: Path
) -> None:
    bench.files.hold()
    bench.append(0, 1)
    bench.files.wait_until_syncing()
    # In one mailbox: a good one, and what fails behind it.
    bench.append(0, 2)
    malformed: Any = None
    bench.journal.tell(Append(bench.queues[0], 1, malformed, malformed, range(1), range(3, 4)))
    bench.files.release()
    assert bench.has_failed.wait(TIMEOUT_SECONDS)
    assert stop_and_wait(bench.journal, TIMEOUT_SECONDS)
    _, recovered = open_journal(str(tmp_path / "journal"), known_queue_ids={1})
    assert [run.entries for run in recovered.queues[1]] == [1]


def test_a_stop_of_a_failed_journal_waits_until_its_files_are_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_close, happened = threading.Event(), []

    def closing_slowly(*_arguments: object) -> None:
        may_close.wait(TIMEOUT_SECONDS)
        happened.append("closed")

    monkeypatch.setattr(Journal, "abandon", closing_slowly)
    bench.files.failing["write"] = OSError(errno.EIO, "Input/output error")
    bench.append(0, 1)
    assert bench.has_failed.wait(TIMEOUT_SECONDS)
    assert not stop_and_wait(bench.journal, 0.01)

    def stop() -> None:
        assert stop_and_wait(bench.journal, TIMEOUT_SECONDS)
        happened.append("stopped")

    stopping = threading.Thread(target=stop)
    stopping.start()
    may_close.set()
    stopping.join(TIMEOUT_SECONDS)
    assert happened == ["closed", "stopped"]


def test_its_actor_is_in_no_registry(bench: Bench) -> None:
    assert set(pykka.ActorRegistry.get_all()) == set()
