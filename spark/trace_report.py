"""What `leveret spark trace-report` does: one session, the trace read once and kept, all questions.

This module can be imported without PySpark; the session says that it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..logs.trace_figures import TraceFigures
from .session import spark_session

# Past so many, faults are only counted; as in `leveret trace check`.
FAULTS_SHOWN_MAX: Final = 50


class TraceReport(NamedTuple):
    """Figures, and faults in the order of the trace if they were looked for."""

    figures: TraceFigures
    faults: list[str]
    fault_count: int


def trace_report(
    paths: Sequence[str], master: str, memory: str, is_checked: bool, parquet: str | None
) -> TraceReport:
    """Work it all out; SparkError or TraceFilesError if that cannot be."""
    with spark_session(master, memory) as session:
        from . import traces

        lines = traces.read_lines(session, paths)
        kept = lines.select(*traces.FIGURE_FIELDS).persist()
        figures = traces.trace_figures(kept)
        faults, fault_count = [], 0
        if is_checked:
            few = session.sparkContext.defaultParallelism
            found = traces.faults(traces.events_of(kept)).coalesce(few).persist()
            fault_count = found.count()
            # As a rule there is none, and nothing to sort.
            if fault_count:
                shown = found.orderBy("line").limit(FAULTS_SHOWN_MAX).collect()
                faults = [row["fault"] for row in shown]
            found.unpersist()
        kept.unpersist()
        if parquet is not None:
            traces.write_parquet(traces.events_of(lines), parquet)
        return TraceReport(figures, faults, fault_count)
