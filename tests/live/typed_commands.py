"""The command `leveret`, as tests type it: in their own process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from leveret.commands.command_line import main
from timeouts import TIMEOUT_SECONDS

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")},
    "LEVERET_PASSWORD_HASH_COST": "10",
}


def stream(text: str = "") -> io.TextIOWrapper:
    """A standard stream that is no terminal."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")


def text_of(written: io.TextIOWrapper) -> str:
    written.seek(0)
    return written.read()


class Shell:
    """Runs `leveret ...` on one data directory, in this process: a start takes 0.6 s."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *words: str, typed: str = "", code: int = 0) -> tuple[str, str]:
        """Output and errors of a command that ends with `code`."""
        ended, output, errors = self.ended([*words, "--data-dir", str(self.directory)], typed)
        assert ended == code, (output, errors)
        return output, errors

    def ended(self, words: list[str], typed: str) -> tuple[int, str, str]:
        """The exit code, the output and the errors."""
        output, errors = stream(), stream()
        with (
            mock.patch.dict(os.environ, ENVIRONMENT, clear=True),
            mock.patch("sys.stdin", stream(typed)),
            redirect_stdout(output),
            redirect_stderr(errors),
        ):
            try:
                code = main(words)
            except SystemExit as end:
                code = int(end.code or 0)
        return code, text_of(output), text_of(errors)

    def said(self, *words: str, typed: str = "") -> str:
        output, errors = self.run(*words, typed=typed)
        assert errors == ""
        return output

    def rows(self, *words: str) -> Any:
        return json.loads(self.said(*words, "--json"))

    def refused(self, *words: str, typed: str = "") -> str:
        output, errors = self.run(*words, typed=typed, code=1)
        assert output == ""
        assert errors.count("\n") == 1
        return errors.removeprefix("leveret: ").strip()


class ProcessShell(Shell):
    """Runs each command in a process of its own, as a shell does."""

    def ended(self, words: list[str], typed: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "leveret", *words],
            env=ENVIRONMENT,
            input=typed,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr
