"""Faults of a channel's publish numbers: given twice or left out, answered twice or never."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from .trace_fault_rows import BEFORE, before, fault, with_state
from .trace_moments import numbers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A channel may be opened again where another was closed.
_CHANNEL = ("boot", "connection", "channel")
_LIFE = (*_CHANNEL, "life")
_ANSWERS = ("message.returned", "confirm.sent", "confirm.nacked")
_GIVEN, _CLOSED = "command.assembled", "channel.closed"


def wrong_numbers(events: DataFrame) -> DataFrame:
    """Publish numbers that were given twice, or left out although every message is traced."""
    given = _of_channels(events).where(F.col("event") == _GIVEN)
    spans = given.select("*", F.posexplode("seq_no").alias("nth", "span"))
    # What was given while the trace was off is not known.
    channel = Window.partitionBy(*_LIFE, "epoch").orderBy("line", "nth")
    highest = F.coalesce(F.max(F.col("span")[1]).over(channel.rowsBetween(*BEFORE)), F.lit(0))
    seen = spans.withColumns({"first": F.col("span")[0], "highest": highest})
    is_gap = F.col("is_whole") & (F.col("highest") > 0) & (F.col("first") != F.col("highest") + 1)
    text = F.when(
        F.col("first") <= F.col("highest"),
        F.concat(_where(), F.lit(": publish number "), "first", F.lit(" was given twice")),
    ).when(
        is_gap,
        F.concat(
            *(_where(), F.lit(": publish numbers "), F.col("highest") + 1, F.lit(" to ")),
            *(F.col("first") - 1, F.lit(" are missing")),
        ),
    )
    return seen.where("NOT has_lost").select(*fault(text)).where("fault IS NOT NULL")


def wrong_answers(events: DataFrame) -> DataFrame:
    """Numbers that were answered twice, before their return, or without having come."""
    each = _of_numbers(events).where(F.col("event") != _CLOSED)
    number = Window.partitionBy(*_LIFE, "number").orderBy("line")
    event = F.col("event")
    seen = each.select(
        "*",
        before(number, F.when(event == "message.returned", True)).alias("was_returned"),
        before(number, F.when(event == _GIVEN, True)).alias("was_given"),
        F.coalesce(before(number, event == _GIVEN), F.lit(False)).alias("is_open"),
    )
    word = F.when(event == "confirm.sent", "confirmed").otherwise("nacked")
    # Before what is there of the trace.
    is_before = F.col("first_given").isNull() | (F.col("number") < F.col("first_given"))
    may_have_come = F.col("is_cut") & is_before
    of_return = F.when(~F.col("is_open") & F.col("was_given"), "confirmed before its return")
    of_answer = (
        F.when(F.col("was_returned"), F.concat(word, F.lit(" behind its return's own ack")))
        .when(F.col("is_open"), None)
        .when(F.col("was_given"), "answered twice")
        .when(~may_have_come, F.concat(word, F.lit(" but never came")))
    )
    wrong = F.when(event == "message.returned", of_return).otherwise(of_answer)
    text = F.concat(_where(), F.lit(": publish "), "number", F.lit(" was "), wrong)
    answers = seen.where(event.isin(*_ANSWERS) & ~F.col("has_lost"))
    return answers.select(*fault(text)).where("fault IS NOT NULL")


def never_answered(events: DataFrame) -> DataFrame:
    """Channels that ended with a number which they neither answered nor gave up."""
    number = Window.partitionBy(*_LIFE, "number").orderBy("line")
    is_given = F.col("event") == _GIVEN
    # Open while the trace was off, it may have been answered then.
    was_open = F.lag(is_given).over(number) & (F.lag("epoch").over(number) != F.col("epoch"))
    last = (
        _of_numbers(events)
        .withColumn("is_doubtful", F.coalesce(was_open, F.lit(False)))
        .groupBy(*_LIFE, "number")
        .agg(
            F.max_by(is_given, "line").alias("is_open"),
            F.max_by("epoch", "line").alias("open_epoch"),
            F.max("is_doubtful").alias("is_doubtful"),
        )
        .where("is_open AND NOT is_doubtful")
    )
    closed = _of_channels(events).where(F.col("event") == _CLOSED).drop("seq_no")
    silent = (
        closed.join(last, [*_LIFE])
        .where("open_epoch = epoch AND NOT has_lost")
        .groupBy(*_CHANNEL, "line", "time")
        .agg(F.min("number").alias("number"))
    )
    text = F.concat(
        _where(), F.lit(": publish "), "number", F.lit(" was never answered nor given up")
    )
    return silent.select(*fault(text))


def _of_channels(events: DataFrame) -> DataFrame:
    """What is said of numbers, and in which life of its channel."""
    about = F.col("event").isin(_GIVEN, _CLOSED, *_ANSWERS)
    in_channel = Window.partitionBy(*_CHANNEL).orderBy("line").rowsBetween(*BEFORE)
    life = F.coalesce(F.sum((F.col("event") == _CLOSED).cast("int")).over(in_channel), F.lit(0))
    states = ("is_whole", "has_lost", "is_cut", "epoch")
    lives = with_state(events, about).select(
        *(*_CHANNEL, "time", "line", "event", "seq_no", *states), life.alias("life")
    )
    in_life = Window.partitionBy(*_LIFE).orderBy("line").rowsBetween(*BEFORE)
    given = F.when(F.col("event") == _GIVEN, F.get(F.get("seq_no", F.lit(0)), F.lit(0)))
    return lives.withColumn("first_given", F.min(given).over(in_life))


def _of_numbers(events: DataFrame) -> DataFrame:
    return _of_channels(events).withColumn("number", F.explode(numbers("seq_no")))


def _where() -> Column:
    return F.concat(F.col("connection"), F.lit(" channel "), F.col("channel"))
