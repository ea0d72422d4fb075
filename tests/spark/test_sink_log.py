"""The driver's log of a batch, without Spark running."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.options import write_options
from leveret.spark.sink.message_ids import Place
from leveret.spark.sink.reports import InvalidSample, Latencies, ReturnedSample, Tally
from leveret.spark.sink.sink import AmqpBatchWriter, AmqpStreamWriter, PartitionReport, WriteError

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
        with pytest.raises(WriteError, match=r"31 of 200 rows were returned .* 169 are") as it:
            writer.commit(reports)
        assert str(it.value).count("row 7, message id id: 312 NO_ROUTE, exchange 'e'") == 2
    else:
        writer.commit(reports)
    line = said(capsys)
    assert (line["returned"], line["level"]) == (31, level)
    assert ("samples" in line) == has_samples
    if has_samples:
        assert line["samples"] == [SAMPLE._asdict()] * 2


def test_the_log_of_a_failed_batch_counts_its_known_partitions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch().abort([report(0), None])
    line = said(capsys)
    assert (line["event"], line["level"]) == ("spark.sink.aborted", "warning")
    assert (line["rows"], line["partitions"], line["partitions_missing"]) == (100, 1, 1)
    batch().abort([None, None])
    line = said(capsys)
    # What is not known is not said to be nothing.
    assert (line["query"], line["rows"], line["confirmed"]) == (None, None, None)
    assert line["partitions_missing"] == 2


def test_a_partition_that_failed_for_good_fails_the_job_in_one_sentence_with_what_is_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = report(1)
    failed.failure = "row 7 of partition 1: priority is not from 0 to 255 (onInvalid=fail)"
    failed.tally = Tally(rows=30, confirmed=20)
    others = [report(0), failed, failed]
    for writer, arguments in ((batch(), ()), (AmqpStreamWriter(write_options(BASE)), (3,))):
        with pytest.raises(WriteError) as raised:
            writer.commit(others, *arguments)
        assert str(raised.value) == (
            "row 7 of partition 1: priority is not from 0 to 255 (onInvalid=fail); "
            "140 of the job's rows are confirmed and stay; partitions that failed: 2"
        )
        line = said(capsys)
        assert (line["event"], line["level"]) == ("spark.sink.batch", "warning")
        assert (line["confirmed"], line["partitions_failed"]) == (140, 2)
        # Spark aborts what could not be committed, with the reports of all.
        writer.abort(others, *arguments)
        line = said(capsys)
        assert (line["rows"], line["confirmed"], line["partitions_failed"]) == (160, 140, 2)


@pytest.mark.parametrize(("on_invalid", "level"), [("count", "warning"), ("ignore", "info")])
def test_invalid_rows_are_counted_and_named_as_asked(
    capsys: pytest.CaptureFixture[str], on_invalid: str, level: str
) -> None:
    some = report(0)
    some.tally.invalid = 3
    if on_invalid == "count":
        some.tally.invalid_samples = [InvalidSample(0, 5, "body", "is null")] * 3
    batch(onInvalid=on_invalid, maxReturnedSamples="2").commit([some])
    line = said(capsys)
    assert (line["invalid"], line["level"]) == (3, level)
    sample = {"partition": 0, "row": 5, "column": "body", "what": "is null"}
    assert line.get("invalid_samples", []) == ([sample] * 2 if on_invalid == "count" else [])


def test_objects_sent_to_tasks_show_no_password() -> None:
    writer = batch()
    copied = pickle.loads(pickle.dumps(writer))
    assert copied.job == writer.job != batch().job
    assert copied.options.brokers.password.reveal() == "geheim"
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
