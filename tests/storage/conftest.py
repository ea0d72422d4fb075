"""Puts this folder's helpers, such as `crashing_files`, where its tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def tmp_path(disk_directory: Path) -> Path:
    """A directory on a disk, not in memory, so that a sync reaches a device."""
    return disk_directory
