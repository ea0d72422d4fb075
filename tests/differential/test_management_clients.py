"""Management clients that others wrote, unmodified: the same scripts have the same results.

`test_closed_by_the_api.py` has what AMQP clients do when the API closes their connection.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pika
import pytest
from insides import wait_until
from management_calls import ask
from timeouts import TIMEOUT_SECONDS

Ports = tuple[tuple[int, int], ...]
Step = tuple[str, Callable[[], object]]
NODE_MODULES = Path(__file__).resolve().parents[2] / "build" / "node" / "node_modules"
EVERYTHING = (".*", ".*", ".*")
WITHOUT = "is not installed: make tools"
# The salted SHA-256 of "secret", as RabbitMQ writes it.
HASH = "q83vAbpVZfnwHtzKF9G4mXjU5WshjVLvqFzChVjhmcxFb3qW"


def compared(script: Callable[[int], Sequence[Step]], ports: Ports) -> None:
    """Each step of the script, in turn, is answered or refused alike."""
    theirs, ours = ({name: tried(call) for name, call in script(port)} for port, _ in ports)
    assert differing(theirs, ours) == {}


def differing(theirs: dict[str, object], ours: dict[str, object]) -> dict[str, object]:
    assert theirs
    return {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}


def columns(rows: Any, *names: str) -> list[dict[str, object]]:
    rows = rows if isinstance(rows, list) else [rows]
    chosen = [{name: row.get(name) for name in names} for row in rows]
    return sorted(chosen, key=lambda row: json.dumps(row, sort_keys=True))


def named(rows: list[dict[str, object]], name: str) -> list[dict[str, object]]:
    return [row for row in rows if row.get("name") == name]


def parts(definitions: dict[str, object]) -> list[str]:
    # Leveret's own, and those whom RabbitMQ cannot let in: their hash is scrypt's.
    return sorted(definitions.keys() - {"leveret_version", "users_without_password_hash"})


def tried(call: Callable[[], object]) -> object:
    """The result, or the name of the error that it raises and the status in it."""
    try:
        return call()
    except Exception as error:
        response = getattr(error, "response", None)
        status = getattr(error, "status", getattr(response, "status_code", None))
        return type(error).__name__, status, getattr(error, "detail", None)


def wait_for_no_connections(ports: Ports) -> None:
    """RabbitMQ lists the connections of earlier tests, and their channels, for a while."""

    def rows() -> list[object]:
        return [
            row
            for port, _ in ports
            for path in ("connections", "channels")
            for row in ask(port, "GET", path).content
        ]

    wait_until(lambda: rows() == [])


def test_pyrabbit2(api_ports: Ports) -> None:
    api = pytest.importorskip("pyrabbit2.api", reason=f"pyrabbit2 {WITHOUT}")

    def script(port: int) -> Sequence[Step]:
        client = api.Client(f"127.0.0.1:{port}", "guest", "guest", timeout=TIMEOUT_SECONDS)
        policy = {"pattern": "^x", "definition": {"max-length": 3}, "priority": 1}
        bindings = ("source", "routing_key", "properties_key", "arguments")

        def bound(rows: list[dict[str, object]]) -> list[dict[str, object]]:
            return [row for row in rows if row["source"] == "p.e"]

        def depth(count: int) -> int:
            wait_until(lambda: client.get_queue("p.v", "p.q").get("messages") == count)
            return int(client.get_queue_depth("p.v", "p.q"))

        return [
            ("alive", client.is_alive),
            ("whoami", client.get_whoami),
            ("overview", lambda: sorted(client.get_overview()["object_totals"])),
            ("nodes", lambda: columns(client.get_nodes(), "type", "running")),
            ("extensions", lambda: isinstance(client.get_extensions(), list)),
            ("cluster", lambda: list(client.get_cluster_name())),
            ("make vhost", lambda: client.create_vhost("p.v")),
            ("make vhost again", lambda: client.create_vhost("p.v")),
            ("vhost", lambda: client.get_vhost("p.v")["name"]),
            ("no vhost", lambda: client.get_vhost("none")),
            ("vhosts", lambda: "p.v" in client.get_vhost_names()),
            ("no permission", lambda: client.create_queue("p.v", "p.q")),
            ("permit", lambda: client.set_vhost_permissions("p.v", "guest", *EVERYTHING)),
            ("permission", lambda: client.get_permission("p.v", "guest")),
            ("permissions", lambda: client.get_vhost_permissions("p.v")),
            ("all permissions", lambda: columns(client.get_permissions(), "vhost", "user")),
            ("of user", lambda: columns(client.get_user_permissions("guest"), "vhost")),
            ("alive there", lambda: client.is_alive("p.v")),
            ("not alive", lambda: client.is_alive("none")),
            ("make exchange", lambda: client.create_exchange("p.v", "p.e", "topic")),
            ("make it another", lambda: client.create_exchange("p.v", "p.e", "fanout")),
            ("make it of no type", lambda: client.create_exchange("p.v", "p.f", "no-such")),
            ("exchange", lambda: columns(client.get_exchange("p.v", "p.e"), "type", "durable")),
            ("exchanges", lambda: columns(client.get_exchanges("p.v"), "name", "type")),
            (
                "make queue",
                lambda: client.create_queue(
                    "p.v", "p.q", durable=True, arguments={"x-max-length": 5}
                ),
            ),
            ("make it transient", lambda: client.create_queue("p.v", "p.q", durable=False)),
            ("queue", lambda: columns(client.get_queue("p.v", "p.q"), "durable", "arguments")),
            ("queues", lambda: columns(client.get_queues("p.v"), "name")),
            ("chosen queues", lambda: columns(client.get_queues("p.v", "p"), "name")),
            ("by pattern", lambda: columns(client.get_queues("p.v", "^.\\.q$", True), "name")),
            ("by another", lambda: client.get_queues("p.v", "^q", True)),
            ("by none", lambda: client.get_queues("p.v", "(", True)),
            ("make exchange of it", lambda: client.create_exchange("p.v", "p.d", "fanout")),
            ("make queue of it", lambda: client.create_queue("p.v", "p.r")),
            ("bind", lambda: client.create_binding("p.v", "p.e", "p.q", "a.b")),
            ("bind to all", lambda: client.create_binding("p.v", "p.e", "p.q", "c.#")),
            ("bind spaced", lambda: client.create_binding("p.v", "p.e", "p.q", "d e")),
            # RabbitMQ has a key null then, which no path names; Leveret an empty one.
            ("bind without key", lambda: client.create_binding("p.v", "p.d", "p.r")),
            ("bind nothing", lambda: client.create_binding("p.v", "p.e", "none", "a.b")),
            ("bindings", lambda: columns(client.get_queue_bindings("p.v", "p.q"), *bindings)),
            ("publish", lambda: client.publish("p.v", "p.e", "a.b", "hello")),
            ("publish base64", lambda: client.publish("p.v", "p.e", "c.d", "aGFyZQ==", "base64")),
            (
                "publish properties",
                lambda: client.publish(
                    "p.v", "p.e", "a.b", "x", properties={"headers": {"n": 1}, "delivery_mode": 2}
                ),
            ),
            ("publish to none", lambda: client.publish("p.v", "p.e", "b", "not routed")),
            ("publish nowhere", lambda: client.publish("p.v", "none", "b", "x")),
            ("depth", lambda: depth(3)),
            ("look", lambda: client.get_messages("p.v", "p.q", 2, requeue=True)),
            ("get", lambda: client.get_messages("p.v", "p.q", 2, truncate=2)),
            ("depth after", lambda: depth(1)),
            ("purge", lambda: client.purge_queue("p.v", "p.q")),
            ("purge some", lambda: client.purge_queues([("p.q", "p.v")])),
            ("get nothing", lambda: client.get_messages("p.v", "p.q")),
            ("unbind", lambda: client.delete_binding("p.v", "p.e", "p.q", "a.b")),
            ("unbind again", lambda: client.delete_binding("p.v", "p.e", "p.q", "a.b")),
            # The client does not quote the key: the path ends before '#'.
            ("unbind #", lambda: client.delete_binding("p.v", "p.e", "p.q", "c.#")),
            ("unbind quoted #", lambda: client.delete_binding("p.v", "p.e", "p.q", "c.%23")),
            ("unbind spaced", lambda: client.delete_binding("p.v", "p.e", "p.q", "d e")),
            ("left", lambda: columns(client.get_queue_bindings("p.v", "p.q"), *bindings)),
            ("all bindings", lambda: columns(bound(client.get_bindings()), *bindings)),
            ("delete queue", lambda: client.delete_queue("p.v", "p.q")),
            ("no queue", lambda: client.get_queue("p.v", "p.q")),
            ("no queue to delete", lambda: client.delete_queue("p.v", "p.q")),
            ("no vhost of queue", lambda: client.get_queue("none", "p.q")),
            ("delete exchange", lambda: client.delete_exchange("p.v", "p.e")),
            ("delete amq.topic", lambda: client.delete_exchange("p.v", "amq.topic")),
            (
                "make policy",
                lambda: client.create_policy("p.v", "limit", **policy, **{"apply-to": "queues"}),
            ),
            ("make policy of nothing", lambda: client.create_policy("p.v", "limit")),
            ("policy", lambda: client.get_policy("p.v", "limit")),
            ("policies", lambda: named(client.get_all_policies(), "limit")),
            ("delete policy", lambda: client.delete_policy("p.v", "limit")),
            ("no policy", lambda: client.get_policy("p.v", "limit")),
            ("make user", lambda: client.create_user("p.u", "secret", tags="management,mine")),
            ("make it again", lambda: client.create_user("p.u", "secret", tags="monitoring")),
            ("make user by hash", lambda: client.create_user("p.h", password_hash=HASH)),
            ("users", lambda: columns(named(client.get_users(), "p.u"), "tags")),
            ("definitions", lambda: parts(client.get_definitions())),
            ("delete permission", lambda: client.delete_permission("p.v", "guest")),
            ("delete user", lambda: [client.delete_user(name) for name in ("p.u", "p.h")]),
            ("delete no user", lambda: client.delete_user("p.u")),
            ("delete vhost", lambda: client.delete_vhost("p.v")),
            ("delete no vhost", lambda: client.delete_vhost("p.v")),
            ("wrong", api.Client(f"127.0.0.1:{port}", "guest", "wrong").get_whoami),
        ]

    compared(script, api_ports)


def test_rabbitmq_admin(api_ports: Ports) -> None:
    api = pytest.importorskip("rabbitmq_admin.api", reason=f"rabbitmq-admin {WITHOUT}")

    def script(port: int) -> Sequence[Step]:
        client = api.AdminAPI(f"http://127.0.0.1:{port}", ("guest", "guest"))
        policy = {"definition": {"max-length": 1}, "pattern": "^a", "apply_to": "queues"}
        fanout = {"type": "fanout", "durable": True}

        def user_of(*tags: str) -> object:
            # It sends tags as text, with ", " between them.
            client.create_user("a.u", "secret", tags=list(tags))
            return columns(client.get_user("a.u"), "name", "tags")

        def node() -> object:
            name = client.list_nodes()[0]["name"]
            return columns(client.get_node(name), "type", "running")

        return [
            ("overview", lambda: sorted(client.overview()["object_totals"])),
            ("whoami", client.whoami),
            ("cluster", lambda: list(client.get_cluster_name())),
            ("node", node),
            ("extensions", lambda: isinstance(client.list_extensions(), list)),
            ("vhost", lambda: client.create_vhost("a.v")),
            ("traced", lambda: client.create_vhost("a.v", tracing=True)),
            ("is traced", lambda: columns(client.get_vhost("a.v"), "name", "tracing")),
            ("not traced", lambda: client.create_vhost("a.v")),
            ("vhosts", lambda: columns(client.list_vhosts(), "name", "tracing")),
            ("user of no tag", user_of),
            ("user of a tag", lambda: user_of("monitoring")),
            ("user of two tags", lambda: user_of("management", "policymaker")),
            ("user of an odd tag", lambda: user_of("my own", "a,b", " c ")),
            ("user without password", lambda: client.create_user("a.n", None)),
            ("user by hash", lambda: client.create_user("a.h", None, password_hash=HASH)),
            ("users", lambda: columns(client.list_users(), "name", "tags")),
            ("permit", lambda: client.create_user_permission("a.u", "a.v", *EVERYTHING)),
            ("permission", lambda: client.get_user_permission("a.v", "a.u")),
            ("of user", lambda: client.list_user_permissions("a.u")),
            ("permissions", lambda: columns(client.list_permissions(), "vhost", "user")),
            ("permit guest", lambda: client.create_user_permission("guest", "a.v", *EVERYTHING)),
            ("exchange", lambda: client.create_exchange_for_vhost("a.e", "a.v", fanout)),
            ("no type", lambda: client.create_exchange_for_vhost("a.e", "a.v", {})),
            ("its row", lambda: columns(client.get_exchange_for_vhost("a.e", "a.v"), "type")),
            ("exchanges", lambda: columns(client.list_exchanges_for_vhost("a.v"), "name", "type")),
            ("all exchanges", lambda: columns(client.list_exchanges(), "vhost", "name")),
            ("bindings", lambda: client.list_bindings_for_vhost("a.v")),
            ("all bindings", lambda: columns(client.list_bindings(), "source", "destination")),
            ("consumers", client.list_consumers),
            ("consumers there", lambda: client.list_consumers_for_vhost("a.v")),
            ("consumers nowhere", lambda: client.list_consumers_for_vhost("none")),
            ("alive", lambda: client.is_vhost_alive("a.v")),
            ("set policy", lambda: client.create_policy_for_vhost("a.v", "p", **policy)),
            ("policy", lambda: client.get_policy_for_vhost("a.v", "p")),
            ("policies", lambda: client.list_policies_for_vhost("a.v")),
            # The client's path of this one ends in '/'.
            ("clear policy", lambda: client.delete_policy_for_vhost("a.v", "p")),
            ("is policy left", lambda: client.list_policies_for_vhost("a.v")),
            ("import", lambda: client.post_definitions({"vhosts": [{"name": "a.w"}]})),
            ("import broken", lambda: client.post_definitions({"queues": [{}]})),
            ("export", lambda: parts(client.get_definitions())),
            ("if unused", lambda: client.delete_exchange_for_vhost("a.e", "a.v", if_unused=True)),
            ("no exchange", lambda: client.get_exchange_for_vhost("a.e", "a.v")),
            ("forbid", lambda: client.delete_user_permission("a.u", "a.v")),
            ("forbid again", lambda: client.delete_user_permission("a.u", "a.v")),
            *((f"delete {name}", user(client, name)) for name in ("a.u", "a.n", "a.h")),
            *((f"delete {name}", vhost(client, name)) for name in ("a.v", "a.w", "none")),
        ]

    def user(client: Any, name: str) -> Callable[[], object]:
        return lambda: client.delete_user(name)

    def vhost(client: Any, name: str) -> Callable[[], object]:
        return lambda: client.delete_vhost(name)

    compared(script, api_ports)


def test_python_clients_see_a_connection_and_close_it(api_ports: Ports) -> None:
    pyrabbit = pytest.importorskip("pyrabbit2.api", reason=f"pyrabbit2 {WITHOUT}")
    admin = pytest.importorskip("rabbitmq_admin.api", reason=f"rabbitmq-admin {WITHOUT}")

    def closed_by(port: int, amqp_port: int, close: Callable[[str], object]) -> list[object]:
        one = pyrabbit.Client(f"127.0.0.1:{port}", "guest", "guest", timeout=TIMEOUT_SECONDS)
        other = admin.AdminAPI(f"http://127.0.0.1:{port}", ("guest", "guest"))
        # RabbitMQ lists a connection that has closed, and its channels, for a while.
        before = {None, *(row.get("name") for row in one.get_channels())}
        parameters = pika.ConnectionParameters("127.0.0.1", amqp_port, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        connection.channel()
        rows: list[dict[str, Any]] = []

        def is_seen() -> bool:
            connection.process_data_events(0.01)
            rows[:] = [row for row in one.get_channels() if row.get("name") not in before]
            return bool(rows)

        wait_until(is_seen)
        name, channel = rows[0]["connection_details"]["name"], rows[0]["name"]
        found: list[object] = [
            columns(one.get_connection(name), "user", "vhost", "state", "client_properties"),
            columns(one.get_channel(channel), "number", "user", "vhost"),
            # It writes a space as '+', which is a plus in a path.
            *(tried(lambda c=c: c(name)) for c in (other.get_connection, other.delete_connection)),
            columns(named(other.list_connections(), name), "user", "vhost"),
            columns(named(other.list_channels(), channel), "number", "vhost"),
        ]
        found.append(close(name))
        try:
            while True:
                connection.process_data_events(TIMEOUT_SECONDS)
        except pika.exceptions.ConnectionClosed as closed:
            found.append((closed.reply_code, closed.reply_text))
        return found

    def script(port: int, amqp_port: int) -> list[object]:
        one = pyrabbit.Client(f"127.0.0.1:{port}", "guest", "guest", timeout=TIMEOUT_SECONDS)
        return closed_by(port, amqp_port, one.delete_connection)

    theirs, ours = (script(*ports) for ports in api_ports)
    assert ours == theirs


def test_rabbitmq_stats_of_npm(api_ports: Ports) -> None:
    if shutil.which("node") is None or not (NODE_MODULES / "rabbitmq-stats").is_dir():
        pytest.skip(f"node or rabbitmq-stats {WITHOUT}")
    program = Path(__file__).with_name("rabbitmq_stats.js")

    def answers(port: int) -> dict[str, object]:
        done = subprocess.run(
            ["node", str(program), str(port)],
            env=os.environ | {"NODE_PATH": str(NODE_MODULES)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    wait_for_no_connections(api_ports)
    theirs, ours = (answers(port) for port, _ in api_ports)
    assert differing(theirs, ours) == {}


ADMIN_SCRIPT = [
    "declare vhost name=r.v",
    "declare permission vhost=r.v user=guest configure=.* write=.* read=.*",
    "declare user name=r.u password=x tags=monitoring",
    "--vhost=r.v declare exchange name=r.e type=topic durable=true",
    '--vhost=r.v declare queue name=r.q durable=true arguments={"x-max-length":9}',
    "--vhost=r.v declare binding source=r.e destination=r.q routing_key=a.#",
    '--vhost=r.v declare policy name=r.p pattern=^r definition={"max-length":5} apply-to=queues',
    '--vhost=r.v declare operator_policy name=r.o pattern=^z definition={"max-length":4}',
    "--vhost=r.v declare vhost_limit name=max-queues value=10",
    "declare user_limit user=r.u name=max-channels value=7",
    "--vhost=r.v publish exchange=r.e routing_key=a.b payload=hello",
    "--vhost=r.v publish exchange=r.e routing_key=b payload=lost",
    "--vhost=r.v get queue=r.q ackmode=ack_requeue_true",
    "--vhost=r.v purge queue name=r.q",
    "--vhost=r.v get queue=r.q",
    "--vhost=r.v list exchanges vhost name type durable",
    "--vhost=r.v list queues vhost name durable arguments",
    "--vhost=r.v list bindings vhost source destination routing_key properties_key",
    "list policies vhost name pattern definition priority apply-to",
    "list operator_policies vhost name pattern definition",
    "list vhost_limits",
    "list user_limits",
    "list users name tags",
    "list permissions vhost user configure write read",
    "list vhosts name",
    "list connections name",
    "list consumers",
    "--vhost=r.v delete binding source=r.e destination=r.q destination_type=queue"
    " properties_key=a.%23",
    "--vhost=r.v delete policy name=r.p",
    "--vhost=r.v delete operator_policy name=r.o",
    "--vhost=r.v delete queue name=r.q",
    "--vhost=r.v delete queue name=r.q",
    "--vhost=r.v delete exchange name=r.e",
    "delete permission vhost=r.v user=guest",
    "--vhost=r.v declare queue name=r.q",
    "delete user name=r.u",
    "delete vhost name=r.v",
    "delete vhost name=r.v",
    "--username=guest --password=wrong list users",
]


def test_rabbitmqadmin(api_ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    command = shutil.which("rabbitmqadmin")
    if command is None:
        pytest.skip("rabbitmqadmin, of Debian's package rabbitmq-server, is not installed")

    def script(port: int) -> list[object]:
        found: list[object] = []
        for words in ADMIN_SCRIPT:
            address = ["--host", "127.0.0.1", "--port", str(port)]
            said, status = StringIO(), 0
            monkeypatch.setattr(sys, "argv", [command, *address, *words.split()])
            with redirect_stdout(said), redirect_stderr(said):
                # In this process: a new one for each of the commands takes a minute.
                before = signal.getsignal(signal.SIGPIPE)
                try:
                    runpy.run_path(command, run_name="__main__")
                except SystemExit as ended:
                    status = int(ended.code or 0)
                finally:
                    # The program lets SIGPIPE end its process: the next write to a socket that its
                    # peer closed would end this worker, in a later test.
                    signal.signal(signal.SIGPIPE, before)
            text = said.getvalue().replace(str(port), "PORT")
            found.append((words, status, sorted(text.splitlines())))
        return found

    wait_for_no_connections(api_ports)
    theirs, ours = (script(port) for port, _ in api_ports)
    for left, right in zip(theirs, ours, strict=True):
        assert right == left
