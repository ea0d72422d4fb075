"""What the rules for faults have in common: the order of a trace, and what is known of it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from .trace_reading import LINE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, WindowSpec

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

    `is_whole`: every message is traced. `has_lost`: events were dropped before. `epoch`: how often
    the trace had been begun, changed or stopped; numbers may have been given unseen between two.
    `stops`: how often it had been stopped.
    """
    told = events.where(F.col("event").isin("trace.started", "trace.stopped", "trace.lost"))
    changes = told.select("line", "event", "one_of", "queues").orderBy("line").collect()
    is_whole, has_lost = False, False
    epoch, stops = 0, 0
    states = [(is_whole, has_lost, epoch, stops)]
    lines = []
    for row in changes:
        if row["event"] == "trace.lost":
            is_whole, has_lost = False, True
        else:
            epoch += 1
            stops += row["event"] == "trace.stopped"
        if row["event"] == "trace.started":
            is_whole = row["one_of"] == 1 and not row["queues"]
        if (is_whole, has_lost, epoch, stops) != states[-1]:
            states.append((is_whole, has_lost, epoch, stops))
            lines.append(_line(row["line"]))
    # How many of them lie before: few, so that every task has them all.
    state = F.lit(0)
    if lines:
        behind = F.filter(F.array(*lines), lambda line: line < F.col("line"))
        state = F.size(behind)
    known = F.array(*[_state(*each) for each in states])
    return events.where(about).withColumn("state", known[state]).select("*", "state.*")


def without_doubtful(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Those of the rows, which have their state, whose batch came since the trace was off last.

    Of what came before, the trace may not have every hop.
    """
    came = with_state(events, F.col("event") == "command.assembled")
    last = came.groupBy("boot", "stops").agg(F.max_by("batch", "line").alias("batch"))
    by_boot = last.groupBy("boot").agg(
        F.sort_array(F.collect_list(F.struct("stops", "batch"))).alias("came")
    )
    earlier = F.filter("came", lambda each: each["stops"] < F.col("stops"))
    doubtful_to = F.coalesce(F.get(earlier, F.size(earlier) - 1)["batch"], F.lit(0))
    joined = rows.join(F.broadcast(by_boot), "boot", "left")
    return joined.where(F.col("batch") > doubtful_to).drop("came")


def _state(is_whole: bool, has_lost: bool, epoch: int, stops: int) -> Column:
    return F.struct(
        F.lit(is_whole).alias("is_whole"),
        F.lit(has_lost).alias("has_lost"),
        F.lit(epoch).alias("epoch"),
        F.lit(stops).alias("stops"),
    )


def _line(row: Row) -> Column:
    values = [F.lit(value).alias(name) for name, value in row.asDict().items()]
    return F.struct(*values).cast(LINE)
