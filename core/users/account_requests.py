"""Translates requests about accounts, by name and arguments, into changes.

The same requests are carried out by a running broker, which hears them through its control
socket, and by the command line on a data directory that no broker uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .accounts import AccountChanges, AccountError, Accounts, Permission

Arguments = Mapping[str, object]


def prepare_request(accounts: Accounts, name: str, arguments: Arguments) -> AccountChanges:
    """The changes; AccountError if there is no such request, or it cannot be."""
    prepare = REQUESTS.get(name)
    if prepare is None:
        raise AccountError(f"there is no request '{name}'")
    return prepare(accounts, arguments)


def _text(arguments: Arguments, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise AccountError(f"'{name}' must be a string")
    return value


def _texts(arguments: Arguments, name: str) -> list[str]:
    values = arguments.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise AccountError(f"'{name}' must be a list of strings")
    return values


def _add_user(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_add_user(
        _text(given, "user"), _text(given, "password_hash"), _texts(given, "tags")
    )


def _change_password(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_change_password(_text(given, "user"), _text(given, "password_hash"))


def _set_tags(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_set_tags(_text(given, "user"), _texts(given, "tags"))


def _delete_user(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_delete_user(_text(given, "user"))


def _add_vhost(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_add_vhost(_text(given, "vhost"))


def _delete_vhost(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_delete_vhost(_text(given, "vhost"))


def _set_permission(accounts: Accounts, given: Arguments) -> AccountChanges:
    names = ("user", "vhost", "configure", "write", "read")
    return accounts.prepare_set_permission(Permission(*(_text(given, name) for name in names)))


def _clear_permission(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_clear_permission(_text(given, "user"), _text(given, "vhost"))


REQUESTS: Final[dict[str, Callable[[Accounts, Arguments], AccountChanges]]] = {
    "user add": _add_user,
    "user passwd": _change_password,
    "user tags": _set_tags,
    "user delete": _delete_user,
    "vhost add": _add_vhost,
    "vhost delete": _delete_vhost,
    "permissions set": _set_permission,
    "permissions clear": _clear_permission,
}
