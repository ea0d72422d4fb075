"""A small file system of its own for a test: what is full there is full in earnest."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

KINDS = ("tmpfs", "ext4")


class SmallDisk:
    """Mounted at `path`; `fill` and `empty` stand for what others keep on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def free_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def fill(self, free_bytes: int = 0) -> None:
        """Leave so much free, to the block."""
        with self._ballast.open("ab") as ballast, suppress(OSError):
            while (more := self.free_bytes() - free_bytes) > 0:
                # To the disk at once: what is only promised does not count as taken.
                ballast.write(bytes(min(more, 1 << 20)))
                ballast.flush()
                os.fsync(ballast.fileno())

    def empty(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(kind: str, directory: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Skips the test, with the reason, where nothing may be mounted."""
    mount_point = directory / "disk"
    mount_point.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system takes root, and the command mount")
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(mount_point)]
    else:
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("mkfs.ext4 is not installed")
        image = directory / "image"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        run(["mkfs.ext4", "-q", "-m", "0", str(image)])
        command = ["mount", "-o", "loop", str(image), str(mount_point)]
    mounted = run(command)
    if mounted.returncode:
        pytest.skip(f"cannot mount {kind} here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(mount_point)
    finally:
        run(["umount", "--lazy", str(mount_point)])


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
