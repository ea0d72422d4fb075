"""Runtime parameters, those of the node as a whole, and the limits of vhosts and users."""

from __future__ import annotations

from typing import Final

from ...core.parameters.limits import LIMITS
from ...core.parameters.parameters import (
    NODE_WIDE,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    Parameter,
)
from ..listing import listed, shown
from ..request import (
    LISTED,
    SHOWN,
    Action,
    Answer,
    Request,
    Tag,
    VhostRule,
    bad_request,
    not_found,
    object_with,
)
from ..rows import Row
from .accounts import change

# They are parameters, and set as resources of their own.
_POLICIES: Final = (POLICY, OPERATOR_POLICY)


# --- Parameters


def parameter_row(parameter: Parameter) -> Row:
    """A parameter of a vhost."""
    value = parameter.value
    if parameter.component == VHOST_LIMITS and not value:
        # RabbitMQ's empty object.
        value = []
    row = {"vhost": parameter.vhost, "component": parameter.component}
    return row | {"name": parameter.name, "value": value}


def _parameter(request: Request) -> Parameter | None:
    names = request.names
    key = names["component"], names["vhost"], names["name"]
    return request.context.accounts.parameters.find(*key)


async def _parameters(request: Request) -> Answer:
    """Those of a component or of all: these are without policies, and with operator policies."""
    parameters, names = request.context.accounts.parameters, request.names
    if "component" in names:
        found = parameters.of(names["component"], names.get("vhost"))
    else:
        found = [each for each in parameters if each.component not in (NODE_WIDE, POLICY)]
    rows = [parameter_row(each) for each in found if request.may_see(each.vhost)]
    return await listed(request, rows, ("vhost", "component", "name"))


async def _one_parameter(request: Request) -> Answer:
    parameter = _parameter(request)
    if parameter is None:
        raise not_found()
    return Answer(200, shown(request, parameter_row(parameter)))


async def _put_parameter(request: Request) -> Answer:
    given = request.json("value")
    was_there = _parameter(request) is not None
    arguments = {**request.names, "value": given["value"]}
    await change(request, "parameter set", arguments, in_html=True)
    return Answer(204 if was_there else 201)


async def _delete_parameter(request: Request) -> Answer:
    if _parameter(request) is None:
        raise not_found()
    if request.names["component"] in _POLICIES:
        raise bad_request("policies may not be cleared using this method")
    await change(request, "parameter clear", request.names)
    return Answer(204)


# --- Global parameters


def global_parameter_row(parameter: Parameter) -> Row:
    """A parameter of the node."""
    return {"name": parameter.name, "value": parameter.value}


def _global_parameter(request: Request) -> Parameter | None:
    key = NODE_WIDE, NODE_WIDE, request.names["name"]
    return request.context.accounts.parameters.find(*key)


async def _global_parameters(request: Request) -> Answer:
    found = request.context.accounts.parameters.of(NODE_WIDE)
    return await listed(request, [global_parameter_row(each) for each in found])


async def _one_global_parameter(request: Request) -> Answer:
    parameter = _global_parameter(request)
    if parameter is None:
        raise not_found()
    return Answer(200, shown(request, global_parameter_row(parameter)))


async def _put_global_parameter(request: Request) -> Answer:
    given = request.json("value")
    was_there = _global_parameter(request) is not None
    arguments = {**request.names, "value": given["value"]}
    await change(request, "global parameter set", arguments)
    return Answer(204 if was_there else 201)


async def _delete_global_parameter(request: Request) -> Answer:
    if _global_parameter(request) is None:
        raise not_found()
    await change(request, "global parameter clear", request.names)
    return Answer(204)


# --- Limits: PUT and DELETE are of one, the others stay


async def _vhost_limits(request: Request) -> Answer:
    """Of a vhost that has none, an empty list; the list of all has it as RabbitMQ's has."""
    vhost = request.names.get("vhost")
    found = request.context.accounts.parameters.of(VHOST_LIMITS, vhost)
    rows: list[Row] = [
        {"vhost": each.vhost, "value": each.value or []}
        for each in found
        if each.name == LIMITS and request.may_monitor(each.vhost) and (each.value or not vhost)
    ]
    return await listed(request, rows, ("vhost",))


