"""Background work is paused so that it takes no more than its part of time and disk."""

from __future__ import annotations

import pytest
from leveret.actors.disk.maintenance import PAUSE_SECONDS_MAX, Pace


def pauses(bytes_per_second_max: int, busy_percent_max: int, *work: tuple[float, int]) -> float:
    slept: list[float] = []
    pace = Pace(bytes_per_second_max, busy_percent_max, slept.append)
    for busy_seconds, moved_bytes in work:
        pace.pause_after(busy_seconds, moved_bytes)
    assert all(0 < each <= PAUSE_SECONDS_MAX for each in slept)
    return sum(slept)


def test_it_is_busy_for_no_more_than_its_part_of_the_time() -> None:
    assert pauses(1 << 40, 25, *[(0.01, 0)] * 5) == pytest.approx(0.15)
    assert pauses(1 << 40, 100, *[(0.01, 0)] * 5) == 0


def test_it_moves_no_more_bytes_than_it_may() -> None:
    assert pauses(1_000_000, 100, *[(0.001, 10_000)] * 10) == pytest.approx(0.09)


def test_a_stop_waits_for_no_long_pause() -> None:
    assert pauses(1, 1, (5.0, 1 << 30)) == PAUSE_SECONDS_MAX
