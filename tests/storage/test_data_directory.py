from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from crashing_files import CrashingFiles, PowerCut
from leveret.storage.data_directory import (
    DataDirectory,
    DataDirectoryLocked,
    DataDirectoryNewer,
)
from leveret.storage.errors import StorageError

DATA = Path("/data")


def test_a_new_directory_is_made_and_a_second_broker_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    directory = DataDirectory.open(path)
    assert (path / "format").read_text() == "leveret 1\n"
    assert directory.path == path
    with pytest.raises(DataDirectoryLocked) as caught:
        DataDirectory.open(path)
    assert str(caught.value) == f"data directory {path} is in use by another broker"
    directory.close()
    directory.close()
    DataDirectory.open(path).close()


def test_starts_are_counted(tmp_path: Path) -> None:
    for boot_number in (1, 2, 3):
        directory = DataDirectory.open(tmp_path)
        assert directory.boot_number == boot_number
        directory.close()


def test_a_newer_directory_is_refused_and_not_kept_locked(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path).close()
    (tmp_path / "format").write_text("leveret 2\n")
    with pytest.raises(DataDirectoryNewer, match="has format version 2, newer than 1"):
        DataDirectory.open(tmp_path)
    (tmp_path / "format").write_text("leveret 1\n")
    DataDirectory.open(tmp_path).close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("format", ""),
        ("format", "nsqd 1"),
        ("format", "leveret x"),
        ("boot", "many"),
        ("boot", "²"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    DataDirectory.open(tmp_path).close()
    (tmp_path / name).write_text(content)
    with pytest.raises(StorageError, match=rf"its {name} file says") as caught:
        DataDirectory.open(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("operations", range(1, 12))
def test_a_power_cut_at_any_moment_of_a_start_leaves_a_usable_directory(operations: int) -> None:
    for seed in range(20):
        random = Random(seed)
        files = CrashingFiles()
        DataDirectory.open(DATA, files).close()
        files.operations_left = operations
        with suppress(PowerCut):
            DataDirectory.open(DATA, files)
        files.cut_power(random)
        assert DataDirectory.open(DATA, files).boot_number in (2, 3), f"seed {seed}"
        files.cut_power(random)
        DataDirectory.open(DATA, files)
