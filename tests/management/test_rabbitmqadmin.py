"""RabbitMQ's own command for its API, unmodified, against a broker of this process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import port
from leveret.amqp_frames.constants import CONNECTION_FORCED
from leveret.amqp_frames.methods import ConnectionClose
from timeouts import TIMEOUT_SECONDS
from wire import Client

COMMAND = shutil.which("rabbitmqadmin")
pytestmark = pytest.mark.skipif(
    COMMAND is None, reason="rabbitmqadmin, of Debian's package rabbitmq-server, is not installed"
)
LISTS = (
    "users",
    "vhosts",
    "permissions",
    "exchanges",
    "queues",
    "bindings",
    "connections",
    "channels",
    "consumers",
    "nodes",
)

Admin = Callable[..., str]


@pytest.fixture
def admin(broker: leveret.Broker) -> Admin:
    def run(*words: str, is_refused: bool = False) -> str:
        assert COMMAND is not None
        address = ["--host", "127.0.0.1", "--port", str(port(broker))]
        ended = subprocess.run(
            [COMMAND, *address, *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert bool(ended.returncode) == is_refused, ended.stdout + ended.stderr
        return (ended.stdout + ended.stderr).strip()

    return run


def rows(admin: Admin, what: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(admin("-f", "raw_json", "list", what, *words))
    return found


@pytest.mark.parametrize("what", LISTS)
def test_it_lists(what: str, admin: Admin, client: Client) -> None:
    client.declare("q")
    found = rows(admin, what)
    assert bool(found) == (what != "consumers")
    admin("list", what)


def test_it_declares_publishes_fetches_and_deletes(admin: Admin) -> None:
    admin("declare", "exchange", "name=e", "type=topic", "durable=true")
    admin("declare", "queue", "name=q", "durable=true", 'arguments={"x-max-length":10}')
    admin("declare", "binding", "source=e", "destination=q", "routing_key=a.#")
    properties = 'properties={"delivery_mode":2}'
    publish = ("publish", "exchange=e", "payload=hello")
    assert admin(*publish, "routing_key=a.b", properties) == "Message published"
    assert admin(*publish, "routing_key=b") == "Message published but NOT routed"
    [row] = rows(admin, "queues")
    assert (row["name"], row["messages"], row["arguments"]) == ("q", 1, {"x-max-length": 10})
    assert "hello" in admin("get", "queue=q", "ackmode=ack_requeue_true")
    assert "hello" in admin("get", "queue=q", "ackmode=ack_requeue_false")
    admin(*publish, "routing_key=a")
    admin("purge", "queue", "name=q")
    assert rows(admin, "queues")[0]["messages"] == 0
    ends = ("source=e", "destination=q", "destination_type=queue")
    admin("delete", "binding", *ends, "properties_key=a.%23")
    assert [row["source"] for row in rows(admin, "bindings")] == [""]
    admin("delete", "queue", "name=q")
    assert "Not found" in admin("delete", "queue", "name=q", is_refused=True)
    admin("delete", "exchange", "name=e")


def test_it_changes_accounts(admin: Admin) -> None:
    admin("declare", "vhost", "name=shop")
    admin("declare", "user", "name=ann", "password=hare", "tags=management")
    patterns = ("configure=.*", "write=.*", "read=.*")
    admin("declare", "permission", "vhost=shop", "user=ann", *patterns)
    as_ann = ("--vhost=shop", "--username=ann", "--password=hare")
    admin(*as_ann, "declare", "queue", "name=q")
    assert [(row["vhost"], row["name"]) for row in rows(admin, "queues")] == [("shop", "q")]
    admin("delete", "permission", "vhost=shop", "user=ann")
    assert "Access refused" in admin(*as_ann, "declare", "queue", "name=r", is_refused=True)
    admin("delete", "user", "name=ann")
    admin("delete", "vhost", "name=shop")
    assert not rows(admin, "queues")


def test_it_closes_connections(admin: Admin, client: Client) -> None:
    [row] = rows(admin, "connections")
    admin("close", "connection", f"name={row['name']}")
    assert client.expect_type(0, ConnectionClose).reply_code == CONNECTION_FORCED


def test_it_exports_and_imports_definitions(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "queue", "name=q", "durable=true")
    admin("declare", "vhost", "name=shop")
    whole, one = str(tmp_path / "whole.json"), str(tmp_path / "one.json")
    admin("export", whole)
    admin("--vhost=/", "export", one)
    admin("delete", "queue", "name=q")
    admin("import", whole)
    assert [row["name"] for row in rows(admin, "queues")] == ["q"]
    admin("--vhost=shop", "import", one)
    assert sorted(row["vhost"] for row in rows(admin, "queues")) == ["/", "shop"]
    (tmp_path / "broken.json").write_text('{"queues": [{}]}')
    assert "it has no 'vhost'" in admin("import", str(tmp_path / "broken.json"), is_refused=True)
