"""Definitions: the broker's topology and accounts as one file, written and carried out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from typing import Final

from aiohttp import BodyPartReader, MultipartReader, hdrs
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import content_disposition_header
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from ...actors.messages import ControlAnswer, ImportRequest
from ...core.definition_files.writing import DefinitionsWriter
from ..about import About
from ..asking import ask
from ..request import Action, Answer, ApiError, Request, Tag, VhostRule, bad_request
from ..snapshots import Body
from ..text import encoded

# The field of a form that has the file, and the one that says where a browser goes then.
_FILE: Final = "file"
_REDIRECT: Final = "redirect"
# Of a file, in one part of the answer.
_ROWS_IN_PART: Final = 64
# To nowhere but here, and what a header may have. Browsers take a backslash for a slash, and two
# slashes for the beginning of a host.
_PATH_HERE: Final = re.compile(r"/(?![/\\])[!-~]*")


async def _export(request: Request) -> Answer:
    """A file of everything, or of the path's vhost."""
    writer = DefinitionsWriter(
        request.context.accounts,
        request.context.vhosts,
        vhost=request.names.get("vhost"),
        for_rabbitmq=request.query.get("for_rabbitmq") == "true",
    )
    body = await request.snapshots.pace.carry_out(_written(writer, request.about))
    headers = {}
    name = request.query.get("download")
    if name is not None:
        shown = "".join(each for each in name if each.isprintable())
        headers["content-disposition"] = content_disposition_header("attachment", filename=shown)
    return Answer(200, body, headers)


def _written(writer: DefinitionsWriter, about: About) -> Generator[None, None, Body]:
    """The file, in short steps."""
    parts = [encoded(writer.head(about.server_version, about.product, about.version))[:-1]]
    for section in writer.sections:
        parts.append(f',"{section}":['.encode())
        rows: list[bytes] = []
        is_first = True
        for row in writer.rows(section):
            rows.append(encoded(row))
            if len(rows) == _ROWS_IN_PART:
                parts.append((b"" if is_first else b",") + b",".join(rows))
                rows, is_first = [], False
            yield
        parts.append((b"" if is_first or not rows else b",") + b",".join(rows) + b"]")
    parts.append(b"}")
    return Body(parts)


async def _import(request: Request) -> Answer:
    body, redirect = request.body, None
    if body and request.content_type.partition(";")[0].strip().lower() == "multipart/form-data":
        body, redirect = await _form(request)
    if not body:
        # As RabbitMQ has it: nothing is to be done.
        return Answer(204)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise bad_request("not JSON: not UTF-8") from None
    vhost = request.names.get("vhost")
    answer = await ask(
        request.context.runtime,
        request.context.broker,
        lambda me: ImportRequest(me, None, text, vhost),
    )
    assert isinstance(answer, ControlAnswer)
    if answer.is_missing:
        raise ApiError(404, "not_found", "vhost_not_found")
    if answer.error:
        raise bad_request(answer.error)
    return Answer(204) if redirect is None else Answer(303, None, {"location": redirect})


async def _form(request: Request) -> tuple[bytes, str | None]:
    """The file in a form, as browsers send it, and a path to go to then; 400."""
    loop = asyncio.get_running_loop()
    stream = StreamReader(BaseProtocol(loop), len(request.body) + 1, loop=loop)
    stream.feed_data(request.body)
    stream.feed_eof()
    body, redirect = b"", None
    try:
        reader = MultipartReader({hdrs.CONTENT_TYPE: request.content_type}, stream)
        async for part in reader:
            if not isinstance(part, BodyPartReader):
                raise bad_request("a form in a form")
            if part.name == _FILE:
                body = bytes(await part.read())
            elif part.name == _REDIRECT:
                redirect = (await part.read()).decode()
    except (ValueError, AssertionError, RuntimeError, HttpProcessingError):
        raise bad_request("the form cannot be read") from None
    if redirect is not None and not _PATH_HERE.fullmatch(redirect):
        redirect = None
    return body, redirect


ACTIONS: Final = tuple(
    action
    for path, vhost in (
        ("/api/definitions", VhostRule.ANY),
        # RabbitMQ's older name of it.
        ("/api/all-configuration", VhostRule.ANY),
        ("/api/definitions/{vhost}", VhostRule.VISIBLE),
    )
    for action in (
        Action(
            "GET",
            path,
            "definitions export",
            _export,
            Tag.ADMINISTRATOR,
            vhost,
            query=("for_rabbitmq", "download"),
        ),
        Action(
            "POST",
            path,
            "definitions import",
            _import,
            Tag.ADMINISTRATOR,
            VhostRule.ANY,
            is_definitions=True,
        ),
    )
)
