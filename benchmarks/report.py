"""Medians over the rounds, ratios of Leveret to RabbitMQ, and the table that shows them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measuring import Figures
from benchmarks.scenarios import Scenario


@dataclass(frozen=True)
class Requirement:
    """One promised ratio and the measured one."""

    figure: str
    ratio: float
    bound: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Say whether the promise is kept; a ratio without a measurement fails."""
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.figure} {sign} {self.bound:g} {'pass' if self.met else 'FAIL'}"


def medians(runs: Sequence[Figures]) -> Figures:
    """Give the median of each figure over the rounds."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def ratio(ours: Figures | None, theirs: Figures | None, figure: str) -> float:
    """Give ours / theirs, NaN when one of them is missing."""
    if ours is None or theirs is None or not theirs[figure]:
        return math.nan
    return ours[figure] / theirs[figure]


def requirements(
    scenario: Scenario, ours: Figures | None, theirs: Figures | None
) -> list[Requirement]:
    """Give what the scenario promises, with the measured ratios."""
    bounds = [
        ("rate", scenario.rate_ratio_min, True),
        ("p50_ms", scenario.p50_ratio_max, False),
        ("p99_ms", scenario.p99_ratio_max, False),
    ]
    return [
        Requirement(figure.removesuffix("_ms"), ratio(ours, theirs, figure), bound, at_least)
        for figure, bound, at_least in bounds
        if bound is not None
    ]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table; all columns but the first are flush right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])


HEADER = (
    "scenario",
    "RabbitMQ /s",
    "Leveret /s",
    "ratio",
    "p50 ms",
    "ratio",
    "p99 ms",
    "ratio",
    "CPU us/message",
    "generator CPU",
    "required",
)


def row(scenario: Scenario, ours: Figures | None, theirs: Figures | None) -> list[str]:
    """Give one line of the table: RabbitMQ's figure, then Leveret's."""

    def pair(figure: str) -> str:
        values = [(figures or {}).get(figure, math.nan) for figures in (theirs, ours)]
        return " / ".join(_number(value, "{:.2f}") for value in values)

    shares = [f["generator_cpu_share"] for f in (theirs, ours) if f is not None]
    return [
        scenario.title,
        _number(theirs["rate"] if theirs else math.nan, "{:,.0f}"),
        _number(ours["rate"] if ours else math.nan, "{:,.0f}"),
        _number(ratio(ours, theirs, "rate"), "{:.1f}"),
        pair("p50_ms"),
        _number(ratio(ours, theirs, "p50_ms"), "{:.2f}"),
        pair("p99_ms"),
        _number(ratio(ours, theirs, "p99_ms"), "{:.2f}"),
        pair("broker_cpu_us"),
        " / ".join(f"{share:.0%}" for share in shares),
        ", ".join(map(str, requirements(scenario, ours, theirs))) if ours and theirs else "",
    ]


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)
