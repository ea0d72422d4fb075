"""Two million events: the figures of both commands, and how long each took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import big_trace

pytestmark = [pytest.mark.spark, pytest.mark.soak]
EVENTS = 2_000_000


def test_spark_and_the_command_tell_the_same_of_two_million_events(
    tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    directory = tmp_path / "trace"
    events = big_trace.make(directory, EVENTS)
    assert events >= EVENTS

    def said(*arguments: str) -> list[str]:
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "leveret", *arguments],
            env={**os.environ, **spark_environment},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        print(f"{events} events: leveret {' '.join(arguments)}: {time.monotonic() - begun:.1f} s")
        return done.stdout.splitlines()

    expected = said("trace", "report", str(directory), "--json")
    assert said("spark", "trace-report", str(directory), "--json") == expected
    checked = said("trace", "check", "--files", str(directory))
    assert checked[-1].endswith(", 0 faults")
    parquet = str(tmp_path / "parquet")
    every = said("spark", "trace-report", str(directory), "--json", "--check", "--parquet", parquet)
    assert every == [*expected, "0 faults"]
