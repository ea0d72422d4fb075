"""Faults of queues and of the disk: a confirm before its sync, a delivery of what was not there."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from ..logs.trace_check import NO_ACK
from .trace_fault_rows import before, fault, with_state, without_doubtful
from .trace_moments import MESSAGE, numbers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HELD_BY = ("message.enqueued", "message.recovered")


def early_confirms(events: DataFrame) -> DataFrame:
    """Confirms by a queue before the sync that it had to wait for."""
    queues = ("boot", "batch", "queue")
    waits = events.where(F.col("event").isin(*_HELD_BY)).select(
        *queues, "line", "event", F.explode(numbers("waits_for_sync")).alias("place")
    )
    stated = with_state(events, F.col("event") == "confirm.queued").where("NOT has_lost")
    told = without_doubtful(events, stated)
    confirms = told.select(
        *queues, "line", "event", "time", F.explode(numbers("messages")).alias("place")
    )
    every = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [confirms, waits, _synced(events)],
    )
    in_queue = Window.partitionBy(*queues).orderBy("line")
    synced = before(in_queue, F.when(F.col("event") == "journal.synced", F.col("line")))
    placed = every.withColumn("synced", synced).where("place IS NOT NULL")
    of_place = Window.partitionBy(*queues, "place").orderBy("line")
    waited = before(of_place, F.when(F.col("event").isin(*_HELD_BY), F.col("line")))
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
    return _first_place(early).select(*fault(text))


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


def strange_deliveries(events: DataFrame) -> DataFrame:
    """Deliveries of what a queue did not have, or had no more."""
    about = F.col("event").isin("message.delivered", "message.settled", *_HELD_BY)
    each = with_state(events, about).select(
        *("boot", "batch", "queue", "time", "line", "has_lost", "is_cut", "stops", "event"),
        F.explode(numbers("messages")).alias("place"),
        (F.col("reason") == NO_ACK).alias("is_no_ack"),
    )
    of_place = Window.partitionBy("boot", "batch", "queue", "place").orderBy("line")
    is_delivery = F.col("event") == "message.delivered"
    is_settling = F.col("event") == "message.settled"
    # Without acks it is settled before its delivery is written, and gone with that.
    settles = F.when(is_settling & F.col("is_no_ack"), True).when(is_delivery, False)
    going = F.coalesce(before(of_place, settles), F.lit(False))
    holds = (
        F.when(F.col("event").isin(*_HELD_BY), True)
        .when(is_settling & ~F.col("is_no_ack"), False)
        .when(is_delivery & F.col("going"), False)
    )
    held = F.coalesce(before(of_place, holds), F.lit(False))
    strange = (
        each.withColumn("going", going)
        .withColumn("held", held)
        .where(is_delivery & ~F.col("held") & ~F.col("has_lost"))
    )
    text = F.concat(
        F.lit("queue "),
        _quoted(),
        F.lit(" delivered message "),
        _message(),
        F.lit(" that it did not have"),
    )
    return _first_place(without_doubtful(events, strange)).select(*fault(text))


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
