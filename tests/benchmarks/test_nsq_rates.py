"""The benchmark of the NSQ protocol runs its rows against a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.nsq_rates import ROWS, main


def test_every_row_has_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "1", "--seconds", "0.2", "--directory", str(tmp_path)]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("median fdatasync")
    assert [line[:34].strip() for line in lines] == [row for row, _ in ROWS]
    assert all(float(line[44:].replace(",", "")) > 0 for line in lines)
