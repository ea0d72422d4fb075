"""A driver in a process of its own, for tests to kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from timeouts import TIMEOUT_SECONDS

DRIVER = Path(__file__).parent / "draining_driver.py"


class Driver:
    """A script in a session of its own: killed, it goes with its JVM and workers."""

    def __init__(
        self, directory: Path, environment: dict[str, str], script: Path = DRIVER, **given: object
    ) -> None:
        given = {"directory": str(directory), "raises": [], "drains": False} | given
        with (directory / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), json.dumps(given)],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def batches(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many batches have been written; gives the lines, failures among them."""
        found: list[dict[str, Any]] = []
        for line in self.lines():
            found.append(line)
            if sum("batch" in each for each in found) == count:
                return found
        pytest.fail(f"the driver ended after {found}")

    def kill(self) -> None:
        """Kill -9 the driver, its JVM, the source's process and the workers, all at once."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGKILL)
        psutil.wait_procs([*children, psutil.Process(self.process.pid)], TIMEOUT_SECONDS)
        self.process.wait()
