from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.scenarios import scenario_named
from benchmarks.trace_cost import SAMPLED, STALLED, Pair, Turn, brokers, is_kept, paired, row


def pairs(*ratios: float) -> list[Pair]:
    return [Pair(Turn(1000.0, 1.0, 0), Turn(1000.0 * ratio, 1.5, 7)) for ratio in ratios]


def test_the_median_of_the_pairs_decides_and_the_spread_is_shown() -> None:
    assert is_kept(SAMPLED, pairs(0.5, 0.93, 1.2))
    assert not is_kept(SAMPLED, pairs(0.5, 0.92, 1.2))
    assert row(SAMPLED, pairs(0.5, 0.93, 1.2))[5:9] == ["0.93", "0.50 - 1.20", "1.50", "21"]


def test_the_trace_is_switched_for_a_turn_and_its_stalled_disk_drops_events(tmp_path: Path) -> None:
    arguments = argparse.Namespace(seconds=1.0, warmup_seconds=0.3, scratch=tmp_path)
    scenario = scenario_named("durable")
    with brokers(tmp_path, None) as sides:
        for mode in (SAMPLED, STALLED):
            pair = paired(*sides[mode], arguments, scenario, that_first=True)
            assert pair.that.rate > 0
            assert pair.this.rate > 0
            assert (pair.this.dropped > 0) == (mode is STALLED)
