from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from crashing_files import CrashingFiles, PowerCut
from leveret.storage.data_directory import (
    FORMAT_VERSION,
    DataDirectory,
    DataDirectoryForeign,
    DataDirectoryLocked,
    DataDirectoryNewer,
)
from leveret.storage.errors import StorageError

DATA = Path("/data")


def test_a_new_directory_is_made_and_a_second_broker_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    directory = DataDirectory.open(path)
    # Until a start is sure to go on nothing is said of the directory.
    assert [file.name for file in path.iterdir()] == ["lock"]
    directory.begin()
    assert (path / "format").read_text() == "leveret 5\n"
    assert directory.path == path
    with pytest.raises(DataDirectoryLocked) as caught:
        DataDirectory.open(path)
    assert str(caught.value) == f"data directory {path} is in use by another broker"
    directory.close()
    directory.close()
    DataDirectory.open(path).close()


def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    for name in ("passwd", "hosts", "fstab", "group"):
        (tmp_path / name).touch()
    with pytest.raises(DataDirectoryForeign) as caught:
        DataDirectory.open(tmp_path)
    assert str(caught.value) == (
        f"data directory {tmp_path} has files in it that are not a broker's "
        "(fstab, group, hosts and 1 more): name an empty directory, or one that is not there yet"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fstab", "group", "hosts", "passwd"]


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_directory_without_its_format_file_is_called_damaged_and_says_what_to_do(
    tmp_path: Path, is_begun: bool
) -> None:
    directory = DataDirectory.open(tmp_path)
    directory.begin()
    directory.close()
    # A journal, or the catalog that is made before it.
    if is_begun:
        (tmp_path / "journal").mkdir()
    else:
        (tmp_path / "catalog.sqlite").touch()
    (tmp_path / "format").unlink()
    before = sorted(file.name for file in tmp_path.iterdir())
    with pytest.raises(StorageError) as caught:
        DataDirectory.open(tmp_path)
    assert str(caught.value) == (
        f"data directory {tmp_path} is damaged: its format file is missing. Put "
        f"{tmp_path / 'format'} back from a backup, or, if a broker of this version was the last "
        f"one here, write the line 'leveret {FORMAT_VERSION}' into it"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == before
    # Which is enough.
    (tmp_path / "format").write_text(f"leveret {FORMAT_VERSION}\n")
    DataDirectory.open(tmp_path).close()


def test_a_folder_with_a_journal_of_somebody_else_s_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "syslog").touch()
    with pytest.raises(DataDirectoryForeign):
        DataDirectory.open(tmp_path)


def test_the_root_of_a_new_file_system_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    directory = DataDirectory.open(tmp_path)
    directory.begin()
    directory.close()
    (tmp_path / "notes").touch()
    DataDirectory.open(tmp_path).close()


def test_a_first_start_that_was_cut_short_is_no_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "format.new").touch()
    DataDirectory.open(tmp_path).close()


def test_starts_are_counted(tmp_path: Path) -> None:
    for boot_number in (1, 2, 3):
        directory = DataDirectory.open(tmp_path)
        assert directory.begin() == boot_number
        directory.close()


def test_a_newer_directory_is_refused_and_not_kept_locked(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("leveret 6\n")
    with pytest.raises(DataDirectoryNewer, match="has format version 6, newer than 5"):
        DataDirectory.open(tmp_path)
    (tmp_path / "format").write_text("leveret 5\n")
    DataDirectory.open(tmp_path).close()


def test_a_directory_of_an_earlier_format_is_raised_when_a_start_goes_on(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("leveret 1\n")
    directory = DataDirectory.open(tmp_path)
    assert (tmp_path / "format").read_text() == "leveret 1\n"
    directory.begin()
    assert (tmp_path / "format").read_text() == "leveret 5\n"
    directory.close()


def test_a_start_has_a_number_above_that_of_every_writer_of_a_segment(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    assert directory.begin(7) == 7
    assert directory.begin(3) == 8
    directory.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("format", ""),
        ("format", "nsqd 1"),
        ("format", "leveret x"),
        ("boot", "many"),
        ("boot", "²"),
        ("boot", "9" * 5000),
        ("boot", "4294967296"),
        ("format", "leveret " + "9" * 5000),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / "format").write_text("leveret 5\n")
    (tmp_path / name).write_text(content)
    with pytest.raises(StorageError, match=rf"its {name} file says") as caught:
        DataDirectory.open(tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["format", "boot"])
def test_a_directory_in_a_file_s_place_is_named(tmp_path: Path, name: str) -> None:
    DataDirectory.open(tmp_path).close()
    if name == "boot":
        (tmp_path / "format").write_text("leveret 5\n")
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=f"its {name} file cannot be read: Is a directory"):
        DataDirectory.open(tmp_path)


def test_the_last_number_that_a_start_can_have(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("leveret 5\n")
    (tmp_path / "boot").write_text("4294967294\n")
    directory = DataDirectory.open(tmp_path)
    assert directory.begin() == 4294967295
    with pytest.raises(StorageError, match="was started on 4294967295 times"):
        directory.begin()
    directory.close()


@pytest.mark.parametrize("operations", range(1, 12))
def test_a_power_cut_at_any_moment_of_a_start_leaves_a_usable_directory(operations: int) -> None:
    for seed in range(20):
        random = Random(seed)
        files = CrashingFiles()
        DataDirectory.open(DATA, files).begin()
        files.kill()
        files.operations_left = operations
        with suppress(PowerCut):
            DataDirectory.open(DATA, files).begin()
        files.cut_power(random)
        assert DataDirectory.open(DATA, files).begin() in (2, 3), f"seed {seed}"
        files.cut_power(random)
        DataDirectory.open(DATA, files).begin()
