"""What the rules for faults have in common: the order of a trace, and what is known of it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row, Window
from pyspark.sql import functions as F  # noqa: N812

from ..logs.trace_check import ASKED_FOR
from .trace_reading import LINE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

# What stands before a row in its window, the row itself left out.
BEFORE = (Window.unboundedPreceding, -1)


def fault(text: Column) -> list[Column | str]:
    """The columns of a fault."""
    whole = F.concat(F.col("time"), F.lit(" boot "), F.col("boot"), F.lit(": "), text)
    return ["line", "time", "boot", whole.alias("fault")]


def before(window: WindowSpec, value: Column) -> Column:
    """The latest `value` that is not null in the rows before."""
    return F.last(value, ignorenulls=True).over(window.rowsBetween(*BEFORE))


def with_state(events: DataFrame, about: Column) -> DataFrame:
    """Those events, with what is known of the trace there.

    `is_whole`: every message is traced. `epoch`: how often the trace had been begun, changed or
    stopped; numbers may have been given unseen between two. `stops`: how often it had been stopped.
    `has_lost`: events of this boot were dropped before. `is_cut`: the begin of this boot is in a
    file that is gone.
    """
    changes, cut = _changes(events)
    is_whole, epoch, stops = False, 0, 0
    states = [(is_whole, epoch, stops)]
    lines, lost = [], []
    for row in changes:
        if row["event"] in ("trace.started", "trace.stopped"):
            epoch += 1
            stops += row["event"] == "trace.stopped"
        if row["event"] == "trace.lost":
            lost.append(_at(row))
        if row["event"] == "trace.started":
            is_whole = row["one_of"] == 1 and not row["queues"]
        elif row["event"] != "trace.stopped":
            is_whole = False
        if (is_whole, epoch, stops) != states[-1]:
            states.append((is_whole, epoch, stops))
            lines.append(_line(row["line"]))
    # How many of them lie before, or where the row is: few, so that every task has them all.
    state, has_lost = F.lit(0), F.lit(False)
    if lines:
        state = F.size(F.filter(F.array(*lines), lambda line: line <= F.col("line")))
    if lost:
        has_lost = F.exists(F.array(*lost), _is_before)
    known = F.array(*[_state(*each) for each in states])
    stated = events.where(about).withColumn("state", known[state]).select("*", "state.*")
    is_cut = F.col("boot").isin(cut) if cut else F.lit(False)
    return stated.withColumns({"has_lost": has_lost, "is_cut": is_cut})


def _changes(events: DataFrame) -> tuple[list[Row], list[str]]:
    """What is told of the trace itself and what a cut boot begins with, in order; those boots."""
    told = F.col("event").isin("trace.started", "trace.stopped", "trace.lost")
    change = F.struct("line", "boot", "event", "one_of", "queues", "reason")
    boots = events.groupBy("boot").agg(
        F.min_by(change, "line").alias("first"),
        F.collect_list(F.when(told, change)).alias("told"),
    )
    found, cut = [], []
    for row in boots.collect():
        found += row["told"]
        first = row["first"]
        if first["event"] != "trace.started" or first["reason"] == ASKED_FOR:
            cut.append(row["boot"])
            # What it is itself is told behind it.
            found.append(Row(**{**first.asDict(), "event": ""}))
    return sorted(found, key=lambda row: (tuple(row["line"]), row["event"])), cut


def _at(row: Row) -> Column:
    return F.struct(F.lit(row["boot"]).alias("boot"), _line(row["line"]).alias("line"))


def _is_before(place: Column) -> Column:
    return (place["boot"] == F.col("boot")) & (place["line"] < F.col("line"))


def without_doubtful(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Those of the rows, which have their state, whose batch came since the trace was off last.

    Of what came before, the trace may not have every hop.
    """
    came = with_state(events, F.col("event") == "command.assembled")
    last = came.groupBy("boot", "stops").agg(
        F.max("batch").alias("batch"),
        F.min(F.struct("line", "batch")).alias("first"),
    )
    by_boot = last.groupBy("boot").agg(
        F.collect_list(F.struct("stops", "batch")).alias("came"), F.min("first").alias("first")
    )
    earlier = F.filter("came", lambda each: each["stops"] < F.col("stops"))
    doubtful_to = F.array_max(F.transform(earlier, lambda each: each["batch"]))
    is_sure = F.col("batch") > F.coalesce(doubtful_to, F.lit(0))
    # Of a boot that is cut, what came before the first that is seen to come.
    is_seen = (F.col("first")["line"] < F.col("line")) & (F.col("batch") >= F.col("first")["batch"])
    is_sure &= ~F.col("is_cut") | F.coalesce(is_seen, F.lit(False))
    joined = rows.join(F.broadcast(by_boot), "boot", "left")
    return joined.where(is_sure).drop("came", "first")


def _state(is_whole: bool, epoch: int, stops: int) -> Column:
    return F.struct(
        F.lit(is_whole).alias("is_whole"),
        F.lit(epoch).alias("epoch"),
        F.lit(stops).alias("stops"),
    )


def _line(row: Row) -> Column:
    values = [F.lit(value).alias(name) for name, value in row.asDict().items()]
    return F.struct(*values).cast(LINE)
