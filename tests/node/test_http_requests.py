"""Single requests, good and broken, as octets on a connection."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable

import leveret
import pytest
from asking_http import asked, read_all
from leveret.management.logging_in import Login, login_of

BODY_BYTES_MAX = 1024


@pytest.fixture
def settings() -> dict[str, object]:
    return {"http_listener": "on", "http_port": 0, "http_body_bytes_max": BODY_BYTES_MAX}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def request(
    line: str = "GET /api/trace HTTP/1.1", body: bytes = b"", **headers: str | None
) -> bytes:
    own = {"host": "h", "authorization": basic("guest", "guest"), "connection": "close"}
    all_headers = {**own, **headers}
    if body and "transfer_encoding" not in headers:
        all_headers.setdefault("content-length", str(len(body)))
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in all_headers.items() if value]
    return "\r\n".join([line, *lines, "", ""]).encode() + body


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(), 200),
        (request("GET /api/trace/ HTTP/1.1"), 200),
        (request("PUT /api/trace?x=1 HTTP/1.1", b'{"rate": 1}'), 200),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"AMQP\x00\x00\x09\x01\r\n\r\n", 400),
        (request("GET /\x01 HTTP/1.1"), 400),
        (request(content_length="x"), 400),
        (request("PUT /api/trace HTTP/1.1", content_length=str(BODY_BYTES_MAX + 1)), 413),
        (
            request(
                "PUT /api/trace HTTP/1.1",
                b"400\r\n" + b"x" * BODY_BYTES_MAX + b"\r\n1\r\nx\r\n0\r\n\r\n",
                transfer_encoding="chunked",
            ),
            413,
        ),
        (request(padding="x" * 10_000), 400),
        (request(authorization=None), 401),
        (request(authorization="Bearer x"), 401),
    ],
)
def test_each_request_has_its_status_whole_and_byte_by_byte(
    data: bytes, status: int, size: int, socket_to: Callable[[], socket.socket]
) -> None:
    connection = socket_to()
    try:
        for at in range(0, len(data), size):
            connection.sendall(data[at : at + size])
    except OSError:
        # It is answered before its end.
        assert status in (400, 413)
    answer = read_all(connection)
    assert answer.split(b" ", 2)[1] == str(status).encode()


@pytest.mark.parametrize(
    ("header", "login"),
    [
        (basic("ann", "hare"), Login("ann", "hare")),
        (basic("ann", ""), Login("ann", "")),
        (basic("ann", "a:b"), Login("ann", "a:b")),
        (basic("ann", "härte").replace("Basic", "bAsIC "), Login("ann", "härte")),
        (None, None),
        ("", None),
        ("Bearer x", None),
        ("Basic !!!", None),
        ("Basic " + base64.b64encode(b"nocolon").decode(), None),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), None),
    ],
)
def test_a_login_is_found_in_the_header(header: str | None, login: Login | None) -> None:
    assert login_of(header) == login


def test_a_login_does_not_show_its_password() -> None:
    assert "hare" not in repr(login_of(basic("ann", "hare")))


def test_a_head_has_no_body_and_the_headers_of_a_get(
    socket_to: Callable[[], socket.socket],
) -> None:
    answers = []
    for method in ("GET", "HEAD"):
        connection = socket_to()
        connection.sendall(request(f"{method} /api/trace HTTP/1.1"))
        answers.append(read_all(connection).partition(b"\r\n\r\n"))
    (get_head, _, get_body), (head, _, body) = answers
    assert json.loads(get_body)["is_on"] is False
    assert body == b""
    assert f"Content-Length: {len(get_body)}".lower().encode() in get_head.lower()
    assert f"Content-Length: {len(get_body)}".lower().encode() in head.lower()


def test_a_client_that_expects_100_continue_gets_it_before_it_sends_the_body(
    socket_to: Callable[[], socket.socket], broker: leveret.Broker
) -> None:
    connection = socket_to()
    connection.sendall(
        request("PUT /api/trace HTTP/1.1", content_length="2", expect="100-continue")
    )
    assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(b"{}")
    assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")
    assert asked(broker).content["is_on"] is True
