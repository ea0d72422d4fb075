"""Vhosts, users and permissions: listed, and changed by the broker actor at the API's request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import partial
from html import escape
from typing import Final

from ...actors.messages import AccountRequest, ControlAnswer
from ...core.definition_files.writing import user_row
from ...core.users.accounts import Permission, TopicPermission, User, tags_from
from ...core.users.password_hash import SALT_BYTES, hash_password, imported_hash
from ..asking import ask
from ..listing import listed, shown
from ..request import (
    LISTED,
    RANGES,
    SHOWN,
    Action,
    Answer,
    ApiError,
    Request,
    Tag,
    VhostRule,
    bad_request,
    flag,
    not_found,
    object_with,
)
from ..rows import Row
from .topology import queue_totals


async def change(
    request: Request, name: str, arguments: Mapping[str, object], *, in_html: bool = False
) -> None:
    """Have the broker actor carry out one of its account requests; 404 or 400 if it cannot.

    RabbitMQ writes some of its reasons as HTML has them.
    """
    answer = await ask(
        request.context.runtime,
        request.context.broker,
        lambda me: AccountRequest(me, None, name, arguments),
    )
    assert isinstance(answer, ControlAnswer)
    if answer.is_missing:
        raise ApiError(404, "not_found", answer.error)
    if answer.error:
        raise bad_request(escape(answer.error, quote=False) if in_html else answer.error)


# --- Vhosts


async def _vhost_row(request: Request, name: str) -> Row:
    metadata = request.context.accounts.vhosts[name]
    topology = request.context.vhosts.find(name)
    totals = await queue_totals(request, () if topology is None else [topology])
    numbers: Row = {}
    if topology is not None:
        ranges, statistics = request.ranges(), request.statistics
        numbers = statistics.of_vhosts([topology], ranges)
        numbers |= statistics.octets_of_vhost(topology, ranges.octets)
    described = {"description": metadata.description, "tags": list(metadata.tags)}
    return {
        "cluster_state": {request.about.node_name: "running"},
        "default_queue_type": metadata.default_queue_type or "undefined",
        **described,
        "metadata": described,
        "name": name,
        "tracing": metadata.is_traced,
        **{name: count for name, count in totals.items() if name != "consumers"},
        **numbers,
    }


async def _vhosts(request: Request) -> Answer:
    vhosts = request.context.accounts.vhosts
    names = [name for name in vhosts if request.may_monitor(name)]
    # A vhost deleted meanwhile is left out.
    rows = [await _vhost_row(request, name) for name in names if name in vhosts]
    return await listed(request, rows)


async def _one_vhost(request: Request) -> Answer:
    return Answer(200, shown(request, await _vhost_row(request, request.names["vhost"])))


async def _put_vhost(request: Request) -> Answer:
    name, given = request.names["vhost"], request.json()
    # As in RabbitMQ, these are replaced even if the body has none.
    arguments: dict[str, object] = {
        "vhost": name,
        "description": given.get("description", ""),
        "tags": _tags(given.get("tags", [])),
    }
    if "tracing" in given:
        arguments["tracing"] = flag(given, "tracing")
    queue_type = given.get("default_queue_type", given.get("defaultqueuetype"))
    if queue_type is not None:
        arguments["default_queue_type"] = "" if queue_type == "undefined" else queue_type
    if name in request.context.accounts.vhosts:
        await change(request, "vhost change", arguments)
        return Answer(204)
    await change(request, "vhost add", arguments)
    # As in RabbitMQ, the user that adds it may use it.
    everything = dict.fromkeys(("configure", "write", "read"), ".*")
    permission = {"user": request.user.name, "vhost": name, **everything}
    await change(request, "permissions set", permission)
    return Answer(201)


async def _start_vhost(request: Request) -> Answer:
    """All vhosts of the node run from its start on."""
    if request.names["node"] != request.about.node_name:
        raise bad_request(f"Request to node {request.names['node']} failed with nodedown")
    return Answer(204)


async def _delete_vhost(request: Request) -> Answer:
    if request.names["vhost"] not in request.context.accounts.vhosts:
        raise not_found()
    await change(request, "vhost delete", {"vhost": request.names["vhost"]})
    return Answer(204)


# --- Users


def _user(request: Request) -> User:
    found = request.context.accounts.users.get(request.names["user"])
    if found is None:
        raise not_found()
    return found


async def _users(request: Request) -> Answer:
    return await listed(
        request, [user_row(each) for each in request.context.accounts.users.values()]
    )


async def _users_without_permissions(request: Request) -> Answer:
    accounts = request.context.accounts
    permitted = {user for user, _ in accounts.permissions}
    users = [each for each in accounts.users.values() if each.name not in permitted]
    return await listed(request, [user_row(each) for each in users])


async def _one_user(request: Request) -> Answer:
    return Answer(200, shown(request, user_row(_user(request))))


def _given_hash(given: Mapping[str, object]) -> str | None:
    """The text to store for a hash of RabbitMQ's, None if there is none; 400."""
    password_hash = given.get("password_hash")
    if password_hash is None:
        return None
    algorithm = given.get("hashing_algorithm", "rabbit_password_hashing_sha256")
    if not isinstance(password_hash, str) or not isinstance(algorithm, str):
        raise bad_request("password_hash and hashing_algorithm must be texts")
    try:
        return imported_hash(password_hash, algorithm)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _tags(given: object) -> list[str]:
    try:
        return tags_from(given)
    except ValueError as fault:
        raise bad_request(str(fault)) from None


