"""The page reader answers queues that want messages back, and says when it has read a plan."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from collecting_actor import collecting
from leveret.actors.disk.journal import JournalActor
from leveret.actors.disk.page_reader import PageReader
from leveret.actors.messages import (
    Append,
    DropSpilled,
    EntriesLost,
    EntriesRead,
    EntriesSpilled,
    Persisted,
    ReadEntries,
    ReadSpilled,
    RecordDeliveries,
    Ref,
    ReportsTo,
    SegmentDamaged,
    SpillEntries,
)
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.logs.trace.trace import Trace
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.reading import ReadRow
from leveret.storage.spill import Spill
from structlog.testing import LogCapture
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, publish


class BadFiles(OperatingSystemFiles):
    """Some paths cannot be read."""

    error = 0

    def read(self, path: str, offset: int, length: int) -> bytes:
        if self.error:
            raise OSError(self.error, "cannot be read", path)
        return super().read(path, offset, length)


class Bench:
    """A journal of small segments, its page reader and a queue."""

    def __init__(self, directory: Path) -> None:
        self.files = BadFiles()
        self.failures: list[BaseException] = []
        self.lines = LogCapture()
        log = structlog.wrap_logger(None, processors=[self.lines])
        self.trace = Trace("boot", 0, 0)
        self.directory = directory / "journal"
        journal, _ = open_journal(str(self.directory), self.files, {1}, segment_bytes_max=4096)
        spill = Spill(self.files, str(directory / "spill"), bytes(16), 0)
        spill.clear()
        self.reader: Ref = PageReader.start_alone(
            journal.reader("queue {}".format), spill, log, self._failed, self.trace
        )
        self.journal: Ref = JournalActor.start_alone(
            journal, log, self._failed, None, None, self.reader
        )
        self.queue: Ref = collecting()

    def _failed(self, _actor: str, error: BaseException) -> None:
        self.failures.append(error)

    def append(self, number: int, body: bytes) -> None:
        batch = batch_of(number, body)
        ids = range(number, number + 1)
        self.journal.tell(Append(self.queue, 1, (), batch, range(1), ids))

    def settled(self) -> list[Any]:
        """The messages of the queue when everybody has done what they were told by now."""
        self.journal.ask(RecordDeliveries(1, [], []), timeout=TIMEOUT_SECONDS)
        self.reader.ask(DropSpilled(99, []), timeout=TIMEOUT_SECONDS)
        # The journal has been told what the reader has done.
        self.journal.ask(RecordDeliveries(1, [], []), timeout=TIMEOUT_SECONDS)
        received: list[Any] = self.queue.ask("what?", timeout=TIMEOUT_SECONDS)
        return [each for each in received if not isinstance(each, Persisted)]

    def segments(self) -> list[int]:
        return sorted(int(each.stem) for each in self.directory.glob("*.journal"))

    def stop(self) -> None:
        for actor in (self.queue, self.reader, self.journal):
            actor.stop()
        for actor in (self.reader, self.journal):
            assert actor.closed.wait(TIMEOUT_SECONDS)  # type: ignore[attr-defined]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.stop()


def batch_of(number: int, *bodies: bytes) -> Any:
    batch = decode_publishes(b"".join(publish("q", body, PERSISTENT) for body in bodies))
    batch.number = number
    return batch


def bodies_in(answer: EntriesRead) -> list[tuple[int, bytes]]:
    return [
        (row.first_entry_id + place, row.batch.wire[row.batch.ends[index] - 2 :][:1])
        for row in answer.rows
        for place, index in enumerate(row.indexes)
    ]


def test_a_queue_gets_its_entries_back_from_the_journal(bench: Bench) -> None:
    for number, body in ((1, b"a"), (2, b"b"), (3, b"c")):
        bench.append(number, body)
    bench.settled()
    bench.journal.tell(ReadEntries(bench.queue, 1, [(2, 3), (9, 9)], 1 << 20))
    [answer] = bench.settled()
    assert isinstance(answer, EntriesRead)
    assert bodies_in(answer) == [(2, b"b"), (3, b"c")]
    assert (answer.lost, answer.through) == ([], 9)
    assert len(answer.rows) == 1


def test_entries_of_a_damaged_segment_that_are_not_there_are_told_of_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So little that each message is a read.
    monkeypatch.setattr("leveret.actors.disk.journal.SEARCHED_BYTES_MAX", 1)
    bodies = [bytes([number]) * 300 for number in range(1, 11)]
    for number, body in enumerate(bodies, 1):
        bench.append(number, body)
    bench.append(11, b"in the next segment" * 250)
    bench.settled()
    first = bench.directory / f"{bench.segments()[0]:020d}.journal"
    octets = bytearray(first.read_bytes())
    for body in (bodies[3], bodies[7]):
        octets[octets.index(body)] ^= 1
    first.write_bytes(octets)
    bench.journal.tell(ReportsTo(bench.queue))
    bench.journal.tell(SegmentDamaged(int(first.stem)))
    bench.journal.tell(SegmentDamaged(77))
    # At each of these a read comes to its end, at least.
    for _ in bodies:
        found = bench.settled()
    assert found == [EntriesLost(1, [(4, 4)]), EntriesLost(1, [(8, 8)])]
    lost = [line for line in bench.lines.entries if line["event"] == "journal.lost"]
    assert [line["entries"] for line in lost] == [1, 1]
    assert "of queue 1, ids 4: no body of batch 4 that verifies holds them" in lost[0]["report"]


def test_while_the_trace_is_on_each_batch_keeps_its_number(bench: Bench) -> None:
    for number, body in ((1, b"a"), (2, b"b")):
        bench.append(number, body)
    bench.settled()
    bench.trace.is_on = True
    bench.journal.tell(ReadEntries(bench.queue, 1, [(1, 2)], 1 << 20))
    [answer] = bench.settled()
    assert [row.batch.number for row in answer.rows] == [1, 2]


def test_a_plan_that_is_carried_out_holds_no_segment(bench: Bench) -> None:
    for number in (1, 2):
        bench.append(number, b"x" * 3000)
        bench.settled()
    bench.journal.tell(ReadEntries(bench.queue, 1, [(1, 1)], 1))
    bench.settled()
    bench.journal.tell(RecordDeliveries(1, [], [(1, 1)]))
    bench.settled()
    assert bench.segments() == [2]


def test_what_the_disk_cannot_read_is_lost_and_logged_and_the_node_goes_on(bench: Bench) -> None:
    bench.append(1, b"a")
    bench.settled()
    bench.files.error = errno.EIO
    bench.journal.tell(ReadEntries(bench.queue, 1, [(1, 1)], 1))
    [answer] = bench.settled()
    assert answer == EntriesRead([], [(1, 1)], 1)
    assert bench.failures == []
    lines = [(each["event"], each["log_level"]) for each in bench.lines.entries]
    assert lines == [("journal.damaged", "warning"), ("journal.lost", "warning")]
    assert bench.lines.entries[1]["entries"] == 1
    bench.files.error = 0
    bench.journal.tell(ReadEntries(bench.queue, 1, [(1, 1)], 1))
    assert bodies_in(bench.settled()[-1]) == [(1, b"a")]


def test_an_error_of_the_machine_ends_the_node(bench: Bench) -> None:
    bench.append(1, b"a")
    bench.settled()
    bench.files.error = errno.ENOMEM
    bench.journal.tell(ReadEntries(bench.queue, 1, [(1, 1)], 1))
    assert bench.reader.closed.wait(TIMEOUT_SECONDS)  # type: ignore[attr-defined]
    assert [each.errno for each in bench.failures if isinstance(each, OSError)] == [errno.ENOMEM]


def test_messages_are_spilled_read_and_dropped_in_order(bench: Bench) -> None:
    batch = batch_of(5, b"a", b"b", b"c")
    rows = [ReadRow(batch, array("I", [0, 2]), 4), ReadRow(batch, range(1, 2), 8)]
    for message in (
        SpillEntries(bench.queue, 1, rows),
        ReadSpilled(bench.queue, 1, [(1, 10)], 1 << 20),
        DropSpilled(1, [(4, 4)]),
        ReadSpilled(bench.queue, 1, [(1, 10)], 1 << 20),
        SpillEntries(bench.queue, 1, rows),
        DropSpilled(1, None),
        ReadSpilled(bench.queue, 1, [(1, 10)], 1 << 20),
    ):
        bench.reader.tell(message)
    spilled, first, second, again, third = bench.settled()
    assert spilled == EntriesSpilled([(4, 5), (8, 8)], failed=False)
    assert bodies_in(first) == [(4, b"a"), (5, b"c"), (8, b"b")]
    assert bodies_in(second) == [(5, b"c"), (8, b"b")]
    assert again == spilled
    assert third == EntriesRead([], [], 10)
