"""Users, vhosts and permissions as rows to be shown; never a password, nor its hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .accounts import Accounts

Row = dict[str, object]


def _users(accounts: Accounts) -> list[Row]:
    return [{"user": user.name, "tags": list(user.tags)} for user in accounts.users.values()]


def _vhosts(accounts: Accounts) -> list[Row]:
    return [{"vhost": name} for name in accounts.vhosts]


def _permissions(accounts: Accounts) -> list[Row]:
    return [permission._asdict() for permission in accounts.permissions.values()]


ACCOUNT_LISTS: Final[dict[str, Callable[[Accounts], list[Row]]]] = {
    "user list": _users,
    "vhost list": _vhosts,
    "permissions list": _permissions,
}
