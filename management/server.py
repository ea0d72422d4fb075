"""The HTTP server: aiohttp's, on the node's event loop, and what keeps its clients in bounds.

A client cannot delay others. The head and body of a request are bounded, by aiohttp and by a
setting; so are its time, from its first byte to the last of its answer, and the number of
connections: for one more, the address that has most gives up its longest silent one
(core/connection/waiting_peers.py). The last file descriptors are for files. A connection may carry
request after request; between two it waits as long as one may take, and is closed then. A fault of
the broker's own is logged, and ends one request alone, with 500.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import termios
from collections.abc import Generator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from aiohttp import web
from isal import isal_zlib

from ..actors.messages import WakeAt, Woken
from ..actors.node_context import NodeContext
from ..actors.runtime.descriptors import REFUSAL, has_one_of_the_last
from ..actors.runtime.runtime import LoopActor, tell
from ..core.connection.peer import is_loopback
from ..core.connection.waiting_peers import WaitingPeers
from ..core.users.accounts import User
from ..logs.events import HTTP_FAILED, HTTP_REFUSED
from .about import HttpLimits
from .logging_in import Login, login_of
from .pace import Pace
from .request import JSON, Answer, ApiError
from .snapshots import Body
from .text import encoded

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Of an answer, written in one turn of the event loop: two parts of a list of queues have room.
CHUNK_BYTES: Final = 73_728
# A body up to this size is not compressed, as in RabbitMQ.
_PLAIN_BYTES_MAX: Final = 300
# A tenth of the time of the next level, and a listing is a tenth of its size all the same.
_GZIP_LEVEL: Final = 1
# 32 KiB, the most there is, and 16 for a head as gzip has it.
_GZIP_WINDOW_BITS: Final = 31
# RabbitMQ's: an answer depends on these headers of its request.
_VARY: Final = "accept, accept-encoding, origin"
_INT_BYTES: Final = 4
# Of the event loop, from a request's last byte to its task: aiohttp needs three.
_ROUNDS_TO_TASK: Final = 8
_EMPTY: Final = "connection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_MANY: Final = f"HTTP/1.1 503 Service Unavailable\r\n{_EMPTY}".encode()
_TOO_SLOW: Final = f"HTTP/1.1 408 Request Timeout\r\n{_EMPTY}".encode()


_TOO_LATE: Final = ApiError(
    503, "timeout", "what was asked is not answered in time: the broker is busy"
)
_FAULT: Final = ApiError(
    500, "internal_server_error", "a fault of the broker's own; its log says which"
)
_TOO_LONG: Final = ApiError(408, "timeout", "the request took too long to come")


class Site(Protocol):
    """What a listener serves. `found` is its own: what a request asks for.

    The server calls in this order, so that nothing of a body is kept for a client that may not ask.
    """

    pace: Pace

    async def find(self, request: web.BaseRequest) -> Any:
        """What the request asks for, or what says that there is no such thing."""

    async def log_in(self, found: Any, login: Login | None, host: str) -> User:
        """The user that asks; ApiError if he may not."""

    def body_bytes_max(self, found: Any) -> int:
        """The largest body that is read."""

    def too_large(self, found: Any) -> ApiError:
        """The body is larger."""

    async def answer(
        self, found: Any, user: User, request: web.BaseRequest, body: bytes, host: str
    ) -> Answer:
        """Carry it out; ApiError if it cannot be."""

    def refusal(self, fault: ApiError, *, is_known: bool) -> Answer:
        """What the client is told of a fault; `is_known`: it has sent a login."""


class HttpServer:
    """What all connections of one HTTP listener share. Only the event loop calls it."""

    def __init__(self, context: NodeContext, site: Site, limits: HttpLimits) -> None:
        self.context = context
        self.limits = limits
        self.sockets: dict[web.RequestHandler, HttpSocket] = {}
        self._site = site
        self._waiting = WaitingPeers[HttpSocket](0.0, _has_nothing_unread)
        context.crowds.add(self._waiting, _abandon)
        self._deadlines = Deadlines.start_on(context.runtime, context)
        timeout = limits.request_timeout_seconds
        self._server = web.Server(
            self._handle,
            request_factory=self._new_request,
            access_log=None,
            logger=_quiet_logger(),
            keepalive_timeout=timeout,
            lingering_time=timeout,
            tcp_keepalive=False,
            auto_decompress=False,
        )

    def __call__(self) -> asyncio.Protocol:
        """A protocol for a new connection."""
        return HttpSocket(self, self._server())

    def _new_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        bytes_max = self.limits.body_bytes_max
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=bytes_max
        )

    # --- Connections

    def connection_made(self, made: HttpSocket) -> bool:
        """Whether there is room for one more, or another one gives way to it."""
        limits, now = self.limits, self.context.runtime.scheduler.time()
        loopback_kept = limits.loopback_kept if is_loopback(made.host) else 0
        if not self._has_room(made, limits.connections_max + loopback_kept, now):
            return False
        self.sockets[made.handler] = made
        self._waiting.add(made, made.host, now)
        self.watch(made)
        return True

    def _has_room(self, made: HttpSocket, count_max: int, now: float) -> bool:
        kept, transport = self.context.file_descriptors_kept, made.transport
        if len(self._waiting) >= count_max:
            slow = self._waiting.evict(made.host, now)
            if slow is None:
                return False
            slow.abort()
        elif not has_one_of_the_last(transport, kept):
            return True
        elif not self.context.crowds.make_room(made.host, now, REFUSAL):
            return False
        # The file descriptor of what gives way is not free yet.
        return not has_one_of_the_last(transport, kept // 2)

    def connection_lost(self, lost: HttpSocket) -> None:
        """Its place is free."""
        self.sockets.pop(lost.handler, None)
        self._waiting.discard(lost)

    def watch(self, one: HttpSocket) -> None:
        """What it does from now on has the time of a request."""
        now = self.context.runtime.scheduler.time()
        one.deadline = now + self.limits.request_timeout_seconds
        tell(self.context.ticker, WakeAt(one.deadline, self._deadlines, one))

    def abandon(self) -> None:
        """Close all of them: the node ends."""
        for one in list(self.sockets.values()):
            one.abort()

    # --- Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; aiohttp calls this in a task of its own."""
        one = self.sockets.get(request.protocol)
        if one is None:
            raise ConnectionResetError
        log = self.context.runtime.log.bind(peer=one.peer)
        one.task = asyncio.current_task()
        try:
            answer = await self._answer(request, one, log)
            one.state = State.WRITING
            self.watch(one)
            return await _send(request, answer, self._site.pace)
        except ConnectionError:
            raise
        except Exception:
            log.error(HTTP_FAILED, method=request.method, path=request.path, exc_info=True)
            one.abort()
            raise ConnectionResetError from None
        finally:
            one.answered()
            self._waiting.note_progress(one, self.context.runtime.scheduler.time())
            self.watch(one)

    async def _answer(
        self, request: web.BaseRequest, one: HttpSocket, log: FilteringBoundLogger
    ) -> Answer:
        """What the resource answers, or why it does not."""
        login = login_of(request.headers.get("authorization"))
        try:
            return await self._asked(request, one, login)
        except asyncio.CancelledError:
            if not one.is_late or one.task is None:
                raise
            one.task.uncancel()
            fault = _TOO_LATE if one.state is State.SERVING else _TOO_LONG
        except ApiError as refused:
            fault = refused
        except ConnectionError:
            raise
        except Exception:
            log.error(HTTP_FAILED, method=request.method, path=request.path, exc_info=True)
            fault = _FAULT
        user = "" if login is None else login.user
        if user or fault.status not in (401, 404):
            # A request without a login gets 401, and the client repeats it with one.
            log.warning(HTTP_REFUSED, status=fault.status, reason=fault.logged_reason, user=user)
        answer = self._site.refusal(fault, is_known=login is not None)
        if not request.content.is_eof():
            # The rest of its body would be read as the next request.
            answer = answer._replace(headers={**answer.headers, "connection": "close"})
        return answer

    async def _asked(
        self, request: web.BaseRequest, one: HttpSocket, login: Login | None
    ) -> Answer:
        if not request.can_read_body:
            self._is_whole(one)
        site = self._site
        # Each part of a request has a round of its own, so that ten requests at once are no long
        # round.
        await site.pace.turn()
        found = await site.find(request)
        user = await site.log_in(found, login, one.host)
        body = await self._body(request, found)
        self._is_whole(one)
        return await site.answer(found, user, request, body, one.host)

    def _is_whole(self, one: HttpSocket) -> None:
        """It waits for the broker from now on."""
        one.state = State.SERVING
        self._waiting.is_served(one)

    async def _body(self, request: web.BaseRequest, found: Any) -> bytes:
        bytes_max = self._site.body_bytes_max(found)
        if (request.content_length or 0) > bytes_max:
            raise self._site.too_large(found)
        request = request.clone(client_max_size=bytes_max)
        if request.headers.get("expect", "").lower() == "100-continue":
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise self._site.too_large(found) from None
        except web.RequestPayloadError:
            raise ApiError(400, "bad_request", "the body cannot be read") from None


