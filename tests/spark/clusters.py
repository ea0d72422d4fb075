"""Spark's own clusters on this machine, which lose machines while a job runs.

`LocalCluster` has its master and workers in the JVM of the driver; only executors are processes.
`StandaloneCluster` has a process for each. To sink and source a lost executor is a lost machine:
all tasks that ran there, with their Python processes, are gone in the middle of a row.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from timeouts import JOB_SECONDS_MAX, TIMEOUT_SECONDS

from benchmarks.brokers import free_port

HOST = "127.0.0.1"
WORKERS = 2
EXECUTOR = "CoarseGrainedExecutorBackend"


def is_over(process: subprocess.Popen[Any], wait_seconds: float = 0.05) -> bool:
    """Does it end within the next moment?"""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait_seconds)
    return process.returncode is not None


class Jobs:
    """The drivers that are submitted to the cluster at `url`, and killed at the end."""

    def __init__(self, directory: Path, environment: dict[str, str], url: str) -> None:
        import pyspark

        # A home of its own: workers in a driver's JVM make their directories there.
        self.home = directory / "home"
        self.home.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            (self.home / path.name).symlink_to(path)
        self.environment = {**os.environ, **environment, "SPARK_HOME": str(self.home)}
        self._url = url
        self._log = directory / "driver.log"
        self._jobs: list[subprocess.Popen[str]] = []

    def submit(self, program: Path, *arguments: str) -> subprocess.Popen[str]:
        """Run a program's driver here and its tasks on the cluster."""
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.log.level": "ERROR",
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        submit = self.home / "bin" / "spark-submit"
        with self._log.open("ab") as log:
            job = subprocess.Popen(
                [submit, "--master", self._url, *given, program, *arguments],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._jobs.append(job)
        return job

    def executors(self) -> list[psutil.Process]:
        """Those that are children of the drivers, the oldest first."""
        found = []
        for job in self._jobs:
            for process in psutil.Process(job.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any(EXECUTOR in word for word in process.cmdline()):
                        found.append(process)
        return sorted(found, key=psutil.Process.create_time)

    def log(self) -> str:
        """The end of the drivers' standard error."""
        return self._log.read_text()[-4_000:]

    def kill(self) -> None:
        """All of them, with what they have started."""
        for job in self._jobs:
            kill(job)


class LocalCluster:
    """Two workers in the driver's JVM; each starts another executor in the place of a lost one."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.jobs = Jobs(directory, environment, f"local-cluster[{WORKERS},1,1024]")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.jobs.kill()

    def lose_machine(self) -> None:
        """Kill the oldest executor, with its Python processes."""
        oldest, *_ = self.jobs.executors()
        kill_all([oldest, *oldest.children(recursive=True)])


class StandaloneCluster:
    """A master and workers of one core each, all of them processes of their own."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        url = f"spark://{HOST}:{free_port()}"
        self.jobs = Jobs(directory, environment, url)
        self._url = url
        self._environment = {
            **self.jobs.environment,
            "SPARK_DAEMON_JAVA_OPTS": environment["SPARK_LAUNCHER_OPTS"],
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self._master_log = directory / "master.log"
        self._workers: list[subprocess.Popen[bytes]] = []
        port = url.rpartition(":")[2]
        self._master = self._start("Master", self._master_log, "--port", port)

    def __enter__(self) -> Self:
        try:
            for _ in range(WORKERS):
                self._add_worker()
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._kill_all()

    def lose_machine(self) -> None:
        """Kill the oldest worker with its executor, and start another."""
        kill(next(worker for worker in self._workers if worker.poll() is None))
        self._add_worker()

    def _add_worker(self) -> None:
        """Start another worker; return once the master knows it."""
        number = len(self._workers)
        known = self._master_log.read_text().count("Registering worker")
        log = self._directory / f"worker-{number}.log"
        work = str(self._directory / f"work-{number}")
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", work, self._url]
        self._workers.append(self._start("Worker", log, *arguments))
        deadline = time.monotonic() + JOB_SECONDS_MAX
        while self._master_log.read_text().count("Registering worker") == known:
            assert not is_over(self._workers[-1]), log.read_text()
            assert time.monotonic() < deadline, self._master_log.read_text()

    def _start(self, kind: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        spark_class = [self.jobs.home / "bin" / "spark-class"]
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        with log.open("wb") as file:
            return subprocess.Popen(
                [*spark_class, name, "--host", HOST, "--webui-port", "0", *arguments],
                env=self._environment,
                stdout=file,
                stderr=file,
                # A group of its own, which its executors belong to.
                start_new_session=True,
            )

    def _kill_all(self) -> None:
        self.jobs.kill()
        for process in (*self._workers, self._master):
            kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    """With all below it: executors, and their Python processes in groups of their own."""
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        kill_all(below)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def kill_all(processes: list[psutil.Process]) -> None:
    """At once, and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, TIMEOUT_SECONDS)
