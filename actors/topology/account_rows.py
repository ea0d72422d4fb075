"""Between core's accounts and the catalog's rows: the same things, with tags in one text."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.users import accounts
from ...core.users.accounts import Accounts, Permission, User
from ...storage.catalog import catalog as rows
from ...storage.catalog.catalog import AccountRows, PermissionRow, UserRow


def account_rows(changes: Iterable[accounts.AccountChange]) -> list[rows.AccountChange]:
    """The catalog's changes."""
    return [_row(change) for change in changes]


def _row(change: accounts.AccountChange) -> rows.AccountChange:
    match change:
        case accounts.PutUser(user):
            return rows.PutUser(UserRow(user.name, user.password_hash, ",".join(user.tags)))
        case accounts.RemoveUser(name):
            return rows.RemoveUser(name)
        case accounts.AddVhost(name):
            return rows.AddVhost(name)
        case accounts.RemoveVhost(name):
            return rows.RemoveVhost(name)
        case accounts.PutPermission(permission):
            return rows.PutPermission(PermissionRow(*permission))
        case accounts.RemovePermission(user_name, vhost):
            return rows.RemovePermission(user_name, vhost)


def restored_accounts(loaded: AccountRows) -> Accounts:
    """The accounts in the catalog."""
    users = {
        row.name: User(row.name, row.password_hash, tuple(filter(None, row.tags.split(","))))
        for row in loaded.users
    }
    permissions = {(row.user, row.vhost): Permission(*row) for row in loaded.permissions}
    return Accounts(users, dict.fromkeys(loaded.vhosts), permissions)
