"""The moments of traced messages and how long their hops took, worked out by Spark's tasks.

`logs/report/queries.py` has the steps, in DuckDB's SQL. They need all lines of a channel, then all
lines of a batch: so the lines go to the tasks that have them, and each task runs the same steps
over its part as `leveret trace report` over the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from ...logs.reading.reader import TraceFilesError
from ...logs.report import queries
from ...logs.report.engine import MISSING, begin
from .reading import coverage_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame

    Batches = Iterator[RecordBatch]
    # Gives the queries whose rows a task gives, when it has made its tables.
    Work = Callable[[DuckDBPyConnection], Iterable[str]]


MESSAGE = ("boot", "batch", "place")
_ROWS_AT_A_TIME = 50_000
# So many messages no batch has, which is one read of a socket: a longer range is damage.
_BATCH_MESSAGES_MAX = 1_000_000
# A row of what channels have confirmed, among the lines of batches.
_SENT = "sent"
# Columns and their types, as Spark calls them.
_SENT_SCHEMA = "boot string, batch long, t_ns long, low long, high long"
_KNOWN_SCHEMA = "boot string, queue_id long, vhost string, queue string"
_OF_MESSAGE = tuple(queries.OF_MESSAGE.values())
_OF_QUEUE = (*queries.OF_QUEUE.values(), "synced")
_MOMENTS_SCHEMA = (
    "boot string, batch long, place long, messages long, vhost string, queue string, "
    + ", ".join(f"{name} long" for name in (*_OF_MESSAGE, *_OF_QUEUE))
)
_TOOK_SCHEMA = "vhost string, queue string, hop string, took_ns long, messages long, estimated long"


def moments(events: DataFrame) -> DataFrame:
    """A row for messages of a batch with the same moments, in each queue and (queue null) in none.

    Columns: boot, batch, place (of the first), messages (how many), vhost, queue, and `t_ns` of
    each moment, null where it is not known. What messages have before their queues stands in the
    rows of the queues, too.
    """
    of_message, of_queue = (", ".join(names) for names in (_OF_MESSAGE, _OF_QUEUE))
    nothing = ", ".join(f"NULL::BIGINT AS {name}" for name in _OF_QUEUE)
    found = [
        f"SELECT boot, batch, place, messages, {queue}, {moments} FROM {table}"
        for table, queue, moments in (
            ("of_queue", "vhost, queue", f"{of_message}, {of_queue}"),
            ("of_message", "NULL AS vhost, NULL AS queue", f"{of_message}, {nothing}"),
        )
    ]
    return _of_batches(events, _MOMENTS_SCHEMA, lambda: found)


def durations_of(events: DataFrame) -> DataFrame:
    """How long the hops took: rows of `queries.TOOK`, and counts with `took_ns` null.

    A count's `hop` is one of `queries.COUNTED`.
    """
    counts = [
        f"SELECT vhost, queue, '{name}' AS hop, NULL::BIGINT AS took_ns, {name} AS messages, "
        f"{name}_estimated AS estimated FROM ({queries.COUNTS})"
        for name in queries.COUNTED
    ]
    return _of_batches(events, _TOOK_SCHEMA, lambda: [queries.took(), *counts])


def latencies(took: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of `queries.LATENCIES`, of what `taken` gives."""
    of_hops = took.where("took_ns IS NOT NULL").repartition("hop", "vhost", "queue")
    columns = "messages long, estimated long, q0 long, q1 long, q2 long, q3 long, max_ns long"
    schema = f"vhost string, queue string, hop string, {columns}"
    rows = of_hops.mapInArrow(_task("took", lambda _engine: [queries.LATENCIES], schema), schema)
    return [tuple(row) for row in rows.collect()]


