"""Asks a broker by HTTP."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

import leveret
from holding import parts
from leveret.management.server import HttpServer
from leveret.open_accounts import new_password_hash
from timeouts import TIMEOUT_SECONDS

LIVE, READY, TRACE = "/api/health/live", "/api/health/ready", "/api/trace"

HARE = new_password_hash("hare", 10)


class Answer(NamedTuple):
    status: int
    content: Any
    headers: dict[str, str]


def port(broker: leveret.Broker) -> int:
    assert broker.http_port
    return broker.http_port


def asked(
    broker: leveret.Broker,
    method: str = "GET",
    path: str = TRACE,
    body: object = None,
    user: str | None = "guest",
    password: str = "guest",
    headers: Mapping[str, str] = {},
) -> Answer:
    connection = HTTPConnection("127.0.0.1", port(broker), timeout=TIMEOUT_SECONDS)
    headers = dict(headers)
    if user is not None:
        headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    is_json = response.getheader("content-type") == "application/json"
    content = json.loads(text) if text and is_json else text.decode() or None
    return Answer(response.status, content, {k.lower(): v for k, v in response.getheaders()})


def open_connections(broker: leveret.Broker) -> set[Any]:
    assert broker.node is not None
    # There is none before the first client.
    servers = parts(broker.node.http, HttpServer)
    return {one for server in servers for one in server.sockets.values()}


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))
