"""With `--traced`: every broker of the tests traces all it does, and its trace is checked.

A test whose broker's trace breaks a promise fails. Tests of the trace itself are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leveret
import pytest
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.reader import TraceFilesError, read_trace, trace_files

OPTION = "--traced"
# All that a broker writes in a test is in its trace.
SETTINGS = {"trace_one_of": 1, "trace_buffer_bytes_max": 512 << 20, "trace_files_max": 1_000}


class Totals:
    """The counts of checks in this session."""

    traces = events = answered = 0


def is_wanted(request: pytest.FixtureRequest) -> bool:
    is_about_traces = request.path.name.startswith("test_trace") or "logs" in request.path.parts
    return request.config.getoption(OPTION) and not is_about_traces


def trace_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on brokers in this process and in children trace, unless they are told how."""
    begin = leveret.Broker.__init__

    def traced(self: leveret.Broker, *configuration: Any, **settings: Any) -> None:
        begin(self, *configuration, **(settings if configuration else SETTINGS | settings))

    monkeypatch.setattr(leveret.Broker, "__init__", traced)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"LEVERET_{name.upper()}", str(value))


def faults_below(directory: Path) -> Iterator[str]:
    """Faults in the traces of all brokers whose data is somewhere in this folder."""
    for traces in sorted(directory.rglob("traces")):
        try:
            files = trace_files([traces])
        except TraceFilesError:
            continue
        check = TraceCheck()
        check.feed(read_trace(files))
        Totals.traces += 1
        Totals.events += check.events
        Totals.answered += check.channels.answered
        yield from check.faults
