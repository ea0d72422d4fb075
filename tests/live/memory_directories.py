"""A pytest plugin: directories of tests lie in memory, where a sync costs nothing.

A broker syncs 31 times before it listens, and most tests are about other things. The broker makes
the same calls in the same order in either place, and only a loss of power tells memory from a disk;
no test switches a machine off. Tests of storage and of crashes keep their directories on the disk
(`disk_directory`), because they are about it.

PYTEST_DEBUG_TEMPROOT and `--basetemp` choose another place, as always.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Linux has it in memory. pytest removes the directory of a test that has passed at once.
MEMORY = Path("/dev/shm")
# The largest data directories of tests side by side, many times over.
FREE_BYTES_MIN = 2 << 30
# Where pytest makes its directories.
ROOT = "PYTEST_DEBUG_TEMPROOT"


def pytest_configure() -> None:
    if ROOT not in os.environ and os.access(MEMORY, os.W_OK) and _free_bytes() >= FREE_BYTES_MIN:
        os.environ[ROOT] = str(MEMORY)


def _free_bytes() -> int:
    return shutil.disk_usage(MEMORY).free
