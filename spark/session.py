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
        progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
        settings = {**SETTINGS, **progress, "spark.driver.memory": memory}
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
    except (PySparkException, Py4JError) as fault:
        raise SparkError(str(fault).strip().splitlines()[0]) from fault
