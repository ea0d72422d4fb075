"""What all answers have in common, faults of the broker's own, and how logins are counted."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from http.client import HTTPConnection, HTTPResponse

import leveret
import pytest
from asking_http import asked, port
from dashed import dashed
from leveret.amqp_frames.methods import ConnectionClose
from leveret.management import listeners
from leveret.management.request import Action, Answer, Request, Tag
from leveret.management.server import accepts_gzip
from log_lines import LogLines
from timeouts import TIMEOUT_SECONDS
from wire import Client

LOGIN = "Basic " + b64encode(b"guest:guest").decode()


def raw(
    broker: leveret.Broker, method: str, path: str, **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port(broker), timeout=TIMEOUT_SECONDS)
    sent = dashed(headers)
    connection.request(method, path, None, {"authorization": LOGIN} | sent)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


# --- Headers


@pytest.mark.parametrize(
    ("sent", "is_accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("deflate, br", False),
    ],
)
def test_gzip_is_accepted_where_the_client_says_so(sent: str, is_accepted: bool) -> None:
    assert accepts_gzip({"accept-encoding": sent}) is is_accepted


@pytest.mark.parametrize("count", [1, 500])
def test_long_bodies_are_compressed_for_clients_that_accept_it(
    count: int, broker: leveret.Broker, client: Client
) -> None:
    """The larger one in parts."""
    for number in range(count):
        client.declare(f"q{number}")
    plain, expected = raw(broker, "GET", "/api/queues")
    assert plain.getheader("content-encoding") is None
    packed, body = raw(broker, "GET", "/api/queues", accept_encoding="gzip")
    assert packed.getheader("content-encoding") == "gzip"
    assert packed.getheader("content-length") == str(len(body))
    names = [row["name"] for row in json.loads(gzip.decompress(body))]
    assert names == [row["name"] for row in json.loads(expected)]
    short, body = raw(broker, "GET", "/api/whoami", accept_encoding="gzip")
    assert short.getheader("content-encoding") is None
    assert json.loads(body)["name"] == "guest"
    head, body = raw(broker, "HEAD", "/api/queues", accept_encoding="gzip")
    assert (head.getheader("content-encoding"), body) == (None, b"")


def test_answers_say_what_they_depend_on_and_are_not_kept(broker: leveret.Broker) -> None:
    response, _ = raw(broker, "GET", "/api/whoami", origin="http://elsewhere")
    assert response.getheader("vary") == "accept, accept-encoding, origin"
    assert response.getheader("cache-control") == "no-cache"
    # Pages of other sites may not read it: the default of RabbitMQ, too.
    assert response.getheader("access-control-allow-origin") is None


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/whoami", "HEAD, GET, OPTIONS"),
        ("/api/rebalance/queues", "POST, OPTIONS"),
        ("/api/queues/%2F/q/", "HEAD, DELETE, GET, PUT, OPTIONS"),
    ],
)
def test_options_and_wrong_methods_say_what_a_path_has(
    path: str, allowed: str, broker: leveret.Broker
) -> None:
    for method, status in (("OPTIONS", 200), ("PATCH", 405)):
        response, body = raw(broker, method, path)
        assert (response.status, response.getheader("allow"), body) == (status, allowed, b"")


# --- Faults


async def fails(_request: Request) -> Answer:
    raise ZeroDivisionError("of our own")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource that fails; asked for before the broker."""
    row = Action("GET", "/api/fails", "fails", fails, Tag.ANY)
    monkeypatch.setattr(listeners, "ACTIONS", (*listeners.ACTIONS, row))


def test_a_fault_of_ours_is_logged_and_ends_its_request_alone(
    faulty: None, log: LogLines, broker: leveret.Broker
) -> None:
    connection = HTTPConnection("127.0.0.1", port(broker), timeout=TIMEOUT_SECONDS)
    for path, status in (("/api/fails", 500), ("/api/whoami", 200)):
        connection.request("GET", path, None, {"authorization": LOGIN})
        response = connection.getresponse()
        found = json.loads(response.read())
        assert response.status == status
        if status == 500:
            assert found["error"] == "internal_server_error"
            assert "own" not in found["reason"].replace("broker's own", "")
    connection.close()
    [line] = log.of("http.failed")
    assert (line["path"], line["level"]) == ("/api/fails", "error")
    assert "ZeroDivisionError" in str(line)


# --- Connections


@pytest.fixture
def named(broker: leveret.Broker, client: Client) -> str:
    """The path of the client's connection."""
    [row] = asked(broker, "GET", "/api/connections").content
    return "/api/connections/" + row["name"].replace(" ", "%20").replace(">", "%3E")


