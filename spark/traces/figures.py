"""The figures of a trace (`logs/report/figures.py`), worked out by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from ...logs.report.figures import TraceFigures, figures_from, totals_of
from ...logs.report.queries import COUNTED
from .moments import durations_of, latencies
from .reading import CORRUPT, coverage_of, events_of, is_event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def trace_figures(lines: DataFrame) -> TraceFigures:
    """The whole report of what `read_lines` gave; worth a `persist` before, it is read twice."""
    events = events_of(lines)
    # Both the counts and the quantiles come from these.
    took = durations_of(events).persist()
    try:
        return figures_from(_totals(lines), _counts(took), latencies(took), coverage_of(events))
    finally:
        took.unpersist()


def _counts(took: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of `queries.COUNTS`: those of the tasks, added up."""
    found: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    rows = took.where("took_ns IS NULL").groupBy("vhost", "queue", "hop")
    for row in rows.agg(F.sum("messages"), F.sum("estimated")).collect():
        vhost, queue, name, *counts = row
        found.setdefault((vhost, queue), {})[name] = (counts[0], counts[1])
    return [
        (*queue, *(each[name][0] for name in COUNTED), *(each[name][1] for name in COUNTED))
        for queue, each in found.items()
    ]


def _totals(lines: DataFrame) -> tuple[int, int, float]:
    """As `totals_of`, of all lines."""
    parts = (
        lines.groupBy("line.file", F.when(is_event(), F.col("boot")).alias("boot"))
        .agg(F.count("*"), F.min("t_ns"), F.max("t_ns"), F.max("line"), F.max_by(CORRUPT, "line"))
        .collect()
    )
    ends: dict[str, Any] = {}
    for file, _boot, _lines, _first, _last, end, _text in parts:
        ends[file] = max(ends.get(file, end), end)
    torn = sum(
        boot is None and end == ends[file] and not (text or "}").endswith("}")
        for file, boot, _lines, _first, _last, end, text in parts
    )
    return totals_of([tuple(part)[:5] for part in parts], torn)