async def _put_user(request: Request) -> Answer:
    given, name = request.json(), request.names["user"]
    if "tags" not in given:
        raise bad_request("tags_not_present")
    tags, password = _tags(given["tags"]), given.get("password")
    if password is None:
        password_hash = _given_hash(given)
    else:
        if not isinstance(password, str) or not password:
            raise bad_request("password must be a text that is not empty")
        # Some 40 ms of a processor by intent: not on the event loop.
        cost = request.about.password_hash_cost
        salt = os.urandom(SALT_BYTES)
        password_hash = await asyncio.to_thread(hash_password, password, salt, cost)
    user = request.context.accounts.users.get(name)
    if user is None:
        if password_hash is None:
            raise bad_request("a new user needs a password or a password_hash")
        arguments = {"user": name, "password_hash": password_hash, "tags": tags}
        await change(request, "user add", arguments)
        return Answer(201)
    # Tags may be refused, the hash is a right one: a request that is refused changes nothing.
    await change(request, "user tags", {"user": name, "tags": tags})
    if password_hash is not None:
        await change(request, "user passwd", {"user": name, "password_hash": password_hash})
    return Answer(204)


async def _delete_user(request: Request) -> Answer:
    await change(request, "user delete", {"user": _user(request).name})
    return Answer(204)


async def _bulk_delete(request: Request) -> Answer:
    names = request.json().get("users")
    if not isinstance(names, list):
        raise bad_request("[{key_missing,users}]")
    if not all(isinstance(name, str) for name in names):
        raise bad_request("users must be names")
    for name in names:
        if name in request.context.accounts.users:
            await change(request, "user delete", {"user": name})
    return Answer(204)


# --- Permissions


def _permission_rows(permissions: Iterable[Permission]) -> list[Row]:
    return [each._asdict() for each in permissions]


async def _permissions(of: str, request: Request) -> Answer:
    """All, or those of the path's user or vhost."""
    found = request.context.accounts.permissions.values()
    name = request.names.get(of)
    if of == "user":
        _user(request)
    rows = _permission_rows(each for each in found if name is None or getattr(each, of) == name)
    return await listed(request, rows, ("vhost", "user"))


def _permission(request: Request) -> Permission | None:
    key = request.names["user"], request.names["vhost"]
    return request.context.accounts.permissions.get(key)


async def _one_permission(request: Request) -> Answer:
    found = _permission(request)
    if found is None:
        raise not_found()
    return Answer(200, shown(request, found._asdict()))


async def _put_permission(request: Request) -> Answer:
    accounts, names = request.context.accounts, request.names
    if names["vhost"] not in accounts.vhosts or names["user"] not in accounts.users:
        raise bad_request("vhost_or_user_not_found")
    kinds = ("configure", "write", "read")
    given = request.json(*kinds)
    was_there = _permission(request) is not None
    patterns = {kind: given[kind] for kind in kinds}
    arguments = {"user": names["user"], "vhost": names["vhost"], **patterns}
    await change(request, "permissions set", arguments)
    return Answer(204 if was_there else 201)


async def _delete_permission(request: Request) -> Answer:
    if _permission(request) is None:
        raise not_found()
    names = request.names
    arguments = {"user": names["user"], "vhost": names["vhost"]}
    await change(request, "permissions clear", arguments)
    return Answer(204)


# --- Topic permissions


async def _topic_permissions(of: tuple[str, ...], request: Request) -> Answer:
    """Those of the path's user, of its vhost or of both, or all."""
    if "user" in of:
        _user(request)
    wanted = tuple(request.names[name] for name in of)
    everywhere = request.context.accounts.topic_permissions.values()
    found = (each for of_user in everywhere for each in of_user.values())
    rows = [each._asdict() for each in found if tuple(getattr(each, name) for name in of) == wanted]
    return await listed(request, rows, ("vhost", "user", "exchange"))


def _topic_permission(request: Request) -> Mapping[str, TopicPermission]:
    """The user's in the vhost, by exchange; 404 if it has none."""
    key = request.names["user"], request.names["vhost"]
    found = request.context.accounts.topic_permissions.get(key)
    if not found:
        raise not_found()
    return found


async def _one_users_topic_permissions(request: Request) -> Answer:
    rows = [each._asdict() for each in _topic_permission(request).values()]
    return await listed(request, rows, ("exchange",))


