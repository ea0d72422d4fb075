"""Traces of any size on Spark: timelines, figures, checks, Parquet.

    from leveret.spark import traces

    events = traces.read_events(spark, ["leveret-data/traces"])
    traces.faults(events).show()

What the events are says docs/TRACE.md, what the figures are `leveret/logs/report/figures.py`.
"""

from __future__ import annotations

from .faults import faults, judge
from .figures import trace_figures
from .moments import moments, steps
from .reading import event_schema, events_of, read_events, read_lines, read_parquet, write_parquet

__all__ = [
    "event_schema",
    "events_of",
    "faults",
    "judge",
    "moments",
    "read_events",
    "read_lines",
    "read_parquet",
    "steps",
    "trace_figures",
    "write_parquet",
]
