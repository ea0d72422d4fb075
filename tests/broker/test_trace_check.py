"""`leveret trace check` on the traces of live brokers, sound and damaged by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leveret.amqp_frames.methods import BasicReturn
from leveret.commands.command_line import main
from traced import client_of, trace_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish

Line = dict[str, Any]


def work(client: Client) -> None:
    client.declare("durable", durable=True)
    client.declare("transient")
    for _ in range(3):
        client.send(
            publish("durable", b"1", PERSISTENT)
            + publish("transient", b"2", TRANSIENT)
            + publish("durable", b"3", PERSISTENT)
        )
    client.expect_acks(range(1, 10))
    client.send(publish("nowhere", b"4", PERSISTENT, mandatory=True))
    assert isinstance(client.read_method(1), BasicReturn)
    client.read_content(1)
    client.expect_acks(range(10, 11))
    assert client.get("durable") is not None


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["trace", "check", "--files", str(path)])
    return code, capsys.readouterr().out


@pytest.fixture
def sound(tmp_path: Path) -> list[Line]:
    with traced(tmp_path) as broker, client_of(broker) as client:
        work(client)
    return trace_of(tmp_path)


def test_a_sound_trace_has_no_faults(
    sound: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = check(tmp_path / "data" / "traces", capsys)
    assert code == 0, out
    assert f"{len(sound)} events in 1 file: 10 publishes answered, 0 open at the end" in out


def unsynced(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["event"] != "journal.synced"]


def answered_twice(lines: list[Line]) -> list[Line]:
    at = next(at for at, line in enumerate(lines) if line["event"] == "confirm.sent")
    return [*lines[: at + 1], *lines[at:]]


def never_came(lines: list[Line]) -> list[Line]:
    first = next(line for line in lines if line["event"] == "command.assembled")
    return [line for line in lines if line is not first]


def confirmed_before_its_return(lines: list[Line]) -> list[Line]:
    returned = next(line for line in lines if line["event"] == "message.returned")
    sent = next(line for line in lines if line["event"] == "confirm.sent")
    early = {**sent, "seq_no": returned["seq_no"]}
    at = lines.index(returned)
    return [*lines[:at], early, *lines[at:]]


def delivered_from_nowhere(lines: list[Line]) -> list[Line]:
    return [
        {**line, "queue": "transient"} if line["event"] == "message.delivered" else line
        for line in lines
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (unsynced, "before its sync"),
        # The first confirm is of one publish or of several, as the disk has it.
        (answered_twice, "answered twice"),
        (never_came, "but never came"),
        (confirmed_before_its_return, "was confirmed before its return"),
        (delivered_from_nowhere, "that it did not have"),
    ],
)
def test_a_damaged_trace_is_found_out(
    damage: Callable[[list[Line]], list[Line]],
    said: str,
    sound: list[Line],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in damage(sound)))
    code, out = check(path, capsys)
    assert code == 1
    assert said in out


def test_a_torn_last_line_is_left_out_and_a_broken_one_is_told_of(
    sound: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torn.jsonl"
    whole = "".join(json.dumps(line) + "\n" for line in sound)
    path.write_text(whole + '{"t_ns": 12')
    assert check(path, capsys)[0] == 0
    path.write_text("no event\n" + whole)
    code, out = check(path, capsys)
    assert code == 1
    assert "torn.jsonl:1 is no event" in out
