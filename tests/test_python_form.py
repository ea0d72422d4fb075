"""The tests once more with the codec in Python, as it runs where nothing was compiled.

Where the codec is compiled, all other tests run with that form. Here the codecs' own tests and
those broker tests that say most about messages run in the other one, in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from leveret.amqp_frames.compiled import FORM, FORM_VARIABLE

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 5_400
BROKER_TESTS = (
    "acknowledging",
    "bodies",
    "confirms",
    "consuming",
    "returns",
    "unfinished_publishes",
)

pytestmark = pytest.mark.skipif(FORM != "compiled", reason="this run has the Python form itself")


def passed_in_python(*arguments: str) -> str:
    """The last line of pytest, which has run these tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not soak", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, FORM_VARIABLE: "no"},
        timeout=SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    return done.stdout.splitlines()[-1]


def test_the_codecs_tests_and_some_of_the_broker_s_pass_in_the_python_form() -> None:
    codec = [
        f"tests/amqp_frames/{file.name}"
        for file in sorted((ROOT / "tests" / "amqp_frames").glob("test_*.py"))
        if any(word in file.name for word in ("deco", "deliver", "merg", "publish"))
    ]
    codec.append("tests/nsq_frames")
    broker = [f"tests/broker/test_{name}.py" for name in BROKER_TESTS]
    print(passed_in_python("-n0", "-p", "no:cacheprovider", *codec, *broker))


@pytest.mark.soak
def test_all_tests_pass_in_the_python_form() -> None:
    print(passed_in_python("-n", "2", "-p", "no:cacheprovider"))
