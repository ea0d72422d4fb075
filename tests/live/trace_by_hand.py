"""A trace whose thread is played by the test, and the disk that it is written to."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import structlog
from leveret.logs.reading.reader import read_trace, trace_files
from leveret.logs.trace.files import TraceFiles
from leveret.logs.trace.parsing import Line
from leveret.logs.trace.ring import TraceRing
from leveret.logs.trace.trace import Trace

_LIMITS = {"file_bytes_max": 1 << 20, "file_age_seconds_max": 1_000, "files_max": 3}


class Disk:
    """A node's free space on its disk."""

    free_bytes = 1 << 40

    def require_room(self, size_bytes: int) -> None:
        if size_bytes > self.free_bytes:
            raise OSError(errno.ENOSPC, "low")


def trace_to(directory: Path, ring_bytes: int = 1 << 20, **limits: Any) -> Trace:
    trace = Trace("boot")
    limits = (
        _LIMITS
        | {"on_fatal": pytest.fail, "require_room": Disk().require_room}
        | {"log": structlog.get_logger("test")}
        | limits
    )
    trace.sink = TraceFiles(trace, directory, ring_bytes=ring_bytes, **limits)
    return trace


def begun(directory: Path, ring_bytes: int = 1 << 20, **limits: Any) -> tuple[Trace, TraceFiles]:
    """A trace that is on, whose thread is played by the test: it calls `write_waiting`."""
    trace = trace_to(directory, ring_bytes, **limits)
    files = trace.sink
    assert isinstance(files, TraceFiles)
    directory.mkdir(exist_ok=True)
    trace.ring = TraceRing(directory, "boot", ring_bytes)
    trace.is_on = True
    return trace, files


def write_waiting(trace: Trace) -> bool:
    assert trace.ring is not None
    assert isinstance(trace.sink, TraceFiles)
    return trace.sink.write_waiting(trace.ring)


def traced(directory: Path) -> list[Line]:
    def torn(*_at: object) -> None:
        pytest.fail("torn")

    return list(read_trace(trace_files([directory]), on_bad_line=torn))
