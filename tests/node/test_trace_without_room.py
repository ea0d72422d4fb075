"""A trace that the settings ask for and that cannot start says so for as long as it is off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import leveret
import pytest
from insides import context_of, on_loop, wait_until
from leveret.commands.command_line import main
from leveret.storage.files import OperatingSystemFiles


class FullFiles(OperatingSystemFiles):
    """A disk that has no room until `is_full` is false."""

    is_full = True
    # How often somebody has asked.
    looks = 0

    def free_bytes(self, directory: str) -> int:
        self.looks += 1
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


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[leveret.Broker, FullFiles]]:
    """A broker whose trace waits for room, and its disk."""
    files = FullFiles()
    with leveret.Broker(
        data_dir=tmp_path,
        port=0,
        files=files,
        trace_one_of=2,
        log_level="error",
        disk_reserve_bytes=0,
        disk_check_interval_ms=10,
    ) as broker:
        yield broker, files


def test_it_begins_by_itself_when_there_is_room(
    waiting: tuple[leveret.Broker, FullFiles], tmp_path: Path
) -> None:
    broker, files = waiting
    trace = context_of(broker).trace
    assert not trace.is_on
    files.is_full = False
    wait_until(lambda: trace.is_on)
    assert (trace.error, trace.filter.every) == ("", 2)
    wait_until(lambda: bool(list((tmp_path / "traces").glob("trace-*.jsonl"))))


def test_it_does_not_begin_once_somebody_has_switched_it_off(
    waiting: tuple[leveret.Broker, FullFiles], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, files = waiting
    assert main(["trace", "off", "--data-dir", str(tmp_path)]) == 0
    assert "not written" not in capsys.readouterr().out
    trace = context_of(broker).trace
    files.is_full = False
    # With each look after the end of the alarm it would be begun.
    wait_until(lambda: not context_of(broker).alarms.reason)
    looks = files.looks
    wait_until(lambda: files.looks > looks + 2)
    on_loop(broker)
    assert not trace.is_on
