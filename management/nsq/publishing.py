"""/pub and /mpub: PUB, DPUB and MPUB of an NSQ connection in the process.

It is the ordinary connection (actors/nsq/connection.py) with a transport that holds no socket, so
permissions, limits and what stands before an OK are those of every client: **fsync before OK**.
The user has logged in over HTTP. Such a connection lives for one request; it is not listed.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final

from ...actors.messages import ConnectionLost, Ref
from ...actors.nsq.connection import NsqConnection
from ...actors.runtime.runtime import tell
from ...core.connection.peer import Peer
from ...nsq_frames.commands import MAGIC
from ...nsq_frames.publishes import PublishLimits, message_count_max
from ...nsq_frames.responses import FRAME_ERROR
from ..in_memory import InternalParent, MemoryTransport
from ..request import Answer, ApiError
from .call import NsqRequest, refused, text_answer, topic_of

_size = Struct(">i").unpack_from
_pack = Struct(">I").pack
_FRAME_HEAD_BYTES: Final = 8
# What a client of the protocol is told, and what one of HTTP is.
_FAULTS: Final[dict[bytes, tuple[int, str]]] = {
    b"E_UNAUTHORIZED": (403, "FORBIDDEN"),
    b"E_BAD_TOPIC": (400, "INVALID_TOPIC"),
}


async def publish(request: NsqRequest) -> Answer:
    """/pub: one message; 200 when it is on the disk."""
    if not request.body:
        raise refused(400, "MSG_EMPTY")
    query = request.query()
    topic = topic_of(query)
    delay = query.get("defer")
    command = f"PUB {topic}\n"
    if delay is not None:
        delay_ms = _delay_ms(delay, request.settings.publish_limits.delay_ms_max)
        command = f"DPUB {topic} {delay_ms}\n"
    await _send(request, command.encode() + _pack(len(request.body)) + request.body)
    return text_answer("OK")


async def publish_many(request: NsqRequest) -> Answer:
    """/mpub: all messages of the body, or none; 200 when they are on the disk."""
    query = request.query()
    topic = topic_of(query)
    limits = request.settings.publish_limits
    binary = query.get("binary")
    if binary is not None and query.flag("binary", True):
        messages = request.body[: _messages_end(request.body, limits)]
    else:
        messages = _from_lines(request.body, limits)
    if messages:
        command = f"MPUB {topic}\n".encode()
        await _send(request, command + _pack(len(messages)) + messages)
    return text_answer("OK")


def _delay_ms(text: str, delay_ms_max: int) -> int:
    """As Go's strconv.ParseInt reads it."""
    digits = text.removeprefix("+")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(2**63))
    if not is_number or int(digits) > delay_ms_max:
        raise refused(400, "INVALID_DEFER")
    return int(digits)


def _from_lines(body: bytes, limits: PublishLimits) -> bytes:
    """The lines that are not empty, as the body of an MPUB; b"" if there are none."""
    pieces = [b""]
    for line in body.split(b"\n"):
        if line:
            if len(line) > limits.message_bytes_max:
                raise refused(413, "MSG_TOO_BIG")
            pieces += (_pack(len(line)), line)
    count = len(pieces) // 2
    if not count:
        return b""
    pieces[0] = _pack(count)
    return b"".join(pieces)


def _messages_end(body: bytes, limits: PublishLimits) -> int:
    """Where the messages of a binary body end; 413 if they are not whole, as nsqd has it.

    What stands behind them is not looked at, and must not come to the connection as a command.
    """
    if len(body) < 4 or not 0 < _size(body, 0)[0] <= message_count_max(limits):
        raise refused(413, "BAD_BODY")
    at = 4
    for _ in range(_size(body, 0)[0]):
        if at + 4 > len(body):
            raise refused(413, "BAD_MESSAGE")
        message_bytes = _size(body, at)[0]
        at += 4 + message_bytes
        if not 0 < message_bytes <= limits.message_bytes_max or at > len(body):
            raise refused(413, "BAD_MESSAGE")
    return at


async def _send(request: NsqRequest, command: bytes) -> None:
    """Have a connection of the user carry the command out; ApiError if it is not answered OK."""
    alarm = request.context.alarms.reason
    if alarm:
        # A connection would wait for its end.
        raise refused(503, "UNAVAILABLE", alarm)
    client = _Client(request)
    try:
        kind, content = await client.ask(command)
    finally:
        client.close()
    if kind == FRAME_ERROR:
        raise _fault(content)


def _fault(content: bytes) -> ApiError:
    code, _, text = content.partition(b" ")
    # nsqd's EXITING, its only reason to refuse a sound publish, would be wrong.
    status, message = _FAULTS.get(code, (503, code.decode().removeprefix("E_")))
    return refused(status, message, text.decode("utf-8", "replace"))


class _Client:
    """The other end of one connection."""

    def __init__(self, request: NsqRequest) -> None:
        context = self._context = request.context
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]]
        self._answer = asyncio.get_running_loop().create_future()
        self._is_closed = False
        peer = Peer(f"{request.peer_host}:0", user=request.user.name, is_internal=True)
        parent = InternalParent.start_on(context.runtime)
        self._connection: Ref = NsqConnection.start_on(
            context.runtime, context, request.settings, MemoryTransport(self), peer, parent
        )

    async def ask(self, command: bytes) -> tuple[int, bytes]:
        """Kind and content of the frame that answers the command; 503 if none does."""
        tell(self._connection, MAGIC + command)
        return await self._answer

    def received(self, data: bytes) -> None:
        """The broker has written this."""
        self._received += data
        received = self._received
        if len(received) < _FRAME_HEAD_BYTES or self._answer.done():
            return
        end = 4 + int(_size(received, 0)[0])
        if len(received) >= end:
            kind: int = _size(received, 4)[0]
            self._answer.set_result((kind, received[_FRAME_HEAD_BYTES:end]))

    def closed(self) -> None:
        """The broker has closed the transport."""
        self._is_closed = True
        self._context.runtime.scheduler.call_soon(self._lost)
        if not self._answer.done():
            self._answer.set_exception(refused(503, "UNAVAILABLE", "the connection is closed"))

    def _lost(self) -> None:
        tell(self._connection, ConnectionLost("closed"))

    def close(self) -> None:
        """End the connection; what the broker has taken stays."""
        if not self._is_closed:
            self.closed()
