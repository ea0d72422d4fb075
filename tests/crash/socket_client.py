"""A blocking client on a bare socket, which sees every frame as it comes."""

from __future__ import annotations

import socket
import struct

import frames_by_hand as wire
from frames_by_hand import Frame, Ids
from timeouts import TIMEOUT_SECONDS

_COUNT_HEADER = wire.short("x-delivery-count") + b"l"


class RefusedError(Exception):
    """The broker closed the channel or the connection; the text is its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class EndedError(Exception):
    """The socket is closed."""


class Delivery:
    """A basic.deliver, get-ok or return, with its content."""

    __slots__ = ("body", "delivery_tag", "header", "ids", "redelivered")

    def __init__(
        self, ids: Ids, delivery_tag: int, redelivered: bool, header: bytes, body: bytes
    ) -> None:
        self.ids = ids
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        # The payload of the content header, with its properties.
        self.header = header
        self.body = body

    @property
    def attempts(self) -> int:
        """How often it was delivered before, as its header says; 0 without one."""
        at = self.header.find(_COUNT_HEADER)
        if at < 0:
            return 0
        (attempts,) = struct.unpack_from(">q", self.header, at + len(_COUNT_HEADER))
        return int(attempts)


class SocketClient:
    """One connection; with `opens`, through its handshake as guest on vhost "/"."""

    def __init__(
        self,
        port: int,
        opens: bool = True,
        frame_max: int = 131072,
        heartbeat: int = 0,
        receive_buffer_bytes: int = 0,
    ) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self._position = 0
        if opens:
            self.send(wire.handshake(frame_max, heartbeat))
            self.expect(wire.OPEN_OK)

    def send(self, data: bytes) -> None:
        """Send all of it; EndedError if nobody is there."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise EndedError(str(error)) from error

    def frame(self) -> Frame:
        """The next frame; EndedError if the socket ends before it."""
        while True:
            found = self.frame_at_hand()
            if found is not None:
                return found
            self._receive()

    def frame_at_hand(self) -> Frame | None:
        """The next frame, if it has come in already."""
        data, position = self._data, self._position
        if len(data) - position < 8:
            return None
        kind, channel, size = struct.unpack_from(">BHI", data, position)
        end = position + 8 + size
        if end > len(data):
            return None
        assert data[end - 1] == 0xCE, "the broker sent a frame without its end"
        self._position = end
        return Frame(kind, channel, data[position + 7 : end - 1])

    def _receive(self) -> None:
        try:
            received = self.socket.recv(1 << 18)
        except OSError as error:
            raise EndedError(str(error)) from error
        if not received:
            raise EndedError("end of stream")
        self._data = self._data[self._position :] + received
        self._position = 0

    def expect(self, ids: Ids) -> bytes:
        """Read up to this method; its arguments. RefusedError if a close comes instead."""
        while True:
            found = self.frame()
            if found.ids == ids:
                return found.payload[4:]
            raise_if_close(found)

    def ask(self, data: bytes, ids: Ids) -> bytes:
        """Send a method and wait for its answer; the answer's arguments."""
        self.send(data)
        return self.expect(ids)

    def delivery(self) -> Delivery | Frame:
        """The next delivery, get-ok or return with its content, or the next other frame."""
        return self.delivery_of(self.frame())

    def delivery_of(self, found: Frame) -> Delivery | Frame:
        """Complete what began with this frame."""
        if found.ids not in (wire.DELIVER, wire.GET_OK, wire.RETURN):
            return found
        tag, redelivered = 0, False
        if found.ids != wire.RETURN:
            at = 5 + found.payload[4] if found.ids == wire.DELIVER else 4
            tag, redelivered = struct.unpack_from(">Q?", found.payload, at)
        header = self.frame().payload
        (size,) = struct.unpack_from(">Q", header, 4)
        pieces: list[bytes] = []
        while size:
            pieces.append(self.frame().payload)
            size -= len(pieces[-1])
        return Delivery(found.ids, tag, redelivered, header, b"".join(pieces))

    def open_channel(self, channel: int = 1, confirm: bool = False) -> None:
        """Open a channel, in confirm mode if asked."""
        self.ask(wire.method(channel, wire.CHANNEL_OPEN, b"\0"), wire.CHANNEL_OPEN_OK)
        if confirm:
            self.ask(wire.method(channel, wire.CONFIRM_SELECT, b"\0"), wire.CONFIRM_SELECT_OK)

    def declare(self, queue: str, channel: int = 1, passive: bool = False) -> int:
        """Declare a durable queue; how many messages it holds ready."""
        answer = self.ask(
            wire.queue_declare(channel, queue, passive=passive), wire.QUEUE_DECLARE_OK
        )
        messages, _consumers = struct.unpack_from(">II", answer, 1 + answer[0])
        return int(messages)

    def find(self, queue: str, channel: int) -> int | None:
        """How many messages a queue holds; None if it is not there, and the channel is closed."""
        try:
            return self.declare(queue, channel, passive=True)
        except RefusedError as refusal:
            if refusal.code != 404:
                raise
        self.send(wire.method(channel, wire.CHANNEL_CLOSE_OK))
        return None

    def publish_confirmed(self, exchange: str, key: str, body: bytes, channel: int = 1) -> bytes:
        """Publish one persistent message and wait for its ack; the ack's arguments."""
        return self.ask(wire.publish(channel, exchange, key, body), wire.ACK)

    def rest(self) -> list[Frame]:
        """Everything up to the end of the stream."""
        frames = []
        try:
            while True:
                frames.append(self.frame())
        except EndedError:
            return frames

    def close(self) -> None:
        """Close the connection as the protocol asks, then the socket."""
        self.ask(wire.method(0, wire.CLOSE, wire.close_arguments()), wire.CLOSE_OK)
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without a word."""
        self.socket.close()


def raise_if_close(found: Frame) -> None:
    """Turn connection.close and channel.close into what they say."""
    if found.ids in (wire.CLOSE, wire.CHANNEL_CLOSE):
        code, size = struct.unpack_from(">HB", found.payload, 4)
        raise RefusedError(code, found.payload[7 : 7 + size].decode())
