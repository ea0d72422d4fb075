"""The turn beside a consumer that stalls measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.backlog import MB
from benchmarks.stalled_consumer import BYTES_MAX, STALLS, Beside, line, measured


@pytest.mark.parametrize("stall", [pytest.param(STALLS[0], marks=pytest.mark.soak), STALLS[1]])
def test_messages_are_published_and_others_measured_beside_it(stall: str, tmp_path: Path) -> None:
    turn = measured(stall, 1.0, tmp_path)
    # On a busy machine the second may be over before the first confirm, so how many does not count.
    assert turn.seconds >= 1.0
    assert turn.above_bytes > 0
    for figures in (turn.alone, turn.beside):
        assert figures["p99_ms"] > 0


def test_a_turn_fails_above_the_bound() -> None:
    figures = {"p99_ms": 1.5}
    verdicts = [
        line("unread", Beside(1000, 2.0, above_bytes, figures, figures))[5:]
        for above_bytes in (BYTES_MAX, BYTES_MAX + MB)
    ]
    assert verdicts == [["<= 150 pass", "1.50 / 1.50"], ["<= 150 FAIL", "1.50 / 1.50"]]
