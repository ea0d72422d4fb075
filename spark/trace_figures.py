"""The figures of a trace (`logs/trace_figures.py`), worked out by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from ..logs.trace_figures import HOPS, QUANTILES, Hop, Latency, QueueFigures, TraceFigures
from .trace_moments import NAMES, moments
from .trace_reading import CORRUPT, NEEDED, events_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NS = 1e9
# Of these hops each queue has its own line.
_OF_QUEUES = ("confirm", "deliver")
_COUNTED = ("enqueued", "sent", "delivered", "settled")


def trace_figures(lines: DataFrame) -> TraceFigures:
    """The whole report of what `read_lines` gave; worth a `persist` before, it is read twice."""
    events, bad_lines, seconds = _totals(lines)
    # Both what is counted and what is sorted comes from these.
    rows = moments(events_of(lines)).persist()
    try:
        counts = {
            row["queue"]: row
            for row in rows.where("queue IS NOT NULL")
            .groupBy("queue")
            .agg(*[F.count(name).alias(name) for name in _COUNTED])
            .collect()
        }
        latencies = _latencies(rows)
    finally:
        rows.unpersist()
    nothing = Latency()
    queues = tuple(
        QueueFigures(
            queue,
            enqueued=row["enqueued"],
            confirmed=row["sent"],
            delivered=row["delivered"],
            settled=row["settled"],
            confirm=latencies.get(("confirm", queue), nothing),
            deliver=latencies.get(("deliver", queue), nothing),
        )
        for queue, row in sorted(counts.items())
    )
    hops = tuple((hop, latencies.get((hop.name, None), nothing)) for hop in HOPS)
    return TraceFigures(events, bad_lines, seconds, queues, hops)


def _totals(lines: DataFrame) -> tuple[int, int, float]:
    """How many events, how many lines that are none, and the seconds that the boots cover."""
    is_event = F.col(CORRUPT).isNull()
    for name in NEEDED:
        is_event &= F.col(name).isNotNull()
    parts = (
        lines.groupBy("line.file", F.when(is_event, F.col("boot")).alias("boot"))
        .agg(
            F.count("*").alias("lines"),
            F.min("t_ns").alias("first"),
            F.max("t_ns").alias("last"),
            F.max("line").alias("end"),
            F.max_by(CORRUPT, "line").alias("end_text"),
        )
        .collect()
    )
    events, bad_lines = 0, 0
    boots: dict[str, tuple[int, int]] = {}
    ends: dict[str, Any] = {}
    for part in parts:
        ends[part["file"]] = max(ends.get(part["file"], part["end"]), part["end"])
    for part in parts:
        if part["boot"] is None:
            # The last line may be torn, as a killed broker leaves it: it is no event, and no fault.
            is_torn = part["end"] == ends[part["file"]] and not (part["end_text"] or "}").endswith(
                "}"
            )
            bad_lines += part["lines"] - is_torn
            continue
        events += part["lines"]
        first, last = boots.get(part["boot"], (part["first"], part["last"]))
        boots[part["boot"]] = min(first, part["first"]), max(last, part["last"])
    return events, bad_lines, sum(last - first for first, last in boots.values()) / _NS


def _latencies(rows: DataFrame) -> dict[tuple[str, str | None], Latency]:
    """By hop and queue; with queue None over all queues."""
    every = F.explode(F.array(*[_taken(hop) for hop in HOPS])).alias("of")
    taken = rows.select("queue", every).select("queue", "of.*").where("ns IS NOT NULL")
    one = F.array(F.lit(None).cast("string"))
    scopes = F.when(F.col("hop").isin(*_OF_QUEUES), F.array(F.lit(None), F.col("queue")))
    scoped = taken.select("hop", "ns", F.explode(F.coalesce(scopes, one)).alias("queue"))
    # A group's messages took equally long: far fewer values than messages.
    values = scoped.groupBy("hop", "queue", "ns").agg(F.count("*").alias("messages"))
    group = Window.partitionBy("hop", "queue")
    ranked = values.select(
        *("hop", "queue", "ns"),
        F.sum("messages").over(group).alias("total"),
        F.sum("messages").over(group.orderBy("ns")).alias("rank"),
    )
    found = ranked.groupBy("hop", "queue").agg(
        F.first("total").alias("messages"),
        *[F.min(F.when(_reaches(q), F.col("ns"))).alias(f"q{n}") for n, q in enumerate(QUANTILES)],
        F.max("ns").alias("max"),
    )
    return {(row["hop"], row["queue"]): _latency(row) for row in found.collect()}


def _taken(hop: Hop) -> Column:
    """What the hop took in this row, null if the row is not of it."""
    is_its_row = F.col("queue").isNotNull() if hop.is_per_queue else F.col("queue").isNull()
    took = F.col(NAMES[hop.end]) - F.col(NAMES[hop.begin])
    return F.struct(F.lit(hop.name).alias("hop"), F.when(is_its_row, took).alias("ns"))


def _reaches(quantile: float) -> Column:
    # In whole numbers, so that no rank is off by one.
    return F.col("rank") * 1000 >= F.col("total") * round(quantile * 1000)


def _latency(row: Any) -> Latency:
    p50, p95, p99, p999 = (row[f"q{n}"] for n in range(len(QUANTILES)))
    return Latency(row["messages"], p50, p95, p99, p999, row["max"])
