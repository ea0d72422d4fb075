"""Calls of every row of the table: paths with names of things that are there, and bodies that fit.

The broker has the queue `q` with a message, the exchanges `e` and `f`, bindings by the key `k`, the
vhost `shop`, and the user `victim` with permissions, those for topics of `e` among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import leveret
from asking_http import HARE, Answer, asked
from leveret.commands.control_client import ask_broker
from leveret.management.request import Action

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
PUBLISH = {"routing_key": "q", "payload": "x", "payload_encoding": "string", "properties": {}}
GET = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}

# Method and path of a row -> a body with which it changes something.
BODIES: Mapping[str, object] = {
    "PUT /api/queues/{vhost}/{queue}": {"durable": True},
    "PUT /api/exchanges/{vhost}/{exchange}": {"type": "topic"},
    "POST /api/exchanges/{vhost}/{exchange}/publish": PUBLISH | {"routing_key": "k"},
    "POST /api/queues/{vhost}/{queue}/get": GET,
    "POST /api/queues/{vhost}/{queue}/actions": {"action": "sync"},
    "POST /api/bindings/{vhost}/e/{exchange}/q/{destination}": {"routing_key": "new"},
    "POST /api/bindings/{vhost}/e/{exchange}/e/{destination}": {"routing_key": "new"},
    "PUT /api/vhosts/{vhost}": {"description": "changed"},
    "PUT /api/users/{user}": {"password": "x", "tags": "administrator"},
    "POST /api/users/bulk-delete": {"users": ["victim"]},
    "PUT /api/permissions/{vhost}/{user}": {"configure": "a", "write": "b", "read": "c"},
    "PUT /api/topic-permissions/{vhost}/{user}": {"exchange": "e", "write": "a", "read": "b"},
    "PUT /api/topic-permissions/{vhost}/{user}/{exchange}": {
        "exchange": "f",
        "write": "a",
        "read": "b",
    },
    "PUT /api/cluster-name": {"name": "hares"},
    "PUT /api/policies/{vhost}/{name}": {"pattern": "^none$", "definition": {"max-length": 9}},
    "PUT /api/operator-policies/{vhost}/{name}": {
        "pattern": "^none$",
        "definition": {"max-length": 9},
    },
    "PUT /api/vhost-limits/{vhost}/{name}": {"value": 1000},
    "PUT /api/user-limits/{user}/{name}": {"value": 1000},
    "PUT /api/global-parameters/{name}": {"name": "g", "value": 1},
    "POST /api/definitions": {"vhosts": [{"name": "imported"}]},
    "POST /api/all-configuration": {"vhosts": [{"name": "imported too"}]},
    "POST /api/definitions/{vhost}": {
        "queues": [{"name": "imported", "durable": True, "auto_delete": False, "arguments": {}}]
    },
}
# What the others find of this is compared.
STATE = (
    "/api/vhosts?columns=name,description,tracing",
    "/api/users",
    "/api/permissions",
    "/api/topic-permissions",
    "/api/queues?columns=vhost,name,durable,arguments,messages,state",
    "/api/exchanges?columns=vhost,name,type,arguments",
    "/api/bindings",
    "/api/connections?columns=name",
    "/api/policies",
    "/api/operator-policies",
    "/api/parameters",
    "/api/global-parameters",
    "/api/vhost-limits",
    "/api/user-limits",
    "/api/trace",
)


def _name_for(path: str) -> str:
    """What `{name}` in a path may be."""
    if "feature-flags" in path:
        return "quorum_queue"
    return "max-channels" if "user-limits" in path else "max-queues"


class Things(NamedTuple):
    """Names of what the broker has."""

    node: str
    connection: str

    def names(self, method: str, path: str) -> dict[str, str]:
        """For what a row has in braces."""
        is_declared = method == "PUT"
        is_dropped = method == "DELETE" and path.endswith("{vhost}")
        known = {
            "vhost": "shop" if is_dropped else "/",
            "queue": "new" if is_declared and path.endswith("{queue}") else "q",
            "exchange": "new" if is_declared else "e",
            "destination": "f" if "/e/{destination}" in path else "q",
            "properties_key": "k",
            "user": "victim",
            "username": "guest",
            "node": self.node,
            "connection": self.connection,
            "channel": f"{self.connection} (1)",
            "within": "1",
            "unit": "weeks",
            "port": "1",
            "protocol": "amqp",
            "name": _name_for(path),
        }
        return {name: known.get(name, "x") for name in re.findall(r"{(\w+)}", path)}

    def fill(self, action: Action) -> str:
        """The row's path with names."""
        names = self.names(action.method, action.path)
        return re.sub(r"{(\w+)}", lambda found: quote(names[found[1]], ""), action.path)


def body_of(action: Action) -> object:
    if action.method not in ("PUT", "POST"):
        return None
    return BODIES.get(f"{action.method} {action.path}", {})


def add_user(broker: leveret.Broker, name: str, *tags: str) -> None:
    arguments = {"user": name, "password_hash": HARE, "tags": list(tags)}
    ask_broker(broker.configuration.data_dir, "user add", arguments)


def make_things(broker: leveret.Broker) -> Things:
    """Have the things there again, as they are when a broker has just been given them."""
    path = "/api/users/victim"
    # As RabbitMQ has it: a salt of four octets and a SHA-256, in Base64.
    asked(broker, "PUT", path, {"password_hash": "A" * 48, "tags": ""})
    asked(broker, "PUT", "/api/permissions/%2F/victim", EVERYTHING)
    topics = {"exchange": "e", "write": "", "read": ""}
    asked(broker, "PUT", "/api/topic-permissions/%2F/victim", topics)
    asked(broker, "PUT", "/api/vhosts/shop", {})
    asked(broker, "PUT", "/api/queues/%2F/q", {})
    asked(broker, "DELETE", "/api/queues/%2F/q/contents")
    for name in "ef":
        asked(broker, "PUT", f"/api/exchanges/%2F/{name}", {})
    for to in ("q/q", "e/f"):
        asked(broker, "POST", f"/api/bindings/%2F/e/e/{to}", {"routing_key": "k"})
    asked(broker, "POST", "/api/exchanges/%2F/amq.default/publish", PUBLISH)
    [node] = asked(broker, "GET", "/api/nodes?columns=name").content
    rows = asked(broker, "GET", "/api/connections?columns=name").content
    return Things(node["name"], rows[0]["name"] if rows else "none")


def call(broker: leveret.Broker, action: Action, things: Things, user: str | None) -> Answer:
    password = "guest" if user == "guest" else "hare"
    path = things.fill(action)
    return asked(broker, action.method, path, body_of(action), user, password)


def state(broker: leveret.Broker) -> dict[str, Any]:
    """What the administrator sees of all that calls may change."""
    answers = {path: asked(broker, "GET", path) for path in STATE}
    return {path: each.content for path, each in answers.items() if each.status == 200}
