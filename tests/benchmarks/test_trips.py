"""`make trips`: a trip that there is not is refused before a broker starts."""

from __future__ import annotations

import sys

import pytest

from benchmarks import trips


def test_an_unknown_trip_is_answered_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["trips", "publsh"])
    with pytest.raises(SystemExit) as ended:
        trips.main()
    assert ended.value.code == 2
    line = "there is no trip 'publsh'; there are publish, ack, declare, dead-letter\n"
    assert capsys.readouterr().err.endswith(line)
