"""All broker tests once more, traced in full: no trace breaks a promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 1_800


@pytest.mark.soak
def test_no_trace_of_the_broker_tests_has_a_fault() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "tests/broker", "-m", "not soak", "--traced"]
    done = subprocess.run(
        command, cwd=ROOT, timeout=SECONDS_MAX, capture_output=True, text=True, check=False
    )
    print(done.stdout[-500:])
    assert done.returncode == 0, done.stdout[-10_000:]
    traces = re.search(r"(\d+) traces checked: (\d+) events", done.stdout)
    assert traces is not None
    assert int(traces[1]) > 500
