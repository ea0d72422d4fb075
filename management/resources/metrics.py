"""Prometheus' text, at RabbitMQ's paths; also on a listener of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ..prometheus.asked import Asked, Form
from ..prometheus.exposition import CONTENT_TYPE
from ..request import Action, Answer, Request, Tag


def _in_form(form: Form | None) -> Callable[[Request], Awaitable[Answer]]:
    async def answer(request: Request) -> Answer:
        asked = Asked(form or request.metrics.default_form)
        if form is Form.DETAILED:
            asked = Asked(form, _values(request, "family"), _values(request, "vhost"))
        text = await request.metrics.text(asked)
        return Answer(200, text, {"content-type": CONTENT_TYPE})

    return answer


def _values(request: Request, name: str) -> frozenset[str]:
    return frozenset(value for each, value in request.queries if each == name)


_TAG: Final = Tag.NONE_FOR_METRICS

ACTIONS: Final = (
    Action("GET", "/metrics", "metrics", _in_form(None), _TAG),
    Action("GET", "/metrics/per-object", "metrics", _in_form(Form.PER_OBJECT), _TAG),
    Action(
        "GET",
        "/metrics/detailed",
        "detailed metrics",
        _in_form(Form.DETAILED),
        _TAG,
        query=("family", "vhost"),
    ),
)
