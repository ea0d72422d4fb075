"""Background work takes no more than its part of time and disk; the check of segments is some."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import structlog
from leveret.actors.disk.maintenance import (
    LOOK_INTERVAL_SECONDS,
    PAUSE_SECONDS_MAX,
    Maintenance,
    Pace,
    SegmentChecks,
)
from leveret.actors.messages import ReportsTo, SegmentDamaged, Woken
from leveret.actors.runtime.wall_clock import WallClock
from leveret.core.statistics.journal_figures import CheckFigures
from leveret.storage.journal.report import ReportLine
from structlog.testing import capture_logs


def pauses(bytes_per_second_max: int, busy_percent_max: int, *work: tuple[float, int]) -> float:
    slept: list[float] = []
    pace = Pace(bytes_per_second_max, busy_percent_max, slept.append)
    for busy_seconds, moved_bytes in work:
        pace.pause_after(busy_seconds, busy_seconds, moved_bytes)
    assert all(0 < each <= PAUSE_SECONDS_MAX for each in slept)
    return sum(slept)


def test_it_is_busy_for_no_more_than_its_part_of_the_time() -> None:
    assert pauses(1 << 40, 25, *[(0.01, 0)] * 5) == pytest.approx(0.15)
    assert pauses(1 << 40, 100, *[(0.01, 0)] * 5) == 0


def test_it_moves_no_more_bytes_than_it_may() -> None:
    assert pauses(1_000_000, 100, *[(0.001, 10_000)] * 10) == pytest.approx(0.09)


def test_waiting_for_a_processor_is_not_work() -> None:
    slept: list[float] = []
    Pace(1 << 40, 50, slept.append).pause_after(0.01, 5.0, 0)
    assert slept == [0.01]


def test_a_stop_waits_for_no_long_pause() -> None:
    assert pauses(1, 1, (5.0, 1 << 30)) == PAUSE_SECONDS_MAX


class Inbox:
    """Keeps the messages that an actor is told."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.actor_stopped = threading.Event()
        self.actor_inbox = self

    def put(self, message: Any) -> None:
        self.messages.append(message)


class Check:
    """So many pieces to read, of 10 MB each; the last one is damaged."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.damaged: list[int] = []

    @property
    def left_bytes(self) -> int:
        return self.pieces * 10_000_000

    def look(self) -> bool:
        return self.pieces > 0

    def pop_damaged(self) -> list[int]:
        damaged, self.damaged = self.damaged, []
        return damaged

    def step(self) -> tuple[int, list[ReportLine]]:
        if not self.pieces:
            return 0, []
        self.pieces -= 1
        is_last = not self.pieces
        self.damaged = [3] * is_last
        return 10_000_000, [ReportLine("damaged", "segment 3: a hole", 2)] * is_last


def test_segments_are_checked_piece_by_piece_and_damage_is_a_warning() -> None:
    check: Any = Check(5)
    ticker = Inbox()
    slept: list[float] = []
    nobody: Any = None
    figures, clock = CheckFigures(), WallClock(lambda: 8_000_000_000)
    checks = SegmentChecks(check, ticker, lambda: 7.0, figures, clock)  # type: ignore[arg-type]
    pace = Pace(1_000_000_000, 100, slept.append)
    log = structlog.get_logger()
    actor = Maintenance(nobody, pace, bool, checks, log, pytest.fail)  # type: ignore[arg-type]
    # private: what the actor tells itself is handed back without a thread.
    own = actor.actor_inbox
    actor.on_start()
    journal = Inbox()
    actor.on_gathered([ReportsTo(journal)])  # type: ignore[arg-type]
    left = []
    with capture_logs() as logs:
        actor.on_gathered([Woken("check")])
        # A second look while there is work adds none.
        actor.on_gathered([Woken("check")])
        while not own.empty():
            left.append(check.pieces)
            assert (figures.checked_bytes, figures.left_bytes) == (
                10_000_000 * (5 - check.pieces),
                10_000_000 * check.pieces,
            )
            assert not figures.finished_seconds
            actor.on_gathered([own.get()])
    assert left == [4, 3, 2, 1, 0]
    assert (figures.left_bytes, figures.finished_seconds) == (0, 8.0)
    assert slept == pytest.approx([0.01] * 5, rel=0.5)
    assert logs == [
        {
            "event": "journal.damaged",
            "report": "segment 3: a hole",
            "entries": 2,
            "log_level": "warning",
        }
    ]
    assert journal.messages == [SegmentDamaged(3)]
    assert [wish.when for wish in ticker.messages] == [7.0 + LOOK_INTERVAL_SECONDS] * 3
    check.pieces = 1
    actor.on_gathered([Woken("check")])
    assert check.pieces == 0
