"""HTTP connections: one actor each, for health and for switching the trace (http_resources.py).

A connection carries one request and its answer, and is closed. It cannot delay other clients: its
bytes, its time and the number of connections are bounded; passwords are checked where those of AMQP
clients are, off the event loop, with the same protection against clients that try many; a fault,
also one of the broker's own, ends this connection alone.
"""

from __future__ import annotations

import asyncio
import fcntl
import termios
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from ...core.connection.peer import is_loopback
from ...core.connection.waiting_peers import WaitingPeers
from ...core.users.login_results import LoginResult
from ...logs.events import CONTROL_REQUEST, HTTP_REFUSED
from ..messages import (
    AskJournal,
    ControlAnswer,
    JournalAnswers,
    LogIn,
    LoginAnswer,
    PauseRequest,
    Ref,
    WakeAt,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.descriptors import REFUSAL, has_one_of_the_last
from ..runtime.runtime import LoopActor, tell
from .http_exchange import CHALLENGE, HttpError, HttpExchange, HttpRequest
from .http_resources import PAUSE, READY, RESUME, Action, find_action

# What a client whose request was answered before its end may still send without being cut off: it
# would not see the answer.
REST_BYTES_MAX: Final = 1024 * 1024

_INT_BYTES: Final = 4
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class HttpLimits(NamedTuple):
    """Settings of the listener."""

    body_bytes_max: int
    request_timeout_seconds: float
    connections_max: int
    # Beyond those, for clients on this machine.
    loopback_kept: int


class HttpEnd(NamedTuple):
    """HttpSocket -> HttpConnection: the client sends no more; it may still read."""


class HttpClosed(NamedTuple):
    """HttpSocket -> HttpConnection: the socket is closed."""


class HttpConnection(LoopActor):
    """One request: read, its user logged in, carried out, answered."""

    def __init__(
        self,
        context: NodeContext,
        transport: asyncio.Transport,
        limits: HttpLimits,
        waiting: WaitingPeers[asyncio.Transport],
    ) -> None:
        super().__init__()
        self._context = context
        self._transport = transport
        self._limits = limits
        self._waiting = waiting
        address = transport.get_extra_info("peername")
        self._host = str(address[0]) if address else "unknown"
        self._log = context.runtime.log.bind(peer=f"{address[0]}:{address[1]}" if address else "")
        self._exchange = HttpExchange(limits.body_bytes_max)
        self._request: HttpRequest | None = None
        # Why its user may not log in: for the log, not for the client.
        self._login_refusal = ""
        self._is_answered = False
        self._rest_bytes = 0

    def on_start(self) -> None:
        """So long it has for all of it."""
        self._wake()

    def on_receive(self, message: object) -> None:
        """Take bytes, or what the request waits for."""
        try:
            if isinstance(message, bytes):
                self._received(message)
            elif isinstance(message, LoginAnswer):
                self._logged_in(message.result)
            elif isinstance(message, JournalAnswers):
                self._ready()
            elif isinstance(message, ControlAnswer):
                self._broker_answered(message)
            elif isinstance(message, Woken):
                self._time_is_over()
            elif isinstance(message, HttpEnd):
                if self._request is None or self._is_answered:
                    self._transport.close()
            elif isinstance(message, HttpClosed):
                self.stop()
        except HttpError as fault:
            self._refuse(fault)

    def _received(self, data: bytes) -> None:
        if self._request is not None or self._is_answered:
            self._rest_bytes += len(data)
            if self._exchange.is_whole or self._rest_bytes > REST_BYTES_MAX:
                self._transport.abort()
            return
        self._request = request = self._exchange.feed(data)
        if request is None:
            self._transport.write(self._exchange.go_on())
            return
        self._waiting.is_served(self._transport)
        login = LogIn(self.actor_ref, self._host, request.user, request.password)
        self._request = request._replace(password="")
        tell(self._context.logins, login)

    def _logged_in(self, result: LoginResult) -> None:
        request = self._request
        if request is None or self._is_answered:
            return
        user = self._context.accounts.users.get(request.user)
        if result is LoginResult.ALLOWED and user is None:
            # Deleted since its password was found right.
            result = LoginResult.UNKNOWN_USER
        if user is None or result is not LoginResult.ALLOWED:
            self._login_refusal = result.value
            raise HttpError(401, "login refused", **CHALLENGE)
        action, names = find_action(request, user.tags)
        if action is READY:
            self._ask_journal()
        elif action in (PAUSE, RESUME):
            self._log.info(CONTROL_REQUEST, request=action.name, user=request.user, **names)
            pause = PauseRequest(self.actor_ref, None, **names, is_paused=action is PAUSE)
            tell(self._context.broker, pause)
        else:
            self._carry_out(request, action)

    def _carry_out(self, request: HttpRequest, action: Action) -> None:
        content = action.answer(self._context, request.body)
        if request.method not in ("GET", "HEAD"):
            self._log.info(CONTROL_REQUEST, request=action.name, user=request.user)
        self._answer(200, content)

    def _broker_answered(self, answer: ControlAnswer) -> None:
        if self._is_answered:
            return
        if answer.error:
            raise HttpError(404 if answer.is_missing else 503, answer.error)
        self._answer(200, {"status": "ok"})

    # --- Readiness

    def _ask_journal(self) -> None:
        if self._context.alarms.reason:
            self._not_ready(f"alarm: {self._context.alarms.reason}")
        elif not tell(self._context.journal, AskJournal(self.actor_ref, JournalAnswers())):
            self._not_ready("the journal has failed")

    def _ready(self) -> None:
        # Behind all that it had to write when it was asked.
        if not self._is_answered:
            self._answer(200, READY.answer(self._context, b""))

    def _not_ready(self, reason: str) -> None:
        self._answer(503, {"status": "failed", "reason": reason})

    # --- Endings

    def _refuse(self, fault: HttpError) -> None:
        user = "" if self._request is None else self._request.user
        if user or fault.status not in (401, 404):
            # A request without a login gets 401, and the client repeats it with one.
            reason = self._login_refusal or str(fault)
            self._log.warning(HTTP_REFUSED, status=fault.status, reason=reason, user=user)
        self._answer(fault.status, {"error": str(fault)}, fault.headers)

    def _answer(
        self, status: int, content: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> None:
        self._is_answered = True
        if self._transport.is_closing():
            return
        self._transport.write(self._exchange.answer(status, content, headers or {}))
        if self._exchange.is_whole:
            self._transport.close()
        else:
            # It may still be sending, and a closed socket would take the answer from it.
            self._transport.write_eof()
            self._waiting.note_progress(self._transport, self.runtime.scheduler.time())
        self._wake()

    def _time_is_over(self) -> None:
        if self._is_answered:
            self._transport.abort()
        elif self._request is None:
            raise HttpError(408, "the request took too long to come")
        else:
            self._not_ready("what was asked is not answered in time: the broker is busy")

    def _wake(self) -> None:
        when = self.runtime.scheduler.time() + self._limits.request_timeout_seconds
        tell(self._context.ticker, WakeAt(when, self.actor_ref, "http"))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: the client sees its socket close, and nobody else anything."""
        self._transport.abort()


class HttpListener:
    """The state that all HTTP connections share. Not an actor: only the event loop calls it."""

    def __init__(self, context: NodeContext, limits: HttpLimits) -> None:
        self.context = context
        self.limits = limits
        self.transports: set[asyncio.Transport] = set()
        self._waiting = WaitingPeers[asyncio.Transport](0.0, _has_nothing_unread)
        context.crowds.add(self._waiting, _abandon)

    def connection_made(self, transport: asyncio.Transport) -> Ref | None:
        """Start its actor; None if there are too many."""
        runtime = self.context.runtime
        address = transport.get_extra_info("peername")
        host = str(address[0]) if address else ""
        limits = self.limits
        count_max = limits.connections_max + (limits.loopback_kept if is_loopback(host) else 0)
        if not self._has_room(transport, host, count_max):
            transport.write(_TOO_MANY)
            transport.close()
            return None
        self.transports.add(transport)
        self._waiting.add(transport, host, runtime.scheduler.time())
        return HttpConnection.start_on(runtime, self.context, transport, limits, self._waiting)

    def _has_room(self, transport: asyncio.Transport, host: str, count_max: int) -> bool:
        """Whether there is room for one more, or another one gives way to it."""
        kept, now = self.context.file_descriptors_kept, self.context.runtime.scheduler.time()
        if len(self._waiting) >= count_max:
            slow = self._waiting.evict(host, now)
            if slow is None:
                return False
            slow.abort()
        elif not has_one_of_the_last(transport, kept):
            return True
        elif not self.context.crowds.make_room(host, now, REFUSAL):
            return False
        # The file descriptor of what gives way is not free yet.
        return not has_one_of_the_last(transport, kept // 2)

    def connection_lost(self, transport: asyncio.Transport) -> None:
        """Its place is free."""
        self.transports.discard(transport)
        self._waiting.discard(transport)

    def abandon(self) -> None:
        """Close all of them: the node ends."""
        for transport in list(self.transports):
            transport.abort()


def _abandon(transport: asyncio.Transport, _limit: str) -> None:
    transport.abort()


def _has_nothing_unread(transport: asyncio.Transport) -> bool:
    """A request comes right behind its connection, and may not have been read yet."""
    if transport.is_closing():
        return True
    descriptor = transport.get_extra_info("socket").fileno()
    unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_INT_BYTES))
    return not any(unread)


class HttpSocket(asyncio.Protocol):
    """asyncio's side of a connection: turns its callbacks into messages for the actor."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._transport: Any = None
        self._actor: Ref | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        # uvloop's transports are asyncio.Transports by their methods only.
        self._transport = cast("asyncio.Transport", transport)
        self._actor = self._listener.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        """One read."""
        if self._actor is not None:
            self._listener.context.runtime.tell_now(self._actor, data)

    def eof_received(self) -> bool:
        """It sends no more."""
        if self._actor is not None:
            tell(self._actor, HttpEnd())
        return self._actor is not None

    def connection_lost(self, _error: Exception | None) -> None:
        """The socket is closed."""
        self._listener.connection_lost(self._transport)
        if self._actor is not None:
            tell(self._actor, HttpClosed())
