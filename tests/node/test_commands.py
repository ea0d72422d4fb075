"""What all commands of the command line have in common."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from leveret.administration import DONE
from leveret.command_line import main
from leveret.core.account_requests import REQUESTS

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}


def test_every_change_says_what_it_has_done() -> None:
    assert set(DONE) == set(REQUESTS)


@pytest.mark.parametrize("action", [("check",), ("explain", "1-1-1"), ("status",)])
@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_the_trace_is_looked_for_where_the_other_commands_look(
    tmp_path: Path, action: tuple[str, ...], how: str
) -> None:
    data_dir = tmp_path / "elsewhere"
    settings = tmp_path / "leveret.toml"
    settings.write_text(f'data_dir = "{data_dir}"\n')
    words, environment = {
        "flag": (["--data-dir", str(data_dir)], {}),
        "environment": ([], {"LEVERET_DATA_DIR": str(data_dir)}),
        "file": (["--config", str(settings)], {}),
    }[how]
    done = subprocess.run(
        [sys.executable, "-m", "leveret", "trace", *action, *words],
        env=CLEAN | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert str(data_dir) in done.stderr


def test_where_nobody_can_be_asked_for_the_password_the_command_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody)
    assert main(["trace", "status", "--url", "http://127.0.0.1:1"]) == 1
    said = "nobody gives guest's password: LEVERET_PASSWORD or --password-file can"
    assert capsys.readouterr().err == f"leveret: {said}\n"
