"""Where messages spend their time, and the life of the slowest, from a broker's trace.

    .venv/bin/leveret trace on --data-dir leveret-data     # then publish something
    .venv/bin/python docs/examples/spark_trace_report.py leveret-data/traces

`leveret spark trace-report` prints the whole report; this asks a question of its own.
"""

from __future__ import annotations

import os
import sys

from leveret.logs.report.tables import report
from leveret.spark import traces
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """The report, the slowest message, and what breaks a promise."""
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    spark = SparkSession.builder.appName("trace report").getOrCreate()
    lines = traces.read_lines(spark, sys.argv[1:]).persist()
    print(report(traces.trace_figures(lines)))
    events = traces.events_of(lines)
    took = (sql.col("sent") - sql.col("received")).alias("took_ns")
    confirmed = traces.moments(events).where("queue IS NOT NULL AND sent IS NOT NULL")
    slowest = confirmed.select("boot", "batch", "place", took).orderBy(sql.desc("took_ns")).first()
    if slowest is not None:
        boot, batch, place, took_ns = slowest
        print(f"the slowest, {boot}-{batch}-{place}, took {took_ns / 1e6:.3f} ms:")
        steps = traces.steps(events).where(f"batch = {batch} AND place = {place}").orderBy("line")
        for step in steps.where(sql.col("boot") == boot).collect():
            wait_ms = (step["wait_ns"] or 0) / 1e6
            print(f"  +{wait_ms:9.3f} ms  {step['event']}  {step['queue'] or ''}")
    print(f"{traces.faults(events).count()} broken promises")


if __name__ == "__main__":
    main()
