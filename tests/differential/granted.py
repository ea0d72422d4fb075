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
TAGS = {"impersonates": ["impersonator"]}
MAY_ENTER_OTHER = "does all"
# Named by their certificates, for EXTERNAL; what a certificate says is in test_tls.py.
BY_CERTIFICATE = (
    "CN=joe,OU=clients,O=Hare",
    "CN=Doe\\, Jane,OU=clients,O=Hare",
    "CN=J\\C3\\B6rg,OU=clients,O=Hare",
)


def _permissions() -> list[dict[str, str]]:
    users = PERMISSIONS | dict.fromkeys((*TAGS, *BY_CERTIFICATE), (".*", ".*", ".*"))
    rows = [(user, "/", *allowed) for user, allowed in users.items()]
    rows.append((MAY_ENTER_OTHER, OTHER_VHOST, ".*", ".*", ".*"))
    names = ("user", "vhost", "configure", "write", "read")
    return [dict(zip(names, row, strict=True)) for row in rows]


def write_definitions(path: Path) -> None:
    """For RabbitMQ's load_definitions, which then makes no default user."""
    users = [{"name": "guest", "password": "guest", "tags": ["administrator"]}]
    users += [
        {"name": user, "password": PASSWORD, "tags": TAGS.get(user, [])}
        for user in (*PERMISSIONS, *TAGS, *BY_CERTIFICATE)
    ]
    everything = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    definitions = {
        "rabbit_version": "3.10.8",
        "users": users,
        "vhosts": [{"name": "/"}, {"name": OTHER_VHOST}],
        "permissions": [everything, *_permissions()],
    }
    path.write_text(json.dumps(definitions))


def grant_offline(data_directory: Path) -> None:
    """In Leveret's catalog, while no broker uses it."""
    data_directory.mkdir()
    configuration = Configuration(data_dir=data_directory, password_hash_cost=HASH_COST)
    password_hash = new_password_hash(PASSWORD, HASH_COST)
    with offline_accounts(configuration) as offline:
        offline.change("vhost add", {"vhost": OTHER_VHOST})
        for user in (*PERMISSIONS, *TAGS, *BY_CERTIFICATE):
            tags = TAGS.get(user, [])
            offline.change("user add", {"user": user, "password_hash": password_hash, "tags": tags})
        for permission in _permissions():
            offline.change("permissions set", permission)
