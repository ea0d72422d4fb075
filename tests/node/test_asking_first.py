"""A change of accounts that is hard to live with asks a person first, or wants `--yes`."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from leveret.commands.command_line import main
from timeouts import TIMEOUT_SECONDS

LAST_ADMINISTRATOR = "user 'guest' is the last administrator"
DEFAULT_VHOST = "vhost '/' is the one of clients that name none"


class Terminal(NamedTuple):
    """Runs `leveret ...` in this process, on one data directory that no broker uses."""

    directory: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main([*words, "--data-dir", str(self.directory)])
        return code, *self.capsys.readouterr()

    def accounts(self) -> Any:
        lists = (self.run(name, "list", "--json") for name in ("user", "vhost"))
        return [json.loads(output) for _, output, _ in lists]


@pytest.fixture
def terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    monkeypatch.setenv("LEVERET_PASSWORD_HASH_COST", "10")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Terminal(tmp_path, capsys)


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (("user", "delete", "guest"), LAST_ADMINISTRATOR),
        (("user", "tags", "guest", "monitoring"), LAST_ADMINISTRATOR),
        (("vhost", "delete", "/"), DEFAULT_VHOST),
    ],
)
def test_where_nobody_can_be_asked_it_is_refused_without_yes(
    terminal: Terminal, words: tuple[str, ...], warning: str
) -> None:
    before = terminal.accounts()
    code, output, errors = terminal.run(*words)
    assert (code, output) == (1, "")
    assert errors.startswith(f"leveret: {warning}")
    assert errors.endswith(": nothing is changed; with --yes it is, without being asked\n")
    assert terminal.accounts() == before
    code, output, errors = terminal.run(*words, "--yes")
    assert (code, errors) == (0, "")
    assert terminal.accounts() != before


def test_harmless_changes_ask_nobody(terminal: Terminal) -> None:
    for words in (("vhost", "add", "shop"), ("vhost", "delete", "shop")):
        assert terminal.run(*words)[0] == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 1)])
def test_at_a_terminal_a_person_is_asked(terminal: Terminal, typed: str, code: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    done = subprocess.run(
        [sys.executable, "-m", "leveret", "vhost", "delete", "/", "--data-dir", terminal.directory],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code
    assert f"{DEFAULT_VHOST[0].upper()}{DEFAULT_VHOST[1:]}" in done.stderr
    assert "Go on? [y/N] " in done.stderr
    assert done.stderr.endswith("leveret: nothing is changed\n") == (code == 1)
    assert terminal.accounts()[1] == ([{"vhost": "/"}] if code else [])
