"""Users, vhosts and permissions in the catalog: the rows, and the changes to them.

As catalog.py does, it stores what it is told. A password is stored as the text of its hash.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

# The catalog has had its default accounts: they are not made again when a person deletes them.
_MARK = "accounts"


class UserRow(NamedTuple):
    """A user; its tags are divided by commas."""

    name: str
    password_hash: str
    tags: str


class PermissionRow(NamedTuple):
    """A user's three patterns in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class AccountRows(NamedTuple):
    """Everything, each list in the order in which it was added.

    `are_new`: nothing has ever been put in, as in a catalog that was just made.
    """

    users: list[UserRow]
    vhosts: list[str]
    permissions: list[PermissionRow]
    are_new: bool


class PutUser(NamedTuple):
    """The user is new, or has changed."""

    user: UserRow


class RemoveUser(NamedTuple):
    """The user goes, with its permissions."""

    name: str


class AddVhost(NamedTuple):
    """The vhost is new."""

    name: str


class RemoveVhost(NamedTuple):
    """The vhost goes, with the permissions, queues, exchanges and bindings in it."""

    name: str


class PutPermission(NamedTuple):
    """The permission is new, or has changed."""

    permission: PermissionRow


class RemovePermission(NamedTuple):
    """The permission goes."""

    user: str
    vhost: str


AccountChange = PutUser | RemoveUser | AddVhost | RemoveVhost | PutPermission | RemovePermission


def load_accounts(connection: sqlite3.Connection) -> AccountRows:
    """Read everything."""
    execute = connection.execute
    users = execute("SELECT name, password_hash, tags FROM users ORDER BY rowid").fetchall()
    vhosts = execute("SELECT name FROM vhosts ORDER BY rowid").fetchall()
    permissions = execute(
        'SELECT "user", vhost, configure, "write", "read" FROM permissions ORDER BY rowid'
    )
    marked = execute("SELECT count(*) FROM marks WHERE name = ?", (_MARK,)).fetchone()[0]
    return AccountRows(
        [UserRow(*row) for row in users],
        [name for (name,) in vhosts],
        [PermissionRow(*row) for row in permissions],
        not (marked or users or vhosts),
    )


def apply_account_change(connection: sqlite3.Connection, change: AccountChange) -> None:
    """Make one change, inside the catalog's transaction."""
    execute = connection.execute
    execute("INSERT INTO marks VALUES (?) ON CONFLICT DO NOTHING", (_MARK,))
    match change:
        case PutUser(user):
            execute(
                "INSERT INTO users VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                " SET password_hash = excluded.password_hash, tags = excluded.tags",
                user,
            )
        case RemoveUser(name):
            execute('DELETE FROM permissions WHERE "user" = ?', (name,))
            execute("DELETE FROM users WHERE name = ?", (name,))
        case AddVhost(name):
            execute("INSERT INTO vhosts VALUES (?)", (name,))
        case RemoveVhost(name):
            for table in ("permissions", "bindings", "queues", "exchanges"):
                execute(f"DELETE FROM {table} WHERE vhost = ?", (name,))
            execute("DELETE FROM vhosts WHERE name = ?", (name,))
        case PutPermission(permission):
            execute(
                'INSERT INTO permissions VALUES (?, ?, ?, ?, ?) ON CONFLICT ("user", vhost)'
                ' DO UPDATE SET configure = excluded.configure, "write" = excluded."write",'
                ' "read" = excluded."read"',
                permission,
            )
        case RemovePermission(user, vhost):
            execute('DELETE FROM permissions WHERE "user" = ? AND vhost = ?', (user, vhost))
