"""Requests to the management API of a broker of this machine."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection
from types import MappingProxyType
from typing import Any, NamedTuple

from timeouts import TIMEOUT_SECONDS


class Answer(NamedTuple):
    status: int
    content: Any


def login(user: str) -> dict[str, str]:
    password = "guest" if user == "guest" else "secret"
    return {"authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    user: str = "guest",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """The answer to one request, as guest or as a user whose password is "secret"."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    data = None if body is None else json.dumps(body).encode()
    connection.request(
        method, f"/api/{path}", data, {**login(user), "content-type": "application/json", **headers}
    )
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return Answer(response.status, json.loads(text) if text else None)
