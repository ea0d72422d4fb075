"""`leveret trace report`: rates and latencies of a trace, as tables and as a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..logs.reading.reader import TraceFilesError, trace_files
from ..logs.report.engine import figures_of
from ..logs.report.figures import TraceFigures
from ..logs.report.picture import page, svg
from ..logs.report.tables import report
from ..logs.trace.salvage import running_boots
from .progress import Progress

_NESTED = ("traced", "estimated", "confirm", "deliver")
Draw = Callable[[TraceFigures], str]

PICTURES: dict[str, Draw] = {".html": page, ".svg": svg}


def add_to(actions: Any) -> None:
    """Add `report` to the actions of `leveret trace`."""
    parser = actions.add_parser(
        "report",
        help="rates and latencies, by queue and by hop",
        description="Prints rates and latencies of a trace, by queue and by hop, and draws them.",
        example="leveret trace report\nleveret trace report --picture report.html",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        type=Path,
        nargs="*",
        help="files or folders (default those of the data directory)",
    )
    add_outputs(parser)
    parser.set_defaults(run=report_command)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the ways in which figures can be shown."""
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw it, too: .html or .svg")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, times in nanoseconds (default tables)"
    )


def report_command(parsed: argparse.Namespace) -> int:
    """Print the tables, draw the picture; 1 if there is nothing to read."""
    try:
        draw = drawing(parsed)
        paths = parsed.paths or [parsed.data_dir / "traces"]
        files = trace_files(paths)
        with Progress("reading the trace") as progress:
            figures = figures_of(files, progress, running_boots(paths))
        show(figures, parsed, draw)
    except (TraceFilesError, OSError) as fault:
        sys.stderr.write(f"leveret: {fault}\n")
        return 1
    return 0


def drawing(parsed: argparse.Namespace) -> Draw | None:
    """How the picture is drawn that is asked for; TraceFilesError if in no way that there is."""
    if parsed.picture is None:
        return None
    if parsed.picture.suffix not in PICTURES:
        raise TraceFilesError(f"a picture is .html or .svg, not {parsed.picture}")
    return PICTURES[parsed.picture.suffix]


def show(figures: TraceFigures, parsed: argparse.Namespace, draw: Draw | None) -> None:
    """Draw the picture, print the figures."""
    if draw is not None:
        parsed.picture.write_text(draw(figures), encoding="utf-8")
    sys.stdout.write(_as_json(figures) if parsed.json else report(figures))


def _as_json(figures: TraceFigures) -> str:
    values = figures._asdict()
    values["queues"] = [
        queue._asdict() | {name: getattr(queue, name)._asdict() for name in _NESTED}
        for queue in figures.queues
    ]
    values["hops"] = {hop.name: latency._asdict() for hop, latency in figures.hops}
    return json.dumps(values, indent=2) + "\n"