async def _put_vhost_limit(request: Request) -> Answer:
    given = request.json("value")
    arguments = {**request.names, "value": given["value"]}
    await change(request, "vhost limit set", arguments)
    return Answer(204)


async def _delete_vhost_limit(request: Request) -> Answer:
    await change(request, "vhost limit clear", request.names)
    return Answer(204)


async def _user_limits(request: Request) -> Answer:
    users, name = request.context.accounts.users, request.names.get("user")
    if name is not None and name not in users:
        raise not_found()
    rows: list[Row] = [
        {"user": each.name, "value": dict(each.limits)}
        for each in users.values()
        if each.limits and name in (None, each.name)
    ]
    return await listed(request, rows, ("user",))


async def _put_user_limit(request: Request) -> Answer:
    name, given = request.names["user"], request.json("value")
    if name not in request.context.accounts.users:
        raise bad_request(["no_such_user", name])
    await change(request, "user limit set", {**request.names, "value": given["value"]})
    return Answer(204)


async def _delete_user_limit(request: Request) -> Answer:
    await change(request, "user limit clear", request.names)
    return Answer(204)


_COMPONENT: Final = "/api/parameters/{component}"
_PARAMETER: Final = f"{_COMPONENT}/{{vhost}}/{{name}}"
_GLOBAL: Final = "/api/global-parameters"
_OF_VHOSTS: Final = "/api/vhost-limits"
_OF_VHOST: Final = f"{_OF_VHOSTS}/{{vhost}}"
_OF_USERS: Final = "/api/user-limits"
_OF_USER: Final = f"{_OF_USERS}/{{user}}"
_MAKER: Final = Tag.POLICYMAKER
_ADMIN: Final = Tag.ADMINISTRATOR

# Any JSON is a value.
_VALUE: Final = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
_LIMIT: Final = object_with("value", value="integer")

ACTIONS: Final = (
    Action("GET", "/api/parameters", "parameters", _parameters, _MAKER, query=LISTED),
    Action("GET", _COMPONENT, "parameters", _parameters, _MAKER, query=LISTED),
    Action("GET", f"{_COMPONENT}/{{vhost}}", "parameters", _parameters, _MAKER, query=LISTED),
    Action("GET", _PARAMETER, "parameter", _one_parameter, _MAKER, query=SHOWN),
    Action("PUT", _PARAMETER, "parameter set", _put_parameter, _MAKER, body=_VALUE),
    Action("DELETE", _PARAMETER, "parameter clear", _delete_parameter, _MAKER),
    Action("GET", _GLOBAL, "global parameters", _global_parameters, _MAKER, query=LISTED),
    Action(
        "GET", f"{_GLOBAL}/{{name}}", "global parameter", _one_global_parameter, _MAKER, query=SHOWN
    ),
    Action(
        "PUT",
        f"{_GLOBAL}/{{name}}",
        "global parameter set",
        _put_global_parameter,
        _MAKER,
        body=_VALUE,
    ),
    Action(
        "DELETE", f"{_GLOBAL}/{{name}}", "global parameter clear", _delete_global_parameter, _MAKER
    ),
    Action("GET", _OF_VHOSTS, "vhost limits", _vhost_limits, query=LISTED),
    Action(
        "GET", _OF_VHOST, "vhost limits", _vhost_limits, vhost=VhostRule.MONITORED, query=LISTED
    ),
    Action(
        "PUT", f"{_OF_VHOST}/{{name}}", "vhost limit set", _put_vhost_limit, _ADMIN, body=_LIMIT
    ),
    Action("DELETE", f"{_OF_VHOST}/{{name}}", "vhost limit clear", _delete_vhost_limit, _ADMIN),
    Action("GET", _OF_USERS, "user limits", _user_limits, query=LISTED),
    Action("GET", _OF_USER, "user limits", _user_limits, query=LISTED),
    Action("PUT", f"{_OF_USER}/{{name}}", "user limit set", _put_user_limit, _ADMIN, body=_LIMIT),
    Action("DELETE", f"{_OF_USER}/{{name}}", "user limit clear", _delete_user_limit, _ADMIN),
)
