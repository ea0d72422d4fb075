"""Translates requests about accounts, by name and arguments, into changes.

The same requests are carried out by a running broker, which hears them through its control
socket, and by the command line on a data directory that no broker uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ..parameters.limits import LIMITS
from ..parameters.parameters import NODE_WIDE, OPERATOR_POLICY, POLICY, VHOST_LIMITS, Json
from .accounts import (
    AccountChanges,
    AccountError,
    Accounts,
    Permission,
    TopicPermission,
    VhostMetadata,
)

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


def _json(arguments: Arguments, name: str) -> Json:
    """The value, which came in JSON. It is not changed afterwards."""
    if name not in arguments:
        raise AccountError(f"'{name}' must be there")
    value: Json = arguments[name]  # type: ignore[assignment]
    return value


def _add_user(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_add_user(
        _text(given, "user"), _text(given, "password_hash"), _texts(given, "tags")
    )


def _change_password(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_change_password(_text(given, "user"), _text(given, "password_hash"))


def _replace_hash(accounts: Accounts, given: Arguments) -> AccountChanges:
    names = ("user", "before", "password_hash")
    return accounts.prepare_replace_hash(*(_text(given, name) for name in names))


def _set_tags(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_set_tags(_text(given, "user"), _texts(given, "tags"))


def _delete_user(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_delete_user(_text(given, "user"))


def _set_user_limits(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_set_user_limits(_text(given, "user"), _json(given, "limits"))


def _add_vhost(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_add_vhost(_text(given, "vhost"), _metadata(given, VhostMetadata()))


def _change_vhost(accounts: Accounts, given: Arguments) -> AccountChanges:
    vhost = _text(given, "vhost")
    before = accounts.vhosts.get(vhost, VhostMetadata())
    return accounts.prepare_change_vhost(vhost, _metadata(given, before))


def _metadata(given: Arguments, before: VhostMetadata) -> VhostMetadata:
    """As it was before, but for what the arguments name."""
    description, tags, default_queue_type, is_traced = before
    if "description" in given:
        description = _text(given, "description")
    if "tags" in given:
        tags = tuple(_texts(given, "tags"))
    if "default_queue_type" in given:
        default_queue_type = _text(given, "default_queue_type")
    if "tracing" in given:
        is_traced = given["tracing"] is True
    return VhostMetadata(description, tags, default_queue_type, is_traced)


def _delete_vhost(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_delete_vhost(_text(given, "vhost"))


def _set_permission(accounts: Accounts, given: Arguments) -> AccountChanges:
    names = ("user", "vhost", "configure", "write", "read")
    return accounts.prepare_set_permission(Permission(*(_text(given, name) for name in names)))


def _clear_permission(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_clear_permission(_text(given, "user"), _text(given, "vhost"))


def _set_topic_permission(accounts: Accounts, given: Arguments) -> AccountChanges:
    names = ("user", "vhost", "exchange", "write", "read")
    permission = TopicPermission(*(_text(given, name) for name in names))
    return accounts.prepare_set_topic_permission(permission)


def _clear_topic_permissions(accounts: Accounts, given: Arguments) -> AccountChanges:
    exchange = _text(given, "exchange") if "exchange" in given else None
    user, vhost = _text(given, "user"), _text(given, "vhost")
    return accounts.prepare_clear_topic_permissions(user, vhost, exchange)


def _set_parameter(accounts: Accounts, given: Arguments) -> AccountChanges:
    component, vhost = _text(given, "component"), _text(given, "vhost")
    return accounts.prepare_set_parameter(
        component, vhost, _text(given, "name"), _json(given, "value")
    )


def _clear_parameter(accounts: Accounts, given: Arguments) -> AccountChanges:
    names = (_text(given, name) for name in ("component", "vhost", "name"))
    return accounts.prepare_clear_parameter(*names)


def _set_global_parameter(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_set_global_parameter(_text(given, "name"), _json(given, "value"))


def _clear_global_parameter(accounts: Accounts, given: Arguments) -> AccountChanges:
    return accounts.prepare_clear_parameter(NODE_WIDE, NODE_WIDE, _text(given, "name"))


def _set_policy(accounts: Accounts, given: Arguments, is_operators: bool = False) -> AccountChanges:
    vhost, name = _text(given, "vhost"), _text(given, "name")
    policy: Mapping[str, Json] = given  # type: ignore[assignment]
    return accounts.prepare_set_policy(vhost, name, policy, is_operators=is_operators)


def _clear_policy(
    accounts: Accounts, given: Arguments, is_operators: bool = False
) -> AccountChanges:
    component = OPERATOR_POLICY if is_operators else POLICY
    vhost, name = _text(given, "vhost"), _text(given, "name")
    return accounts.prepare_clear_parameter(component, vhost, name)


def _set_vhost_limit(accounts: Accounts, given: Arguments) -> AccountChanges:
    """One limit more or another value of it; the others stay."""
    vhost = _text(given, "vhost")
    limit = {_text(given, "name"): _json(given, "value")}
    return _vhost_limits(accounts, vhost, {**_limits_of_vhost(accounts, vhost), **limit})


def _clear_vhost_limit(accounts: Accounts, given: Arguments) -> AccountChanges:
    vhost, name = _text(given, "vhost"), _text(given, "name")
    limits = _limits_of_vhost(accounts, vhost)
    return _vhost_limits(accounts, vhost, {key: limits[key] for key in limits if key != name})


def _limits_of_vhost(accounts: Accounts, vhost: str) -> Mapping[str, Json]:
    parameter = accounts.parameters.find(VHOST_LIMITS, vhost, LIMITS)
    return parameter.value if parameter is not None else {}  # type: ignore[return-value]


def _vhost_limits(accounts: Accounts, vhost: str, limits: Json) -> AccountChanges:
    return accounts.prepare_set_parameter(VHOST_LIMITS, vhost, LIMITS, limits)


def _set_user_limit(accounts: Accounts, given: Arguments) -> AccountChanges:
    """One limit more or another value of it; the others stay."""
    user, limit = _text(given, "user"), {_text(given, "name"): _json(given, "value")}
    return accounts.prepare_set_user_limits(user, {**accounts.user(user).limits, **limit})


def _clear_user_limit(accounts: Accounts, given: Arguments) -> AccountChanges:
    user, name = _text(given, "user"), _text(given, "name")
    limits = accounts.user(user).limits
    return accounts.prepare_set_user_limits(
        user, {key: limits[key] for key in limits if key != name}
    )


def _set_vhost_limits(accounts: Accounts, given: Arguments) -> AccountChanges:
    return _vhost_limits(accounts, _text(given, "vhost"), _json(given, "limits"))


REQUESTS: Final[dict[str, Callable[[Accounts, Arguments], AccountChanges]]] = {
    "user add": _add_user,
    "user passwd": _change_password,
    "user rehash": _replace_hash,
    "user tags": _set_tags,
    "user limits": _set_user_limits,
    "user limit set": _set_user_limit,
    "user limit clear": _clear_user_limit,
    "user delete": _delete_user,
    "vhost add": _add_vhost,
    "vhost change": _change_vhost,
    "vhost limits": _set_vhost_limits,
    "vhost limit set": _set_vhost_limit,
    "vhost limit clear": _clear_vhost_limit,
    "vhost delete": _delete_vhost,
    "permissions set": _set_permission,
    "permissions clear": _clear_permission,
    "topic permissions set": _set_topic_permission,
    "topic permissions clear": _clear_topic_permissions,
    "parameter set": _set_parameter,
    "parameter clear": _clear_parameter,
    "policy set": _set_policy,
    "policy clear": _clear_policy,
    "operator policy set": partial(_set_policy, is_operators=True),
    "operator policy clear": partial(_clear_policy, is_operators=True),
    "global parameter set": _set_global_parameter,
    "global parameter clear": _clear_global_parameter,
}
