"""`leveret spark ...`: the commands that use Spark, which only they load (docs/SPARK.md)."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..logs.reading.explain import printable
from ..logs.reading.reader import TraceFilesError
from .command_parser import add_group
from .trace_report_command import add_outputs, drawing, show


def add_to(commands: Any) -> None:
    """Add `spark` and what it can do to the command's parser."""
    actions = add_group(
        commands,
        "spark",
        "traces of any size, on Spark",
        "Reads traces on Spark, which the extra `spark` installs: docs/SPARK.md.",
        "trace-report leveret-data/traces",
    )
    report = actions.add_parser(
        "trace-report",
        help="as `trace report`, for any number of files",
        description="Prints rates and latencies of traces of any size, by queue and by hop.",
        example="leveret spark trace-report leveret-data/traces --picture report.html",
    )
    report.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="files or folders; also as Spark reads them, s3a://",
    )
    add_outputs(report)
    report.add_argument("--check", action="store_true", help="say, too, what breaks a promise")
    report.add_argument("--parquet", metavar="DIR", help="add the events to a folder of Parquet")
    report.add_argument(
        "--master", metavar="URL", default="local[*]", help="Spark's (default local[*])"
    )
    report.add_argument("--memory", metavar="SIZE", default="2g", help="of the driver (default 2g)")
    report.set_defaults(run=trace_report_command)


def trace_report_command(parsed: argparse.Namespace) -> int:
    """Print the tables, draw the picture; 1 if there is nothing to read, no Spark, or a fault."""
    from ..spark.session import SparkError
    from ..spark.trace_report import trace_report

    try:
        draw = drawing(parsed)
        made = trace_report(
            parsed.paths, parsed.master, parsed.memory, parsed.check, parsed.parquet
        )
        show(made.figures, parsed, draw)
    except (SparkError, TraceFilesError, OSError) as fault:
        sys.stderr.write(f"leveret: {fault}\n")
        return 1
    for said in (*made.faults, *made.notes):
        sys.stdout.write(printable(said) + "\n")
    if parsed.check:
        sys.stdout.write(f"{made.fault_count} faults\n")
    return 1 if made.fault_count else 0
