"""The memory alarm, on an event loop that the test drives by hand."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hand_scheduler import HandScheduler
from insides import inside
from leveret.actors.messages import AlarmCleared, LookAtMemory
from leveret.actors.queue.memory_watch import MemoryWatch
from leveret.actors.runtime.runtime import Runtime
from leveret.core.alarms import Alarms, MemoryLevel, Resource
from leveret.logs.trace.trace import Trace
from recorders import RecordingActor


class Context:
    """The part of the node that the watch needs."""

    def __init__(self) -> None:
        self.alarms = Alarms()
        self.memory_level = MemoryLevel(1000, 600)
        self.trace = Trace("boot")
        self.failed: list[str] = []

    def on_fatal(self, actor: str, error: BaseException) -> None:
        self.failed.append(actor)


class Bench:
    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.log = structlog.testing.CapturingLogger()
        runtime = Runtime(self.scheduler, self.log)  # type: ignore[arg-type]
        self.context: Any = Context()
        self.listener = RecordingActor.start_on(runtime)
        self.watch = MemoryWatch.start_on(runtime, self.context, self.listener)

    def held(self, *held_bytes: int) -> str:
        """Queues hold so much, one after the other; gives the alarm."""
        for count in held_bytes:
            if self.context.memory_level.look(count):
                self.watch.tell(LookAtMemory(count))
        self.scheduler.run()
        return self.context.alarms.reason

    @property
    def received(self) -> list[object]:
        return inside(self.listener).received


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_alarm_is_on_from_the_high_level_until_the_low_one(bench: Bench) -> None:
    reasons = [bench.held(count) for count in (1000, 1001, 700, 601, 600, 900)]
    on = "low on memory"
    assert reasons == ["", on, on, on, "", ""]
    assert bench.received == [AlarmCleared()]


def test_a_level_that_was_passed_twice_before_the_watch_looked_is_no_alarm(bench: Bench) -> None:
    assert bench.held(1001, 600) == ""
    assert bench.received == []
    assert bench.log.calls == []


def test_begin_and_end_are_a_line_each_in_the_log(bench: Bench) -> None:
    bench.held(1001)
    bench.held(600)
    logged = [(call.method_name, call.args[0], call.kwargs) for call in bench.log.calls]
    assert logged == [
        ("warning", "memory.high", {"memory_bytes": 1001, "memory_bytes_max": 1000}),
        ("info", "memory.enough", {"memory_bytes": 600, "memory_bytes_max": 1000}),
    ]


def test_publishers_do_not_go_on_while_there_is_an_alarm_for_the_disk(bench: Bench) -> None:
    bench.context.alarms.change(Resource.DISK, True)
    assert bench.held(1001) == "low on memory & disk"
    assert bench.held(600) == "low on disk"
    assert bench.received == []


def test_without_its_watch_the_node_ends(bench: Bench) -> None:
    bench.context.alarms = None
    bench.watch.tell(LookAtMemory(0))
    bench.scheduler.run()
    assert bench.context.failed == ["memory watch"]
