"""The disk alarm, on an event loop and with a disk that the test drives by hand."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hand_scheduler import HandScheduler
from insides import inside
from leveret.actors.disk.disk_watch import ALARM_INTERVAL_SECONDS, DiskWatch
from leveret.actors.disk.journal import LOOK_BYTES_MIN, LOOK_PART, DiskBudget
from leveret.actors.messages import (
    AlarmCleared,
    DiskFull,
    DiskHasRoom,
    LookAtDisk,
    Ref,
    SeekRoom,
    WatchedBy,
)
from leveret.actors.runtime.runtime import Runtime
from leveret.actors.runtime.ticker import Ticker
from leveret.core.alarms import Alarms, Resource
from leveret.logs.trace.trace import Trace
from recorders import RecordingActor

INTERVAL_SECONDS = 10.0


class Context:
    """The part of the node that the watch needs."""

    is_disk_full = False

    def __init__(self, runtime: Runtime) -> None:
        self.failed: list[str] = []
        self.alarms = Alarms()
        self.journal = RecordingActor.start_on(runtime)
        self.catalog = RecordingActor.start_on(runtime)
        self.dead_letters = RecordingActor.start_on(runtime)
        self.broker = RecordingActor.start_on(runtime)
        self.trace = Trace("boot")
        self.ticker = Ticker.start_on(runtime, self.on_fatal)

    def on_fatal(self, actor: str, error: BaseException) -> None:
        self.failed.append(actor)


class Bench:
    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.log = structlog.testing.CapturingLogger()
        runtime = Runtime(self.scheduler, self.log)  # type: ignore[arg-type]
        self.context: Any = Context(runtime)
        self.listener = RecordingActor.start_on(runtime)
        self.free: int | BaseException = 1000
        self.budget = DiskBudget(500)
        self.watch = DiskWatch.start_on(
            runtime,
            self.context,
            self.listener,
            self.free_bytes,
            500,
            INTERVAL_SECONDS,
            self.budget,
        )
        self.scheduler.run()

    def free_bytes(self) -> int:
        if isinstance(self.free, BaseException):
            raise self.free
        return self.free

    def after_interval(self, free: int | BaseException) -> str:
        """The alarm, once the disk has been looked at again."""
        self.free = free
        self.scheduler.advance(INTERVAL_SECONDS)
        return self.context.alarms.reason

    def tell(self, message: object) -> str:
        """The alarm, once the watch has received this."""
        self.watch.tell(message)
        self.scheduler.run()
        return self.context.alarms.reason

    @property
    def sought(self) -> list[int]:
        """The room that the journal was told of."""
        received = self.received_by(self.context.journal)
        return [message.free_bytes for message in received if isinstance(message, SeekRoom)]

    @property
    def received(self) -> list[object]:
        return self.received_by(self.listener)

    def received_by(self, actor: Ref) -> list[object]:
        return inside(actor).received

    @property
    def logged(self) -> list[tuple[str, str]]:
        return [(call.method_name, call.args[0]) for call in self.log.calls]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_alarm_is_on_while_less_is_free_than_the_least(bench: Bench) -> None:
    assert bench.context.alarms.reason == ""
    assert bench.after_interval(499) == "low on disk"
    assert bench.after_interval(100) == "low on disk"
    assert bench.after_interval(500) == ""
    assert bench.after_interval(499) == "low on disk"


def test_the_disk_is_looked_at_once_an_interval(bench: Bench) -> None:
    bench.free = 0
    bench.scheduler.advance(INTERVAL_SECONDS - 1)
    assert bench.context.alarms.reason == ""
    bench.scheduler.advance(1)
    assert bench.context.alarms.reason == "low on disk"


def test_the_watch_reports_only_the_end_of_a_full_disk_and_once(bench: Bench) -> None:
    bench.after_interval(0)
    assert bench.received == []
    bench.after_interval(1000)
    bench.after_interval(1000)
    assert bench.received == [AlarmCleared()]


def test_publishers_do_not_go_on_while_there_is_an_alarm_for_the_memory(bench: Bench) -> None:
    bench.after_interval(0)
    bench.context.alarms.change(Resource.MEMORY, True)
    assert bench.after_interval(1000) == "low on memory"
    assert bench.received == []
    # Those who wait for the disk alone go on.
    assert bench.received_by(bench.context.dead_letters) == [AlarmCleared()]
    assert bench.after_interval(0) == "low on memory & disk"


def test_begin_and_end_are_a_line_each_in_the_log(bench: Bench) -> None:
    for free in (0, 0, 1000, 1000):
        bench.after_interval(free)
    assert bench.logged == [("warning", "disk.low"), ("info", "disk.enough")]
    assert bench.log.calls[0].kwargs == {"free_bytes": 0, "free_bytes_min": 500}


def test_a_disk_that_cannot_be_asked_changes_nothing_and_is_logged(bench: Bench) -> None:
    assert bench.after_interval(OSError(5, "Input/output error")) == ""
    assert bench.logged == [("error", "disk.unknown")]
    bench.after_interval(0)
    assert bench.after_interval(OSError(5, "Input/output error")) == "low on disk"
    assert bench.after_interval(1000) == ""


def test_the_watch_looks_at_once_when_much_was_written(bench: Bench) -> None:
    bench.free = 499
    assert bench.tell(LookAtDisk()) == "low on disk"
    bench.free = 500
    assert bench.tell(LookAtDisk()) == ""
    # The next is due after a part of what is above the limit.
    bench.free = 500 + 10 * LOOK_PART * LOOK_BYTES_MIN
    bench.tell(LookAtDisk())
    assert not bench.budget.wrote(9 * LOOK_BYTES_MIN)
    assert bench.budget.wrote(LOOK_BYTES_MIN)


def test_a_write_that_met_a_full_disk_is_an_alarm_until_the_journal_has_room(bench: Bench) -> None:
    assert bench.tell(DiskFull("no space left on the disk: x")) == "low on disk"
    assert bench.tell(DiskFull("no space left on the disk: y")) == "low on disk"
    assert bench.context.is_disk_full
    # What the disk says is not enough: there are quotas.
    bench.free = 1_000
    assert bench.tell(LookAtDisk()) == "low on disk"
    assert bench.logged == [("error", "disk.full"), ("warning", "disk.low")]
    assert bench.log.calls[0].kwargs == {"reason": "no space left on the disk: x"}
    # Nor what the journal had found before it was full the last time.
    assert bench.tell(DiskHasRoom(0)) == bench.tell(DiskHasRoom(1)) == "low on disk"
    assert bench.tell(DiskHasRoom(2)) == ""
    assert not bench.context.is_disk_full
    for actor in (bench.listener, bench.context.dead_letters, bench.context.broker):
        assert bench.received_by(actor) == [AlarmCleared()]


def test_while_the_disk_is_full_the_journal_seeks_room_every_second(bench: Bench) -> None:
    assert bench.sought == [1000]
    bench.tell(DiskFull("x"))
    bench.free = 3
    for _ in range(3):
        bench.scheduler.advance(ALARM_INTERVAL_SECONDS)
    assert bench.sought == [1000, 3, 3, 3]
    bench.free = 1000
    bench.tell(DiskHasRoom(1))
    bench.scheduler.advance(ALARM_INTERVAL_SECONDS)
    bench.scheduler.advance(INTERVAL_SECONDS)
    assert bench.sought == [1000, 3, 3, 3, 1000, 1000]


def test_while_it_is_low_room_is_sought_every_second_too(bench: Bench) -> None:
    bench.after_interval(100)
    bench.free = 200
    bench.scheduler.advance(ALARM_INTERVAL_SECONDS)
    assert bench.sought == [1000, 100, 200]


def test_journal_and_catalog_get_the_watch_s_reference(bench: Bench) -> None:
    for actor in (bench.context.journal, bench.context.catalog):
        assert bench.received_by(actor)[0] == WatchedBy(bench.watch)


def test_without_its_watch_the_node_ends(bench: Bench) -> None:
    bench.after_interval(ValueError("ours"))
    assert bench.context.failed == ["disk watch"]
