"""The examples of docs/examples, run as they stand, against a broker of the test's."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import leveret
import pika
import pytest
from traced import traced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def held(broker: leveret.Broker, queue: str) -> list[bytes]:
    """The bodies that the queue held."""
    bodies = []
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.append(got[2])
    return bodies


def publish(broker: leveret.Broker, queue: str, body: bytes) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, body)


def test_the_examples_do_what_they_say(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One after the other, on one broker that traces what they do."""

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    with traced(tmp_path) as broker:
        monkeypatch.setenv("LEVERET_PORT", str(broker.port))
        said = run("spark_batch_write.py")
        assert said == "all rows are confirmed; the queue holds 10000 messages\n"
        publish(broker, "readings", b"\xffno text")
        directory = tmp_path / "parquet"
        said = run("spark_drain_to_parquet.py", "readings", directory, tmp_path / "drained")
        assert said == f"10001 messages are in {directory}\n"
        bodies = spark.read.parquet(str(directory)).select("body")
        assert bodies.where("body = X'ff' || CAST('no text' AS BINARY)").count() == 1
        assert held(broker, "readings") == []
        inbox = tmp_path / "inbox"
        inbox.mkdir()
        for number in (1, 2):
            (inbox / f"{number}.txt").write_text(f"first of {number}\nsecond of {number}\n")
            said = run("spark_stream_files.py", inbox, tmp_path / "published")
            assert said == "all lines of all files are confirmed\n"
        expected = [
            f"{line} of {number}".encode() for number in (1, 2) for line in ("first", "second")
        ]
        assert sorted(held(broker, "lines")) == sorted(expected)
    said = run("spark_trace_report.py", tmp_path / "data" / "traces")
    assert "\nreadings" in said
    assert "journal.appended" in said
    assert said.endswith("\n0 broken promises\n")


@pytest.mark.parametrize(
    "name", ["spark_drain_to_parquet.py", "spark_stream_files.py", "spark_trace_report.py"]
)
def test_an_example_without_its_arguments_says_which_there_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match=rf"docs/examples/{name} [A-Zl]"):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
