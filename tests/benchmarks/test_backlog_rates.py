"""The rates of a backlog are measured with all its messages, and the disk's beside them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.backlog_rates import measured


def test_a_backlog_is_filled_and_drained_in_full(tmp_path: Path) -> None:
    rates = measured(tmp_path, budgets=2, budget_bytes=200_000, command=None)
    assert rates.messages >= 2 * 200_000 // 450
    assert min(rates.at_start, rates.at_end, rates.drained, rates.drained_in_memory) > 0
    assert rates.disk > 0
    assert rates.peak_bytes > 0
