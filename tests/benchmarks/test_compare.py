from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from benchmarks import compare
from benchmarks.brokers import BrokerError
from benchmarks.compare import Pair, compared, line, paired, rows_named, served, slower
from benchmarks.scenarios import DIFFERENT, SCENARIOS, scenario_named
from benchmarks.side_by_side import ROOT


def figures(rate: float, cpu_us: float = 10.0) -> dict[str, float]:
    return {
        "rate": rate,
        "broker_cpu_us": cpu_us,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "generator_cpu_share": 0.1,
    }


PAIRS = [Pair(figures(100), figures(rate, 12.0)) for rate in (120, 90, 96)]


def test_the_median_of_the_rounds_ratios_is_shown_with_their_range() -> None:
    row = line("real", PAIRS)
    assert row[:5] == ["real", "100", "96", "0.96", "0.90 - 1.20"]
    assert row[5:7] == ["10.0 / 12.0", "1.20"]


def test_a_row_is_too_slow_when_its_median_ratio_is_below_the_bound() -> None:
    assert slower({"real": PAIRS}, 0.95) == []
    assert slower({"real": PAIRS}, 0.97) == ["real"]


def test_rows_are_named_one_by_one_or_in_groups() -> None:
    assert rows_named(["durable", "real"]) == [scenario_named("real"), scenario_named("durable")]
    assert rows_named(["different"]) == list(DIFFERENT)
    assert rows_named(["all", "real"]) == list(SCENARIOS)


def test_the_first_of_a_pair_changes_from_round_to_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def started(checkout: Path, _scratch: Path) -> AbstractContextManager[None]:
        turns.append(checkout.name)
        return nullcontext()

    monkeypatch.setattr(compare, "served", started)
    monkeypatch.setattr(compare, "generated", lambda *_: figures(len(turns)))
    how = argparse.Namespace(scratch=tmp_path, seconds=0.1, warmup_seconds=0.1)
    row = scenario_named("window-1")
    pairs = [paired((Path("a"), Path("b")), row, number, how) for number in range(2)]
    assert turns == ["a", "b", "b", "a"]
    assert [(pair.a["rate"], pair.b["rate"]) for pair in pairs] == [(1, 2), (4, 3)]


def test_two_checkouts_are_measured_and_leave_nothing_behind(tmp_path: Path) -> None:
    # Long enough for a confirm on a machine that is busy with other things.
    how = argparse.Namespace(scratch=tmp_path, seconds=0.5, warmup_seconds=0.1, rounds=1)
    [(name, [pair])] = compared((ROOT, ROOT), [scenario_named("window-1")], how).items()
    assert name == "window-1"
    assert min(pair.a["messages"], pair.b["messages"]) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_checkout_without_an_environment_is_told_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerError, match=f"make -C {tmp_path} .venv/installed"),
        served(tmp_path, tmp_path),
    ):
        pass
