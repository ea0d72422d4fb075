"""Control groups that limit the memory of processes, where this machine lets tests make some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.memory_cgroup import CgroupUnavailableError, MemoryCgroup, memory_cgroup


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryCgroup]:
    """A group of so much; the test is skipped where there can be none."""
    try:
        with memory_cgroup(limit_bytes) as made:
            yield made
    except CgroupUnavailableError as reason:
        pytest.skip(f"no control group here: {reason}")
