"""A driver of its own: a queue into a sink that skips the batch ids it knows, until it is killed.

    python spooled_driver.py '{"options": {}, "directory": "/tmp", "drains": false,
                               "format": "amqp", "writes_max": null}'

Prints a line of JSON for every batch that it was given: its number, and whether it was new. After
`writes_max` of them it kills itself -9, with all its processes, before Spark knows of the last.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from driver_session import driver_session
from dying_source import DyingSource
from idempotent_sink import IdempotentSink
from pyspark.sql import DataFrame


def main(given: dict[str, Any]) -> None:
    spark = driver_session()
    spark.dataSource.register(DyingSource)
    directory = Path(given["directory"])
    sink = IdempotentSink(directory / "rows")
    written: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        is_new = sink.write(batch, number)
        print(json.dumps({"batch": number, "new": is_new}), flush=True)
        written.append(number)
        if len(written) == given["writes_max"]:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    frame = spark.readStream.format(given["format"]).options(**given["options"]).load()
    writer = frame.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    (writer.trigger(availableNow=True) if given["drains"] else writer).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
