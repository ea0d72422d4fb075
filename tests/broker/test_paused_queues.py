"""Queues that are paused and resumed, by the command line and by HTTP, as clients see them."""

from __future__ import annotations

from pathlib import Path

import leveret
import pytest
from asking_http import HARE, asked
from insides import in_flight_count
from leveret.amqp_frames.methods import BasicAck, BasicDeliver, BasicNack, BasicQos, QueueDelete
from leveret.commands.control_client import ask_broker
from leveret.logs.reading.tail import TraceTail
from log_lines import LogLines
from served import Served
from traced import client_of, explanation, names, trace_of, traced, wait_for_events
from typed_commands import ProcessShell, Shell
from wire import PERSISTENT, Client

PAUSED = "queue 'q' in vhost '/' is paused: it delivers nothing until it is resumed\n"
RESUMED = "queue 'q' in vhost '/' delivers again\n"


@pytest.fixture
def settings() -> dict[str, object]:
    return {"http_listener": "on", "http_port": 0, "log_level": "info"}


@pytest.fixture
def shell(broker: leveret.Broker) -> Shell:
    return Shell(broker.configuration.data_dir)


def state_of(shell: Shell, queue: str = "q") -> str:
    [state] = [row["state"] for row in shell.rows("queues") if row["queue"] == queue]
    return str(state)


def delivered(client: Client) -> tuple[int, bytes]:
    deliver = client.expect_type(1, BasicDeliver)
    return deliver.delivery_tag, client.read_content(1).body


def test_a_paused_queue_takes_publishes_and_delivers_when_it_is_resumed(
    shell: Shell, client: Client
) -> None:
    client.declare("q")
    client.consume("q")
    assert shell.said("queue", "pause", "q") == PAUSED
    assert state_of(shell) == "paused"
    client.publish_all("q", b"1", b"2")
    # The queue's answer comes behind all that it delivers: it delivers nothing.
    assert client.counts("q") == (2, 1)
    assert client.get("q") is None
    assert shell.said("queue", "resume", "q") == RESUMED
    assert state_of(shell) == "running"
    assert [delivered(client), delivered(client)] == [(1, b"1"), (2, b"2")]


def test_acks_and_nacks_are_settled_while_it_is_paused(
    broker: leveret.Broker, shell: Shell, client: Client
) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2", b"3")
    client.ask(1, BasicQos(prefetch_count=2))
    client.consume("q")
    assert [delivered(client), delivered(client)] == [(1, b"1"), (2, b"2")]
    shell.said("queue", "pause", "q")
    client.send_methods(1, BasicAck(1), BasicNack(2, requeue=True))
    assert client.counts("q") == (2, 1)
    assert in_flight_count(broker, "q") == 0
    shell.said("queue", "resume", "q")
    assert [delivered(client), delivered(client)] == [(3, b"2"), (4, b"3")]


def test_to_pause_twice_and_to_resume_what_is_not_paused_are_no_mistakes(
    shell: Shell, client: Client
) -> None:
    client.declare("q", durable=True)
    assert shell.said("queue", "resume", "q") == RESUMED
    for _ in range(2):
        assert shell.said("queue", "pause", "q") == PAUSED
    assert shell.said("queue", "resume", "q") == RESUMED
    assert state_of(shell) == "running"


def test_a_queue_or_vhost_that_is_not_there_is_named(shell: Shell, client: Client) -> None:
    client.declare("q")
    for action in ("pause", "resume"):
        assert shell.refused("queue", action, "p") == "there is no queue 'p' in vhost '/'"
        words = shell.refused("queue", action, "q", "--vhost", "v")
        assert words == "there is no vhost 'v'"
    shell.said("vhost", "add", "v")
    assert shell.refused("queue", "pause", "q", "--vhost", "v") == (
        "there is no queue 'q' in vhost 'v'"
    )
    assert state_of(shell) == "running"


@pytest.mark.parametrize(
    ("arguments", "missing"), [({"vhost": "/"}, "queue"), ({"queue": "q", "vhost": 1}, "vhost")]
)
def test_a_request_without_names_is_one_clear_line(
    arguments: dict[str, object], missing: str, broker: leveret.Broker, client: Client
) -> None:
    client.declare("q")
    with pytest.raises(leveret.StartError, match=f"'{missing}' must be a string"):
        ask_broker(broker.configuration.data_dir, "queue pause", arguments)


def test_without_a_broker_no_queue_is_paused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shell = Shell(tmp_path / "empty")
    words = f"no broker runs on data directory {shell.directory}"
    assert shell.refused("queue", "pause", "q") == words


def test_a_queue_declared_anew_is_not_paused(shell: Shell, client: Client) -> None:
    for durable in (False, True):
        client.declare("q", durable=durable)
        shell.said("queue", "pause", "q")
        # To find it changes nothing.
        client.declare("q", durable=durable)
        assert state_of(shell) == "paused"
        client.ask(1, QueueDelete(queue="q"))
        client.declare("q", durable=durable)
        assert state_of(shell) == "running"
        client.ask(1, QueueDelete(queue="q"))


