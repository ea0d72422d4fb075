from __future__ import annotations

from pathlib import Path

import pytest
from leveret.spark.session import java_missing


def test_without_java_one_line_says_what_is_missing_and_where_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    line = java_missing()
    assert line is not None
    assert "Java 17" in line
    assert "apt-get install default-jre-headless" in line
    assert "\n" not in line


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_missing() is not None
    (tmp_path / "bin" / "java").touch()
    assert java_missing() is None
