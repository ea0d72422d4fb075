"""The data source whose driver dies at a chosen step of the spool's; importable by Spark's workers.

LEVERET_DIES_BEFORE names the step, LEVERET_DIES_AFTER how often it goes well first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from leveret.spark.data_source import AmqpDataSource
from leveret.spark.source.spooled_source import SpooledReader
from leveret.spark.source.stream_source import StreamReader
from leveret.spark.spool.spool_files import DriverFiles

# The step, and what is called in it.
STEPS: dict[str, tuple[type, str]] = {
    "the sync": (DriverFiles, "sync_data"),
    "the rename": (DriverFiles, "rename"),
    "the ack": (SpooledReader, "passed"),
    "the partitions": (SpooledReader, "partitions"),
    "the commit": (SpooledReader, "commit"),
}


class DyingSource(AmqpDataSource):
    """`format("amqp-dying")`."""

    @classmethod
    def name(cls) -> str:
        return "amqp-dying"

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802 - Spark's name
        kind, name = STEPS[os.environ["LEVERET_DIES_BEFORE"]]
        setattr(kind, name, dying(getattr(kind, name), int(os.environ["LEVERET_DIES_AFTER"])))
        return super().streamReader(schema=schema)


def dying(step: Callable[..., Any], times: int) -> Callable[..., Any]:
    """The step, which kills -9 driver, JVM and this process instead when it is due."""
    left = [times]

    def call(*arguments: Any) -> Any:
        if not left[0]:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        left[0] -= 1
        return step(*arguments)

    return call
