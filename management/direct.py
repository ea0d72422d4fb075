"""A connection of the API's own, in the process: what a resource does, it does as an AMQP client.

It is the ordinary reader, channel and writer with a transport that holds no socket, so permissions,
limits, confirms and the words of refusals are those of every client: a publish is answered when it
is confirmed. The user has logged in over HTTP already, so the connection logs in as one that a
certificate has named. It is not logged, listed or counted with those of clients, but for the limits
of its vhost and user.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ..actors.connection.reader import Reader
from ..actors.messages import ConnectionLost, Ref
from ..actors.node_context import NodeContext
from ..actors.runtime.runtime import tell
from ..amqp_frames.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from ..amqp_frames.messages.contents import frame
from ..amqp_frames.methods import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    decode_method,
    encode_method,
)
from ..amqp_frames.properties import Properties, decode_properties, encode_properties
from ..amqp_frames.values.field_table import table_of
from ..core.connection.peer import Peer
from .in_memory import InternalParent, MemoryTransport

_CHANNEL: Final = 1
_FRAME_HEADER_BYTES: Final = 7
_CONTENT_HEADER_BYTES: Final = 12
_BASIC: Final = 60
_CLIENT: Final = table_of(
    {
        "product": "Leveret management",
        "connection_name": "management",
        "capabilities": {"publisher_confirms": True, "authentication_failure_close": True},
    }
)

Answer = TypeVar("Answer", bound=Method)


class AmqpRefusedError(Exception):
    """The broker has closed the channel or the connection: the code, and its words."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Content(NamedTuple):
    """Properties and body of a message."""

    properties: Properties
    body: bytes


class DirectConnection:
    """The client side; `connect` opens one."""

    def __init__(self, context: NodeContext, user: str, host: str) -> None:
        self._context = context
        self._frames: deque[tuple[int, int, bytes]] = deque()
        self._unread = b""
        self._wakes: asyncio.Future[None] | None = None
        self._is_closed = False
        # As `open` agrees it with the broker.
        self._frame_max_bytes = 0
        peer = Peer(f"{host}:0", asks_certificate=True, user=user, is_internal=True)
        parent = InternalParent.start_on(context.runtime)
        transport = MemoryTransport(self)
        self._reader: Ref = Reader.start_on(context.runtime, context, transport, peer, parent)

    # --- The transport's side

    def received(self, data: bytes) -> None:
        """The broker has written this."""
        data = self._unread + data
        at = 0
        while len(data) - at > _FRAME_HEADER_BYTES:
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            end = at + _FRAME_HEADER_BYTES + size
            if len(data) <= end:
                break
            channel = int.from_bytes(data[at + 1 : at + 3], "big")
            self._frames.append((data[at], channel, data[at + _FRAME_HEADER_BYTES : end]))
            at = end + 1
        self._unread = data[at:]
        self._wake()

    def closed(self) -> None:
        """The broker has closed the transport."""
        self._is_closed = True
        lost = partial(tell, self._reader, ConnectionLost("closed"))
        self._context.runtime.scheduler.call_soon(lost)
        self._wake()

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)

    # --- The client's side

    async def open(self, vhost: str) -> None:
        """Handshake and channel.open; AmqpRefusedError."""
        self._send(PROTOCOL_HEADER)
        await self.expect(ConnectionStart)
        self._send(encode_method(0, ConnectionStartOk(_CLIENT, "EXTERNAL", b"")))
        tune = await self.expect(ConnectionTune)
        tune_ok = ConnectionTuneOk(tune.channel_max, tune.frame_max, 0)
        self._frame_max_bytes = tune.frame_max
        self._send(encode_method(0, tune_ok))
        self._send(encode_method(0, ConnectionOpen(vhost)))
        await self.expect(ConnectionOpenOk)
        await self.call(ChannelOpen(), ChannelOpenOk)

    async def call(self, method: Method, *answers: type[Answer]) -> Answer:
        """Send a method, and wait for one of its answers; AmqpRefusedError."""
        self.send(method)
        return await self.expect(*answers)

    def send(self, method: Method, content: Content | None = None) -> None:
        """Send a method, and the content behind it."""
        data = encode_method(_CHANNEL, method)
        if content is not None:
            size = len(content.body)
            head = _BASIC.to_bytes(2, "big") + bytes(2) + size.to_bytes(8, "big")
            head += encode_properties(content.properties)
            data += frame(FRAME_HEADER, _CHANNEL, head)
            step = self._frame_max_bytes - _FRAME_HEADER_BYTES - 1
            for at in range(0, size, step):
                data += frame(FRAME_BODY, _CHANNEL, content.body[at : at + step])
        self._send(data)

    def _send(self, data: bytes) -> None:
        tell(self._reader, data)

    async def expect(self, *answers: type[Answer]) -> Answer:
        """The next method of these types; others are passed over, closes are raised."""
        while True:
            kind, _, payload = await self._next_frame()
            if kind != FRAME_METHOD:
                continue
            method = decode_method(payload, 0, len(payload))
            if isinstance(method, (ChannelClose, ConnectionClose)):
                raise AmqpRefusedError(method.reply_code, method.reply_text)
            if isinstance(method, answers):
                return method

    async def content(self) -> Content:
        """The content behind the method that was expected last."""
        _, _, head = await self._next_frame()
        size = int.from_bytes(head[4:_CONTENT_HEADER_BYTES], "big")
        properties = decode_properties(head, _CONTENT_HEADER_BYTES, len(head))
        pieces = []
        while size > 0:
            _, _, piece = await self._next_frame()
            pieces.append(piece)
            size -= len(piece)
        return Content(properties, b"".join(pieces))

    async def _next_frame(self) -> tuple[int, int, bytes]:
        while not self._frames:
            if self._is_closed:
                raise AmqpRefusedError(320, "the broker has closed the connection")
            self._wakes = asyncio.get_running_loop().create_future()
            await self._wakes
        return self._frames.popleft()

    def close(self) -> None:
        """End the connection; what it has not acked is given back. Does not wait for it."""
        if not self._is_closed:
            self._send(encode_method(0, ConnectionClose(200, "done", 0, 0)))
            self._send(encode_method(0, ConnectionCloseOk()))
            self.closed()


@asynccontextmanager
async def connect(
    context: NodeContext, user: str, host: str, vhost: str
) -> AsyncIterator[DirectConnection]:
    """A connection with a channel, closed at the end; AmqpRefusedError."""
    connection = DirectConnection(context, user, host)
    try:
        await connection.open(vhost)
        yield connection
    finally:
        connection.close()