@pytest.mark.parametrize(
    ("reason", "said"),
    [("tidying up", "tidying up"), ("", "Closed via management plugin"), ("x" * 400, "x" * 200)],
)
def test_a_connection_is_closed_with_the_reason_of_the_request(
    reason: str, said: str, broker: leveret.Broker, client: Client, named: str
) -> None:
    headers = {"x_reason": reason} if reason else {}
    assert raw(broker, "DELETE", named, **headers)[0].status == 204
    close = client.expect_type(0, ConnectionClose)
    assert close.reply_code == 320
    assert close.reply_text.startswith(f"CONNECTION_FORCED - {said}")


def test_commands_of_the_api_are_no_connections_of_clients(
    log: LogLines, broker: leveret.Broker
) -> None:
    """They are made, used and closed within the broker, and the log has the request."""
    path = "/api/queues/%2F/q"
    assert asked(broker, "PUT", path, {}).status == 201
    assert asked(broker, "PUT", path, {"durable": True}).status == 400
    assert asked(broker, "GET", "/api/connections").content == []
    for event in ("opened", "error", "refused", "closed"):
        assert log.of(f"connection.{event}") == []


# --- Logins


def test_logins_are_counted_by_protocol_until_somebody_resets_them(broker: leveret.Broker) -> None:
    [node] = asked(broker, "GET", "/api/nodes").content
    path = f"/api/auth/attempts/{node['name']}"
    with Client(broker.host, broker.port) as client:
        client.log_in()
    asked(broker, "GET", "/api/whoami", password="wrong")
    # A command of the API is no login of its own.
    asked(broker, "PUT", "/api/queues/%2F/q", {})
    rows = {row["protocol"]: row for row in asked(broker, "GET", path).content}
    expected = {"auth_attempts": 4, "auth_attempts_failed": 1, "auth_attempts_succeeded": 3}
    assert rows["http"] == {"protocol": "http", **expected}
    assert rows["amqp091"]["auth_attempts_succeeded"] == 1
    assert asked(broker, "GET", f"{path}/source").content == []
    assert asked(broker, "DELETE", path).status == 204
    [row] = asked(broker, "GET", path).content
    assert (row["protocol"], row["auth_attempts"]) == ("http", 1)
    assert asked(broker, "GET", "/api/auth/attempts/elsewhere").status == 404


DEEP = b"[" * 900 + b"]" * 900


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/policies/%2F/p", b'{"pattern": "x", "definition": {"expires": %s}}' % DEEP),
        ("PUT", "/api/operator-policies/%2F/p", b'{"pattern": %s, "definition": {}}' % DEEP),
        ("PUT", "/api/vhost-limits/%2F/max-queues", b'{"value": %s}' % DEEP),
        ("PUT", "/api/global-parameters/p", b'{"value": %s}' % DEEP),
        ("POST", "/api/definitions", b'{"global_parameters": [{"name": "p", "value": %s}]}' % DEEP),
        ("PUT", "/api/queues/%2F/q", b'{"arguments": {"x": %s}}' % DEEP),
    ],
)
def test_bodies_that_are_nested_too_deeply_are_refused(
    method: str, path: str, body: bytes, broker: leveret.Broker
) -> None:
    assert asked(broker, method, path, body).status == 400
    assert asked(broker, "GET", "/api/global-parameters").content == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/queues/%2F/q/get", {"ackmode": [], "count": 1, "encoding": "auto"}),
        ("/api/queues/%2F/q/get", {"ackmode": "x", "count": "9" * 5000, "encoding": "auto"}),
        ("/api/users/bulk-delete", {"users": ["guest", []]}),
    ],
)
def test_bodies_with_values_of_the_wrong_kind_are_refused(
    path: str, body: object, broker: leveret.Broker
) -> None:
    assert asked(broker, "POST", path, body).status == 400
    assert asked(broker, "GET", "/api/users/guest").status == 200


def test_an_import_with_a_name_that_is_no_text_is_refused(broker: leveret.Broker) -> None:
    topic = {"user": "guest", "vhost": "/", "exchange": "\ud800", "write": "", "read": ""}
    answer = asked(broker, "POST", "/api/definitions", {"topic_permissions": [topic]})
    assert answer.status == 400
    assert "not UTF-8" in answer.content["reason"]
    assert asked(broker, "GET", "/api/topic-permissions").content == []


def test_a_user_whose_tags_are_refused_keeps_its_password(broker: leveret.Broker) -> None:
    body = {"password": "other", "tags": ["a,b"]}
    assert asked(broker, "PUT", "/api/users/guest", body).status == 400
    assert asked(broker, "GET", "/api/whoami").status == 200
