"""What must not be in a trace, found by Spark: the faults of `leveret trace check`, in its words.

Each rule is a query by the number or message that it is about, so that what belongs together meets
in one task, in the order in which it was written (`line`). `logs/trace_check.py` says the same in
one pass; a test holds the two together.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from .trace_moments import MESSAGE, numbers
from .trace_reading import LINE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

_CHANNEL = ("boot", "connection", "channel")
_ANSWERS = ("message.returned", "confirm.sent", "confirm.nacked")
_HELD_BY = ("message.enqueued", "message.recovered")
# What stands before a row in its window, the row itself left out.
_BEFORE = (Window.unboundedPreceding, -1)


def faults(events: DataFrame) -> DataFrame:
    """A row for each fault: line, time, boot, fault. Sorted by `line` they are in order."""
    found = [
        _wrong_numbers(events),
        _wrong_answers(events),
        _early_confirms(events),
        _strange_deliveries(events),
    ]
    return reduce(lambda one, other: one.unionByName(other), found)


def _fault(text: Column) -> list[Column | str]:
    whole = F.concat(F.col("time"), F.lit(" boot "), F.col("boot"), F.lit(": "), text)
    return ["line", "time", "boot", whole.alias("fault")]


def _where() -> Column:
    return F.concat(F.col("connection"), F.lit(" channel "), F.col("channel"))


def _before(window: WindowSpec, value: Column) -> Column:
    """The latest `value` that is not null in the rows before."""
    return F.last(value, ignorenulls=True).over(window.rowsBetween(*_BEFORE))


def _wrong_numbers(events: DataFrame) -> DataFrame:
    """Publish numbers that were given twice, or left out although every message is traced."""
    given = _with_state(events, F.col("event") == "command.assembled").select(
        *_CHANNEL,
        "time",
        "line",
        "is_whole",
        F.posexplode("seq_no").alias("nth", "span"),
    )
    channel = Window.partitionBy(*_CHANNEL).orderBy("line", "nth")
    first, last = F.col("span")[0], F.col("span")[1]
    highest = F.coalesce(F.max(last).over(channel.rowsBetween(*_BEFORE)), F.lit(0))
    seen = given.withColumns({"first": first, "highest": highest})
    twice = F.col("first") <= F.col("highest")
    gap = F.col("is_whole") & (F.col("highest") > 0) & (F.col("first") != F.col("highest") + 1)
    text = F.when(
        twice, F.concat(_where(), F.lit(": publish number "), "first", F.lit(" was given twice"))
    ).when(
        gap,
        F.concat(
            _where(),
            F.lit(": publish numbers "),
            F.col("highest") + 1,
            F.lit(" to "),
            F.col("first") - 1,
            F.lit(" are missing"),
        ),
    )
    return seen.select(*_fault(text)).where("fault IS NOT NULL")


def _wrong_answers(events: DataFrame) -> DataFrame:
    """Numbers that were answered twice, before their return, or without having come."""
    about = F.col("event").isin("command.assembled", "channel.closed", *_ANSWERS)
    each = _with_state(events, about).select(
        *_CHANNEL, "time", "line", "has_lost", "event", F.explode(numbers("seq_no")).alias("number")
    )
    number = Window.partitionBy(*_CHANNEL, "number").orderBy("line")
    was_answered = _before(number, F.when(F.col("event").isin(*_ANSWERS), F.lit(True)))
    was_returned = _before(number, F.when(F.col("event") == "message.returned", F.lit(True)))
    is_open = _before(number, F.col("event") == "command.assembled")
    seen = each.select(
        "*",
        was_answered.alias("was_answered"),
        was_returned.alias("was_returned"),
        is_open.alias("is_open"),
    )
    verb = F.when(F.col("event") == "confirm.sent", "confirmed").otherwise("nacked")
    wrong = F.when(
        F.col("event") == "message.returned",
        F.when(F.col("was_answered"), "confirmed before its return"),
    ).otherwise(
        F.when(F.col("was_returned"), F.concat(verb, F.lit(" behind its return's own ack")))
        .when(F.col("was_answered"), F.lit("answered twice"))
        .when(
            ~F.coalesce(F.col("is_open"), F.lit(False)) & ~F.col("has_lost"),
            F.concat(verb, F.lit(" but never came")),
        )
    )
    text = F.concat(_where(), F.lit(": publish "), "number", F.lit(" was "), wrong)
    answers = seen.where(F.col("event").isin(*_ANSWERS))
    return answers.select(*_fault(text)).where("fault IS NOT NULL")


def _early_confirms(events: DataFrame) -> DataFrame:
    """Confirms by a queue before the sync that it had to wait for."""
    queues = ("boot", "batch", "queue")
    waits = events.where(F.col("event").isin(*_HELD_BY)).select(
        *queues, "line", "event", F.explode(numbers("waits_for_sync")).alias("place")
    )
    confirms = events.where("event = 'confirm.queued'").select(
        *queues, "line", "event", "time", F.explode(numbers("messages")).alias("place")
    )
    every = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [confirms, waits, _synced(events)],
    )
    in_queue = Window.partitionBy(*queues).orderBy("line")
    synced = _before(in_queue, F.when(F.col("event") == "journal.synced", F.col("line")))
    placed = every.withColumn("synced", synced).where("place IS NOT NULL")
    of_place = Window.partitionBy(*queues, "place").orderBy("line")
    waited = _before(of_place, F.when(F.col("event").isin(*_HELD_BY), F.col("line")))
    early = (
        placed.withColumn("waited", waited)
        .where("event = 'confirm.queued' AND waited IS NOT NULL")
        .where("synced IS NULL OR synced < waited")
    )
    text = F.concat(
        F.lit("queue "),
        _quoted(),
        F.lit(" confirmed message "),
        _message(),
        F.lit(" before its sync"),
    )
    return _first_place(early).select(*_fault(text))


def _synced(events: DataFrame) -> DataFrame:
    """For each queue of each batch, the lines at which all of it that was appended was synced."""
    appended = events.where("event = 'journal.appended'").select(
        "boot", "batch", "line", "event", "queue_id"
    )
    synced = events.where("event = 'journal.synced'").select(
        "boot", F.explode("batches").alias("batch"), "line", "event"
    )
    in_batch = Window.partitionBy("boot", "batch").orderBy("line")
    following = in_batch.rowsBetween(1, Window.unboundedFollowing)
    next_sync = F.first(
        F.when(F.col("event") == "journal.synced", F.col("line")), ignorenulls=True
    ).over(following)
    at = (
        appended.unionByName(synced, allowMissingColumns=True)
        .withColumn("line", next_sync)
        .where("event = 'journal.appended' AND line IS NOT NULL")
    )
    held = (
        events.where(F.col("event").isin(*_HELD_BY))
        .select("boot", "batch", "queue", F.coalesce("queue_id", F.lit(0)).alias("queue_id"))
        .distinct()
    )
    by_queue = at.join(held, ["boot", "batch", "queue_id"])
    return by_queue.select(
        "boot", "batch", "queue", "line", F.lit("journal.synced").alias("event")
    ).distinct()


def _strange_deliveries(events: DataFrame) -> DataFrame:
    """Deliveries of what a queue did not have."""
    about = F.col("event").isin("message.delivered", *_HELD_BY)
    each = _with_state(events, about).select(
        *MESSAGE[:2],
        *("queue", "time", "line", "has_lost", "event"),
        F.explode(numbers("messages")).alias("place"),
    )
    of_place = Window.partitionBy("boot", "batch", "queue", "place").orderBy("line")
    held = _before(of_place, F.when(F.col("event").isin(*_HELD_BY), F.lit(True)))
    strange = each.withColumn("held", held).where(
        "event = 'message.delivered' AND held IS NULL AND NOT has_lost"
    )
    text = F.concat(
        F.lit("queue "),
        _quoted(),
        F.lit(" delivered message "),
        _message(),
        F.lit(" that it did not have"),
    )
    return _first_place(strange).select(*_fault(text))


def _first_place(messages: DataFrame) -> DataFrame:
    """One row for each event, with the first of its messages."""
    return messages.groupBy("line", "time", "boot", "batch", "queue").agg(
        F.min("place").alias("place")
    )


def _quoted() -> Column:
    # As Python writes it, but for characters that would have to be escaped.
    return F.concat(F.lit("'"), F.col("queue"), F.lit("'"))


def _message() -> Column:
    return F.concat_ws("-", *MESSAGE)


def _with_state(events: DataFrame, about: Column) -> DataFrame:
    """Those events, with what is known of the trace there.

    `is_whole`: every message is traced. `has_lost`: events were dropped before.
    """
    told = events.where(F.col("event").isin("trace.started", "trace.lost")).select(
        "line", "event", "one_of", "queues"
    )
    is_whole, has_lost = F.lit(False), F.lit(False)
    state = (False, False)
    for row in told.orderBy("line").collect():
        is_start = row["event"] == "trace.started"
        now = (is_start and row["one_of"] == 1 and not row["queues"], state[1] or not is_start)
        if now != state:
            state = now
            place = F.struct(
                *[F.lit(value).alias(name) for name, value in row["line"].asDict().items()]
            )
            behind = F.col("line") > place.cast(LINE)
            is_whole = F.when(behind, F.lit(now[0])).otherwise(is_whole)
            has_lost = F.when(behind, F.lit(now[1])).otherwise(has_lost)
    return events.where(about).withColumns({"is_whole": is_whole, "has_lost": has_lost})
