"""The tables and the picture of a trace's figures, and the command that makes them."""

from __future__ import annotations

import errno
import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from leveret.commands.command_line import main
from leveret.commands.progress import Progress
from leveret.logs.report.figures import HOPS, Counts, Latency, QueueFigures, TraceFigures
from leveret.logs.report.picture import QUEUES_MAX, page, svg
from leveret.logs.report.tables import report
from traced import client_of, traced
from wire import PERSISTENT

TOOK = Latency(1_000, 1_000, 20_000, 1_500_000, 20_000_000, 999_000_000, 2_000_000_000)

COUNTS = Counts(1_000, 999, 7, 0)


def figures(*queues: str) -> TraceFigures:
    return TraceFigures(
        12_345,
        1,
        2.0,
        tuple(QueueFigures("/", queue, COUNTS, COUNTS, TOOK, Latency()) for queue in queues),
        tuple((hop, Latency() if hop.name == "settle" else TOOK) for hop in HOPS),
    )


def test_the_tables_say_rates_latencies_and_their_units() -> None:
    lines = report(figures("orders", "5")).splitlines()
    assert lines[0] == "12,345 events in 2.0 s, 2 queues, 1 line that is no event"
    rates = lines.index("Messages per second, by queue")
    assert lines[rates + 2].split() == ["orders", "500", "500", "3.5", "0", "1,000"]
    assert lines[rates + 3].startswith("5       ")
    waits = lines.index("Milliseconds, by queue")
    quantiles = ["0.020", "1.500", "20.000", "999.000", "2,000.000"]
    assert lines[waits + 2].split() == ["orders", "confirm", "1,000", *quantiles]
    assert lines[waits + 3].split() == ["deliver", "0", "-", "-", "-", "-", "-"]
    hops = lines.index("Milliseconds, by hop")
    assert [line.split()[0] for line in lines[hops + 2 :]] == [hop.name for hop in HOPS]
    assert lines[hops + 2].split()[3:] == ["500", "1,000", *quantiles]


def test_the_picture_is_one_whole_drawing_that_loads_nothing() -> None:
    drawn = svg(figures("<orders> & more", "invoices"))
    root = ElementTree.fromstring(drawn)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "How long each hop takes" in texts
    assert "time, logarithmic" in texts
    assert "20 µs / 20 ms" in texts
    assert "messages per second" in texts
    assert any(text.startswith("<orders> & more") for text in texts)
    # Four quantiles of each hop but one, and of each queue's confirms.
    circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 4 * (len(HOPS) - 1 + 2)
    for text in (drawn, page(figures("orders"))):
        rest = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not any(word in rest for word in ("http", "<script", "<link", "@import"))


def test_names_of_clients_reach_neither_the_terminal_nor_the_drawing_as_they_are() -> None:
    drawn = figures("a\x1b[2J\tb")
    [rates] = [line for line in report(drawn).splitlines() if line.endswith(" 1,000")]
    assert rates.startswith("a\\x1b[2J\\tb  ")
    # A control character would make it no XML at all.
    assert "a\\x1b[2J\\tb" in "".join(ElementTree.fromstring(svg(drawn)).itertext())


@pytest.mark.parametrize("names", [[], [f"queue-{n}" for n in range(QUEUES_MAX + 5)]])
def test_no_queue_and_too_many_make_a_picture_all_the_same(names: list[str]) -> None:
    drawn = svg(figures(*names))
    ElementTree.fromstring(drawn)
    assert (f"the {QUEUES_MAX} largest are shown" in drawn) == bool(names)


@pytest.mark.sockets
def test_the_command_reports_on_a_brokers_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("orders", durable=True)
        client.publish_all("orders", *[b"x"] * 20, properties=PERSISTENT)
        assert client.get("orders") is not None
    picture = tmp_path / "report.html"
    data_dir = ["--data-dir", str(tmp_path / "data")]
    assert main(["trace", "report", "--picture", str(picture), *data_dir]) == 0
    said = capsys.readouterr()
    (confirm,) = [line.split() for line in said.out.splitlines() if line.startswith("confirm ")]
    assert confirm[1:3] == ["frame.received", "confirm.sent"]
    assert confirm[4] == "20"
    # The progress is for terminals.
    assert said.err == ""
    assert "<svg" in picture.read_text()
    assert main(["trace", "report", str(tmp_path / "data" / "traces"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hops"]["sync"]["messages"] == 20
    assert told["queues"][0]["queue"] == "orders"
    assert told["queues"][0]["traced"]["delivered"] == 1


def test_what_cannot_be_reported_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace-1.jsonl").touch()
    missing = tmp_path / "missing"
    assert main(["trace", "report", str(missing)]) == 1
    assert main(["trace", "report", str(tmp_path), "--picture", "report.gif"]) == 1
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["trace", "report", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"leveret: there is no trace {missing}; `leveret trace on` begins one",
        "leveret: a picture is .html or .svg, not report.gif",
        "leveret: a report needs DuckDB, which is not installed: pip install 'leveret[trace]'",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_removed_again() -> None:
    for stream, said in ((Terminal(), "\rreading:  50%\r             \r"), (io.StringIO(), "")):
        with Progress("reading", stream, seconds_min=0) as progress:
            progress(0.5)
        assert stream.getvalue() == said


def test_progress_is_written_anew_by_the_clock_and_leaves_room_for_other_lines() -> None:
    stream, now = Terminal(), 100.0
    with Progress("reading", stream, seconds_min=2, clock=lambda: now) as progress:
        progress(0.1)
        now = 102
        progress(0.2)
        now = 103
        progress(0.3)
        assert stream.getvalue() == "\rreading:  20%"
        progress.clear()
        stream.write("a line\n")
    assert stream.getvalue() == "\rreading:  20%\r             \ra line\n"


class GoneTerminal(Terminal):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, text)


def test_progress_goes_on_without_a_terminal_that_is_gone() -> None:
    with Progress("reading", GoneTerminal(), seconds_min=0) as progress:
        progress(0.5)
        progress(0.6)
