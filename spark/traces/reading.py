"""Trace files as a DataFrame of events, and as Parquet.

The schema comes from `logs/trace/kinds.py`; nothing is inferred. Beside the fields of docs/TRACE.md
a row has `line`, the place where it was written: rows compare by it as the lines did in the files,
whichever task read them. A line that is no event, as `kill -9` leaves a torn one, is kept in
`_corrupt_record` and counts as no event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from ...logs.reading.coverage import Coverage
from ...logs.reading.reader import trace_files
from ...logs.trace.kinds import KINDS, Kind
from ...logs.trace.parsing import Line, defect
from ...logs.trace.ring import NAME as RING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# The place where a line was written: file, block, row.
Place = tuple[str, int, int]
CORRUPT = "_corrupt_record"
# The place where an event was written, see above.
LINE = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("block", T.LongType()),
        T.StructField("row", T.LongType()),
    ]
)
# Without these a line is no event, for `leveret trace` as well.
NEEDED = ("event", "t_ns", "boot")
_TYPES: dict[Kind, T.DataType] = {
    "text": T.StringType(),
    "number": T.LongType(),
    "flag": T.BooleanType(),
    "texts": T.ArrayType(T.StringType()),
    "numbers": T.ArrayType(T.LongType()),
    "spans": T.ArrayType(T.ArrayType(T.LongType())),
}


def event_schema() -> T.StructType:
    """All fields that an event may have, and the column for lines that are no events."""
    fields = [T.StructField(name, _TYPES[kind]) for name, kind in KINDS.items()]
    return T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])


def read_lines(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Every line of trace files, plain or gzipped, including lines that are no events.

    A path is a file or a folder, of this machine or, with a scheme such as `s3a://`, of wherever
    the cluster reads. TraceFilesError if a path of this machine has nothing. The ring of a broker
    that was killed is not read: its events are in a file as soon as the broker is started again.
    """
    lines = (
        spark.read.schema(event_schema())
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .json(_sources(paths))
    )
    # A block of a file is read by one task, from its begin to its end.
    line = F.struct(
        F.col("_metadata.file_name").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("row"),
    )
    return lines.select("*", line.alias("line"))


def is_event() -> Column:
    """Whether a line is an event."""
    condition = F.col(CORRUPT).isNull()
    for name in NEEDED:
        condition &= F.col(name).isNotNull()
    return condition


def events_of(lines: DataFrame) -> DataFrame:
    """The lines that are events."""
    return lines.where(is_event()).drop(CORRUPT)


def status_lines(events: DataFrame) -> list[tuple[Place, Line]]:
    """The few events of a trace about itself, and the first and last of each run, in order."""
    text = F.to_json(F.struct(*[name for name in KINDS if name in events.columns]))
    placed = events.select("boot", "event", F.struct("line", text.alias("text")).alias("told"))
    ends = placed.groupBy("boot").agg(
        F.min("told").alias("first"),
        F.max("told").alias("last"),
        F.collect_list(F.when(F.col("event").startswith("trace."), F.col("told"))).alias("told"),
    )
    found: dict[Place, Line] = {}
    for row in ends.collect():
        for told in (row["first"], row["last"], *row["told"]):
            line = json.loads(told["text"])
            if not defect(line):
                found[tuple(told["line"])] = line
    return sorted(found.items())


def coverage_of(events: DataFrame) -> Coverage:
    """The stretches of each run that the trace covers, and those that it lacks."""
    coverage = Coverage()
    for _place, line in status_lines(events):
        coverage.feed(line)
    return coverage.finish()


def read_events(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """The events of trace files; see `read_lines`."""
    return events_of(read_lines(spark, paths))


def write_parquet(events: DataFrame, directory: str) -> None:
    """Add the events to a folder of Parquet files, one folder below it for each date and event."""
    dated = events.withColumn("date", F.to_date(F.to_timestamp("time")))
    # Few files, and none too large, whatever the number of tasks that read them.
    gathered = dated.hint("rebalance", "date", "event").sortWithinPartitions(
        "date", "event", "line"
    )
    gathered.write.mode("append").partitionBy("date", "event").parquet(directory)


def read_parquet(spark: SparkSession, directory: str) -> DataFrame:
    """The events that `write_parquet` wrote, with their `date`."""
    fields = [field for field in event_schema() if field.name != CORRUPT]
    added = [T.StructField("line", LINE), T.StructField("date", T.DateType())]
    schema = T.StructType([*fields, *added])
    return spark.read.schema(schema).parquet(directory)


def _sources(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if "://" in path:
            found.append(path)
        else:
            # Found here rather than by Spark, which silently leaves out missing files.
            files = trace_files([Path(path)])
            found += [file.absolute().as_uri() for file in files if file.name != RING]
    return found
