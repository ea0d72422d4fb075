"""A pytest plugin: a process that a test leaves fails the run, is named, and is killed.

A process may outlive its parent, so the children of this process are not enough: each process
inherits a variable that names the session, and the variable that pytest sets to the test that runs,
which tells who began it. Fixtures of the whole session are torn down before the check.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import psutil
import pytest

# The sessions that a process belongs to, with commas: a test may run a session of its own.
SESSIONS = "PYTEST_SESSIONS"
BEGUN_BY = "PYTEST_CURRENT_TEST"
# A process that was told to end may take so long on a busy machine.
GRACE_SECONDS_MAX = 60.0
COMMAND_CHARACTERS_MAX = 300


class LeftRunning(NamedTuple):
    """A process that was there when the session had ended."""

    process: psutil.Process
    command: str
    begun_by: str


_session = uuid.uuid4().hex
_found: list[LeftRunning] = []


def pytest_configure() -> None:
    os.environ[SESSIONS] = ",".join(filter(None, [os.environ.get(SESSIONS), _session]))


@pytest.hookimpl(trylast=True)  # pytest's own tears the fixtures down, and ends its workers.
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        # A worker has no say in how the run ends. Whoever began the worker looks for all of them.
        return
    begun = [each.process for each in _processes_of_session()]
    psutil.wait_procs(begun, GRACE_SECONDS_MAX)
    _found.extend(_processes_of_session())
    for each in _found:
        each.process.kill()
    if _found and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _found:
        return
    terminalreporter.section("left running", sep="=", red=True, bold=True)
    for each in _found:
        terminalreporter.write_line(f"process {each.process.pid}, begun by {each.begun_by}")
        terminalreporter.write_line(f"    {each.command}")
    terminalreporter.write_line("They were killed. The run has failed because of them.", red=True)


def _processes_of_session() -> Iterator[LeftRunning]:
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            variables = process.environ()
            if _session in variables.get(SESSIONS, "").split(","):
                command = " ".join(process.cmdline())[:COMMAND_CHARACTERS_MAX]
                yield LeftRunning(process, command, variables.get(BEGUN_BY, "no test"))
        except psutil.Error:
            # It belongs to another user, or has ended meanwhile.
            continue
