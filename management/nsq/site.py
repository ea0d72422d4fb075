"""The site of NSQ's calls: finds the call, admits the user, and answers.

A client logs in with HTTP's Basic scheme. One on this machine that does not is the user `nsq_user`,
as a connection is that sends no AUTH.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from aiohttp.web import BaseRequest

from ...actors.node_context import NodeContext
from ...actors.nsq.settings import NsqSettings
from ...amqp_frames.errors import AmqpError
from ...core.connection.peer import is_loopback
from ...core.nsq.session import reason_of
from ...core.users.accounts import User
from ..about import About, HttpLimits, NsqAddress
from ..api import CHALLENGE
from ..logging_in import Login, WrongLoginError, checked
from ..pace import Pace
from ..request import Answer, ApiError, Tag, refusal_of
from .call import Call, Needs, NsqRequest, json_answer, refused

_NOBODY: Final = User("", "")
# The server's own words for what happens to a request, in nsqd's form.
_MESSAGES: Final = {"internal_server_error": "INTERNAL_ERROR", "bad_request": "INVALID_REQUEST"}


class NsqSite:
    """A `Site` (management/server.py); it keeps nothing of a request."""

    def __init__(
        self,
        context: NodeContext,
        settings: NsqSettings,
        about: About,
        address: NsqAddress,
        limits: HttpLimits,
        pace: Pace,
        calls: Iterable[Call],
    ) -> None:
        self.pace = pace
        self._context = context
        self._settings = settings
        self._about = about
        self._address = address
        self._limits = limits
        self._calls: dict[str, dict[str, Call]] = {}
        for call in calls:
            self._calls.setdefault(call.path, {})[call.method] = call

    async def find(self, request: BaseRequest) -> Call:
        """The call; as Go's httprouter it answers OPTIONS, and leads to the path without slash."""
        path, query = request.rel_url.raw_path, request.rel_url.raw_query_string
        by_method = self._calls.get(path)
        method = request.method
        if by_method is None:
            shorter = path.removesuffix("/")
            if shorter != path and method in self._calls.get(shorter, ()):
                return _redirection(method, f"{shorter}?{query}" if query else shorter)
            raise refused(404, "NOT_FOUND")
        call = by_method.get(method)
        if call is not None:
            return call
        allowed = ", ".join(sorted([*by_method, "OPTIONS"]))
        if method == "OPTIONS":
            return _fixed(Answer(200, None, {"allow": allowed}))
        raise ApiError(405, "METHOD_NOT_ALLOWED", "", {"allow": allowed}, "METHOD_NOT_ALLOWED")

    async def log_in(self, found: Call, login: Login | None, host: str) -> User:
        """The user that asks; 401 without a right login, 403 if he may not call this."""
        if found.needs is Needs.NOTHING:
            return _NOBODY
        user = await self._user(login, host)
        try:
            self._context.accounts.check_open(user.name, self._settings.vhost)
        except AmqpError as error:
            raise refused(403, "FORBIDDEN", reason_of(error)) from None
        if found.needs is Needs.MANAGEMENT:
            refusal = refusal_of(user.tags, Tag.MANAGEMENT)
            if refusal:
                raise refused(403, "FORBIDDEN", refusal)
        return user

    async def _user(self, login: Login | None, host: str) -> User:
        if login is not None:
            try:
                return await checked(self._context, login, host)
            except WrongLoginError as wrong:
                raise ApiError(401, "UNAUTHORIZED", "", CHALLENGE, str(wrong)) from None
        user = self._context.accounts.users.get(self._settings.user)
        if user is None or not is_loopback(host):
            raise ApiError(401, "UNAUTHORIZED", "", CHALLENGE, "no login")
        return user

    def body_bytes_max(self, found: Call) -> int:
        """The largest body of the call."""
        if found.body_bytes_max is None:
            return self._limits.body_bytes_max
        return found.body_bytes_max(self._settings)

    def too_large(self, found: Call) -> ApiError:
        """413."""
        return refused(413, found.too_large)

    async def answer(
        self, found: Call, user: User, request: BaseRequest, body: bytes, host: str
    ) -> Answer:
        """Carry out the call."""
        asked = NsqRequest(
            context=self._context,
            settings=self._settings,
            about=self._about,
            address=self._address,
            pace=self.pace,
            user=user,
            query_text=request.rel_url.raw_query_string,
            body=body,
            peer_host=host,
        )
        return await found.answer(asked)

    def refusal(self, fault: ApiError, *, is_known: bool) -> Answer:
        """The code, as nsqd has it; what only this broker says is a second field."""
        del is_known
        content: dict[str, object] = {
            "message": _MESSAGES.get(fault.error, fault.error).upper(),
        }
        if fault.reason:
            content["reason"] = fault.reason
        answer = json_answer(content, fault.status)
        return answer._replace(headers={**answer.headers, **fault.headers})


def _fixed(answer: Answer) -> Call:
    """A call that is answered so without a look at anything."""

    async def fixed(_request: NsqRequest) -> Answer:
        return answer

    return Call("", "", fixed, Needs.NOTHING)


def _redirection(method: str, location: str) -> Call:
    headers = {"location": location}
    if method != "GET":
        return _fixed(Answer(307, None, headers))
    text = f'<a href="{html.escape(location)}">Moved Permanently</a>.\n\n'
    headers["content-type"] = "text/html; charset=utf-8"
    return _fixed(Answer(301, text.encode(), headers))
