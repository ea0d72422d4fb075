"""What the driver says of a batch, without Spark running."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.message_ids import Place
from leveret.spark.options import write_options
from leveret.spark.reports import Latencies, ReturnedSample, Tally
from leveret.spark.sink import AmqpBatchWriter, AmqpStreamWriter, PartitionReport, ReturnedError

BASE = {"exchange": "e", "routingKey": "k", "password": "geheim"}
SAMPLE = ReturnedSample(7, "id", "e", "k", 312, "NO_ROUTE")


def report(partition: int, returned: int = 0, attempt: int = 0) -> PartitionReport:
    tally = Tally(rows=100, confirmed=100 - returned, returned=returned)
    tally.samples += [SAMPLE] * min(returned, 20)
    tally.latencies.add(0.01, 100)
    made = PartitionReport(Place("query", 3, partition), attempt, tally, 1.5)
    copied: PartitionReport = pickle.loads(pickle.dumps(made))
    return copied


def batch(**options: str) -> AmqpBatchWriter:
    return AmqpBatchWriter(write_options(BASE | options))


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    printed = capsys.readouterr()
    # What Spark reads from the process is its standard output.
    assert printed.out == ""
    line: dict[str, Any] = json.loads(printed.err)
    return line


def test_a_batch_is_one_line_with_the_sum_of_its_partitions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch().commit([report(0), report(1, attempt=1)])
    line = said(capsys)
    assert (line["event"], line["level"], line["query"]) == ("spark.sink.batch", "info", "query")
    assert (line["rows"], line["confirmed"], line["returned"]) == (200, 200, 0)
    assert (line["partitions"], line["tries"], line["slowest_s"]) == (2, 3, 1.5)
    assert line["confirm_p50_ms"] == line["confirm_p99_ms"] == pytest.approx(10, rel=0.05)


def test_a_stream_says_its_batch_each_time_it_is_committed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    writer = AmqpStreamWriter(write_options(BASE))
    writer.commit([report(0)], 3)
    first = said(capsys)
    writer.commit([report(0)], 3)
    assert (first["query"], first["batch"]) == ("query", 3)
    assert said(capsys) | {"time": None} == first | {"time": None}


@pytest.mark.parametrize(
    ("on_returned", "level", "has_samples"),
    [("fail", "warning", True), ("count", "warning", True), ("ignore", "info", False)],
)
def test_returned_rows_are_counted_and_named_as_asked(
    capsys: pytest.CaptureFixture[str], on_returned: str, level: str, has_samples: bool
) -> None:
    writer = batch(onReturned=on_returned, maxReturnedSamples="2")
    reports = [report(0, returned=30), report(1, returned=1)]
    if on_returned == "fail":
        with pytest.raises(ReturnedError, match=r"31 of 200 rows were returned .* 169 are") as it:
            writer.commit(reports)
        assert str(it.value).count("row 7, message id id: 312 NO_ROUTE, exchange 'e'") == 2
    else:
        writer.commit(reports)
    line = said(capsys)
    assert (line["returned"], line["level"]) == (31, level)
    assert ("samples" in line) == has_samples
    if has_samples:
        assert line["samples"] == [SAMPLE._asdict()] * 2


def test_of_a_batch_that_failed_the_known_partitions_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch().abort([report(0), None])
    line = said(capsys)
    assert (line["event"], line["level"]) == ("spark.sink.aborted", "warning")
    assert (line["rows"], line["partitions"], line["partitions_missing"]) == (100, 1, 1)
    batch().abort([None, None])
    assert said(capsys)["query"] is None


def test_what_is_sent_to_the_tasks_shows_no_password() -> None:
    writer = batch()
    copied = pickle.loads(pickle.dumps(writer))
    assert copied._job == writer._job != batch()._job
    assert copied._options.brokers.password.reveal() == "geheim"
    assert "geheim" not in f"{vars(copied)}"


def test_percentiles_are_within_a_twentieth() -> None:
    latencies = Latencies()
    for milliseconds in range(1, 101):
        latencies.add(milliseconds / 1000, 1)
    other = Latencies()
    other.add(10.0, 1)
    latencies.merge(other)
    assert latencies.percentile_ms(50) == pytest.approx(50, rel=0.06)
    assert latencies.percentile_ms(99) == pytest.approx(100, rel=0.06)
    assert latencies.percentile_ms(100) == pytest.approx(10_000, rel=0.06)
    assert Latencies().percentile_ms(99) == 0.0
