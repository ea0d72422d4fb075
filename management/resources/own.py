"""Leveret's own resources: health, control of the trace, queues paused and resumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from ...actors.control.trace_requests import TRACE_REQUESTS
from ...actors.messages import AskJournal, ControlAnswer, JournalAnswers, PauseRequest
from ...logs.trace.trace import TraceError
from ..asking import GoneError, ask
from ..request import Action, Answer, ApiError, Request, Tag, VhostRule, bad_request
from ..text import decoded

_OK: Final = Answer(200, {"status": "ok"})
_TRACE_ARGUMENTS: Final = ("rate", "queues", "users", "connections")


async def _live(_request: Request) -> Answer:
    return _OK


async def _ready(request: Request) -> Answer:
    """Ready when the journal has answered, behind all that it had to write when it was asked."""
    context = request.context
    if context.alarms.reason:
        raise not_ready(f"alarm: {context.alarms.reason}")
    try:
        await ask(context.runtime, context.journal, lambda me: AskJournal(me, JournalAnswers()))
    except GoneError:
        raise not_ready("the journal has failed") from None
    return _OK


def not_ready(reason: str) -> ApiError:
    """503."""
    return ApiError(503, "not_ready", reason)


def _trace(name: str) -> Callable[[Request], Awaitable[Answer]]:
    """One of TRACE_REQUESTS; 400 if it cannot be carried out."""

    async def answer(request: Request) -> Answer:
        arguments = _trace_arguments(request.body) if name == "trace on" else {}
        try:
            return Answer(200, TRACE_REQUESTS[name](request.context, arguments))
        except TraceError as fault:
            raise bad_request(str(fault)) from None

    return answer


def _trace_arguments(body: bytes) -> dict[str, Any]:
    try:
        arguments = decoded(body) if body else {}
    except ValueError:
        raise bad_request("the body is not JSON") from None
    if not isinstance(arguments, dict):
        raise bad_request("the body is not a JSON object")
    for name in arguments:
        if name not in _TRACE_ARGUMENTS:
            known = ", ".join(_TRACE_ARGUMENTS)
            raise bad_request(f"there is no '{name}' in a trace's filter; there are {known}")
    return arguments


def _pause(is_paused: bool) -> Callable[[Request], Awaitable[Answer]]:
    async def answer(request: Request) -> Answer:
        context, names = request.context, request.names
        answered = await ask(
            context.runtime,
            context.broker,
            lambda me: PauseRequest(me, None, names["vhost"], names["queue"], is_paused),
        )
        assert isinstance(answered, ControlAnswer)
        if answered.is_missing:
            raise ApiError(404, "not_found", answered.error)
        if answered.error:
            raise not_ready(answered.error)
        return _OK

    return answer


ACTIONS: Final = (
    Action("GET", "/api/health/live", "live", _live, Tag.NONE_FOR_HEALTH),
    Action("GET", "/api/health/ready", "ready", _ready, Tag.NONE_FOR_HEALTH),
    Action("GET", "/api/trace", "trace status", _trace("trace status"), Tag.MONITORING),
    Action("PUT", "/api/trace", "trace on", _trace("trace on"), Tag.ADMINISTRATOR),
    Action("DELETE", "/api/trace", "trace off", _trace("trace off"), Tag.ADMINISTRATOR),
    Action(
        "PUT",
        "/api/queues/{vhost}/{queue}/pause",
        "queue pause",
        _pause(is_paused=True),
        Tag.ADMINISTRATOR,
        VhostRule.ANY,
    ),
    Action(
        "PUT",
        "/api/queues/{vhost}/{queue}/resume",
        "queue resume",
        _pause(is_paused=False),
        Tag.ADMINISTRATOR,
        VhostRule.ANY,
    ),
)
