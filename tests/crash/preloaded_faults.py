"""Faults that a library brings about in a broker's process, while it runs: preloaded_faults.c."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")
_FIELDS = (
    "clock_offset_ns",
    "write_bytes_max",
    "sync_delay_ms",
    "is_sync_hanging",
    "sync_errno",
    "short_writes",
    "syncs",
    "failed_syncs",
)
_NUMBER = struct.Struct("@q")


class PreloadedFaults:
    """`command` goes before the broker's; the numbers can be read and set at any time."""

    def __init__(self, library: Path, directory: Path) -> None:
        path = directory / "faults"
        path.write_bytes(bytes(_NUMBER.size * len(_FIELDS)))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.command = ("env", f"LD_PRELOAD={library}", f"FAULTS_FILE={path}")

    def __getitem__(self, name: str) -> int:
        (number,) = _NUMBER.unpack_from(self._memory, _NUMBER.size * _FIELDS.index(name))
        return int(number)

    def __setitem__(self, name: str, number: int) -> None:
        _NUMBER.pack_into(self._memory, _NUMBER.size * _FIELDS.index(name), number)


def compiled(directory: Path) -> Path:
    """The library; the test is skipped where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("gcc not found: install gcc to run this")
    library = directory / "faults.so"
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(SOURCE), "-ldl"]
    built = subprocess.run([compiler, *options], capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the library of faults cannot be built here: {built.stderr[-300:]}")
    return library
