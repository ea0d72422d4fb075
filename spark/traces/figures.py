"""The figures of a trace (`logs/report/figures.py`), worked out by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from ...logs.report.figures import TraceFigures, figures_from
from ...logs.report.queries import COUNTED
from .moments import durations_of, latencies
from .reading import CORRUPT, NEEDED, coverage_of, events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_NS = 1e9


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
    """How many events, how many lines that are none, and the seconds that the boots cover."""
    is_event = F.col(CORRUPT).isNull()
    for name in NEEDED:
        is_event &= F.col(name).isNotNull()
    parts = (
        lines.groupBy("line.file", F.when(is_event, F.col("boot")).alias("boot"))
        .agg(
            F.count("*").alias("lines"),
            F.min("t_ns").alias("first"),
            F.max("t_ns").alias("last"),
            F.max("line").alias("end"),
            F.max_by(CORRUPT, "line").alias("end_text"),
        )
        .collect()
    )
    events, bad_lines = 0, 0
    boots: dict[str, tuple[int, int]] = {}
    ends: dict[str, Any] = {}
    for part in parts:
        ends[part["file"]] = max(ends.get(part["file"], part["end"]), part["end"])
    for part in parts:
        if part["boot"] is None:
            # The last line may be torn, as a killed broker leaves it: it is no event, and no fault.
            is_torn = part["end"] == ends[part["file"]] and not (part["end_text"] or "}").endswith(
                "}"
            )
            bad_lines += part["lines"] - is_torn
            continue
        events += part["lines"]
        first, last = boots.get(part["boot"], (part["first"], part["last"]))
        boots[part["boot"]] = min(first, part["first"]), max(last, part["last"])
    return events, bad_lines, sum(last - first for first, last in boots.values()) / _NS
