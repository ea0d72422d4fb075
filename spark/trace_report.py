"""The command `leveret spark trace-report`: one session, which reads the trace once.

This module stands beside the package `traces`, which imports PySpark, and can be imported without
PySpark, so that the session can say that it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..logs.report.figures import TraceFigures
from .session import spark_session

# Past so many, faults are only counted; as in `leveret trace check`.
FAULTS_SHOWN_MAX: Final = 50


class TraceReport(NamedTuple):
    """Figures, and faults in the order of the trace if they were looked for."""

    figures: TraceFigures
    faults: list[str]
    fault_count: int
    # What could not be judged, and why.
    notes: list[str]


def trace_report(
    paths: Sequence[str], master: str, memory: str, is_checked: bool, parquet: str | None
) -> TraceReport:
    """Work it all out; SparkError or TraceFilesError if that cannot be."""
    with spark_session(master, memory) as session:
        from . import traces

        lines = traces.read_lines(session, paths)
        kept = lines.persist()
        figures = traces.trace_figures(kept)
        faults, fault_count, notes = [], 0, []
        if is_checked:
            judged = traces.judge(traces.events_of(kept))
            few = session.sparkContext.defaultParallelism
            found = judged.faults.coalesce(few).persist()
            fault_count = found.count()
            # As a rule there is none, and nothing to sort.
            if fault_count:
                shown = found.orderBy("line").limit(FAULTS_SHOWN_MAX).collect()
                faults = [row["fault"] for row in shown]
            found.unpersist()
            notes = judged.notes()
        if parquet is not None:
            traces.write_parquet(traces.events_of(kept), parquet)
        kept.unpersist()
        return TraceReport(figures, faults, fault_count, notes)
