"""A session for the command line: one clear line where Spark or Java is missing, and little noise.

Programs make their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from .java import java_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """The session that there is, or one that ends with the block; SparkError says what is not."""
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
        raise SparkError(told(str(fault))) from fault


def told(fault: str) -> str:
    """What of Spark's text says what is wrong: py4j's first line is only what was called."""
    first, *others = fault.strip().splitlines()
    if others and others[0].startswith(": "):
        return others[0].removeprefix(": ")
    return first


def settings_of(master: str, memory: str) -> dict[str, str]:
    """What a session of the command line is started with."""
    settings = {**SETTINGS, "spark.driver.memory": memory}
    settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
    if master.startswith("local"):
        # Spark's 200 are for clusters: on one machine most of a report's time would go into
        # starting tasks that have next to nothing to do.
        tasks = SHUFFLE_TASKS_PER_CORE * (os.cpu_count() or 1)
        settings["spark.sql.shuffle.partitions"] = str(tasks)
    return settings
