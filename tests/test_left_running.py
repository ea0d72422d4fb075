"""A test that leaves a process fails the run (`live/left_running.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
from insides import wait_until

LIVE = Path(__file__).parent / "live"

# It has a session of its own and no parent, as a daemon has. `Popen` returns when it is `sleep`.
DAEMON = """
import subprocess
daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open("pid", "w").write(str(daemon.pid))
"""
LEAVES = f"""
import subprocess, sys

def test_that_leaves_a_daemon():
    subprocess.run([sys.executable, "-W", "ignore", "-c", {DAEMON!r}], check=True)
"""


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """A session of pytest, with the plugin and no grace."""
    (directory / "test_it.py").write_text(program)
    (directory / "conftest.py").write_text(
        "import left_running\nleft_running.GRACE_SECONDS_MAX = 0.2\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "left_running", "-p", "no:cacheprovider", "-q"],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(LIVE)},
        capture_output=True,
        text=True,
        check=False,
    )


def is_over(pid: int) -> bool:
    """Has a process that was killed ended, whether somebody has noticed or not?"""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_process_that_a_test_leaves_fails_the_run_is_named_and_killed(tmp_path: Path) -> None:
    done = run(tmp_path, LEAVES)
    pid = int((tmp_path / "pid").read_text())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert f"process {pid}, begun by test_it.py::test_that_leaves_a_daemon (call)" in done.stdout
    assert "sleep 1000" in done.stdout
    wait_until(lambda: is_over(pid))


def test_a_run_that_leaves_nothing_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_that_leaves_nothing():\n    pass\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left running" not in done.stdout
