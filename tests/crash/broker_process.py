"""A broker as a process of its own: `leveret serve`, seen from outside and killed from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from timeouts import TIMEOUT_SECONDS

# What a log must never hold, whatever clients do: an exception that nobody expected.
FAULTS = ("actor.failed", "Traceback", "exception was never", "connection.failed", "queue.failed")


class BrokerProcess:
    """Runs on `directory`/data; its log is appended to `directory`/log.

    `before` is a command to run it under, such as strace with its options; `settings` are the
    broker's, by name.
    """

    def __init__(self, directory: Path, *before: str, **settings: object) -> None:
        self.data = directory / "data"
        self._log_file = directory / "log"
        self._log_start = self._log_file.stat().st_size if self._log_file.exists() else 0
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")
        }
        for name, value in settings.items():
            environment["LEVERET_" + name.upper()] = str(value)
        command: Sequence[str] = [sys.executable, "-m", "leveret", "serve"]
        command = [*before, *command, "--port", "0", "--data-dir", str(self.data)]
        self._started = time.monotonic()
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=log
            )
        self.port = self.nsq_port = 0
        self.start_seconds = 0.0

    def listening(self) -> BrokerProcess:
        """Return when it says that it listens; AssertionError with its log if it does not."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        self.start_seconds = time.monotonic() - self._started
        found = re.search(r"listening on [0-9.]+:(\d+)", line)
        assert found, f"{line!r}\n{self.log()}"
        self.port = int(found[1])
        nsq = re.search(r"NSQ on [0-9.]+:(\d+)", line)
        self.nsq_port = int(nsq[1]) if nsq else 0
        return self

    @property
    def pid(self) -> int:
        """The broker's own, also where it runs under another command."""
        found = re.search(r'"pid": (\d+)', self.log())
        assert found, self.log()
        return int(found[1])

    def resident_bytes(self) -> int:
        """Memory in use."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def log(self) -> str:
        """The log of this process."""
        with self._log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def faults(self) -> list[str]:
        """Lines of the log that speak of an exception of ours."""
        return [line for line in self.log().splitlines() if any(word in line for word in FAULTS)]

    def kill(self) -> None:
        """Kill -9, if it still runs."""
        if self.process.poll() is None:
            if self.process.args[0] != sys.executable:  # type: ignore[index]
                # A test may have had it killed already.
                with suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(self.process.pid).children(recursive=True):
                        child.kill()
            self.process.kill()
        self._end()

    def stop(self) -> int:
        """Stop gracefully; the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return when it has ended by itself; the exit code."""
        code = self.process.wait(TIMEOUT_SECONDS)
        self._end()
        return code

    def _end(self) -> None:
        self.process.wait(TIMEOUT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
