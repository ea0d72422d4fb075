from __future__ import annotations

from pathlib import Path

import pytest
from served import Served

from benchmarks.shares import Shared, measure, parsed, wanted_shares


def test_shares_and_busy_times_are_of_what_was_done() -> None:
    shared = Shared([250, 500, 750], 1.0)
    assert shared.shares() == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert shared.busy() == pytest.approx([1, 1, 0.75])
    assert wanted_shares() == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def test_three_consumers_of_a_live_queue_do_no_more_than_time_allows(tmp_path: Path) -> None:
    arguments = parsed(["--seconds", "1", "--prefetch", "3"])
    with Served(tmp_path, log_level="error") as served:
        shared = measure(served.port, arguments.seconds, arguments.prefetch)
    assert all(0 < busy <= 1.01 for busy in shared.busy())
    assert sum(shared.shares()) == pytest.approx(1)
