"""A group that limits memory: what is in it cannot take more, and its figures are the kernel's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_groups import memory_group

from benchmarks.memory_cgroup import CgroupUnavailableError, MemoryCgroup, memory_cgroup

MIB = 1024 * 1024
LIMIT_BYTES = 64 * MIB


@pytest.fixture
def group() -> Iterator[MemoryCgroup]:
    with memory_group(LIMIT_BYTES) as made:
        yield made


def allocate(group: MemoryCgroup, size: int) -> int:
    script = f"data = bytearray({size}); data[::4096] = b'x' * len(data[::4096])"
    return subprocess.run([*group.command, sys.executable, "-c", script], check=False).returncode


def test_a_process_within_the_limit_lives_and_is_counted(group: MemoryCgroup) -> None:
    assert allocate(group, 20 * MIB) == 0
    assert 20 * MIB < group.peak_bytes <= LIMIT_BYTES
    assert group.kills == 0


def test_a_process_above_the_limit_is_killed(group: MemoryCgroup) -> None:
    assert allocate(group, 4 * LIMIT_BYTES) == -9
    assert group.kills == 1
    assert group.peak_bytes <= LIMIT_BYTES


def test_a_group_is_gone_when_it_is_done_with_and_so_is_what_ran_in_it(group: MemoryCgroup) -> None:
    process = subprocess.Popen([*group.command, "sleep", "1000"], stdout=subprocess.PIPE)
    path = group.path
    while str(process.pid) not in (path / "cgroup.procs").read_text().split():
        assert process.poll() is None
    group.remove()
    assert process.wait() == -9
    assert not path.exists()
    path.mkdir()


def test_without_the_controller_the_reason_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(CgroupUnavailableError, match="has no controller for memory"),
        memory_cgroup(LIMIT_BYTES, tmp_path),
    ):
        pass
