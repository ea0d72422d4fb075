"""Calls NSQ's HTTP port."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

import leveret
from timeouts import TIMEOUT_SECONDS


class Called(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        return json.loads(self.body)


def call(
    broker: leveret.Broker,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    login: tuple[str, str] | None = None,
) -> Called:
    assert broker.nsq_http_port
    headers = {}
    if login is not None:
        headers["Authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
    connection = HTTPConnection("127.0.0.1", broker.nsq_http_port, timeout=TIMEOUT_SECONDS)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    called = Called(
        response.status, response.read(), {k.lower(): v for k, v in response.getheaders()}
    )
    connection.close()
    return called


def get(broker: leveret.Broker, path: str) -> Any:
    """The JSON of a call that goes well."""
    called = call(broker, "GET", path)
    assert called.status == 200, called
    return called.json


def post(broker: leveret.Broker, path: str, body: bytes = b"") -> None:
    """A call that goes well."""
    called = call(broker, "POST", path, body)
    assert (called.status, called.body) in ((200, b""), (200, b"OK")), called


def topic_stats(broker: leveret.Broker, topic: str) -> Any:
    """A topic's row of /stats."""
    (row,) = get(broker, f"/stats?format=json&topic={topic}&include_mem=false")["topics"]
    return row


def lengths(row: Mapping[str, Any]) -> dict[str, int]:
    """The counts of a row that are not 0."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int) and not isinstance(value, bool) and value
    }
