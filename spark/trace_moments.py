"""The moments of every traced message, as `logs/trace_figures.py` defines them.

Events carry ranges; here they become rows, one for each message of the range. Everything about a
message meets in one shuffle by its batch, and once more for its publish number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MESSAGE = ("boot", "batch", "place")
# Moments of a message, and of a message in a queue, by column.
BEFORE_QUEUES = {
    "received": "frame.received",
    "assembled": "command.assembled",
    "routed": "message.routed",
}
IN_QUEUES = {
    "enqueued": "message.enqueued",
    "persisted": "message.persisted",
    "confirm_queued": "confirm.queued",
    "delivered": "message.delivered",
    "settled": "message.settled",
}
APPENDED, SYNCED, SENT = "journal.appended", "journal.synced", "confirm.sent"
NAMES = {
    **{event: name for name, event in BEFORE_QUEUES.items()},
    **{event: name for name, event in IN_QUEUES.items()},
    APPENDED: "appended",
    SYNCED: "synced",
    SENT: "sent",
}


def numbers(spans: str) -> Column:
    """The numbers of a column of [first, last] pairs, in their order."""
    # `sequence` would count down where a damaged trace has the last before the first.
    pairs = F.filter(F.col(spans), lambda pair: pair[0] <= pair[1])
    return F.flatten(F.transform(pairs, lambda pair: F.sequence(pair[0], pair[1])))


def queue_names(events: DataFrame) -> DataFrame:
    """The name of each queue number of a boot."""
    named = events.where(F.col("event").isin("message.enqueued", "message.recovered"))
    return (
        named.where("queue_id IS NOT NULL")
        .groupBy("boot", "queue_id")
        .agg(F.first("queue").alias("queue"))
    )


def moments(events: DataFrame) -> DataFrame:
    """A row for each message in each queue, and one with `queue` null for what is of no queue.

    Columns: boot, batch, place, queue, and `t_ns` of each moment, null where it is not known. What
    a message has before its queues stands in all of its rows.
    """
    told = events.where(F.col("event").isin([*BEFORE_QUEUES.values(), *IN_QUEUES.values()])).select(
        "boot",
        "batch",
        F.explode(numbers("messages")).alias("place"),
        # `queue` is of no meaning before the queues.
        F.when(F.col("event").isin([*IN_QUEUES.values()]), F.col("queue")).alias("queue"),
        "event",
        "t_ns",
    )
    every = told.unionByName(_journalled(events)).unionByName(_sent(events))
    own = [
        F.min(F.when(F.col("event") == event, F.col("t_ns"))).alias(name)
        for event, name in NAMES.items()
    ]
    rows = every.repartition("boot", "batch").groupBy(*MESSAGE, "queue").agg(*own)
    # From the row without a queue into those of the queues.
    message = Window.partitionBy(*MESSAGE)
    shared = {name: F.max(name).over(message) for name in (*BEFORE_QUEUES, "sent")}
    return rows.withColumns(shared)


def steps(events: DataFrame) -> DataFrame:
    """The timeline of every message: its own events in order, and the wait before each.

    Columns: boot, batch, place, t_ns, wait_ns (null at the first), actor, event, queue, connection,
    channel, reason. What the journal and the channel's confirm say of whole groups is in `moments`.
    """
    told = events.where("messages IS NOT NULL").select(
        "boot",
        "batch",
        F.explode(numbers("messages")).alias("place"),
        "t_ns",
        *("actor", "event", "queue", "connection", "channel", "reason", "line"),
    )
    in_order = Window.partitionBy(*MESSAGE).orderBy("line")
    wait = F.col("t_ns") - F.lag("t_ns").over(in_order)
    return told.withColumn("wait_ns", wait)


def _journalled(events: DataFrame) -> DataFrame:
    """When the journal had each message of each queue, and when it was synced."""
    appended = (
        events.where(F.col("event") == APPENDED)
        .drop("queue")
        .join(F.broadcast(queue_names(events)), ["boot", "queue_id"], "left")
    )
    both = appended.select("boot", "batch", "queue", "messages", "event", "t_ns").unionByName(
        events.where(F.col("event") == SYNCED).select(
            "boot", F.explode("batches").alias("batch"), "messages", "event", "t_ns"
        ),
        allowMissingColumns=True,
    )
    # At the same moment counts: a range by value, not by row.
    from_here = (
        Window.partitionBy("boot", "batch")
        .orderBy("t_ns")
        .rangeBetween(0, Window.unboundedFollowing)
    )
    next_sync = F.min(F.when(F.col("event") == SYNCED, F.col("t_ns"))).over(from_here)
    placed = (
        both.withColumn("synced", next_sync)
        .where(F.col("event") == APPENDED)
        .withColumn("place", F.explode(numbers("messages")))
    )
    moment = F.explode(
        F.array(
            F.struct(F.lit(APPENDED).alias("event"), F.col("t_ns").alias("t_ns")),
            F.struct(F.lit(SYNCED).alias("event"), F.col("synced").alias("t_ns")),
        )
    )
    return placed.select("boot", "batch", "place", "queue", moment.alias("of")).select(
        *MESSAGE, "queue", "of.event", "of.t_ns"
    )


def _sent(events: DataFrame) -> DataFrame:
    """When the publisher of each message was sent its confirm."""
    numbered = events.where("event = 'command.assembled' AND seq_no IS NOT NULL").select(
        *("boot", "connection", "channel", "t_ns", "event", "batch"),
        F.explode(F.arrays_zip(numbers("messages").alias("p"), numbers("seq_no").alias("n"))).alias(
            "each"
        ),
    )
    confirmed = events.where(F.col("event") == SENT).select(
        *("boot", "connection", "channel", "t_ns", "event"),
        F.explode(numbers("seq_no")).alias("number"),
    )
    both = numbered.select(
        *("boot", "connection", "channel", "t_ns", "event", "batch"),
        F.col("each.p").alias("place"),
        F.col("each.n").alias("number"),
    ).unionByName(confirmed, allowMissingColumns=True)
    # Numbers begin again when a channel is opened again.
    in_order = Window.partitionBy("boot", "connection", "channel", "number").orderBy(
        "t_ns", "event"
    )
    following = F.lead(F.struct("event", "t_ns")).over(in_order)
    return (
        both.withColumn("next", following)
        .where("event = 'command.assembled' AND next.event = 'confirm.sent'")
        .select(
            *MESSAGE,
            F.lit(None).cast("string").alias("queue"),
            F.lit(SENT).alias("event"),
            F.col("next.t_ns").alias("t_ns"),
        )
    )