async def _send(request: web.BaseRequest, answer: Answer, pace: Pace) -> web.StreamResponse:
    """Write the answer; a large one in slices."""
    headers = {"server": "leveret", "vary": _VARY, **answer.headers}
    body = _body_of(answer.content)
    if answer.content is not None:
        headers.setdefault("content-type", JSON)
    if answer.status == 200 and request.method in ("GET", "HEAD"):
        headers.setdefault("cache-control", "no-cache")
    is_long = body.size_bytes > _PLAIN_BYTES_MAX
    if request.method != "HEAD" and is_long and accepts_gzip(request.headers):
        body = await _compressed(body, pace)
        headers["content-encoding"] = "gzip"
    if answer.content is not None or answer.status != 204:
        headers["content-length"] = str(body.size_bytes)
    response = web.StreamResponse(status=answer.status, headers=headers)
    if headers.get("connection") == "close":
        response.force_close()
    await pace.turn()
    await response.prepare(request)
    if request.method != "HEAD":
        # The head, and all of a short body, are written in one turn.
        written_bytes = CHUNK_BYTES // 2
        for part in body.parts:
            if written_bytes + len(part) > CHUNK_BYTES:
                await pace.turn()
                written_bytes = 0
            written_bytes += len(part)
            await response.write(part)
    await response.write_eof()
    return response


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether the client's `accept-encoding` names gzip and does not forbid it."""
    for each in headers.get("accept-encoding", "").lower().split(","):
        name, _, parameters = each.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            _, _, quality = parameters.replace(" ", "").partition("q=")
            return not quality or quality.strip("0.") != ""
    return False