def test_a_durable_queue_stays_paused_over_kill_9(tmp_path: Path) -> None:
    shell = ProcessShell(tmp_path / "data")
    with Served(tmp_path, log_level="error") as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("q", durable=True)
        client.declare("other", durable=True)
        client.publish_all("q", b"1", properties=PERSISTENT)
        assert shell.said("queue", "pause", "q") == PAUSED
    for resumes in (False, True):
        with leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error") as again:
            shell = Shell(tmp_path / "data")
            assert (state_of(shell), state_of(shell, "other")) == ("paused", "running")
            with Client(again.host, again.port) as client:
                client.log_in().open_channel(1)
                client.consume("q")
                assert client.counts("q") == (1, 1)
                if resumes:
                    shell.said("queue", "resume", "q")
                    assert delivered(client) == (1, b"1")
                    client.send_methods(1, BasicAck(1))
                    assert client.counts("q") == (0, 1)
    with leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error"):
        assert state_of(Shell(tmp_path / "data")) == "running"


def test_the_trace_says_when(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("q")
        client.publish_all("q", b"1")
        shell = Shell(tmp_path / "data")
        shell.said("queue", "pause", "q")
        client.consume("q")
        shell.said("queue", "resume", "q")
        assert delivered(client) == (1, b"1")
        client.send_methods(1, BasicAck(1))
        assert client.counts("q") == (0, 1)
    lines = trace_of(tmp_path)
    wanted = ("queue.paused", "consumer.added", "queue.resumed", "message.delivered")
    assert [name for name in names(lines) if name in wanted] == list(wanted)
    [paused] = [line for line in lines if line["event"] == "queue.paused"]
    about = ("vhost", "queue", "ready_before", "unacked_before")
    assert [paused[name] for name in about] == ["/", "q", 1, 0]


def test_explain_says_that_the_queue_of_a_message_is_paused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paused = "is ready, and the queue is paused: it delivers nothing before it is resumed."
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("q", durable=True)
        shell = Shell(tmp_path / "data")
        shell.said("queue", "pause", "q")
        client.publish_all("q", b"1", properties=PERSISTENT)
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        wait_for_events(tail, "queue.paused", "message.persisted", "confirm.sent")
        assert explanation(tmp_path, capsys)[-1].endswith(f"In queue 'q' it {paused}")
    with traced(tmp_path) as broker, client_of(broker) as client:
        wait_for_events(tail, "message.recovered", "queue.paused")
        said = explanation(tmp_path, capsys)[-1]
        assert said.endswith(f"it came back from the journal at a start and {paused}")
        Shell(tmp_path / "data").said("queue", "resume", "q")
        assert client.counts("q") == (1, 0)
        wait_for_events(tail, "queue.resumed")
        assert explanation(tmp_path, capsys)[-1].endswith("at a start and is ready.")


# --- By HTTP

PAUSE, RESUME = "/api/queues/%2F/a%20b%2F%C3%BC/pause", "/api/queues/%2F/a%20b%2F%C3%BC/resume"
NAME = "a b/ü"


def test_http_clients_pause_and_resume_by_names_in_the_path(
    log: LogLines, broker: leveret.Broker, shell: Shell, client: Client
) -> None:
    client.declare(NAME)
    answer = asked(broker, "PUT", PAUSE)
    assert (answer.status, answer.content) == (200, {"status": "ok"})
    assert state_of(shell, NAME) == "paused"
    assert asked(broker, "PUT", RESUME).status == 200
    assert state_of(shell, NAME) == "running"
    about = ("request", "user", "vhost", "queue")
    assert [[line[name] for name in about] for line in log.of("control.request")] == [
        ["queue pause", "guest", "/", NAME],
        ["queue resume", "guest", "/", NAME],
    ]


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("PUT", "/api/queues/%2F/p/pause", 404, "there is no queue 'p' in vhost '/'"),
        ("PUT", "/api/queues/v/q/resume", 404, "there is no vhost 'v'"),
        ("PUT", "/api/queues/%2F/q/stop", 404, "Not Found"),
        ("GET", "/api/queues/%2F/q/pause", 405, None),
    ],
)
def test_http_clients_learn_what_is_not_there(
    method: str,
    path: str,
    status: int,
    words: str | None,
    broker: leveret.Broker,
    shell: Shell,
    client: Client,
) -> None:
    client.declare("q")
    answer = asked(broker, method, path)
    assert answer.status == status
    assert (answer.content or {}).get("reason") == words
    assert state_of(shell) == "running"


def test_only_administrators_pause_by_http(
    broker: leveret.Broker, shell: Shell, client: Client
) -> None:
    client.declare("q")
    ask_broker(
        broker.configuration.data_dir,
        "user add",
        {"user": "mona", "password_hash": HARE, "tags": ["monitoring"]},
    )
    answer = asked(broker, "PUT", "/api/queues/%2F/q/pause", user="mona", password="hare")
    assert answer.status == 401
    assert answer.content == {"error": "not_authorised", "reason": "Not administrator user"}
    assert state_of(shell) == "running"
