"""`leveret trace follow`: every wanted event, once, while a broker writes; and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from insides import wait_until
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.commands.command_line import main
from timeouts import TIMEOUT_SECONDS
from traced import client_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish

Line = dict[str, Any]


def _heed_ctrl_c() -> None:
    """A shell's background jobs ignore it, and their children with them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def following(
    directory: Path, *arguments: str, stdout: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, as a child that has seen where the trace begins."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "leveret", "trace", "follow", "--from-begin"),
            *("--data-dir", str(directory / "data")),
            *arguments,
        ],
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_ctrl_c,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[bytes], event: str) -> list[Line]:
    """Lines until the first of this event, that one included."""
    assert process.stdout is not None
    lines: list[Line] = []
    while not lines or lines[-1]["event"] != event:
        data = process.stdout.readline()
        assert data, f"it ended behind {[line['event'] for line in lines]}"
        lines.append(json.loads(data))
    return lines


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, error = process.communicate(timeout=TIMEOUT_SECONDS)
    return process.returncode, error


def work(client: Client) -> None:
    """Three publishes: one to a durable queue, one to a transient one, one that is returned."""
    client.declare("durable", durable=True)
    client.declare("transient")
    client.publish_all("durable", b"1", properties=PERSISTENT)
    client.send(publish("transient", b"2", TRANSIENT))
    client.expect(1, BasicAck(2))
    client.send(publish("nowhere", b"3", TRANSIENT, mandatory=True))
    client.expect_type(1, BasicReturn)
    client.read_content(1)
    client.expect(1, BasicAck(3))


def test_follow_shows_what_a_broker_writes_over_rotations_and_ends_on_ctrl_c(
    tmp_path: Path,
) -> None:
    with (
        traced(tmp_path, trace_file_bytes_max=4_096) as broker,
        client_of(broker) as client,
        following(tmp_path) as process,
    ):
        seen = read_until(process, "trace.started")
        for _ in range(5):
            client.declare("queue", durable=True)
            client.publish_all("queue", b"x", b"y", b"z", properties=PERSISTENT)
            seen += read_until(process, "confirm.sent")
        wait_until(lambda: bool(list((tmp_path / "data" / "traces").glob("*.gz"))))
        process.send_signal(signal.SIGINT)
        assert ended(process) == (0, b"")
    assert len({(line["t_ns"], line["event"], str(line)) for line in seen}) == len(seen)
    assert sum(line["event"] == "journal.synced" for line in seen) >= 5


def test_follow_ends_silently_when_its_output_is_closed(tmp_path: Path) -> None:
    with traced(tmp_path), following(tmp_path) as process:
        read_until(process, "trace.started")
        assert process.stdout is not None
        process.stdout.close()
        # Not at the next event: at once.
        assert process.wait(TIMEOUT_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def shown(directory: Path, *arguments: str) -> list[Line]:
    """The output of these arguments for the trace of `work`."""
    with following(directory, *arguments) as process:
        return read_until(process, "trace.stopped")


@pytest.fixture
def worked(tmp_path: Path) -> Iterator[Path]:
    with traced(tmp_path) as broker, client_of(broker) as client:
        work(client)
        with client_of(broker) as other:
            assert other.get("durable") is not None
    return tmp_path


def names(lines: list[Line]) -> list[str]:
    return [line["event"] for line in lines if not line["event"].startswith("trace.")]


OF_DURABLE = [
    "frame.received",
    "command.assembled",
    "permission.granted",
    "message.routed",
    "unconfirmed.inserted",
    "message.enqueued",
    "journal.appended",
    "journal.synced",
    "message.persisted",
    "confirm.queued",
    "confirm.received",
    "confirm.recorded",
    "confirm.sent",
    "message.delivered",
    "message.requeued",
]


def test_a_queue_shows_all_hops_of_its_messages_and_of_no_other(worked: Path) -> None:
    lines = shown(worked, "--queue", "durable")
    assert names(lines) == ["queue.declared", *OF_DURABLE]
    assert len({line["batch"] for line in lines if "batch" in line}) == 1


def test_a_routing_key_shows_the_hops_of_what_was_published_with_it(worked: Path) -> None:
    assert names(shown(worked, "--routing-key", "nowhere")) == [
        "frame.received",
        "command.assembled",
        "permission.granted",
        "message.routed",
        "message.returned",
    ]
    assert names(shown(worked, "--routing-key", "durable")) == OF_DURABLE


def test_what_the_trace_says_of_itself_is_shown_whatever_is_chosen(worked: Path) -> None:
    shown_events = [line["event"] for line in shown(worked, "--event", "message.returned")]
    assert shown_events == ["trace.started", "message.returned", "trace.stopped"]


def test_events_are_chosen_by_name_or_kind(worked: Path) -> None:
    stops = ("--event", "trace.stopped")
    assert names(shown(worked, "--event", "message.returned", *stops)) == ["message.returned"]
    kind = names(shown(worked, "--event", "confirm", *stops))
    assert set(kind) == {
        *("confirm.queued", "confirm.received", "confirm.recorded", "confirm.sent"),
    }
    both = names(shown(worked, "--event", "confirm.sent", "--queue", "transient", *stops))
    assert both == ["confirm.sent"]


def test_a_connection_shows_what_it_published_and_what_it_got(worked: Path) -> None:
    every = shown(worked)
    addresses = dict.fromkeys(line["connection"] for line in every if "connection" in line)
    publisher, consumer = addresses
    delivered = shown(worked, "--connection", consumer)
    assert "message.delivered" in names(delivered)
    assert "frame.received" not in names(delivered)
    published = names(shown(worked, "--connection", publisher))
    assert published[0] == "connection.opened"
    assert published.count("frame.received") == 3
    assert published.count("confirm.sent") == 2


def test_on_a_terminal_lines_are_for_people(worked: Path) -> None:
    ours, theirs = pty.openpty()
    with following(worked, "--queue", "durable", stdout=theirs):
        os.close(theirs)
        text = b""
        while b"trace.stopped" not in text:
            text += os.read(ours, 65536)
    os.close(ours)
    [routed] = [line for line in text.decode().splitlines() if "message.routed" in line]
    assert "channel  message.routed        127.0.0.1:" in routed
    assert "routing_key='durable' mandatory=False queues=[durable]" in routed
    assert "{" not in text.decode()


def test_follow_says_that_there_is_no_trace_yet_and_waits_for_it(tmp_path: Path) -> None:
    with following(tmp_path) as process:
        assert process.stderr is not None
        assert (
            process.stderr.readline()
            == (
                f"leveret: waiting for {tmp_path / 'data' / 'traces'}; "
                "`leveret trace on` begins a trace\n"
            ).encode()
        )


def test_an_event_that_there_is_not_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "follow", "--event", "nonsense", "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said == "leveret: there is no event 'nonsense'; docs/TRACE.md lists them\n"
