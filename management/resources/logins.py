"""How users log in, and how many have tried to."""

from __future__ import annotations

from typing import Final

from ...actors.messages import AskLoginAttempts, LoginAttemptsAnswer
from ..asking import ask
from ..listing import listed, shown
from ..request import LISTED, SHOWN, Action, Answer, Request, Tag


async def _methods(request: Request) -> Answer:
    """RabbitMQ's web page asks whether there is OAuth: there is none."""
    row = {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}
    return Answer(200, shown(request, row))


async def _counts(request: Request, forget: bool = False) -> LoginAttemptsAnswer:
    """404 unless the path names this node."""
    request.check_node()
    context = request.context
    answer = await ask(context.runtime, context.logins, lambda me: AskLoginAttempts(me, forget))
    assert isinstance(answer, LoginAttemptsAnswer)
    return answer


async def _attempts(request: Request) -> Answer:
    found = await _counts(request)
    rows = [
        {
            "protocol": protocol,
            "auth_attempts": counts.succeeded + counts.failed,
            "auth_attempts_failed": counts.failed,
            "auth_attempts_succeeded": counts.succeeded,
        }
        for protocol, counts in found.counts.items()
    ]
    return await listed(request, rows, ())


async def _forget(request: Request) -> Answer:
    await _counts(request, forget=True)
    return Answer(204)


async def _attempts_by_source(request: Request) -> Answer:
    """None: addresses and users are not remembered, as in RabbitMQ by default."""
    await _counts(request)
    return Answer(200, [])


_ATTEMPTS: Final = "/api/auth/attempts/{node}"

ACTIONS: Final = (
    Action("GET", "/api/auth", "login methods", _methods, Tag.NONE, query=SHOWN),
    Action("GET", _ATTEMPTS, "login attempts", _attempts, Tag.MONITORING, query=LISTED),
    Action("DELETE", _ATTEMPTS, "login attempts forget", _forget, Tag.MONITORING),
    Action("GET", f"{_ATTEMPTS}/source", "login attempts", _attempts_by_source, Tag.MONITORING),
    Action("DELETE", f"{_ATTEMPTS}/source", "login attempts forget", _forget, Tag.MONITORING),
)
