"""Definitions go from RabbitMQ to Leveret and back, and are what they were."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import asked

from benchmarks.brokers import RabbitMQ

VHOST = "definitions"
PATH = "/api/definitions"
# RabbitMQ declares some 150 queues a second.
TIMEOUT_SECONDS = 120
# What an import may cost.
IMPORT_SECONDS_MAX = 2
Json = dict[str, Any]


class RabbitHttp:
    """Asks RabbitMQ's API as its default user."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
        headers = {
            "authorization": "Basic " + b64encode(b"guest:guest").decode(),
            "content-type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status < 300, (method, path, response.status, text[:500])
        return json.loads(text) if text else None


@pytest.fixture
def rabbit(rabbitmq: RabbitMQ, http_ports: tuple[int, int]) -> Iterator[RabbitHttp]:
    """RabbitMQ's API, and a vhost of this test's own in it."""
    assert rabbitmq.port
    rabbit = RabbitHttp(http_ports[0])
    rabbit("PUT", f"/api/vhosts/{VHOST}")
    yield rabbit
    forget(rabbit)


def forget(rabbit: RabbitHttp) -> None:
    rabbit("DELETE", f"/api/vhosts/{VHOST}")
    for row in rabbit("GET", "/api/users"):
        if row.get("name", "").startswith("defs."):
            rabbit("DELETE", f"/api/users/{row['name']}")


def definitions(queue_count: int, exchange_count: int, binding_count: int) -> Json:
    """Queues, exchanges and bindings with all kinds of arguments, users and policies."""
    types = ("direct", "topic", "fanout", "headers")
    limited = {"x-max-length": 10, "x-dead-letter-exchange": "dead", "x-message-ttl": 60_000}
    table = {"x-match": "all", "table": {"list": [1, "two", True, 1.5]}, "negative": -1}
    queues = [
        {
            "name": f"q/{number}",
            "durable": True,
            "auto_delete": number % 7 == 0,
            "arguments": limited if number % 3 else {},
        }
        for number in range(queue_count)
    ]
    exchanges = [
        {
            "name": f"e.{number} é",
            "type": types[number % 4],
            "durable": True,
            "auto_delete": False,
            "internal": number % 10 == 1,
            "arguments": {} if number % 5 else {"alternate-exchange": "amq.fanout"},
        }
        for number in range(exchange_count)
    ]
    bindings = []
    for number in range(binding_count):
        exchange = exchanges[(number * 7 + number // queue_count) % exchange_count]
        bindings.append(
            {
                "source": exchange["name"],
                "destination": f"q/{number % queue_count}",
                "destination_type": "queue",
                "routing_key": f"key.{number}.#",
                "arguments": table if exchange["type"] == "headers" else {},
            }
        )
    policies = [
        {
            "name": f"p{number}",
            "pattern": f"^q/{number}",
            "apply-to": "queues",
            "definition": {"expires": 3_600_000, "max-length": 5},
            "priority": number,
        }
        for number in range(10)
    ]
    limits = {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 5000}}
    return {
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
        "policies": policies,
        "parameters": [limits],
    }


def users() -> Json:
    names = [f"defs.{number}" for number in range(20)]
    everything = {"configure": "^q", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": name, "password": "hare", "tags": ["management"]} for name in names],
        "permissions": [{"user": name, "vhost": VHOST, **everything} for name in names],
        "topic_permissions": [
            {"user": names[0], "vhost": VHOST, "exchange": "amq.topic", "write": "^a", "read": ""}
        ],
    }


def rows_of(document: Json) -> dict[str, list[str]]:
    """The vhost's items, and the test's users, in an order of their own."""
    found = {}
    for section in (*users(), *definitions(1, 1, 1)):
        rows = [
            {name: value for name, value in row.items() if name != "type" or section != "queues"}
            for row in document[section]
            if row.get("vhost") == VHOST or row.get("name", "").startswith("defs.")
        ]
        found[section] = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return found


@pytest.mark.parametrize(
    "counts", [(60, 20, 200), pytest.param((1000, 200, 3000), marks=pytest.mark.soak)]
)
def test_what_rabbitmq_exports_goes_to_leveret_and_back(
    counts: tuple[int, int, int], rabbit: RabbitHttp, tmp_path: Path
) -> None:
    rabbit("POST", PATH, users())
    rabbit("POST", f"{PATH}/{VHOST}", definitions(*counts))
    exported = rabbit("GET", PATH)
    theirs = rows_of(exported)
    assert [len(theirs[section]) for section in ("queues", "exchanges", "bindings")] == [*counts]
    settings = {"http_listener": "on", "http_port": 0, "password_hash_cost": 10}
    with leveret.Broker(data_dir=tmp_path, port=0, **settings) as broker:  # type: ignore[arg-type]
        before = asked(broker, "GET", PATH).content
        last = exported["bindings"][-1]
        broken = [*exported["bindings"][:-1], last | {"destination_type": "none"}]
        answer = asked(broker, "POST", PATH, exported | {"bindings": broken})
        assert answer.status == 400
        assert f"bindings[{len(broken) - 1}]" in answer.content["reason"]
        assert asked(broker, "GET", PATH).content == before
        began, began_cpu = time.monotonic(), time.process_time()
        answer = asked(broker, "POST", PATH, exported)
        # Of the broker and of this client. A busy machine makes the time longer, and this hardly.
        cpu_seconds = time.process_time() - began_cpu
        print(f"imported in {time.monotonic() - began:.2f} s, {cpu_seconds:.2f} s of a processor")
        assert (answer.status, answer.content) == (204, None)
        assert cpu_seconds < IMPORT_SECONDS_MAX
        # By the hash that RabbitMQ made.
        whoami = asked(broker, "GET", "/api/whoami", None, "defs.3", "hare")
        assert whoami.status == 200
        own = {"password": "hare", "tags": "monitoring"}
        assert asked(broker, "PUT", "/api/users/defs.scrypt", own).status == 201
        ours = asked(broker, "GET", f"{PATH}?for_rabbitmq=true").content
    [scrypt] = [row for row in ours["users"] if row["name"] == "defs.scrypt"]
    assert "password_hash" not in scrypt
    forget(rabbit)
    rabbit("POST", PATH, ours)
    again = rabbit("GET", PATH)
    assert [row["tags"] for row in again["users"] if row["name"] == "defs.scrypt"] == [
        ["monitoring"]
    ]
    again["users"] = [row for row in again["users"] if row["name"] != "defs.scrypt"]
    assert rows_of(again) == theirs
