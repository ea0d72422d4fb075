"""A trace that the settings ask for and that cannot start says so for as long as it is off."""

from __future__ import annotations

from pathlib import Path

import leveret
import pytest
from leveret.commands.command_line import main
from leveret.storage.files import OperatingSystemFiles


class FullFiles(OperatingSystemFiles):
    """A disk that has no room until `is_full` is false."""

    is_full = True

    def free_bytes(self, directory: str) -> int:
        return 0 if self.is_full else super().free_bytes(directory)


def test_the_status_says_that_it_was_asked_for_and_what_needs_the_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = FullFiles()
    with leveret.Broker(
        data_dir=tmp_path,
        port=0,
        files=files,
        trace_one_of=1,
        log_level="error",
        disk_reserve_bytes=0,
    ) as broker:
        assert main(["trace", "status", "--data-dir", str(tmp_path)]) == 0
        said = capsys.readouterr().out
        assert "trace off" in said
        assert "not written: the settings ask for a trace, which could not start: " in said
        assert f"trace_buffer_bytes_max, {broker.configuration.trace_buffer_bytes_max} byt" in said
        files.is_full = False
        assert main(["trace", "on", "--data-dir", str(tmp_path)]) == 0
        assert "not written" not in capsys.readouterr().out
