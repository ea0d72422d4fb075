"""A driver of its own: reads a queue into Parquet, batch by batch, until it is killed.

    python draining_driver.py '{"options": {}, "directory": "/tmp", "raises": [3], "drains": false}'

Prints a line of JSON for every batch that has been written. In the batches that `raises` lists the
sink raises, once before and once after it has written, in turn; the query is then started again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from driver_session import driver_session
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame


def main(given: dict[str, Any]) -> None:
    spark = driver_session()
    directory = Path(given["directory"])
    raises = list(given["raises"])

    def write(batch: DataFrame, number: int) -> None:
        is_due = bool(raises) and number >= raises[0]
        if is_due and len(raises) % 2 == 0:
            raise RuntimeError(f"the sink raises before it has written batch {raises.pop(0)}")
        batch.select("body", "redelivered").write.mode("append").parquet(str(directory / "rows"))
        print(json.dumps({"batch": number, "at_s": time.monotonic()}), flush=True)
        if is_due:
            raise RuntimeError(f"the sink raises after it has written batch {raises.pop(0)}")

    while True:
        reader = spark.readStream.format("amqp").options(**given["options"]).load()
        writer = reader.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
        query = (writer.trigger(availableNow=True) if given["drains"] else writer).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            # The sink's own are told first; whatever else fails the query is told the same way.
            print(json.dumps({"failed": str(error)[:2000]}), flush=True)
        else:
            for progress in query.recentProgress:
                told = {"rows": progress.numInputRows, "took_ms": progress.durationMs}
                print(json.dumps(told), flush=True)
            break


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
