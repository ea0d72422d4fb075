"""Rules that all commands of the command line keep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from leveret.commands.command_line import main


@pytest.mark.parametrize("action", [("check",), ("explain", "1-1-1"), ("status",)])
@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_the_trace_is_looked_for_where_the_other_commands_look(
    tmp_path: Path,
    action: tuple[str, ...],
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data_dir = tmp_path / "elsewhere"
    settings = tmp_path / "leveret.toml"
    settings.write_text(f'data_dir = "{data_dir}"\n')
    words, environment = {
        "flag": (["--data-dir", str(data_dir)], {}),
        "environment": ([], {"LEVERET_DATA_DIR": str(data_dir)}),
        "file": (["--config", str(settings)], {}),
    }[how]
    for name in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert main(["trace", *action, *words]) == 1
    assert str(data_dir) in capsys.readouterr().err


def test_where_nobody_can_be_asked_for_the_password_the_command_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody)
    assert main(["trace", "status", "--url", "http://127.0.0.1:1"]) == 1
    said = "nobody gives guest's password: LEVERET_PASSWORD or --password-file can"
    assert capsys.readouterr().err == f"leveret: {said}\n"


def test_without_a_terminal_the_command_says_in_one_line_how_it_gets_the_password() -> None:
    environment = {name: each for name, each in os.environ.items() if name != "LEVERET_PASSWORD"}
    done = subprocess.run(
        [sys.executable, "-m", "leveret", "trace", "status", "--url", "http://127.0.0.1:1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        text=True,
        # Without the terminal of the person who runs the tests.
        start_new_session=True,
        check=False,
    )
    said = "nobody gives guest's password: LEVERET_PASSWORD or --password-file can"
    assert (done.returncode, done.stderr) == (1, f"leveret: {said}\n")


@pytest.mark.parametrize("connection", ["127.0.0.1", "127.0.0.1:", "47792"])
def test_a_publisher_s_address_without_a_port_is_refused_with_an_example(
    connection: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace-1.jsonl"
    trace.touch()
    place = ["--connection", connection, "--seq-no", "1", "--files", str(trace)]
    assert main(["trace", "explain", *place]) == 1
    assert capsys.readouterr().err == (
        f"leveret: {connection!r} is no address and port of a publisher, as in 127.0.0.1:47792\n"
    )
