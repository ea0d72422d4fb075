"""A broker as its users start it: the command `leveret serve`, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from timeouts import TIMEOUT_SECONDS

_ENVIRONMENT = {name: value for name, value in os.environ.items() if "LEVERET_" not in name}


class Served:
    """`leveret serve` on a free port; killed at the end if it has not ended by itself."""

    def __init__(
        self,
        directory: Path,
        preexec: Callable[[], None] | None = None,
        *,
        stderr: int | None = None,
        arguments: Sequence[str] = (),
        **settings: object,
    ) -> None:
        """`stderr` is a descriptor to log to; None is the file `log`."""
        environment = {f"LEVERET_{name.upper()}": str(value) for name, value in settings.items()}
        command = ["serve", "--port", "0", "--data-dir", str(directory / "data"), *arguments]
        self.log_path = directory / "log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "leveret", *command],
                env=_ENVIRONMENT | environment,
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=log if stderr is None else stderr,
                text=True,
                preexec_fn=preexec,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.fullmatch(r"leveret \S+ listening on (\S+):(\d+)(?:, TLS on \S+:(\d+))?\n", line)
        assert found, line + self.log()
        self.host, self.port = found[1], int(found[2])
        self.tls_port = int(found[3] or 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def log(self) -> str:
        return self.log_path.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end."""
        return self.process.wait(TIMEOUT_SECONDS)
