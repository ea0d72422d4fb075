"""Where the time of a row's messages goes: the event loop's thread under Python's profiler.

    python -m benchmarks.row_profile real-200x1 workers-20x1 --seconds 3
    python -m benchmarks.row_profile real-200x1 --functions 30

For each folder of the broker, the share of its functions without those that they call. "event loop"
stands for the time outside Python: uvloop, the kernel's reads, writes and polls, and waiting. The
profiler makes each call dearer, so shares are what to read: the thread's time for a message is two
to three times that of a run without it.
"""

from __future__ import annotations

import argparse
import pstats
import shlex
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.brokers import Leveret, allow_many_connections
from benchmarks.measuring import Figures
from benchmarks.report import table
from benchmarks.scenarios import Scenario, scenario_named
from benchmarks.side_by_side import ROOT, generated

EVENT_LOOP = "event loop"
START = "imports and start"
# Built-in functions that a start calls, and a message does not.
OF_A_START = (
    *("compile", "marshal", "exec", "scrypt", "build_class", "dynamic", "code", "posix", "gc."),
    *("sqlite", "eval", "setattr", "isinstance", "acquire", "_imp", "read", "sync", "sorted"),
)
# Less is not shown.
SHARE_MIN = 0.005
# A function of the profile: file, line, name.
Function = tuple[str, int, str]


def profiled(row: Scenario, seconds: float) -> tuple[Figures, dict[Function, float]]:
    """Run a row; give its figures, and of each function the seconds without its callees."""
    with tempfile.TemporaryDirectory(prefix="row-profile-") as name:
        found = Path(name) / "profile"
        python = shlex.quote(sys.executable)
        data = Path(name) / "data"
        data.mkdir()
        broker = Leveret(data, f"{python} -m cProfile -o {found} -m leveret serve")
        broker.start()
        try:
            figures = generated(broker, row, seconds, 0.5)
        finally:
            broker.stop()
        stats: dict[Function, Any] = pstats.Stats(str(found)).stats  # type: ignore[attr-defined]
        return figures, {function: entry[2] for function, entry in stats.items()}


def place_of(function: Function) -> str:
    """The folder of the broker that a function belongs to."""
    file, _, name = function
    if name == "run" and file.endswith("runners.py"):
        return EVENT_LOOP
    path = Path(file)
    if file == "~":
        return START if any(word in name for word in OF_A_START) else "built-in functions"
    if not path.is_relative_to(ROOT) or ".venv" in path.parts:
        return START
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] in {"actors", "core"} else parts[0]


def lines_of(times: dict[Function, float], functions: int) -> list[list[str]]:
    """The places, the dearest first; or so many functions."""
    sums: defaultdict[str, float] = defaultdict(float)
    for function, seconds in times.items():
        place = place_of(function)
        if place == START:
            continue
        if functions and place != EVENT_LOOP:
            place = f"{place} {function[2]}:{function[1]}"
        sums[place] += seconds
    total = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: -item[1])[: functions or None]
    shown = [(place, seconds / total) for place, seconds in ordered]
    return [[place, f"{share:.1%}"] for place, share in shown if share >= SHARE_MIN]


def main() -> None:
    """Print a table for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", metavar="ROW")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--functions", type=int, default=0, help="so many functions, not folders")
    arguments = parser.parse_args()
    allow_many_connections()
    for name in arguments.rows:
        row = scenario_named(name)
        figures, times = profiled(row, arguments.seconds)
        cpu_us = figures["broker_cpu_us"]
        print(f"\n{row.title}: {cpu_us:.1f} us of processor a message under the profiler\n")
        print(table(("where", "share"), lines_of(times, arguments.functions)))


if __name__ == "__main__":
    main()
