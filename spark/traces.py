"""Traces of any size on Spark: timelines, figures, checks, Parquet.

    from leveret.spark import traces

    events = traces.read_events(spark, ["leveret-data/traces"])
    traces.faults(events).show()

What the events are says docs/TRACE.md, what the figures are `leveret/logs/trace_figures.py`.
"""

from __future__ import annotations

from .trace_faults import faults
from .trace_figures import trace_figures
from .trace_moments import moments, steps
from .trace_reading import (
    FIGURE_FIELDS,
    event_schema,
    events_of,
    read_events,
    read_lines,
    read_parquet,
    write_parquet,
)

__all__ = [
    "FIGURE_FIELDS",
    "event_schema",
    "events_of",
    "faults",
    "moments",
    "read_events",
    "read_lines",
    "read_parquet",
    "steps",
    "trace_figures",
    "write_parquet",
]
