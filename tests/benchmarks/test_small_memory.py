"""A broker in a small control group is filled and drained, or said to have been killed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from memory_groups import memory_group

from benchmarks.memory_cgroup import MIB
from benchmarks.small_memory import run

PYTHON = shlex.quote(sys.executable)


@pytest.fixture
def group_directory() -> None:
    with memory_group(64 * MIB):
        pass


@pytest.mark.usefixtures("group_directory")
def test_a_backlog_is_published_kept_over_a_restart_and_drained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(2_000, 256 * MIB, tmp_path, f"{PYTHON} -m leveret serve")
    said = capsys.readouterr().out
    for begin in ("publish: 2,000 messages", "restart: stopped", "drain: 2,000 messages"):
        assert begin in said
    assert "0 processes killed" in said


@pytest.mark.usefixtures("group_directory")
def test_a_broker_that_takes_more_than_the_group_s_memory_is_killed_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = f"{PYTHON} -c 'bytearray(200 << 20)'"
    assert not run(1, 32 * MIB, tmp_path, greedy)
    said = capsys.readouterr().out
    assert "the broker has ended" in said
    assert "1 processes killed" in said
