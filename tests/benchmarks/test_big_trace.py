"""The trace that benchmarks make is sound, and `trace report` counts all that is in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.reader import read_trace, trace_files
from leveret.logs.report.engine import figures_of

from benchmarks.big_trace import CONSUMED, FANOUT_QUEUES, QUEUES, make


@pytest.mark.parametrize("events", [20_000, pytest.param(2_000_000, marks=pytest.mark.soak)])
def test_a_big_trace_is_sound_and_reported_on_in_full(events: int, tmp_path: Path) -> None:
    directory = tmp_path / "big"
    written = make(directory, events)
    assert written >= events
    files = trace_files([directory])
    begun = time.monotonic()
    figures = figures_of(files)
    took = time.monotonic() - begun
    print(f"{figures.events} events in {len(files)} files: {took:.1f} s")
    assert (figures.events, figures.bad_lines) == (written, 0)
    by_name = {queue.queue: queue for queue in figures.queues}
    assert set(by_name) == {*QUEUES, *FANOUT_QUEUES}
    for name, queue in by_name.items():
        assert queue.traced.confirmed == queue.traced.enqueued > 0
        assert (queue.traced.delivered > 0) == (name in CONSUMED)
        assert queue.estimated == queue.traced
    check = TraceCheck()
    check.feed(read_trace(files))
    assert (check.events, check.faults) == (written, [])
    assert (check.channels.open_count, check.channels.unjudged) == (0, 0)