def _of_batches(events: DataFrame, schema: str, found: Callable[[], list[str]]) -> DataFrame:
    """Run the steps of batches over all of them; gives the rows of the queries in `found`."""
    if find_spec("duckdb") is None:
        raise TraceFilesError(MISSING)
    channels = events.where(F.col("event").isin("command.assembled", "confirm.sent"))
    wanted = ("t_ns", "boot", "event", "connection", "channel", "batch", "messages", "seq_no")
    sent = (
        channels.select(*wanted)
        .repartition("boot", "connection", "channel")
        .mapInArrow(_task("line", _channels, _SENT_SCHEMA), _SENT_SCHEMA)
        .withColumn("event", F.lit(_SENT))
    )
    # A sync goes to the tasks of all of its batches.
    batches = F.when(F.col("event") == "journal.synced", F.col("batches")).otherwise(
        F.array("batch")
    )
    about = F.col("messages").isNotNull() | (F.col("event") == "journal.synced")
    named = events.where(about).withColumn("batch", F.explode(batches))
    columns = [name for name in queries.COLUMNS if name != "batches"]
    lines = named.select(*columns, F.array("batch").alias("batches"))
    both = lines.unionByName(sent, allowMissingColumns=True).repartition("boot", "batch")
    choices = coverage_of(events).choices()
    known = [tuple(row) for row in _known(events).collect()]

    def work(engine: DuckDBPyConnection) -> Iterable[str]:
        begin(engine, choices)
        engine.execute(
            "CREATE TEMP TABLE known (boot VARCHAR, queue_id BIGINT, vhost VARCHAR, queue VARCHAR)"
        )
        if known:
            engine.executemany("INSERT INTO known VALUES (?, ?, ?, ?)", known)
        engine.execute(f"CREATE TEMP TABLE sent AS SELECT * FROM line WHERE event = '{_SENT}'")
        for step in queries.batch_steps():
            engine.execute(step)
        return found()

    return both.mapInArrow(_task("line", work, schema), schema)


def _known(events: DataFrame) -> DataFrame:
    """The rows of `queries.NAMES`."""
    columns = events.select("boot", "event", "queue_id", "vhost", "queue")
    named = columns.where("queue_id IS NOT NULL").distinct().repartition("boot", "queue_id")
    return named.mapInArrow(
        _task("line", lambda _engine: [queries.NAMES], _KNOWN_SCHEMA), _KNOWN_SCHEMA
    )


def _channels(engine: DuckDBPyConnection) -> Iterable[str]:
    for step in queries.channel_steps():
        engine.execute(step)
    return ["SELECT boot, batch, t_ns, low, high FROM sent"]


def _task(table: str, work: Work, schema: str) -> Callable[[Batches], Batches]:
    """The work of a task: it makes a table of its rows and returns `work`'s result for it."""

    def run(batches: Batches) -> Batches:
        import duckdb
        import pyarrow as pa

        named = [column.split() for column in schema.split(", ")]
        names = [name for name, _kind in named]
        kinds = [pa.string() if kind == "string" else pa.int64() for _name, kind in named]
        first = next(batches, None)
        if first is None:
            return
        # One thread: Spark has a task for each core.
        with duckdb.connect(config={"threads": 1}) as engine:
            all_rows = pa.RecordBatchReader.from_batches(first.schema, _chained(first, batches))
            engine.register("all_rows", all_rows)
            engine.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM all_rows")
            for query in work(engine):
                found = engine.execute(query)
                while rows := found.fetchmany(_ROWS_AT_A_TIME):
                    columns = zip(zip(*rows, strict=True), kinds, strict=True)
                    arrays = [pa.array(column, kind) for column, kind in columns]
                    yield pa.RecordBatch.from_arrays(arrays, names)

    return run


def _chained(first: RecordBatch, rest: Batches) -> Batches:
    yield first
    yield from rest


def numbers(spans: str) -> Column:
    """The numbers of a column of [first, last] pairs, in their order; damaged pairs have none."""

    def is_sound(pair: Column) -> Column:
        return (pair[0] <= pair[1]) & (pair[1] - pair[0] < _BATCH_MESSAGES_MAX)

    pairs = F.filter(F.col(spans), is_sound)
    return F.flatten(F.transform(pairs, lambda pair: F.sequence(pair[0], pair[1])))


def steps(events: DataFrame) -> DataFrame:
    """The timeline of every message: its own events in order, and the wait before each.

    Columns: boot, batch, place, t_ns, wait_ns (null at the first), actor, event, vhost, queue,
    connection, channel, reason. What the journal and the channel's confirm say of whole groups is
    in `moments`.
    """
    told = events.where("messages IS NOT NULL").select(
        "boot",
        "batch",
        F.explode(numbers("messages")).alias("place"),
        "t_ns",
        *("actor", "event", "vhost", "queue", "connection", "channel", "reason", "line"),
    )
    in_order = Window.partitionBy(*MESSAGE).orderBy("line")
    wait = F.col("t_ns") - F.lag("t_ns").over(in_order)
    return told.withColumn("wait_ns", wait)
