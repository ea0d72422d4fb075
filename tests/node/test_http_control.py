"""Health and control of the trace by HTTP, and that its broken clients harm nobody."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import HARE, LIVE, READY, TRACE, asked, open_connections, port, read_all
from gated_files import GatedFiles
from held_clock import HeldClock
from insides import context_of, on_loop, wait_until
from leveret.commands.control_client import ask_broker
from log_lines import LogLines
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, publish

REQUEST_MS = 300


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "http_listener": "on",
        "http_port": 0,
        "log_level": "info",
        "http_health_without_password": "never",
    }


# --- Who may ask what


@pytest.mark.parametrize("path", [LIVE, READY, TRACE, "/nowhere"])
def test_without_a_user_or_with_a_wrong_password_there_is_only_401(
    path: str, broker: leveret.Broker
) -> None:
    for user, password in ((None, ""), ("guest", "wrong"), ("nobody", "guest"), ("guest", "")):
        answer = asked(broker, path=path, user=user, password=password)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
        refused = {"error": "not_authorized", "reason": "Login failed"}
        assert answer.content == (None if user is None else refused)


def test_each_thing_needs_its_tag(broker: leveret.Broker) -> None:
    directory = broker.configuration.data_dir
    for user, tags in (("ann", []), ("mona", ["monitoring"]), ("adam", ["administrator"])):
        ask_broker(directory, "user add", {"user": user, "password_hash": HARE, "tags": tags})
    expected = {
        ("ann", "GET", LIVE): 200,
        ("ann", "GET", READY): 200,
        ("ann", "GET", TRACE): 401,
        ("ann", "PUT", TRACE): 401,
        ("mona", "GET", TRACE): 200,
        ("mona", "HEAD", TRACE): 200,
        ("mona", "PUT", TRACE): 401,
        ("mona", "DELETE", TRACE): 401,
        ("adam", "GET", TRACE): 200,
        ("adam", "PUT", TRACE): 200,
        ("adam", "DELETE", TRACE): 200,
    }
    found = {
        (user, method, path): asked(broker, method, path, user=user, password="hare").status
        for user, method, path in expected
    }
    assert found == expected
    refused = asked(broker, "PUT", user="mona", password="hare")
    assert refused.content == {
        "error": "not_authorised",
        "reason": "Not administrator user",
    }


def test_a_user_who_goes_or_changes_may_do_no_more(broker: leveret.Broker) -> None:
    directory = broker.configuration.data_dir
    ask_broker(directory, "user add", {"user": "adam", "password_hash": HARE, "tags": []})
    assert asked(broker, path=LIVE, user="adam", password="hare").status == 200
    ask_broker(directory, "user delete", {"user": "adam"})
    assert asked(broker, path=LIVE, user="adam", password="hare").status == 401


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/", 404, None),
        ("GET", "/api", 404, None),
        ("POST", TRACE, 405, "HEAD, DELETE, GET, PUT, OPTIONS"),
        ("PUT", LIVE, 405, "HEAD, GET, OPTIONS"),
        ("OPTIONS", READY, 200, "HEAD, GET, OPTIONS"),
    ],
)
def test_what_is_not_there(
    method: str, path: str, status: int, allowed: str | None, broker: leveret.Broker
) -> None:
    answer = asked(broker, method, path)
    missing = {"error": "Object Not Found", "reason": "Not Found"} if status == 404 else None
    assert (answer.status, answer.content) == (status, missing)
    assert answer.headers.get("allow") == allowed


@pytest.mark.parametrize(
    ("who", "from_here", "from_elsewhere"),
    [("loopback", 200, 401), ("everywhere", 200, 200), ("never", 401, 401)],
)
def test_health_needs_no_password_where_the_settings_say_so(
    who: str, from_here: int, from_elsewhere: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"http_listener": "on", "http_port": 0, "log_level": "error"}
    settings["http_health_without_password"] = who
    with leveret.Broker(data_dir=tmp_path, port=0, **settings) as broker:
        assert asked(broker, path=LIVE, user=None).status == from_here
        assert asked(broker, path=READY, user=None).status == from_here
        assert asked(broker, path=TRACE, user=None).status == 401
        monkeypatch.setattr("leveret.management.api.is_loopback", lambda _host: False)
        assert asked(broker, path=LIVE, user=None).status == from_elsewhere


def test_a_connection_carries_request_after_request(broker: leveret.Broker) -> None:
    connection = HTTPConnection("127.0.0.1", port(broker), timeout=TIMEOUT_SECONDS)
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    connection.connect()
    own = connection.sock.getsockname()
    for path, status in ((LIVE, 200), ("/nowhere", 404), (READY, 200), (TRACE, 200)):
        connection.request("GET", path, headers=login)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert connection.sock.getsockname() == own
    connection.close()


# --- The trace


def test_the_trace_is_switched_on_changed_and_off(broker: leveret.Broker, client: Client) -> None:
    client.declare("orders")
    assert asked(broker).content["is_on"] is False
    chosen = {"rate": 0.01, "queues": ["orders"], "users": ["ann"], "connections": ["1.2.3.4:5"]}
    on = asked(broker, "PUT", body=chosen)
    assert on.status == 200
    assert on.content["is_on"] is True
    assert on.content["one_of"] == 100
    named = {name: on.content[name] for name in ("queues", "users", "connections")}
    assert named == {name: chosen[name] for name in named}
    assert asked(broker, "PUT").content["one_of"] == 1
    assert asked(broker).content["is_on"] is True
    assert asked(broker, "DELETE").content["is_on"] is False


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is not JSON"),
        (b"[" * 60_000, "the body is not JSON"),
        ([1], "the body is not a JSON object"),
        ({"rate": 2}, "bad trace rate 2: it must be above 0 and at most 1"),
        ({"rate": 0}, "bad trace rate 0: it must be above 0 and at most 1"),
        (b'{"rate": NaN}', "the body is not JSON"),
        ({"rate": "all"}, "'rate' must be a number"),
        ({"rate": True}, "'rate' must be a number"),
        ({"queues": ["missing"]}, "there is no queue 'missing'"),
        ({"queues": "orders"}, "'queues' must be a list of strings"),
        ({"users": [1]}, "'users' must be a list of strings"),
        (
            {"queue": ["orders"]},
            "there is no 'queue' in a trace's filter; there are rate, queues, users, connections",
        ),
    ],
)
def test_a_filter_that_cannot_be_is_one_clear_line(
    body: object, said: str, broker: leveret.Broker
) -> None:
    answer = asked(broker, "PUT", body=body)
    assert (answer.status, answer.content) == (400, {"error": "bad_request", "reason": said})
    assert asked(broker).content["is_on"] is False


def test_switching_it_under_load_loses_no_message_and_closes_no_connection(
    log: LogLines, broker: leveret.Broker, client: Client
) -> None:
    client.declare("queue", durable=True)
    switched = threading.Event()
    batches = 0

    def switch() -> None:
        for rate in (1, 0.5, 0.01, 1):
            assert asked(broker, "PUT", body={"rate": rate, "queues": ["queue"]}).status == 200
            assert asked(broker, "PUT", body={"rate": 2}).status == 400
            assert asked(broker, "DELETE").status == 200
        switched.set()

    switching = threading.Thread(target=switch, daemon=True)
    switching.start()
    while not switched.is_set():
        client.publish_all("queue", *[b"x"] * 50, properties=PERSISTENT)
        batches += 1
        assert switching.is_alive() or switched.is_set()
    switching.join()
    assert client.counts("queue") == (50 * batches, 0)
    assert not log.of("connection.closed")
    assert not log.of("channel.closed")


def test_a_trace_that_cannot_be_written_is_said_and_harms_nobody(
    broker: leveret.Broker, client: Client
) -> None:
    (broker.configuration.data_dir / "traces").write_text("in the way")
    answer = asked(broker, "PUT")
    assert (answer.status, answer.content) == (
        400,
        {"error": "bad_request", "reason": "the trace cannot be written: File exists"},
    )
    assert asked(broker).content["is_on"] is False
    client.declare("queue")


# --- Health


def test_the_broker_is_not_ready_while_there_is_an_alarm(broker: leveret.Broker) -> None:
    assert asked(broker, path=READY)[:2] == (200, {"status": "ok"})
    context_of(broker).alarms.reason = "low on disk"
    alarmed = {"error": "not_ready", "reason": "alarm: low on disk"}
    assert asked(broker, path=READY)[:2] == (503, alarmed)
    assert asked(broker, path=LIVE)[:2] == (200, {"status": "ok"})
    context_of(broker).alarms.reason = ""
    assert asked(broker, path=READY).status == 200


class TestTime:
    """With a clock that the test holds."""

    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"http_listener": "on", "http_port": 0, "http_request_timeout_ms": REQUEST_MS}

    @pytest.fixture
    def clock(self, broker: leveret.Broker) -> HeldClock:
        return HeldClock(broker)

    def test_the_broker_is_not_ready_while_the_journal_hangs_in_a_sync(
        self,
        broker: leveret.Broker,
        client: Client,
        files: GatedFiles,
        clock: HeldClock,
        socket_to: Callable[[], socket.socket],
    ) -> None:
        client.declare("queue", durable=True)
        assert asked(broker, path=READY).status == 200
        files.hold()
        client.send(publish("queue", b"x", PERSISTENT))
        files.wait_until_syncing()
        asking = socket_to()
        login = b64encode(b"guest:guest").decode()
        head = f"GET {READY} HTTP/1.1\r\nhost: h\r\nauthorization: Basic {login}\r\n"
        head += "connection: close\r\n\r\n"
        asking.sendall(head.encode())
        # It came before this one, so it is waiting by now.
        assert asked(broker, path=LIVE).status == 200
        clock.advance(REQUEST_MS / 1000)
        answer = read_all(asking)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"not answered in time" in answer
        assert asked(broker, path=LIVE).status == 200
        files.release()
        client.expect_acks(range(1, 2))
        assert asked(broker, path=READY).status == 200

    @pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\n"])
    def test_a_request_that_does_not_come_is_told_408_and_closed(
        self,
        begun: bytes,
        broker: leveret.Broker,
        clock: HeldClock,
        socket_to: Callable[[], socket.socket],
    ) -> None:
        slow = socket_to()
        slow.sendall(begun)
        wait_until(lambda: len(open_connections(broker)) == 1)
        clock.advance(REQUEST_MS / 1000 - 0.001)
        # Behind what the event loop had to do by then.
        on_loop(broker)
        assert len(open_connections(broker)) == 1
        clock.advance(0.001)
        assert read_all(slow).startswith(b"HTTP/1.1 408 Request Timeout\r\n")

    def test_a_client_that_never_closes_is_closed_by_the_broker(
        self,
        broker: leveret.Broker,
        clock: HeldClock,
        socket_to: Callable[[], socket.socket],
    ) -> None:
        lingering = socket_to()
        lingering.sendall(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
        assert lingering.recv(65_536).startswith(b"HTTP/1.1 401 ")
        # Behind what the event loop had to do by then.
        on_loop(broker)
        assert len(open_connections(broker)) == 1
        clock.advance(REQUEST_MS / 1000)
        wait_until(lambda: not open_connections(broker))
