"""Runs the rules of `leveret trace check`, and no others, on Spark.

`logs/reading/check.py` has the rules of channels and of batches, each of which needs its own events
only. So each line goes to the tasks that look after its channel and its batches, where the same
classes are fed in the order in which the lines were written:

    lines -> routed: a row for each channel and batch that a line is about
          -> channels: faults, and the messages that channels have confirmed
          -> batches, beside these messages: faults

What a trace says of itself is little, and goes to all tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from ...logs.reading.batch_rules import BATCH_EVENTS, batches_of
from ...logs.reading.channel_rules import CHANNEL_EVENTS, Confirmed, OnFault
from ...logs.reading.check import BatchChecks, ChannelChecks, sentence, unjudged_note
from ...logs.reading.coverage import Coverage
from ...logs.reading.views import View, Views
from ...logs.trace.kinds import KINDS
from ...logs.trace.parsing import Line, defect, parsed_line
from .reading import Place, status_lines

if TYPE_CHECKING:
    from pandas import DataFrame as Frame
    from pyspark.sql import DataFrame

    Frames = Iterator[Frame]


# What a row is: an event for a channel or a batch, a fact for a batch, something to be told.
_CHANNEL, _BATCH, _CONFIRMED = "channel", "batch", "confirmed"
_FAULT, _TALLY = "fault", "tally"
_PLACE = ("file", "block", "row")
_COLUMNS = ("kind", *_PLACE, "boot", "of", "batch", "text")
_SCHEMA = (
    "kind string, file string, block long, row long, boot string, of string, batch long, "
    "text string"
)
Row = tuple[str, str, int, int, str, str, int, str]
# Rules that a task begins with: what feeds them a row and gives rows for others, and what they
# could not judge.
Feed = Callable[[Any, View], list[Row]]
Tally = Callable[[], tuple[str, int]]
Begin = Callable[[OnFault], tuple[Feed, Tally]]
# Behind all lines.
_END: tuple[Place, Line] = (("\U0010ffff", 0, 0), {})


class Judged(NamedTuple):
    """The result of all rules over a trace."""

    # line, time, boot, fault: a row for each.
    faults: DataFrame
    coverage: Coverage
    # What tasks could not judge: how many answers and steps of queues.
    tallies: DataFrame

    def notes(self) -> list[str]:
        """Report what could not be judged, and why, in the words of `leveret trace check`."""
        found = self.tallies.groupBy("of").agg(F.sum("batch").alias("count")).collect()
        counts = {row["of"]: row["count"] for row in found}
        missing = unjudged_note(counts.get(_CHANNEL, 0), counts.get(_BATCH, 0))
        return [*self.coverage.notes(), *filter(None, [missing])]


def faults(events: DataFrame) -> DataFrame:
    """A row for each fault: line, time, boot, fault. Sorted by `line` they are in order."""
    return judge(events).faults


def judge(events: DataFrame) -> Judged:
    """Have all rules see the events; reads what the trace says of itself at once."""
    fields = F.to_json(F.struct(*[name for name in KINDS if name in events.columns]))
    lines = events.select(*(f"line.{name}" for name in _PLACE), fields.alias("text"))
    # Kept until nobody refers to it: three questions are asked of it.
    routed = lines.mapInPandas(_route, _SCHEMA).localCheckpoint(eager=False)
    told = status_lines(events)
    of_channels = (
        routed.where(F.col("kind") == _CHANNEL)
        .repartition("boot", "of")
        .sortWithinPartitions(*_PLACE)
        .mapInPandas(_judged(told, _channels), _SCHEMA)
        .localCheckpoint(eager=False)
    )
    of_batches = (
        routed.where(F.col("kind") == _BATCH)
        .unionByName(of_channels.where(F.col("kind") == _CONFIRMED))
        .repartition("boot", "batch")
        .sortWithinPartitions(*_PLACE)
        .mapInPandas(_judged(told, _batches), _SCHEMA)
    )
    found = routed.unionByName(of_channels).unionByName(of_batches)
    line = F.struct(*_PLACE).alias("line")
    wrong = found.where(F.col("kind") == _FAULT)
    coverage = Coverage()
    for _place, each in told:
        coverage.feed(each)
    return Judged(
        wrong.select(line, F.col("of").alias("time"), "boot", F.col("text").alias("fault")),
        coverage.finish(),
        of_channels.unionByName(of_batches).where(F.col("kind") == _TALLY),
    )


def _frame(rows: list[Row]) -> Frame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _route(frames: Frames) -> Frames:
    """Send each line where it is needed; what lacks a field is a fault, and goes no further."""
    for frame in frames:
        rows: list[Row] = []
        for file, block, row, text in frame.itertuples(index=False):
            line = parsed_line(text)
            if line is None:
                continue
            event, boot, place = line["event"], line["boot"], (file, block, row)
            wrong = defect(line)
            if wrong:
                about = str(line.get("time", ""))
                rows.append((_FAULT, *place, boot, about, 0, f"{file}: {wrong}"))
                continue
            if event in CHANNEL_EVENTS:
                channel = f"{line['connection']} {line['channel']}"
                rows.append((_CHANNEL, *place, boot, channel, 0, text))
            if event in BATCH_EVENTS:
                rows += [(_BATCH, *place, boot, "", each, text) for each in batches_of(line)]
        yield _frame(rows)


def _judged(told: list[tuple[Place, Line]], begin: Begin) -> Callable[[Frames], Frames]:
    """The work of one task: it feeds its rows in order to the rules."""

    def run(frames: Frames) -> Frames:
        views, waiting = Views(), iter([*told, _END])
        rows: list[Row] = []
        place: Place = ("", 0, 0)

        def on_fault(line: Line, text: str) -> None:
            said = sentence(line, text)
            rows.append((_FAULT, *place, line["boot"], line["time"], 0, said))

        feed, tally = begin(on_fault)
        next_place, says = next(waiting)
        for frame in frames:
            for row in frame.itertuples(index=False):
                place = row.file, row.block, row.row
                while next_place <= place:
                    if says["event"].startswith("trace.") or views.is_new(says["boot"]):
                        views.feed(says)
                    next_place, says = next(waiting)
                rows += feed(row, views.of(row.boot))
            yield _frame(rows)
            rows.clear()
        kind, count = tally()
        yield _frame([(_TALLY, "", 0, 0, "", kind, count, "")])

    return run


def _channels(on_fault: OnFault) -> tuple[Feed, Tally]:
    checks = ChannelChecks(on_fault)

    def feed(row: Any, view: View) -> list[Row]:
        line = json.loads(row.text)
        place = row.file, row.block, row.row
        return [
            (_CONFIRMED, *place, row.boot, "", said.batch, json.dumps([line, said]))
            for said in checks.feed(line, view)
        ]

    return feed, lambda: (_CHANNEL, checks.unjudged)


def _batches(on_fault: OnFault) -> tuple[Feed, Tally]:
    checks = BatchChecks(on_fault)

    def feed(row: Any, view: View) -> list[Row]:
        if row.kind == _CONFIRMED:
            line, said = json.loads(row.text)
            checks.confirmed(line, Confirmed(*said), view)
        else:
            checks.feed_batch(row.batch, json.loads(row.text), view)
        return []

    return feed, lambda: (_BATCH, checks.unjudged)
