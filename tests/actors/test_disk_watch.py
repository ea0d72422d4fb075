"""The disk alarm, on an event loop and with a disk that the test drives by hand."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hand_scheduler import HandScheduler
from leveret.actors.disk_watch import DiskWatch
from leveret.actors.messages import AlarmCleared
from leveret.actors.runtime import LoopActor, Runtime
from leveret.actors.ticker import Ticker
from leveret.logs.trace import Trace

INTERVAL_SECONDS = 10.0


class Listening(LoopActor):
    """Stands for the listener."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def on_receive(self, message: object) -> None:
        self.heard.append(message)


class Context:
    """What the watch needs of the node's."""

    alarm = ""

    def __init__(self, runtime: Runtime) -> None:
        self.failed: list[str] = []
        self.trace = Trace("boot", 100)
        self.ticker = Ticker.start_on(runtime, self.on_fatal)

    def on_fatal(self, actor: str, error: BaseException) -> None:
        self.failed.append(actor)


class Bench:
    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.log = structlog.testing.CapturingLogger()
        runtime = Runtime(self.scheduler, self.log)  # type: ignore[arg-type]
        self.context: Any = Context(runtime)
        self.listener = Listening.start_on(runtime)
        self.free: int | BaseException = 1000
        DiskWatch.start_on(
            runtime, self.context, self.listener, self.free_bytes, 500, INTERVAL_SECONDS
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
        return self.context.alarm

    @property
    def heard(self) -> list[object]:
        inside: Any = self.listener.actor_inbox.actor
        return inside.heard

    @property
    def logged(self) -> list[tuple[str, str]]:
        return [(call.method_name, call.args[0]) for call in self.log.calls]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_alarm_is_on_while_less_is_free_than_the_least(bench: Bench) -> None:
    assert bench.context.alarm == ""
    assert bench.after_interval(499) == "low on disk"
    assert bench.after_interval(100) == "low on disk"
    assert bench.after_interval(500) == ""
    assert bench.after_interval(499) == "low on disk"


def test_the_disk_is_looked_at_once_an_interval(bench: Bench) -> None:
    bench.free = 0
    bench.scheduler.advance(INTERVAL_SECONDS - 1)
    assert bench.context.alarm == ""
    bench.scheduler.advance(1)
    assert bench.context.alarm == "low on disk"


def test_only_the_end_is_told_and_once(bench: Bench) -> None:
    bench.after_interval(0)
    assert bench.heard == []
    bench.after_interval(1000)
    bench.after_interval(1000)
    assert bench.heard == [AlarmCleared()]


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


def test_without_its_watch_the_node_ends(bench: Bench) -> None:
    bench.after_interval(ValueError("ours"))
    assert bench.context.failed == ["disk watch"]
