"""Works out a trace's figures with DuckDB, the extra `[trace]`: millions of events in seconds.

What the figures are is defined in figures.py, the steps to them stand in queries.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..reading.reader import (
    TraceFilesError,
    coverage_of,
    ends_within_a_line,
    plain_files,
    still_there,
)
from . import queries
from .figures import TraceFigures, figures_from, totals_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# Called during long work with the share that is done, 0 to 1.
Progress = Callable[[float], None]

MISSING: Final = "a report needs DuckDB, which is not installed: pip install 'leveret[trace]'"
# Reading is so much of the work.
_READING_SHARE: Final = 0.6
# So many files are read at a time: more than there are threads, few enough to tell of progress.
_FILES_AT_A_TIME: Final = 4


def figures_of(
    files: Sequence[Path], progress: Progress | None = None, running: Collection[str] = ()
) -> TraceFigures:
    """Read the files and work them out; TraceFilesError if DuckDB is not installed.

    `running` are the boots whose broker runs.
    """
    try:
        import duckdb
    except ImportError:
        raise TraceFilesError(MISSING) from None
    tell = progress or (lambda _share: None)
    with plain_files(files) as plain, duckdb.connect() as engine:
        engine.execute("SET preserve_insertion_order = false")
        engine.execute("SET enable_progress_bar = false")
        try:
            _read(engine, still_there(plain), tell)
        except duckdb.IOException as fault:
            line, _, _ = str(fault).partition("\n")
            raise TraceFilesError(f"the trace cannot be read: {line}") from None
        coverage = coverage_of(plain, running)
        begin(engine, coverage.choices())
        steps = [*queries.channel_steps(), queries.KNOWN, *queries.batch_steps()]
        for number, step in enumerate(steps):
            tell(_READING_SHARE + (1 - _READING_SHARE) * number / len(steps))
            engine.execute(step)
        engine.execute(f"CREATE TEMP TABLE took AS {queries.took()}")
        figures = figures_from(
            _totals(engine),
            engine.execute(queries.COUNTS).fetchall(),
            engine.execute(queries.LATENCIES).fetchall(),
            coverage,
        )
        tell(1.0)
        return figures


def begin(engine: DuckDBPyConnection, choices: Sequence[tuple[str, int, int]]) -> None:
    """Make the table `choice` of what `Coverage.choices` says."""
    engine.execute("CREATE TEMP TABLE choice (boot VARCHAR, t_ns BIGINT, one_of BIGINT)")
    if choices:
        engine.executemany("INSERT INTO choice VALUES (?, ?, ?)", choices)


def _read(engine: DuckDBPyConnection, files: Sequence[Path], tell: Progress) -> None:
    """Make the table `line` of all lines; in a line that is no event, the column `event` is
    null."""
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


def _totals(engine: DuckDBPyConnection) -> tuple[int, int, float]:
    parts = engine.execute(queries.READ).fetchall()
    damaged = {file for file, boot, *_ in parts if boot is None}
    return totals_of(parts, sum(ends_within_a_line(Path(name)) for name in damaged))
