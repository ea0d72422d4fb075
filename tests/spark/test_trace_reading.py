"""Trace files on Spark: every event, in its place, whatever became of the files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from damaged_traces import Line, traced_lines, write_lines
from leveret.logs.reading.reader import TraceFilesError
from leveret.logs.trace.kinds import KINDS

pytest.importorskip("pyspark")
import itertools

from leveret.spark import traces

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return traced_lines(tmp_path_factory.mktemp("traced"))


def as_line(row: Row) -> Line:
    """The written events: a field that an event lacks is null in its row."""
    return {name: row[name] for name in KINDS if row[name] is not None}


def test_all_events_are_read_as_they_were_written_from_plain_and_compressed_files(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    first, last = tmp_path / "trace-1.jsonl", tmp_path / "trace-2.jsonl"
    write_lines(first, lines[:40])
    write_lines(last, lines[40:], '{"t_ns": 17, "time": "2026-1')
    (tmp_path / "trace-1.jsonl.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    read = traces.read_lines(spark, [str(tmp_path)]).persist()
    in_order = traces.events_of(read).orderBy("line").collect()
    assert [as_line(row) for row in in_order] == lines
    # Its last line is torn: it is no event, and no error.
    assert [row["_corrupt_record"] for row in read.where("event IS NULL").collect()] == [
        '{"t_ns": 17, "time": "2026-1'
    ]
    read.unpersist()


def test_a_folder_without_traces_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceFilesError, match="no trace files in"):
        traces.read_lines(spark, [str(tmp_path)])


def test_parquet_gives_the_events_back_in_order_and_holds_each_event_in_a_folder(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    write_lines(tmp_path / "trace-1.jsonl", lines)
    traces.write_parquet(traces.read_events(spark, [str(tmp_path)]), str(tmp_path / "parquet"))
    again = traces.read_parquet(spark, str(tmp_path / "parquet"))
    assert [as_line(row) for row in again.orderBy("line").collect()] == lines
    date = lines[0]["time"][:10]
    folders = {f"{path.parent.name}/{path.name}" for path in (tmp_path / "parquet").glob("*/*")}
    assert folders == {f"date={date}/event={line['event']}" for line in lines}
    # The same questions may be asked of it.
    assert traces.faults(again).count() == 0


def test_the_steps_of_a_message_are_its_events_with_the_waits_between(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    write_lines(tmp_path / "trace-1.jsonl", lines)
    steps = traces.steps(traces.read_events(spark, [str(tmp_path)]))
    rows = steps.where("batch = 2 AND place = 3").orderBy("line").collect()
    own = [
        line
        for line in lines
        if line.get("batch") == 2
        and any(first <= 3 <= last for first, last in line.get("messages", ()))
    ]
    assert [row["event"] for row in rows] == [line["event"] for line in own]
    waits = [None, *(b["t_ns"] - a["t_ns"] for a, b in itertools.pairwise(own))]
    assert [row["wait_ns"] for row in rows] == waits


def test_the_moments_of_a_message_are_those_of_its_events(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    write_lines(tmp_path / "trace-1.jsonl", lines)
    rows = traces.moments(traces.read_events(spark, [str(tmp_path)]))
    (row,) = rows.where("queue = 'orders' AND batch = 1").collect()
    at = {line["event"]: line["t_ns"] for line in reversed(lines) if line.get("batch") == 1}
    assert row["received"] == at["frame.received"]
    assert row["enqueued"] == at["message.enqueued"]
    assert row["appended"] == at["journal.appended"]
    assert row["persisted"] == at["message.persisted"]
    assert row["settled"] == at["message.settled"]
    (synced,) = (line["t_ns"] for line in lines if line.get("batches") == [1])
    sent = next(line["t_ns"] for line in lines if line["event"] == "confirm.sent")
    assert (row["synced"], row["sent"]) == (synced, sent)
