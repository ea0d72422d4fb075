"""The HTTP resources, by path and method, and the users who may use them.

    GET    /api/health/live    does the event loop answer?          any user
    GET    /api/health/ready   can it confirm publishes?            any user
    GET    /api/trace          how the trace stands                 tag monitoring or administrator
    PUT    /api/trace          on, with a filter; or another one    tag administrator
    DELETE /api/trace          off                                  tag administrator
    PUT    /api/queues/{vhost}/{queue}/pause     deliver nothing    tag administrator
    PUT    /api/queues/{vhost}/{queue}/resume    deliver again      tag administrator

HEAD stands for GET. Names in a path are percent-encoded (RFC 3986), in UTF-8: the vhost "/" is
%2F. A new resource is a row of `RESOURCES` with the function that answers it; an answer that must
wait for another actor, as those of `ready` and of queues do, needs a branch in HttpConnection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from ...logs.trace.trace import TraceError
from ..node_context import NodeContext
from .http_exchange import HttpError, HttpRequest
from .trace_requests import TRACE_REQUESTS

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"

_TRACE_ARGUMENTS: Final = ("rate", "queues", "users", "connections")


class Action(NamedTuple):
    """One method of a resource. Its user needs one of the `tags`, if there are any.

    `answer` gets the request's body and returns the object to answer with status 200; HttpError for
    another status.
    """

    name: str
    answer: Callable[[NodeContext, bytes], Mapping[str, object]]
    tags: tuple[str, ...] = ()


def _ok(_context: NodeContext, _body: bytes) -> Mapping[str, object]:
    return {"status": "ok"}


def _trace_action(name: str, *tags: str) -> Action:
    """One of TRACE_REQUESTS; HttpError 400 if it cannot be carried out."""

    def answer(context: NodeContext, body: bytes) -> Mapping[str, object]:
        arguments = _trace_arguments(body) if name == "trace on" else {}
        try:
            return TRACE_REQUESTS[name](context, arguments)
        except TraceError as fault:
            raise HttpError(400, str(fault)) from None

    return Action(name, answer, tags)


# HttpConnection answers it when the journal has answered.
READY: Final = Action("ready", _ok)
# HttpConnection answers them when the broker actor has answered.
PAUSE: Final = Action("queue pause", _ok, (ADMINISTRATOR,))
RESUME: Final = Action("queue resume", _ok, (ADMINISTRATOR,))

RESOURCES: Final[dict[str, dict[str, Action]]] = {
    "/api/health/live": {"GET": Action("live", _ok)},
    "/api/health/ready": {"GET": READY},
    "/api/trace": {
        "GET": _trace_action("trace status", MONITORING, ADMINISTRATOR),
        "PUT": _trace_action("trace on", ADMINISTRATOR),
        "DELETE": _trace_action("trace off", ADMINISTRATOR),
    },
    "/api/queues/{vhost}/{queue}/pause": {"PUT": PAUSE},
    "/api/queues/{vhost}/{queue}/resume": {"PUT": RESUME},
}


def names_in(path: str, pattern: str) -> dict[str, str] | None:
    """The names that the path has in place of the pattern's braces; None if it does not fit."""
    steps, wanted = path.split("/"), pattern.split("/")
    if len(steps) != len(wanted):
        return None
    names = {}
    for step, want in zip(steps, wanted, strict=True):
        if want.startswith("{"):
            names[want[1:-1]] = unquote(step)
        elif step != want:
            return None
    return names


def find_action(request: HttpRequest, tags: Collection[str]) -> tuple[Action, Mapping[str, str]]:
    """The requested resource, and the names in its path; HttpError 404, 405 or 403."""
    resource, names = _find_resource(request.path)
    action = resource.get("GET" if request.method == "HEAD" else request.method)
    if action is None:
        allowed = ", ".join(["HEAD", *resource] if "GET" in resource else resource)
        text = f"{request.path} takes {allowed}, and no {request.method}"
        raise HttpError(405, text, allow=allowed)
    if action.tags and not set(action.tags).intersection(tags):
        needed = " or ".join(action.tags)
        raise HttpError(403, f"user '{request.user}' lacks the tag {needed}")
    return action, names


def _find_resource(path: str) -> tuple[Mapping[str, Action], Mapping[str, str]]:
    for pattern, resource in RESOURCES.items():
        names = names_in(path, pattern)
        if names is not None:
            return resource, names
    raise HttpError(404, f"there is nothing at {path}")


def _trace_arguments(body: bytes) -> dict[str, object]:
    try:
        arguments = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(arguments, dict):
        raise HttpError(400, "the body is not a JSON object")
    for name in arguments:
        if name not in _TRACE_ARGUMENTS:
            known = ", ".join(_TRACE_ARGUMENTS)
            raise HttpError(400, f"there is no '{name}' in a trace's filter; there are {known}")
    return arguments
