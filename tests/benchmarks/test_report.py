from __future__ import annotations

from benchmarks.report import HEADER, medians, requirements, row
from benchmarks.scenarios import SCENARIOS, scenario_named


def figures(rate: float, p50: float = 1.0, p99: float = 3.0) -> dict[str, float]:
    return {
        "rate": rate,
        "p50_ms": p50,
        "p99_ms": p99,
        "broker_cpu_us": 1e6 / rate,
        "generator_cpu_share": 0.05,
    }


def test_a_ratio_at_its_bound_passes_and_below_it_fails() -> None:
    scenario = scenario_named("transient")
    assert [check.met for check in requirements(scenario, figures(100), figures(10))] == [True]
    assert [check.met for check in requirements(scenario, figures(99), figures(10))] == [False]


def test_latency_must_stay_below_its_bound() -> None:
    scenario = scenario_named("window-1")
    slower = requirements(scenario, figures(1, p50=1.2), figures(1, p50=1.0))
    assert [check.met for check in slower] == [False]


def test_the_durable_row_asks_for_rate_and_p99() -> None:
    checks = requirements(scenario_named("durable"), figures(120, p99=1.0), figures(10, p99=4.0))
    assert [(check.figure, check.met) for check in checks] == [("rate", True), ("p99", True)]


def test_the_median_of_rounds_is_taken_figure_by_figure() -> None:
    runs = [figures(1, p50=9), figures(2, p50=7), figures(30, p50=8)]
    assert medians(runs)["rate"] == 2
    assert medians(runs)["p50_ms"] == 8


def test_a_row_with_one_broker_missing_promises_nothing() -> None:
    assert row(scenario_named("durable"), None, figures(10))[-1] == ""


def test_every_scenario_has_a_name_of_its_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_a_scenario_without_a_promise_is_only_shown() -> None:
    assert requirements(scenario_named("assorted"), figures(1), figures(100)) == []


def test_a_row_shows_the_cpu_time_of_both_brokers_for_a_message() -> None:
    shown = row(scenario_named("real"), figures(200_000), figures(10_000))
    assert shown[HEADER.index("CPU us/message")] == "100.00 / 5.00"