async def _compressed(body: Body, pace: Pace) -> Body:
    """The body by gzip, made once for all its receivers."""
    if body.compressed is None:
        steps = _compressed_parts(body.parts)
        body.compressed = asyncio.create_task(pace.carry_out(steps))
    return await asyncio.shield(body.compressed)


def _compressed_parts(parts: Sequence[bytes | memoryview]) -> Generator[None, None, Body]:
    compressor = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP_WINDOW_BITS)
    compressed: list[bytes] = []
    for part in parts:
        compressed.append(compressor.compress(part))
        yield
    compressed.append(compressor.flush())
    return Body([part for part in compressed if part])


def _body_of(content: object) -> Body:
    if isinstance(content, Body):
        return content
    if content is None:
        return Body(())
    text = content if isinstance(content, bytes) else encoded(content)
    view = memoryview(text)
    return Body([view[at : at + CHUNK_BYTES] for at in range(0, len(text), CHUNK_BYTES)])


class Deadlines(LoopActor):
    """Hears from the ticker that a connection's time is over. One per server."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__()
        self._context = context

    def on_receive(self, message: object) -> None:
        """A wish has come true, if nothing has moved it since."""
        assert isinstance(message, Woken)
        one = cast("HttpSocket", message.token)
        if self.runtime.scheduler.time() >= one.deadline:
            one.time_is_over()

    def on_failure(self, *exception: Any) -> None:
        """Slow clients would never be closed any more: the node ends."""
        self._context.on_fatal("http", exception[1])


class State(Enum):
    """How far the request of a connection is."""

    ARRIVING = auto()
    SERVING = auto()
    WRITING = auto()
    # Answered; another may come.
    IDLE = auto()


class HttpSocket(asyncio.Protocol):
    """One connection: passes asyncio's callbacks to aiohttp, and knows how far its request is."""

    def __init__(self, server: HttpServer, handler: web.RequestHandler) -> None:
        self._server = server
        self.handler = handler
        self.transport: Any = None
        self.host = ""
        self.peer = ""
        # On the scheduler's clock.
        self.deadline = 0.0
        # Answers the request at hand.
        self.task: asyncio.Task[Any] | None = None
        # Its request took too long.
        self.is_late = False
        self.state = State.ARRIVING
        self._has_ended = False
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        # uvloop's transports are asyncio.Transports by their methods only.
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        if address:
            self.host, self.peer = str(address[0]), f"{address[0]}:{address[1]}"
        if not self._server.connection_made(self):
            self.transport.write(_TOO_MANY)
            self.transport.close()
            return
        self._is_open = True
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """One read."""
        if not self._is_open:
            return
        if self.state is State.IDLE:
            # The first bytes of a further request.
            self.state = State.ARRIVING
            self._server.watch(self)
        self.handler.data_received(data)

    def eof_received(self) -> bool:
        """It sends no more, and may still read the answer."""
        self._has_ended = True
        if self.state is not State.ARRIVING:
            return self.task is not None
        self._close_unasked(_ROUNDS_TO_TASK)
        return True

    def _close_unasked(self, rounds: int) -> None:
        """Close it unless a whole request has come: its task may be yet to begin."""
        if self.task is not None or self.transport.is_closing():
            return
        if rounds:
            asyncio.get_running_loop().call_soon(self._close_unasked, rounds - 1)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client is slow to read."""
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        """It has read."""
        self.handler.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed. What the client asked for is done all the same."""
        self._server.connection_lost(self)
        if self._is_open:
            self._is_open = False
            self.handler.connection_lost(error)

    def answered(self) -> None:
        """The answer is written; another request may come."""
        self.task = None
        self.state, self.is_late = State.IDLE, False
        if self._has_ended:
            self.transport.close()

    def time_is_over(self) -> None:
        """The request, the answer or the next request took too long."""
        if self.transport.is_closing() or self.state in (State.WRITING, State.IDLE):
            self.abort()
        elif self.task is not None:
            self.is_late = True
            self.task.cancel()
        else:
            self.transport.write(_TOO_SLOW)
            self.transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self.transport.abort()


def _abandon(one: HttpSocket, _limit: str) -> None:
    one.abort()


def _has_nothing_unread(one: HttpSocket) -> bool:
    """A request comes right behind its connection, and may not have been read yet."""
    if one.transport.is_closing():
        return True
    descriptor = one.transport.get_extra_info("socket").fileno()
    unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_INT_BYTES))
    return not any(unread)


def _quiet_logger() -> logging.Logger:
    """For aiohttp, which logs what clients send; the broker's own faults are logged here."""
    logger = logging.getLogger("leveret.http")
    logger.disabled = True
    return logger
