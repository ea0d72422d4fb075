"""Users, vhosts and permissions that both brokers are given before they start."""

from __future__ import annotations

import json
from pathlib import Path

from leveret.commands.offline_accounts import offline_accounts
from leveret.configuration import Configuration
from leveret.open_accounts import new_password_hash

PASSWORD = "secret"
HASH_COST = 10
OTHER_VHOST = "other"

# User -> what it may configure, write and read in the vhost "/".
PERMISSIONS = {
    "does all": (".*", ".*", ".*"),
    "does nothing": ("", "", ""),
    "configures": (".*", "", ""),
    "writes": ("", ".*", ""),
    "reads": ("", "", ".*"),
    "configures and reads": (".*", "", ".*"),
    "reads and writes": ("", ".*", ".*"),
    "has q": ("^q$", "^(q|amq\\.default)$", "^q$"),
    "has part of a name": ("ew", "x", "q|x"),
}
# May do all in "/", and publish and bind with some keys of amq.topic.
HAS_TOPICS = "has topics"
TOPIC_PATTERNS = {"exchange": "amq.topic", "write": "^({username}|a)$", "read": "^b"}
# May do all in "/", and have no connection, or one channel.
USER_LIMITS = {"may not connect": {"max-connections": 0}, "has a channel": {"max-channels": 1}}
# Vhosts of which one may have one queue, and the other no connection; guest may do all.
VHOST_LIMITS = {"one queue": {"max-queues": 1}, "no connection": {"max-connections": 0}}
# What guest publishes and consumes there goes to the firehose.
TRACED_VHOST = "traced"
POLICY = {
    "vhost": "/",
    "name": "short",
    "pattern": "^governed",
    "apply-to": "all",
    "definition": {"max-length": 1, "overflow": "drop-head"},
    "priority": 0,
}
OPERATOR_POLICY = POLICY | {"pattern": "^governed.op", "definition": {"max-length": 0}}
TAGS = {"impersonates": ["impersonator"]}
MAY_ENTER_OTHER = "does all"
# Named by their certificates, for EXTERNAL; what a certificate says is in test_tls.py.
BY_CERTIFICATE = (
    "CN=joe,OU=clients,O=Hare",
    "CN=Doe\\, Jane,OU=clients,O=Hare",
    "CN=J\\C3\\B6rg,OU=clients,O=Hare",
)


def _permissions() -> list[dict[str, str]]:
    others = (*TAGS, *BY_CERTIFICATE, HAS_TOPICS, *USER_LIMITS)
    users = PERMISSIONS | dict.fromkeys(others, (".*", ".*", ".*"))
    rows = [(user, "/", *allowed) for user, allowed in users.items()]
    rows.append((MAY_ENTER_OTHER, OTHER_VHOST, ".*", ".*", ".*"))
    rows += [("guest", vhost, ".*", ".*", ".*") for vhost in (*VHOST_LIMITS, TRACED_VHOST)]
    names = ("user", "vhost", "configure", "write", "read")
    return [dict(zip(names, row, strict=True)) for row in rows]


def write_definitions(path: Path) -> None:
    """For RabbitMQ's load_definitions, which then makes no default user."""
    users = [{"name": "guest", "password": "guest", "tags": ["administrator"]}]
    users += [
        {"name": user, "password": PASSWORD, "tags": TAGS.get(user, [])}
        for user in (*PERMISSIONS, *TAGS, *BY_CERTIFICATE, HAS_TOPICS)
    ]
    users += [
        {"name": user, "password": PASSWORD, "tags": [], "limits": limits}
        for user, limits in USER_LIMITS.items()
    ]
    everything = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    definitions = {
        "rabbit_version": "3.10.8",
        "users": users,
        "vhosts": [{"name": name} for name in ("/", OTHER_VHOST, TRACED_VHOST, *VHOST_LIMITS)],
        "permissions": [everything, *_permissions()],
        "topic_permissions": [{"user": HAS_TOPICS, "vhost": "/"} | TOPIC_PATTERNS],
        "policies": [POLICY],
        "parameters": [
            {"component": "vhost-limits", "name": "limits", "vhost": vhost, "value": limits}
            for vhost, limits in VHOST_LIMITS.items()
        ]
        + [
            {
                "component": "operator_policy",
                "name": OPERATOR_POLICY["name"],
                "vhost": "/",
                "value": {
                    key: OPERATOR_POLICY[key]
                    for key in ("pattern", "apply-to", "definition", "priority")
                },
            }
        ],
    }
    path.write_text(json.dumps(definitions))


def grant_offline(data_directory: Path) -> None:
    """In Leveret's catalog, while no broker uses it."""
    data_directory.mkdir()
    configuration = Configuration(data_dir=data_directory, password_hash_cost=HASH_COST)
    password_hash = new_password_hash(PASSWORD, HASH_COST)
    with offline_accounts(configuration) as offline:
        offline.change("vhost add", {"vhost": OTHER_VHOST})
        offline.change("vhost add", {"vhost": TRACED_VHOST, "tracing": True})
        for vhost, limits in VHOST_LIMITS.items():
            offline.change("vhost add", {"vhost": vhost})
            offline.change("vhost limits", {"vhost": vhost, "limits": limits})
        for user in (*PERMISSIONS, *TAGS, *BY_CERTIFICATE, HAS_TOPICS, *USER_LIMITS):
            tags = TAGS.get(user, [])
            offline.change("user add", {"user": user, "password_hash": password_hash, "tags": tags})
        for permission in _permissions():
            offline.change("permissions set", permission)
        topics = {"user": HAS_TOPICS, "vhost": "/"} | TOPIC_PATTERNS
        offline.change("topic permissions set", topics)
        for user, user_limits in USER_LIMITS.items():
            offline.change("user limits", {"user": user, "limits": user_limits})
        offline.change("policy set", POLICY)
        offline.change("operator policy set", OPERATOR_POLICY)
