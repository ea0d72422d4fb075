"""The management API of both, with the same sessions behind it: paths, fields, types and values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import quote

import pika
import pytest
from insides import wait_until
from management_calls import Answer, ask, login
from standing_management import (
    ANSWERS,
    FAULTS,
    METHODS,
    REFUSED,
    SOMETIMES,
    STANDING,
    UNANSWERED,
    UNLISTED,
)
from timeouts import TIMEOUT_SECONDS

QUEUES: dict[str, dict[str, Any]] = {
    "m.classic": {"durable": True},
    "m.limited": {"arguments": {"x-max-length": 5, "x-dead-letter-exchange": "m.dead"}},
    "m.quorum": {"durable": True, "arguments": {"x-queue-type": "quorum"}},
    "m.single": {"arguments": {"x-single-active-consumer": True}},
}
# Resource -> its paths. {C}: the connection's name, {N}: the node's.
PATHS = {
    "overview": ["overview"],
    "node": ["nodes", "nodes/{N}"],
    "memory": ["nodes/{N}/memory", "nodes/{N}/memory/relative", "nodes/none/memory"],
    "connection": ["connections", "connections/{C}", "vhosts/%2F/connections"],
    "connection of user": ["connections/username/guest", "connections/username/none"],
    "channel": [
        "channels",
        "connections/{C}/channels",
        "channels/{C}%20(1)",
        "vhosts/%2F/channels",
    ],
    "consumer": ["consumers", "consumers/%2F"],
    "exchange": ["exchanges", "exchanges/%2F", "exchanges/%2F/m.e"],
    "queue": ["queues", "queues/%2F", *(f"queues/%2F/{name}" for name in QUEUES)],
    "binding": [
        "bindings",
        "bindings/%2F",
        "queues/%2F/m.classic/bindings",
        "exchanges/%2F/m.e/bindings/source",
        "exchanges/%2F/m.e/bindings/destination",
        "bindings/%2F/e/m.e/q/m.classic",
    ],
    "vhost": ["vhosts", "vhosts/%2F"],
    "user": ["users", "users/guest", "users/without-permissions"],
    "permission": ["permissions", "permissions/%2F/guest", "users/guest/permissions"],
    "topic permission": ["topic-permissions", "vhosts/%2F/topic-permissions"],
    "policy": ["policies", "policies/%2F", "operator-policies"],
    "limits": ["vhost-limits", "user-limits", "user-limits/guest"],
    "parameter": ["parameters"],
    "page": ["queues?page=1&page_size=2&columns=name"],
    "feature flag": ["feature-flags"],
    "login": ["auth", "whoami", "cluster-name"],
    "login attempts": ["auth/attempts/{N}", "auth/attempts/{N}/source"],
    "check": [
        "health/checks/alarms",
        "health/checks/local-alarms",
        "health/checks/virtual-hosts",
        "health/checks/port-listener/1",
        "health/checks/protocol-listener/amqp",
        "health/checks/protocol-listener/nope",
        "health/checks/certificate-expiration/1/eons",
        "health/checks/node-is-quorum-critical",
        "healthchecks/node",
        "aliveness-test/%2F",
    ],
}
# Resource -> columns whose values are the same in both.
VALUES = {
    "connection": ("user", "vhost", "state", "protocol", "auth_mechanism", "channels", "type"),
    "channel": ("confirm", "number", "user", "prefetch_count", "transactional", "vhost"),
    "consumer": ("ack_required", "exclusive", "prefetch_count", "queue", "arguments", "active"),
    "exchange": ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"),
    "queue": ("name", "vhost", "durable", "auto_delete", "exclusive", "arguments", "type"),
    "binding": ("source", "destination", "destination_type", "routing_key", "arguments", "vhost"),
    "vhost": ("name", "tracing"),
    "user": ("name", "tags", "limits"),
    "permission": ("user", "vhost", "configure", "write", "read"),
    "topic permission": ("user", "vhost", "exchange", "write", "read"),
    "policy": ("name", "vhost", "pattern", "apply-to", "definition", "priority"),
    "limits": ("vhost", "user", "value"),
    "page": ("items", "page", "page_count", "page_size", "item_count"),
    "check": ("status",),
}


class Managed(NamedTuple):
    """A broker with a session: its HTTP port, its node's name, and its connection's."""

    port: int
    node: str
    connection: str

    def ask(self, path: str) -> Answer:
        path = path.replace("{N}", self.node).replace("{C}", quote(self.connection, ""))
        return ask(self.port, "GET", path)


def begin(stack: ExitStack, port: int, amqp_port: int) -> Managed:
    """Queues of several kinds, consumers, messages ready and unacknowledged."""
    for name, body in QUEUES.items():
        ask(port, "PUT", f"queues/%2F/{name}", body)
        stack.callback(ask, port, "DELETE", f"queues/%2F/{name}")
    ask(port, "PUT", "exchanges/%2F/m.e", {"type": "topic"})
    stack.callback(ask, port, "DELETE", "exchanges/%2F/m.e")
    for body in ({"routing_key": "a.#", "arguments": {"x": 1}}, {"routing_key": "b"}):
        ask(port, "POST", "bindings/%2F/e/m.e/q/m.classic", body)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", amqp_port, heartbeat=0)
    )
    stack.callback(connection.close)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=3)
    for name in QUEUES:
        for _ in range(5):
            channel.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=2))
    for name in ("m.classic", "m.quorum", "m.single"):
        channel.basic_consume(name, lambda *_: None)

    def rows() -> list[dict[str, Any]]:
        connection.process_data_events(0.05)
        return [row for row in ask(port, "GET", "channels").content if row.get("name")]

    names: list[str] = []

    def is_listed() -> bool:
        # RabbitMQ may list the channel of an earlier connection, too.
        own = [row for row in rows() if row.get("messages_unacknowledged") == 9]
        names[:] = [row["connection_details"]["name"] for row in own]
        return len(names) == 1

    wait_until(is_listed)
    wait_until(lambda: ask(port, "GET", "queues/%2F/m.classic").content.get("messages_ready") == 2)
    [name] = names
    return Managed(port, ask(port, "GET", "overview").content["node"], name)


@pytest.fixture(scope="module")
def managed(api_ports: tuple[tuple[int, int], ...]) -> Iterator[tuple[Managed, Managed]]:
    """RabbitMQ and Leveret."""
    with ExitStack() as stack:
        theirs, ours = (begin(stack, *ports) for ports in api_ports)
        yield theirs, ours


Types = dict[str, set[str]]
NAMES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def types_in(value: Any, path: str, found: Types) -> None:
    if isinstance(value, dict):
        found.setdefault(path, set()).add("object")
        # Names that are data.
        if path.endswith(
            ("arguments", "definition", "cluster_state", "client_properties", "value")
        ):
            return
        for name, each in value.items():
            types_in(each, f"{path}.{name}", found)
    elif isinstance(value, list):
        found.setdefault(path, set()).add("array")
        for each in value:
            types_in(each, f"{path}[]", found)
    else:
        found.setdefault(path, set()).add(NAMES[type(value)])


def fields(one: Managed, resource: str) -> Types:
    found: Types = {}
    for path in PATHS[resource]:
        content = one.ask(path).content
        for row in content if isinstance(content, list) else [content]:
            types_in(row, f"{resource} ", found)
    return found


def differences(theirs: Types, ours: Types) -> dict[str, tuple[str, str]]:
    found = {}
    for field in sorted(theirs.keys() | ours.keys()):
        sides = theirs.get(field), ours.get(field)
        owner = field.rpartition(".")[0].removesuffix("[]")
        is_below_absent = owner in theirs.keys() ^ ours.keys()
        if sides[0] == sides[1] or is_below_absent or field.removesuffix("[]") in found:
            continue
        if SOMETIMES.search(field) and (None in sides or "null" in sides[0] | sides[1]):  # type: ignore[operator]
            continue
        left, right = ("-" if side is None else "|".join(sorted(side)) for side in sides)
        found[field] = left, right
    return found


@pytest.mark.parametrize("resource", PATHS)
def test_fields_have_the_same_types(resource: str, managed: tuple[Managed, Managed]) -> None:
    expected = {k: v for k, v in STANDING.items() if k.partition(" .")[0] == resource}
    found = differences(*(fields(each, resource) for each in managed))
    assert found == expected, f"see standing_management.py\n{found}"


def listed_paths(rabbitmq_port: int) -> set[str]:
    """Those of RabbitMQ's own description, with {vhost} and "x" for names."""
    connection = HTTPConnection("127.0.0.1", rabbitmq_port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/api/index.html")
    page = connection.getresponse().read().decode()
    connection.close()
    page = re.sub("<i>vhost</i>|(?<=/api/vhosts/)<i>name</i>", "{vhost}", page)
    page = re.sub("<i>.*?</i>", "x", page).replace("<br/>", " ")
    cells = re.findall(r'<td class="path">(.*?)</td>', page, re.DOTALL)
    paths = [path for cell in cells for path in cell.split() if path.startswith("/api/")]
    return {path.rstrip("/") for path in paths}


def methods(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    connection.request("OPTIONS", path.replace("{vhost}", "x"), headers=login("guest"))
    response = connection.getresponse()
    response.read()
    connection.close()
    allowed = response.getheader("allow", "") if response.status == 200 else ""
    return " ".join(sorted(set(allowed.split(", ")) - {"HEAD", "OPTIONS"}))


def test_paths_have_the_same_methods(managed: tuple[Managed, Managed]) -> None:
    theirs, ours = managed
    paths = listed_paths(theirs.port)
    assert len(paths) > 75
    assert not paths & set(UNLISTED)
    sides = {
        path: (methods(theirs.port, path), methods(ours.port, path))
        for path in sorted(paths | set(UNLISTED))
    }
    assert {path: each for path, each in sides.items() if each[0] != each[1]} == METHODS


@pytest.fixture(scope="module")
def changes(managed: tuple[Managed, Managed]) -> list[tuple[str, str]]:
    """Method and path of all that RabbitMQ can be asked to change."""
    port = managed[0].port
    found = [
        (method, path)
        for path in sorted(listed_paths(port) | set(UNLISTED))
        for method in methods(port, path).split()
        if method != "GET"
    ]
    assert len(found) > 45
    return found


@pytest.mark.parametrize("has_access", [False, True], ids=["no access", "access"])
@pytest.mark.parametrize("tag", ["", "management", "policymaker", "monitoring"])
def test_changes_by_users_of_each_tag_are_refused_the_same(
    tag: str,
    has_access: bool,
    managed: tuple[Managed, Managed],
    tagged: None,
    changes: list[tuple[str, str]],
) -> None:
    """With names of nothing, in a vhost that is there, and without a body that could be right."""

    def answers(one: Managed) -> dict[tuple[str, str], object]:
        ask(one.port, "PUT", "vhosts/m.v", {})
        if has_access:
            permission = {"configure": "", "write": "", "read": ""}
            ask(one.port, "PUT", f"permissions/m.v/m.{tag}", permission)
        found: dict[tuple[str, str], object] = {}
        for method, path in changes:
            filled = path.removeprefix("/api/").replace("{vhost}", "m.v")
            status, content = ask(one.port, method, filled, {}, f"m.{tag}")
            found[method, path] = (status, content["reason"]) if status == 401 else status
        ask(one.port, "DELETE", "vhosts/m.v")
        return found

    theirs, ours = (answers(each) for each in managed)
    found = {row: (theirs[row], ours[row]) for row in changes if theirs[row] != ours[row]}
    expected = UNANSWERED | (FAULTS if tag else {})
    assert found == expected


@pytest.mark.parametrize("resource", PATHS)
def test_paths_have_the_same_status(resource: str, managed: tuple[Managed, Managed]) -> None:
    theirs, ours = managed
    statuses = {path: (theirs.ask(path).status, ours.ask(path).status) for path in PATHS[resource]}
    assert {path: each[0] for path, each in statuses.items()} == {
        path: each[1] for path, each in statuses.items()
    }


@pytest.mark.parametrize("resource", VALUES)
def test_values_that_are_no_brokers_own_are_the_same(
    resource: str, managed: tuple[Managed, Managed]
) -> None:
    def shown(one: Managed) -> dict[str, list[str]]:
        found = {}
        for path in PATHS[resource]:
            content = one.ask(path).content
            rows = content if isinstance(content, list) else [content]
            chosen = [
                {name: row.get(name) for name in VALUES[resource]}
                for row in rows
                # RabbitMQ lists a connection that has closed for a while.
                if row.get("name") != "amq.rabbitmq.trace" and row.get("state") != "closed"
            ]
            found[path] = sorted(json.dumps(each, sort_keys=True) for each in chosen)
        return found

    theirs, ours = (shown(each) for each in managed)
    for path, rows in theirs.items():
        assert ours[path] == rows, path


USERS = ("", "management", "policymaker", "monitoring", "administrator")
GUARDED = [path for paths in PATHS.values() for path in paths] + [
    "nothing-here",
    "exchanges/%2F/none",
    "queues/none",
    "queues/none/q",
    "permissions/%2F/none",
    "users/none",
    "vhosts/none",
    "parameters/none",
    "global-parameters",
    "vhost-limits/%2F",
    "policies/%2F/none",
]


@pytest.fixture(scope="module")
def tagged(managed: tuple[Managed, Managed]) -> Iterator[None]:
    """A user of each tag, in both, without a permission."""
    for one in managed:
        for tag in USERS:
            ask(one.port, "PUT", f"users/m.{tag}", {"password": "secret", "tags": tag})
    yield
    for one in managed:
        for tag in USERS:
            ask(one.port, "DELETE", f"users/m.{tag}")


@pytest.mark.parametrize("tag", USERS)
def test_users_of_each_tag_are_refused_the_same(
    tag: str, managed: tuple[Managed, Managed], tagged: None
) -> None:
    def answers(one: Managed) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in GUARDED:
            named = path.replace("{N}", one.node).replace("{C}", quote(one.connection, ""))
            status, content = ask(one.port, "GET", named, user=f"m.{tag}")
            found[path] = (status, content["reason"]) if status == 401 else status
        return found

    theirs, ours = (answers(each) for each in managed)
    found = {path: (theirs[path], ours[path]) for path in GUARDED if theirs[path] != ours[path]}
    assert found == (REFUSED if tag in ("management", "policymaker") else {})


CHANGES: list[tuple[str, str, object]] = [
    ("PUT", "queues/%2F/c.q", {"durable": True}),
    ("PUT", "queues/%2F/c.q", {"durable": False}),
    ("PUT", "queues/%2F/c.q", {"durable": "maybe"}),
    ("PUT", "queues/%2F/amq.c", {}),
    ("PUT", "queues/none/c.q", {}),
    ("PUT", "exchanges/%2F/c.e", {"type": "fanout"}),
    ("PUT", "exchanges/%2F/c.e", {"type": "topic"}),
    ("DELETE", "exchanges/%2F/none", None),
    ("POST", "bindings/%2F/e/c.e/q/c.q", {"routing_key": "k"}),
    ("POST", "bindings/%2F/e/c.e/q/none", {"routing_key": "k"}),
    ("GET", "bindings/%2F/e/c.e/q/c.q/k", None),
    ("DELETE", "bindings/%2F/e/c.e/q/c.q/none", None),
    ("POST", "exchanges/%2F/amq.default/publish", {}),
    (
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"routing_key": "c.q", "payload": "a", "payload_encoding": "string", "properties": {}},
    ),
    ("POST", "queues/%2F/c.q/get", {"count": 1, "ackmode": "ack_requeue_true"}),
    (
        "POST",
        "queues/%2F/c.q/get",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    ),
    ("POST", "queues/%2F/c.q/actions", {"action": "nope"}),
    ("DELETE", "queues/%2F/c.q/contents", None),
    ("DELETE", "bindings/%2F/e/c.e/q/c.q/k", None),
    ("DELETE", "queues/%2F/c.q", None),
    ("DELETE", "queues/%2F/c.q", None),
    ("DELETE", "exchanges/%2F/c.e", None),
    ("PUT", "vhosts/c.v", {"description": "d"}),
    ("PUT", "vhosts/c.v", {"description": "e"}),
    ("PUT", "users/c.u", {"password": "x"}),
    ("PUT", "users/c.u", {"password": "x", "tags": "management"}),
    ("PUT", "users/c.u", {"password": "x", "tags": "management"}),
    ("PUT", "permissions/c.v/c.u", {"configure": "a"}),
    ("PUT", "permissions/c.v/c.u", {"configure": "a", "write": "b", "read": "c"}),
    ("PUT", "permissions/c.v/none", {"configure": "a", "write": "b", "read": "c"}),
    ("DELETE", "permissions/c.v/c.u", None),
    ("DELETE", "users/c.u", None),
    ("DELETE", "users/c.u", None),
    ("DELETE", "vhosts/c.v", None),
    ("POST", "users/bulk-delete", {}),
    ("POST", "rebalance/queues", {}),
    ("PUT", "cluster-name", {}),
    ("PUT", "cluster-name", []),
    ("PUT", "cluster-name", {"name": "hares é"}),
    ("GET", "cluster-name", None),
    ("GET", "overview?columns=cluster_name", None),
    ("DELETE", "global-parameters/cluster_name", None),
    ("DELETE", "reset/none", None),
    ("DELETE", "reset", None),
    ("PUT", "feature-flags/none/enable", {}),
    ("PUT", "feature-flags/quorum_queue/enable", {}),
    ("DELETE", "connections/username/none", None),
    ("PUT", "topic-permissions/%2F/guest/x", {"exchange": "amq.topic", "write": "a", "read": "b"}),
    ("PUT", "topic-permissions/%2F/guest/x", {"exchange": "c", "write": "a", "read": "b"}),
    ("PUT", "topic-permissions/%2F/guest/amq.topic", {"write": "a", "read": "b"}),
    ("DELETE", "topic-permissions/%2F/guest/x", None),
    ("DELETE", "topic-permissions/%2F/guest/c", None),
    ("GET", "topic-permissions/%2F/guest/none", None),
    ("DELETE", "topic-permissions/%2F/guest/amq.topic", None),
    ("DELETE", "topic-permissions/%2F/guest/amq.topic", None),
    ("DELETE", "topic-permissions/none/guest/amq.topic", None),
    ("GET", "bindings/%2F/e/amq.direct/x/y", None),
    ("GET", "bindings/%2F/e/amq.direct/x/y/z", None),
    ("DELETE", "connections/none", None),
    ("GET", "queues?page=0", None),
    ("GET", "queues?page=99", None),
    *(
        ("GET", path, None)
        for path in (
            "bindings/%2F/e/none/q/none",
            "bindings/%2F/e/amq.direct/q/none",
            "bindings/%2F/e/none/e/amq.direct",
            "bindings/%2F/e/amq.direct/e/none",
            "bindings/%2F/e/amq.direct/q/none/~",
            "exchanges/%2F/none/bindings/source",
            "exchanges/%2F/none/bindings/destination",
        )
    ),
]


LIMITS = "parameters/vhost-limits/%2F/limits"
# By a policymaker with permissions in the vhost "/", none in "m.v", and no vhost "none".
LIMITED: list[tuple[str, str, object]] = [
    ("PUT", LIMITS, {"value": {"max-queues": 500}}),
    ("PUT", LIMITS, {"name": "x", "vhost": "m.v", "value": {"max-connections": 500}}),
    ("GET", LIMITS, None),
    ("GET", "vhost-limits", None),
    ("GET", "parameters/vhost-limits", None),
    ("PUT", LIMITS, {"value": {"nope": 5}}),
    ("PUT", LIMITS, {"value": {"max-queues": "x"}}),
    ("PUT", LIMITS, {"value": 5}),
    ("PUT", LIMITS, {}),
    ("PUT", LIMITS, {"value": {}}),
    ("GET", LIMITS, None),
    ("GET", "vhost-limits/%2F", None),
    ("PUT", "vhost-limits/%2F/max-queues", {"value": 9}),
    ("DELETE", "vhost-limits/%2F/max-queues", None),
    ("DELETE", LIMITS, None),
    ("DELETE", LIMITS, None),
    ("GET", "vhost-limits", None),
    *(
        (method, f"parameters/vhost-limits/{vhost}/limits", {"value": {"max-queues": 5}})
        for vhost in ("m.v", "none")
        for method in ("PUT", "GET", "DELETE")
    ),
]


def test_a_policymaker_sets_limits_of_its_vhosts_as_parameters(
    managed: tuple[Managed, Managed], tagged: None
) -> None:
    """It needs an administrator to set them as limits; as parameters it does not, as there."""
    permission = {"configure": "", "write": "", "read": ""}

    def answers(one: Managed) -> list[Answer]:
        ask(one.port, "PUT", "vhosts/m.v", {})
        ask(one.port, "PUT", "permissions/%2F/m.policymaker", permission)
        found = [ask(one.port, *each, user="m.policymaker") for each in LIMITED]
        ask(one.port, "DELETE", "permissions/%2F/m.policymaker")
        ask(one.port, "DELETE", "vhosts/m.v")
        return found

    for call, theirs, ours in zip(LIMITED, *map(answers, managed), strict=True):
        assert ours == theirs, call


def test_changes_and_refusals_are_answered_the_same(managed: tuple[Managed, Managed]) -> None:
    def answers(one: Managed) -> list[Answer]:
        return [ask(one.port, method, path, body) for method, path, body in CHANGES]

    theirs, ours = (answers(each) for each in managed)
    rows = zip(CHANGES, theirs, ours, strict=True)
    found = {
        f"{number} {method} {path}": (left, right)
        for number, ((method, path, _), left, right) in enumerate(rows)
        if left != right
    }
    expected = {name: (Answer(*left), Answer(*right)) for name, (left, right) in ANSWERS.items()}
    assert found == expected, "\n".join(f"{name}: {sides}" for name, sides in found.items())
