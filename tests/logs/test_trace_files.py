"""The trace's files: bounded, rotated, and no burden when the disk fails."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import structlog
from leveret.logs.trace import Trace, TraceError, TraceFilter
from leveret.logs.trace_files import TraceFiles
from leveret.logs.trace_reader import TraceFilesError, read_trace, trace_files


def trace_to(directory: Path, buffer_events_max: int = 100_000, **limits: int) -> Trace:
    trace = Trace("boot", buffer_events_max)
    chosen = {"file_bytes_max": 1 << 20, "file_age_seconds_max": 1_000, "files_max": 3} | limits
    log = structlog.get_logger("test")
    trace.sink = TraceFiles(trace, directory, log, **chosen)
    return trace


def test_files_end_at_their_size_are_compressed_and_the_oldest_go(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, file_bytes_max=4_096, files_max=3)
    assert isinstance(trace.sink, TraceFiles)
    trace.is_on = True
    for number in range(10):
        for place in range(100):
            trace.write("message.persisted", "queue", batch=number, messages=[[place, place]])
        trace.sink._write_block()
    trace.sink.start()
    trace.close()
    (plain,) = tmp_path.glob("*.jsonl")
    packed = list(tmp_path.glob("*.gz"))
    assert len(packed) == 3
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (plain, *packed))
    batches = [line["batch"] for line in read_trace(trace_files([tmp_path])) if "batch" in line]
    assert sorted(set(batches)) == [7, 8, 9]
    assert batches == sorted(batches)


def test_switching_off_and_on_leaves_no_more_files_than_are_kept(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, files_max=3)
    for _ in range(10):
        trace.start(TraceFilter(), "test")
        trace.close()
    assert len(list(tmp_path.iterdir())) == 4


def test_what_finds_the_buffer_full_is_dropped_and_told_of(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, buffer_events_max=5)
    trace.is_on = True
    for _ in range(12):
        trace.write("message.persisted", "queue")
    assert (len(trace.entries), trace.dropped) == (5, 7)
    assert trace.sink is not None
    trace.sink.start()
    trace.close()
    lines = list(read_trace(trace_files([tmp_path])))
    assert sum(line.get("dropped", 0) for line in lines) == trace.dropped
    assert [line["event"] for line in lines].count("message.persisted") == 5


@pytest.mark.parametrize("rate", [0, -1, 1.5, 1e-320])
def test_a_bad_rate_is_refused(rate: float) -> None:
    with pytest.raises(TraceError, match="it must be above 0 and at most 1"):
        TraceFilter.with_rate(rate)


def test_who_looks_for_a_trace_that_was_never_begun_is_told_how_to_begin_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(TraceFilesError) as missing:
        trace_files([tmp_path / "traces"])
    said = f"there is no trace {tmp_path / 'traces'}; `leveret trace on` begins one"
    assert str(missing.value) == said
