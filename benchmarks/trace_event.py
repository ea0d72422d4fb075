"""Measures how long an actor takes to write one trace event: to render it, and to store it.

    python -m benchmarks.trace_event --directory leveret-data

Counts the processor time of the writing thread, which a busy machine moves less than the clock on
the wall. A ring in memory only (/dev/shm) beside one on the disk shows what the disk adds: page
faults, after the kernel has written pages of the ring out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from leveret.logs.trace.lines import TraceLines
from leveret.logs.trace.ring import TraceRing

from benchmarks.report import table

ROUNDS = 15
RING_BYTES = 32 << 20
FIELDS = {"queue": "testQueue", "vhost": "/", "batch": 12345678, "messages": [[0, 127]]}


def event_ns(directory: Path, events: int) -> tuple[list[float], list[float]]:
    """Give nanoseconds an event, round by round: rendered, and rendered and stored."""
    lines = TraceLines("abcdef01")
    ring = TraceRing(directory, "abcdef01", RING_BYTES)
    rendered, stored = [], []
    try:
        for _ in range(ROUNDS):
            begun = time.thread_time_ns()
            for _ in range(events):
                lines.line(time.monotonic_ns(), "message.persisted", "queue", FIELDS)
            rendered.append((time.thread_time_ns() - begun) / events)
            begun = time.thread_time_ns()
            for _ in range(events):
                ring.append(lines.line(time.monotonic_ns(), "message.persisted", "queue", FIELDS))
            stored.append((time.thread_time_ns() - begun) / events)
            ring.release(ring.waiting_bytes)
            # As the kernel does now and then: the next stores into these pages fault.
            os.sync()
    finally:
        ring.close()
    return rendered, stored


def main() -> None:
    """Print a row for each place of the ring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_event", description=__doc__)
    parser.add_argument("--events", type=int, default=50_000, help="events of a round")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="on the disk")
    arguments = parser.parse_args()
    rows = []
    for place in (arguments.directory, Path("/dev/shm")):
        place.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as directory:
            rendered, stored = event_ns(Path(directory), arguments.events)
        times = (min(rendered), statistics.median(rendered), min(stored), statistics.median(stored))
        rows.append([str(place), *(f"{each:,.0f}" for each in times)])
    print(table(("ring in", "rendered ns", "median", "and stored ns", "median"), rows))


if __name__ == "__main__":
    main()
