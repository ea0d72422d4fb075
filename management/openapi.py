"""The OpenAPI document of the API, made of the table of resources.

What a row has not said is not in it: a row names its query parameters and the fields of its body.
Answers are described by their status codes only; docs/COMPATIBILITY.md says whose fields they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from .listing import PAGE_SIZE_MAX
from .request import RANGES, TAGS, Action, Answer, Request, Tag
from .text import encoded

PATH: Final = "/api/openapi.json"
_VERSION: Final = "3.0.3"

_QUERY: Final[dict[str, dict[str, object]]] = {
    "columns": {"type": "string", "description": "comma-separated; a dot leads into an object"},
    "sort": {"type": "string", "description": "the column to sort by"},
    "sort_reverse": {"type": "boolean"},
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": PAGE_SIZE_MAX},
    "name": {"type": "string", "description": "rows with this in their name; needs `page`"},
    "use_regex": {"type": "boolean", "description": "`name` is a pattern"},
    "family": {"type": "string", "description": "of metrics; may be there several times"},
    "vhost": {"type": "string", "description": "whose metrics; may be there several times"},
    "if-unused": {"type": "boolean"},
    "if-empty": {"type": "boolean"},
    "for_rabbitmq": {"type": "boolean", "description": "without what RabbitMQ cannot read"},
    "download": {"type": "string", "description": "the file's name, for browsers"},
    **{name: {"type": "integer", "minimum": 1, "description": "seconds"} for name in RANGES},
}
_ANY_OBJECT: Final = {"type": "object"}
_ERROR: Final = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "reason": {}},
    "required": ["error", "reason"],
}
_PROBLEMS: Final = {
    400: "the request cannot be carried out as it is",
    401: "no login, or one that may not do this",
    404: "there is no such object",
    405: "the path has no such method",
    408: "the request took too long to come",
    413: "the body is too large",
    500: "a fault of the broker's own",
    503: "a check has failed, or the broker is busy",
}


def document(actions: Iterable[Action], version: str) -> dict[str, Any]:
    """The document for these rows."""
    paths: dict[str, dict[str, Any]] = {}
    for action in actions:
        paths.setdefault(action.path, {})[action.method.lower()] = _operation(action)
    return {
        "openapi": _VERSION,
        "info": {"title": "Leveret's management API", "version": version},
        "paths": paths,
        "security": [{"basic": []}],
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"Error": _ERROR},
        },
    }


def _operation(action: Action) -> dict[str, Any]:
    subject = action.path.removeprefix("/api/").partition("/")[0]
    words = re.findall(r"[A-Za-z0-9]+", action.path)
    operation: dict[str, Any] = {
        "operationId": "_".join([action.method.lower(), *words]),
        "summary": action.name,
        "description": _needs(action.tag),
        "tags": [subject],
        "parameters": [*_path_parameters(action.path), *_query_parameters(action)],
        "responses": _responses(action),
    }
    if action.tag in (Tag.NONE, Tag.NONE_FOR_HEALTH, Tag.NONE_FOR_METRICS):
        operation["security"] = [{}, {"basic": []}]
    if action.method in ("PUT", "POST"):
        schema = action.body or _ANY_OBJECT
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": "required" in schema, "content": content}
    return operation


def _needs(tag: Tag) -> str:
    if tag is Tag.NONE_FOR_METRICS:
        return "Needs the tag monitoring, or no login where the settings say so."
    if tag in TAGS:
        return f"Needs the tag {tag.value}, or one that includes it."
    if tag is Tag.NONE:
        return "Needs no login."
    return "Needs a login." if tag is Tag.ANY else "Needs no login, where the settings say so."


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(action: Action) -> list[dict[str, Any]]:
    rows = []
    for name in action.query:
        if name == "x-reason":
            schema: dict[str, object] = {"type": "string", "pattern": "^[ -~]*$"}
            rows.append({"name": name, "in": "header", "schema": schema})
        else:
            rows.append({"name": name, "in": "query", "schema": _QUERY[name]})
    return rows


def _responses(action: Action) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if action.method == "GET" or action.answers_with_body:
        responses["200"] = {
            "description": "done",
            "content": {"application/json": {"schema": {}}},
        }
    else:
        responses |= {"201": {"description": "made"}, "204": {"description": "done"}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status, text in _PROBLEMS.items():
        responses[str(status)] = {"description": text, "content": error}
    if action.path.startswith("/api/health"):
        responses["503"] = {
            "description": "the check has failed",
            "content": {"application/json": {"schema": _ANY_OBJECT}},
        }
    return responses


def described(actions: tuple[Action, ...]) -> Action:
    """The row that publishes the document of these rows, and of itself."""
    made: list[bytes] = []

    async def answer(request: Request) -> Answer:
        if not made:
            made.append(encoded(document((*actions, row), request.about.version)))
        return Answer(200, made[0])

    row = Action("GET", PATH, "openapi document", answer, Tag.ANY)
    return row
