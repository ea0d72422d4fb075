"""Works out a trace's figures with DuckDB, the extra `[trace]`: millions of events in seconds.

What the figures are is defined in `trace_figures`, the steps to them stand in `trace_queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import trace_queries as queries
from .trace_figures import HOPS, Latency, QueueFigures, TraceFigures
from .trace_reader import TraceFilesError, ends_within_a_line, still_there

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# What is told of long work: the share that is done, 0 to 1.
Progress = Callable[[float], None]

MISSING: Final = "a report needs DuckDB, which is not installed: pip install 'leveret[trace]'"
# Reading is so much of the work.
_READING_SHARE: Final = 0.6
# So many files are read at a time: more than there are threads, few enough to tell of progress.
_FILES_AT_A_TIME: Final = 4
_QUEUE_HOPS: Final = tuple(hop for hop in HOPS if hop.name in ("confirm", "deliver"))


def figures_of(files: Sequence[Path], progress: Progress | None = None) -> TraceFigures:
    """Read the files and work them out; TraceFilesError if DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        raise TraceFilesError(MISSING) from None
    tell = progress or (lambda _share: None)
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as engine:
        engine.execute("SET enable_progress_bar = false")
        try:
            _read(engine, still_there(files), tell)
        except duckdb.IOException as fault:
            line, _, _ = str(fault).partition("\n")
            raise TraceFilesError(f"the trace cannot be read: {line}") from None
        steps = queries.steps()
        for number, step in enumerate(steps):
            tell(_READING_SHARE + (1 - _READING_SHARE) * number / len(steps))
            engine.execute(step)
        figures = _figures(engine)
        tell(1.0)
        return figures


def _read(engine: DuckDBPyConnection, files: Sequence[Path], tell: Progress) -> None:
    """Make the table `line` of all lines; one that is no event has none."""
    total = max(sum(path.stat().st_size for path in files), 1)
    done = 0
    into = "CREATE TEMP TABLE line AS"
    for begin in range(0, len(files), _FILES_AT_A_TIME):
        # A broker that runs may have packed or dropped some meanwhile.
        chunk = still_there(files[begin : begin + _FILES_AT_A_TIME])
        names = [str(path) for path in chunk]
        if names:
            engine.execute(f"{into} {queries.LINES}", [names, queries.COLUMNS])
            into = "INSERT INTO line"
            done += sum(path.stat().st_size for path in chunk)
            tell(_READING_SHARE * min(done / total, 1.0))


def _figures(engine: DuckDBPyConnection) -> TraceFigures:
    ((events, covered_ns),) = engine.execute(queries.COVERED).fetchall()
    bad = engine.execute(queries.BAD).fetchall()
    # The last line may be torn, as a killed broker leaves it.
    torn = sum(ends_within_a_line(Path(name)) for name, _count in bad)
    hops = _latencies(engine.execute(queries.latencies(HOPS, by_queue=False)).fetchall())
    by_queue = _latencies(engine.execute(queries.latencies(_QUEUE_HOPS, by_queue=True)).fetchall())
    counts = engine.execute(queries.COUNTS).fetchall()
    return TraceFigures(
        int(events),
        sum(count for _name, count in bad) - torn,
        int(covered_ns) / 1e9,
        tuple(
            QueueFigures(
                queue,
                enqueued,
                confirmed,
                delivered,
                settled,
                by_queue.get((queue, "confirm"), Latency()),
                by_queue.get((queue, "deliver"), Latency()),
            )
            for queue, enqueued, confirmed, delivered, settled in counts
        ),
        tuple((hop, hops.get(("", hop.name), Latency())) for hop in HOPS),
    )


def _latencies(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], Latency]:
    return {(queue, hop): Latency(*figures) for queue, hop, *figures in rows}