async def _put_topic_permission(request: Request) -> Answer:
    accounts, names = request.context.accounts, request.names
    if names["vhost"] not in accounts.vhosts or names["user"] not in accounts.users:
        raise bad_request("vhost_or_user_not_found")
    needed = ("exchange", "write", "read")
    given = request.json(*needed)
    had_one = (names["user"], names["vhost"]) in accounts.topic_permissions
    arguments = {**names, **{key: given[key] for key in needed}}
    await change(request, "topic permissions set", arguments)
    return Answer(204 if had_one else 201)


async def _delete_topic_permissions(request: Request) -> Answer:
    _topic_permission(request)
    await change(request, "topic permissions clear", request.names)
    return Answer(204)


_VHOST: Final = "/api/vhosts/{vhost}"
_USER: Final = "/api/users/{user}"
_PERMISSION: Final = "/api/permissions/{vhost}/{user}"
_TOPICS: Final = "/api/topic-permissions/{vhost}/{user}"
_TOPIC: Final = f"{_TOPICS}/{{exchange}}"
_ADMIN: Final = Tag.ADMINISTRATOR
_ANY: Final = VhostRule.ANY
_NEW_VHOST: Final = object_with(
    description="string", tags="string", tracing="boolean", default_queue_type="string"
)
_NEW_USER: Final = object_with(
    "tags",
    tags="string",
    password="string",
    password_hash="string",
    hashing_algorithm="string",
)
_USERS: Final = object_with("users", users="array")
_NEW_PERMISSION: Final = object_with(
    "configure", "write", "read", configure="string", write="string", read="string"
)


def _topic_list(path: str, *of: str) -> Action:
    return Action(
        "GET", path, "topic permissions", partial(_topic_permissions, of), _ADMIN, query=LISTED
    )


ACTIONS: Final = (
    Action("GET", "/api/vhosts", "vhosts", _vhosts, query=(*LISTED, *RANGES)),
    Action("GET", _VHOST, "vhost", _one_vhost, _ADMIN, query=(*SHOWN, *RANGES)),
    Action("PUT", _VHOST, "vhost add", _put_vhost, _ADMIN, _ANY, _NEW_VHOST),
    Action("DELETE", _VHOST, "vhost delete", _delete_vhost, _ADMIN, _ANY),
    Action("POST", f"{_VHOST}/start/{{node}}", "vhost start", _start_vhost, _ADMIN, _ANY),
    Action(
        "GET",
        f"{_VHOST}/permissions",
        "permissions",
        partial(_permissions, "vhost"),
        _ADMIN,
        query=LISTED,
    ),
    Action("GET", "/api/users", "users", _users, _ADMIN, query=LISTED),
    Action(
        "GET",
        "/api/users/without-permissions",
        "users",
        _users_without_permissions,
        _ADMIN,
        query=LISTED,
    ),
    Action("POST", "/api/users/bulk-delete", "user delete", _bulk_delete, _ADMIN, body=_USERS),
    Action("GET", _USER, "user", _one_user, _ADMIN, query=SHOWN),
    Action("PUT", _USER, "user add", _put_user, _ADMIN, body=_NEW_USER),
    Action("DELETE", _USER, "user delete", _delete_user, _ADMIN),
    Action(
        "GET",
        f"{_USER}/permissions",
        "permissions",
        partial(_permissions, "user"),
        _ADMIN,
        query=LISTED,
    ),
    Action(
        "GET",
        "/api/permissions",
        "permissions",
        partial(_permissions, "vhost"),
        _ADMIN,
        query=LISTED,
    ),
    Action("GET", _PERMISSION, "permission", _one_permission, _ADMIN, query=SHOWN),
    Action("PUT", _PERMISSION, "permissions set", _put_permission, _ADMIN, _ANY, _NEW_PERMISSION),
    Action("DELETE", _PERMISSION, "permissions clear", _delete_permission, _ADMIN),
    _topic_list("/api/topic-permissions"),
    _topic_list(f"{_USER}/topic-permissions", "user"),
    _topic_list(f"{_VHOST}/topic-permissions", "vhost"),
    Action("GET", _TOPICS, "topic permissions", _one_users_topic_permissions, _ADMIN, query=LISTED),
    Action("PUT", _TOPICS, "topic permissions set", _put_topic_permission, _ADMIN, _ANY),
    Action("DELETE", _TOPICS, "topic permissions clear", _delete_topic_permissions, _ADMIN),
    # As in RabbitMQ, the path's exchange counts for DELETE alone.
    Action("GET", _TOPIC, "topic permissions", _one_users_topic_permissions, _ADMIN, query=LISTED),
    Action("PUT", _TOPIC, "topic permissions set", _put_topic_permission, _ADMIN, _ANY),
    Action("DELETE", _TOPIC, "topic permissions clear", _delete_topic_permissions, _ADMIN),
)
