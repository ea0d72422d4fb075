"""A session for the command line: one clear line where Spark or Java is missing, and little noise.

Programs make their own sessions. The check for Java is here, because PySpark itself only reports
that its gateway has exited.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA_MISSING = (
    "Spark needs Java 17 or later, and there is none: neither JAVA_HOME nor PATH leads to `java`; "
    "apt-get install default-jre-headless (as root), or https://adoptium.net"
)


def java_missing() -> str | None:
    """Name the missing package and where to get it, in one line; None if there is a Java."""
    home = os.environ.get("JAVA_HOME")
    # As pyspark's own launcher looks (bin/spark-class): JAVA_HOME first.
    found = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    return None if found else JAVA_MISSING


SPARK_MISSING = "Spark is not installed: pip install 'leveret[spark]'"
SETTINGS = {
    "spark.ui.enabled": "false",
    # Warnings of every session that nobody can do anything about.
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
# On one machine: so that one that lasts does not leave the other cores without work.
SHUFFLE_TASKS_PER_CORE = 4


class SparkError(Exception):
    """There can be no session, or it broke; one line for people."""


@contextmanager
def spark_session(master: str, memory: str) -> Iterator[SparkSession]:
    """The session that there is, or one that ends with the block; SparkError names a missing
    one."""
    if find_spec("pyspark") is None:
        raise SparkError(SPARK_MISSING)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    try:
        if active is not None:
            yield active
            return
        if missing := java_missing():
            raise SparkError(missing)
        # Workers run this Python, not the first in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("leveret")
        for name, value in settings_of(master, memory).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
    except (PySparkException, Py4JError) as fault:
        raise SparkError(describe_failure(str(fault))) from fault


def describe_failure(fault: str) -> str:
    """Extract the cause from Spark's text: py4j's first line only names the call."""
    first, *others = fault.strip().splitlines()
    if others and others[0].startswith(": "):
        return others[0].removeprefix(": ")
    return first


def settings_of(master: str, memory: str) -> dict[str, str]:
    """The settings of the Spark session of the command line."""
    settings = {**SETTINGS, "spark.driver.memory": memory}
    settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
    if master.startswith("local"):
        # Spark's 200 are for clusters: on one machine most of a report's time would go into
        # starting tasks that have next to nothing to do.
        tasks = SHUFFLE_TASKS_PER_CORE * (os.cpu_count() or 1)
        settings["spark.sql.shuffle.partitions"] = str(tasks)
    return settings
