"""`leveret spark trace-report`: the figures of `trace report`, and what it says if it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from damaged_traces import Line, damaged, traced_lines, write_lines
from leveret.commands.command_line import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return traced_lines(tmp_path_factory.mktemp("traced"))


@pytest.mark.spark
def test_tables_and_picture_are_those_of_trace_report(
    spark: SparkSession,
    lines: list[Line],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_lines(tmp_path / "trace-1.jsonl", lines, '{"t_ns": 12, "ti')
    # Boots in which hops and queues are missing, and lines that are no events.
    few = [line for seed in range(9) for line in damaged(lines, seed, 20, ["drop"])]
    (tmp_path / "trace-2.jsonl").write_text("no event\n{}\n")
    write_lines(tmp_path / "trace-3.jsonl", few)
    drawn, drawn_by_spark = tmp_path / "one.html", tmp_path / "other.html"
    for shape in (["--json"], []):
        assert main(["trace", "report", str(tmp_path), "--picture", str(drawn), *shape]) == 0
        expected = capsys.readouterr().out
        by_spark = ["spark", "trace-report", str(tmp_path), "--picture", str(drawn_by_spark)]
        assert main([*by_spark, *shape]) == 0
        assert capsys.readouterr().out == expected
    assert "2 lines that are no event" in expected
    assert drawn_by_spark.read_text() == drawn.read_text()


@pytest.mark.spark
def test_check_says_what_trace_check_says_and_parquet_holds_all_events(
    spark: SparkSession,
    lines: list[Line],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from leveret.spark import traces

    write_lines(
        tmp_path / "trace-1.jsonl", [*lines, *(each for each in lines if "singles" in each)]
    )
    assert main(["trace", "check", "--files", str(tmp_path)]) == 1
    *expected, _summary = capsys.readouterr().out.splitlines()
    parquet = tmp_path / "parquet"
    arguments = ["--check", "--parquet", str(parquet)]
    assert main(["spark", "trace-report", str(tmp_path), *arguments]) == 1
    *_tables, count = said = capsys.readouterr().out.splitlines()
    assert count == f"{len(expected)} faults"
    assert sorted(said[-1 - len(expected) : -1]) == sorted(expected)
    assert traces.read_parquet(spark, str(parquet)).count() == sum(
        1 for _ in (tmp_path / "trace-1.jsonl").open()
    )


def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["spark", "trace-report", "somewhere", "--picture", "a.gif"]) == 1
    assert capsys.readouterr().err == "leveret: a picture is .html or .svg, not a.gif\n"
    monkeypatch.setattr("leveret.spark.session.find_spec", lambda _name: None)
    assert main(["spark", "trace-report", "somewhere"]) == 1
    said = "leveret: Spark is not installed: pip install 'leveret[spark]'\n"
    assert capsys.readouterr().err == said


def test_without_java_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    told = subprocess.run(
        [sys.executable, "-m", "leveret", "spark", "trace-report", "somewhere"],
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("leveret: Spark needs Java 17 or later, and there is none")
    assert told.stderr.count("\n") == 1


@pytest.mark.spark
def test_a_path_with_nothing_is_said_in_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark", "trace-report", str(tmp_path / "nothing")]) == 1
    said = f"leveret: there is no trace {tmp_path / 'nothing'}; `leveret trace on` begins one\n"
    assert capsys.readouterr().err == said
