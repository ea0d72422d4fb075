"""Readers of a trace that is a sample, has lost events or is cut: each says so, none guesses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leveret.commands.command_line import main
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.find import find_by_id
from leveret.logs.reading.tail import TraceTail
from leveret.logs.reading.verdict import verdict
from traced import client_of, explained, trace_of, traced, wait_for_events
from wire import PERSISTENT

Line = dict[str, Any]
PUBLISHES = 3
AGAIN = {
    "t_ns": 1,
    "time": "2026-01-02T03:04:05.678901+00:00",
    "boot": "later",
    "event": "trace.started",
    "actor": "trace",
    "reason": "configured",
    "one_of": 1,
}


@pytest.fixture
def sound(tmp_path: Path) -> list[Line]:
    """The trace of a broker: publishes to a durable queue, and deliveries."""
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        for _ in range(PUBLISHES):
            client.publish_all("queue", b"x", properties=PERSISTENT)
        assert client.get("queue") is not None
    return trace_of(tmp_path)


def written(directory: Path, lines: list[Line]) -> Path:
    path = directory / "trace-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def message_ids(lines: list[Line]) -> Iterator[tuple[int, str]]:
    for line in lines:
        if line["event"] == "command.assembled":
            yield line["seq_no"][0][0], f"{line['boot']}-{line['batch']}-0"


def test_an_explanation_from_a_cut_trace_never_advises_to_publish_again(
    sound: list[Line], tmp_path: Path
) -> None:
    for end in range(2, len(sound) - 1):
        # As an earlier version left it, which has no ring, before its next start.
        lines = sound[:end]
        path = written(tmp_path, [*lines, AGAIN])
        answered = {
            number
            for line in lines
            if line["event"] == "confirm.sent"
            for number in range(line["seq_no"][0][0], line["seq_no"][-1][1] + 1)
        }
        given_up = [line for line in lines if line["event"] == "channel.closed"]
        for number, message_id in message_ids(lines):
            said = verdict(find_by_id([path], message_id))
            assert "publish it again" not in said
            is_routed = any(line["event"] == "message.routed" for line in lines)
            if number in answered:
                assert said.startswith("Confirmed because")
            elif is_routed and not given_up and "Only a part" not in said:
                assert said.startswith("The trace is cut here: whether it was answered is unknown.")


def test_where_any_event_was_lost_there_is_no_fault_and_nobody_is_said_to_wait(
    sound: list[Line], tmp_path: Path
) -> None:
    for at in range(1, len(sound) - 1):
        lost = {**sound[at], "event": "trace.lost", "actor": "trace", "dropped": 1}
        lines = [*sound[:at], lost, *sound[at + 1 :]]
        check = TraceCheck()
        check.feed(lines)
        assert check.faults == [], sound[at]["event"]
        assert any("1 event was lost" in note for note in check.notes())
        path = written(tmp_path, lines)
        for _number, message_id in message_ids(lines):
            said = verdict(find_by_id([path], message_id))
            assert not said.startswith("Still waiting"), sound[at]["event"]
            assert "publish it again" not in said


def test_check_and_report_say_where_a_trace_is_cut_and_what_was_not_judged(
    sound: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    cut = next(at for at, line in enumerate(sound) if line["event"] == "confirm.queued")
    path = written(tmp_path, [*sound[3:cut], AGAIN])
    boot, at = sound[0]["boot"], sound[cut - 1]["time"][11:26]
    assert main(["trace", "check", "--files", str(path)]) == 0
    said = capsys.readouterr().out
    assert (
        f"boot {boot}: the trace is cut here, at {at}: the broker was killed, and events of its "
        "last moments may be missing"
    ) in said
    assert f"boot {boot}: which messages are traced is not known" in said
    assert f"boot {boot}: the trace begins at" in said
    assert "1 open at the end, 0 faults" in said
    assert main(["trace", "report", str(path)]) == 0
    reported = capsys.readouterr().out
    assert "the trace is cut here" in reported
    assert "which messages are traced is not known" in reported


def test_a_sample_is_called_one_and_a_message_that_is_not_in_it_is_not_said_never_to_have_been(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    chosen = {"trace_one_of": 1000, "trace_queues": ("queue",)}
    with traced(tmp_path, **chosen) as broker, client_of(broker) as client:
        client.declare("queue")
        client.publish_all("queue", b"x")
    note = "one of 1000 messages is traced, only what is published to queue 'queue'"
    data_dir = ["--data-dir", str(tmp_path / "data")]
    assert main(["trace", "explain", "0-1-0", *data_dir]) == 1
    assert note in capsys.readouterr().err
    place = ["--connection", "127.0.0.1:1", "--seq-no", "1"]
    assert main(["trace", "explain", *place, *data_dir]) == 1
    assert note in capsys.readouterr().err
    assert main(["trace", "check", *data_dir]) == 0
    assert note in capsys.readouterr().out
    assert main(["trace", "report", *data_dir]) == 0
    reported = capsys.readouterr().out
    assert note in reported


def test_rates_of_a_sample_are_those_of_all_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    reads, messages, one_of = 60, 20, 3
    with traced(tmp_path, trace_one_of=one_of) as broker, client_of(broker) as client:
        client.declare("queue")
        for _ in range(reads):
            client.publish_all("queue", *[b"x"] * messages)
    assert main(["trace", "report", "--json", "--data-dir", str(tmp_path / "data")]) == 0
    figures = json.loads(capsys.readouterr().out)
    [queue] = figures["queues"]
    assert figures["is_sample"] is True
    assert queue["estimated"]["enqueued"] == queue["traced"]["enqueued"] * one_of
    assert queue["estimated"]["enqueued"] == pytest.approx(reads * messages, rel=0.25)
    assert main(["trace", "report", "--data-dir", str(tmp_path / "data")]) == 0
    said = capsys.readouterr().out
    assert "Messages per second, by queue, estimated from those that are traced" in said


def test_a_trace_that_was_switched_off_is_not_said_to_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sound: list[Line]
) -> None:
    routed = next(at for at, line in enumerate(sound) if line["event"] == "message.routed")
    path = written(tmp_path, [*sound[: routed + 1], sound[-1]])
    [(_number, message_id)] = message_ids(sound[: routed + 1])
    assert verdict(find_by_id([path], message_id)).startswith(
        "It was not answered when the trace was switched off: whether it was later is unknown."
    )
    # And where nothing says how it ended.
    path = written(tmp_path, sound[: routed + 1])
    found = find_by_id([path], message_id)
    assert verdict(found).startswith("It was not answered where the trace ends")
    assert main(["trace", "explain", message_id, "--files", str(path)]) == 0
    assert "without having been stopped" in capsys.readouterr().out


def test_gaps_stand_in_the_timeline_where_they_are(
    tmp_path: Path, sound: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    at = next(at for at, line in enumerate(sound) if line["event"] == "journal.appended")
    stamp = {name: sound[at][name] for name in ("t_ns", "time", "boot")} | {"actor": "trace"}
    lost = {**stamp, "event": "trace.lost", "dropped": 7}
    cut = {**stamp, "event": "trace.cut", "salvaged": 0, "damaged_bytes": 0}
    traces = tmp_path / "data" / "traces"
    for path in traces.iterdir():
        path.unlink()
    written(traces, [*sound[:at], lost, cut, AGAIN])
    [(_number, message_id), *_] = message_ids(sound)
    said = explained(tmp_path, capsys, message_id)
    assert f"  --- boot {sound[0]['boot']}: 7 events were lost" in "\n".join(said)
    assert said[-3:-1] == ["  --- 7 events are missing here", "  --- the trace is cut here"]
    assert said[-1].startswith(
        "The trace lacks 7 events behind its routing: whether it was answered is unknown."
    )


def test_a_line_that_lacks_a_field_and_an_absurd_range_are_told_of_by_every_reader(
    tmp_path: Path, sound: list[Line], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [dict(line) for line in sound]
    for line in lines:
        if line["event"] == "confirm.queued":
            del line["messages"]
        if line["event"] == "message.persisted":
            line["messages"] = [[5, 2]]
    delivered = next(line for line in lines if line["event"] == "message.delivered")
    delivered["messages"] = [[0, 10**15]]
    path = written(tmp_path, lines)
    assert main(["trace", "check", "--files", str(path)]) == 1
    said = capsys.readouterr().out
    assert said.count("confirm.queued lacks 'messages'") == PUBLISHES
    assert said.count("message.persisted has a 'messages' that cannot be") == PUBLISHES
    assert f"and {10**15 - 1} others of its batch that it did not have" in said
    for _number, message_id in message_ids(lines):
        assert main(["trace", "explain", message_id, "--files", str(path)]) == 0
    capsys.readouterr()
    if pytest.importorskip("duckdb"):
        assert main(["trace", "report", str(path)]) == 0


def test_what_was_done_while_the_trace_was_off_is_said_to_be_unknown_by_every_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    data_dir = ["--data-dir", str(tmp_path / "data")]
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
        assert main(["trace", "off", *data_dir]) == 0
        got = client.get("queue", no_ack=True)
        assert got is not None
        wait_for_events(TraceTail(tmp_path / "data" / "traces", from_begin=True), "trace.stopped")
        lines = trace_of(tmp_path)
        [(_number, message_id)] = message_ids(lines)
        off_at = lines[-1]["time"][11:19]
        said = explained(tmp_path, capsys, message_id)
        switched = f"the trace was switched off at {off_at}: what came after is not in it"
        assert f"  --- boot {lines[0]['boot']}: {switched}" in said
        assert said[-2] == "  --- the trace was switched off here"
        assert said[-1].endswith(
            f"In queue 'queue' it was ready when the trace was switched off at {off_at}; what "
            "happened since is not in the trace."
        )
        for reader in ("check", "report"):
            assert main(["trace", reader, *data_dir]) == 0
            assert switched in capsys.readouterr().out
        assert main(["trace", "on", *data_dir]) == 0
    # The trace ends with its broker now, and the gap is where it was.
    lines = trace_of(tmp_path)
    on_at = next(line for line in lines[1:] if line["event"] == "trace.started")["time"][11:19]
    said = explained(tmp_path, capsys, message_id)
    assert said[-3:-1] == [
        "  --- the trace was switched off here",
        "  --- the trace was switched on again here",
    ]
    assert said[-1].endswith(
        f"when the trace was switched off at {off_at}; what happened from then to {on_at} is not "
        "in the trace."
    )
    off = f"the trace was off from {off_at} to {on_at}: what happened between is not in it"
    assert f"  --- boot {lines[0]['boot']}: {off}" in said
    for reader in ("check", "report"):
        assert main(["trace", reader, *data_dir]) == 0
        assert off in capsys.readouterr().out


def test_what_a_run_without_a_trace_did_is_not_denied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
    with traced(tmp_path, trace_one_of=0) as broker, client_of(broker) as client:
        assert client.get("queue", no_ack=True) is not None
    [(_number, message_id)] = message_ids(trace_of(tmp_path))
    assert explained(tmp_path, capsys, message_id)[-1].endswith(
        "In queue 'queue' it was ready when its broker stopped; what happened since is not in the "
        "trace."
    )
