"""From an earlier format to this one: a crash at any step leaves all that there was."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crashing_files import CrashingFiles, PowerCut
from directories import QuickFiles, Started, snapshot
from earlier_contents import described, queue_names
from earlier_directories import FORMAT_VERSIONS, held, unpack
from journals import DIRECTORY, new_file
from leveret.storage.journal.opening import open_journal

# The catalog is SQLite's to write, so these files change by other means.
CATALOG = ("catalog.sqlite", "catalog.sqlite-wal")


class KillingFiles(QuickFiles):
    """The process is killed before its n-th change of a file."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.changes_left = changes

    def _change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise PowerCut

    def make_directory(self, directory: str) -> None:
        self._change()
        super().make_directory(directory)

    def create(self, path: str) -> int:
        self._change()
        return super().create(path)

    def write(self, *arguments: Any) -> int:
        self._change()
        return super().write(*arguments)

    def sync_data(self, handle: int) -> None:
        self._change()

    def sync_directory(self, directory: str) -> None:
        self._change()

    def truncate(self, path: str, length: int) -> None:
        self._change()
        super().truncate(path, length)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)


def killed_at(changes: int, data: Path) -> bool:
    """Start on the directory and be killed there; false if the start was through before."""
    try:
        Started(data, KillingFiles(changes)).kill()
    except PowerCut:
        return True
    return False


def check_format(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """From the first change on an earlier broker refuses the directory."""
    names = ("format", "format.new", *CATALOG)
    if any(before.get(name) != content for name, content in after.items() if name not in names):
        assert after["format"] == b"leveret 5\n"


@pytest.mark.parametrize("format_version", FORMAT_VERSIONS)
def test_a_kill_before_any_change_of_a_file_leaves_all_that_there_was(
    format_version: int, tmp_path: Path
) -> None:
    original = unpack(format_version, tmp_path / "original")
    names = queue_names(unpack(format_version, tmp_path / "read"))
    expected, before = held(format_version), snapshot(original)
    changes, step = 0, 1 if format_version == 3 else 4
    data = tmp_path / "data"
    is_killed = True
    while is_killed:
        shutil.copytree(original, data)
        is_killed = killed_at(changes, data)
        check_format(before, snapshot(data))
        # And again, a little farther on, before two starts go through.
        killed_at(changes % 7 + 3, data)
        for _ in range(2):
            started = Started(data)
            found = described(started.recovered, names)
            started.kill()
            assert found == expected, f"killed before change {changes}"
        assert (data / "format").read_text() == "leveret 5\n"
        shutil.rmtree(data)
        changes += step
    assert changes > 20


@pytest.mark.parametrize("format_version", FORMAT_VERSIONS)
def test_a_power_cut_at_any_step_of_the_journal_s_conversion_loses_nothing(
    format_version: int, tmp_path: Path
) -> None:
    original = unpack(format_version, tmp_path)
    expected, names = held(format_version), queue_names(original)
    contents = {file.name: file.read_bytes() for file in (original / "journal").iterdir()}
    operations, is_cut = 1, True
    while is_cut:
        is_cut = False
        files = CrashingFiles()
        for name, content in contents.items():
            new_file(files, f"{DIRECTORY}/{name}", content)
        files.sync_directory(DIRECTORY)
        files.operations_left = operations
        try:
            open_journal(DIRECTORY, files, names.keys())
        except PowerCut:
            is_cut = True
        files.cut_power(Random(operations))
        for _ in range(2):
            _, recovered = open_journal(DIRECTORY, files, names.keys())
            assert described(recovered, names) == expected, f"at operation {operations}"
            files.cut_power(Random(operations + 1))
        operations += 1
    assert operations > 12
