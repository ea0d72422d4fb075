"""Spark's own standalone cluster on this machine: a master and workers, each a process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.brokers import free_port

WAIT_SECONDS_MAX = 120.0
HOST = "127.0.0.1"


def is_over(process: subprocess.Popen[Any], wait_seconds: float = 0.05) -> bool:
    """Does it end within the next moment?"""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait_seconds)
    return process.returncode is not None


class StandaloneCluster:
    """A master, and workers of one core each; `kill` takes a worker with its executors."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        import pyspark

        self._home = Path(pyspark.__file__).parent
        self._directory = directory
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        self.environment = {
            **os.environ,
            **environment,
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self.url = f"spark://{HOST}:{free_port()}"
        self._master_log = directory / "master.log"
        self._workers: list[subprocess.Popen[bytes]] = []
        port = self.url.rpartition(":")[2]
        self._master = self._start("Master", self._master_log, "--port", port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in (*self._workers, self._master):
            self._kill(process)

    def add_worker(self) -> int:
        """Start another worker; its number, once the master knows it."""
        number = len(self._workers)
        known = self._master_log.read_text().count("Registering worker")
        log = self._directory / f"worker-{number}.log"
        work = str(self._directory / f"work-{number}")
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", work, self.url]
        self._workers.append(self._start("Worker", log, *arguments))
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while self._master_log.read_text().count("Registering worker") == known:
            assert not is_over(self._workers[-1]), log.read_text()
            assert time.monotonic() < deadline, self._master_log.read_text()
        return number

    def kill(self, number: int) -> None:
        """As if its machine lost its power."""
        self._kill(self._workers[number])

    def submit(self, program: Path, *arguments: str) -> subprocess.Popen[str]:
        """Run a program's driver here and its tasks on the cluster."""
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.driver.host": HOST,
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with (self._directory / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [
                    self._home / "bin" / "spark-submit",
                    "--master",
                    self.url,
                    *given,
                    program,
                    *arguments,
                ],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def driver_log(self) -> str:
        """What drivers said on standard error, its end."""
        return (self._directory / "driver.log").read_text()[-4_000:]

    def _start(self, kind: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        with log.open("wb") as file:
            return subprocess.Popen(
                [
                    self._home / "bin" / "spark-class",
                    name,
                    "--host",
                    HOST,
                    "--webui-port",
                    "0",
                    *arguments,
                ],
                env=self.environment,
                stdout=file,
                stderr=file,
                # A group of its own, which its executors belong to.
                start_new_session=True,
            )

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
