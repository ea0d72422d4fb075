"""Policies and operator policies: shown, set and cleared.

Who may set a policy, a policymaker, cannot set an operator's: that needs an administrator.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...core.parameters.parameters import OPERATOR_POLICY, POLICY, Parameter
from ...core.policies.policy import Policy, policy_of, policy_value
from ..listing import listed, shown
from ..request import (
    LISTED,
    SHOWN,
    Action,
    Answer,
    Request,
    Tag,
    not_found,
    object_with,
)
from ..rows import Row
from .accounts import change

# What the requests of core/users/account_requests.py call them.
_REQUESTS: Final = {POLICY: "policy", OPERATOR_POLICY: "operator policy"}


def policy_row(policy: Policy) -> Row:
    """A policy."""
    value: Any = policy_value(policy)
    return {"vhost": policy.vhost, "name": policy.name, **value}


def _found(component: str, request: Request) -> Parameter | None:
    names = request.names
    return request.context.accounts.parameters.find(component, names["vhost"], names["name"])


async def _policies(component: str, request: Request) -> Answer:
    parameters = request.context.accounts.parameters.of(component, request.names.get("vhost"))
    rows = [policy_row(policy_of(each)) for each in parameters if request.may_see(each.vhost)]
    return await listed(request, rows, ("vhost", "name"))


async def _one_policy(component: str, request: Request) -> Answer:
    parameter = _found(component, request)
    if parameter is None:
        raise not_found()
    return Answer(200, shown(request, policy_row(policy_of(parameter))))


async def _put_policy(component: str, request: Request) -> Answer:
    given = request.json("pattern", "definition")
    was_there = _found(component, request) is not None
    # The path's names count, not the body's.
    name = f"{_REQUESTS[component]} set"
    await change(request, name, {**given, **request.names}, in_html=component == POLICY)
    return Answer(204 if was_there else 201)


async def _delete_policy(component: str, request: Request) -> Answer:
    if _found(component, request) is None:
        raise not_found()
    await change(request, f"{_REQUESTS[component]} clear", request.names)
    return Answer(204)


_NEW: Final = object_with(
    "pattern", "definition", pattern="string", definition="object", priority="integer"
)


def _policy_actions(path: str, component: str, tag: Tag) -> tuple[Action, ...]:
    of_vhost, one = f"/api/{path}/{{vhost}}", f"/api/{path}/{{vhost}}/{{name}}"
    name = _REQUESTS[component]
    return (
        Action("GET", f"/api/{path}", path, partial(_policies, component), query=LISTED),
        Action("GET", of_vhost, path, partial(_policies, component), query=LISTED),
        Action("GET", one, name, partial(_one_policy, component), tag, query=SHOWN),
        Action("PUT", one, f"{name} set", partial(_put_policy, component), tag, body=_NEW),
        Action("DELETE", one, f"{name} clear", partial(_delete_policy, component), tag),
    )


ACTIONS: Final = (
    *_policy_actions("policies", POLICY, Tag.POLICYMAKER),
    *_policy_actions("operator-policies", OPERATOR_POLICY, Tag.ADMINISTRATOR),
)
