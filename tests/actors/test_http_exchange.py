"""One HTTP request, whole and byte by byte."""

from __future__ import annotations

import base64
import json

import pytest
from leveret.actors.control.http_exchange import (
    CHUNKS_MAX,
    HEAD_BYTES_MAX,
    HttpError,
    HttpExchange,
    HttpRequest,
)

BODY_BYTES_MAX = 100


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def request(
    line: str = "GET /api/trace HTTP/1.1", body: bytes = b"", **headers: str | None
) -> bytes:
    all_headers = {"host": "h", "authorization": basic("ann", "hare"), **headers}
    if body:
        all_headers.setdefault("content-length", str(len(body)))
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in all_headers.items() if value]
    return "\r\n".join([line, *lines, "", ""]).encode() + body


def fed(data: bytes, size: int) -> tuple[HttpExchange, HttpRequest | None]:
    exchange = HttpExchange(BODY_BYTES_MAX)
    return exchange, feed_all(exchange, data, size)


def feed_all(exchange: HttpExchange, data: bytes, size: int) -> HttpRequest | None:
    found = None
    for at in range(0, len(data), size):
        found = found or exchange.feed(data[at : at + size])
    return found


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("password", ["hare", "", "a:b", "härte"])
def test_a_request_is_taken_whole_and_byte_by_byte(size: int, password: str) -> None:
    data = request(
        "PUT /api/trace?x=1 HTTP/1.1", b'{"rate": 1}', authorization=basic("ann", password)
    )
    exchange, found = fed(data, size)
    assert found == ("PUT", "/api/trace", "ann", password, b'{"rate": 1}')
    assert exchange.is_whole
    answer = exchange.answer(200, {"a": 1}, {})
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"a": 1}


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"AMQP\x00\x00\x09\x01\r\n\r\n", 400),
        (request("GET /\x01 HTTP/1.1"), 400),
        (request(content_length="x"), 400),
        (request(host=None), 400),
        (request("PUT / HTTP/1.1", content_length="101"), 413),
        (
            request(
                "PUT / HTTP/1.1",
                b"64\r\n" + b"x" * 100 + b"\r\n1\r\nx\r\n0\r\n\r\n",
                transfer_encoding="chunked",
                content_length=None,
            ),
            413,
        ),
        (request(padding="x" * HEAD_BYTES_MAX), 431),
        (request(authorization=None), 401),
        (request(authorization="Bearer x"), 401),
        (request(authorization="Basic !!!"), 401),
        (request(authorization="Basic " + base64.b64encode(b"nocolon").decode()), 401),
        (request(authorization="Basic " + base64.b64encode(b"\xff:\xff").decode()), 401),
    ],
)
def test_each_request_that_cannot_be_carried_out_has_its_status(
    data: bytes, status: int, size: int
) -> None:
    exchange = HttpExchange(BODY_BYTES_MAX)
    with pytest.raises(HttpError) as refused:
        feed_all(exchange, data, size)
    assert refused.value.status == status
    assert ("www-authenticate" in refused.value.headers) == (status == 401)
    answer = exchange.answer(status, {"error": str(refused.value)}, refused.value.headers)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_body_comes_in_so_many_chunks(size: int) -> None:
    head = request("PUT / HTTP/1.1", transfer_encoding="chunked")
    chunk = b"1\r\nx\r\n"
    exchange = HttpExchange(1000)
    found = feed_all(exchange, head + chunk * CHUNKS_MAX + b"0\r\n\r\n", size)
    assert found is not None
    assert found.body == b"x" * CHUNKS_MAX
    with pytest.raises(HttpError, match="at most 256 chunks") as refused:
        feed_all(HttpExchange(1000), head + chunk * (CHUNKS_MAX + 1), size)
    assert refused.value.status == 413


def test_a_head_has_no_body_and_the_headers_of_a_get() -> None:
    get = fed(request(), 1 << 20)[0].answer(200, {"a": 1}, {})
    head = fed(request("HEAD /api/trace HTTP/1.1"), 1 << 20)[0].answer(200, {"a": 1}, {})
    assert head.endswith(b"\r\n\r\n")
    assert b"content-length: 9\r\n" in head
    assert b"content-length: 9\r\n" in get


def test_a_client_that_expects_100_continue_gets_it_before_it_sends_the_body() -> None:
    exchange = HttpExchange(BODY_BYTES_MAX)
    head = request("PUT / HTTP/1.1", content_length="2", expect="100-continue")
    assert exchange.feed(head) is None
    assert exchange.go_on().startswith(b"HTTP/1.1 100 ")
    assert exchange.go_on() == b""
    found = exchange.feed(b"{}")
    assert found is not None
    assert found.body == b"{}"


def test_a_request_does_not_show_its_password() -> None:
    _, found = fed(request(), 1 << 20)
    assert "hare" not in repr(found)
