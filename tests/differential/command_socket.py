"""A socket that cuts what a broker sends into commands, each with the lines that show it."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import NamedTuple

from client_frames import TRANSIENT
from leveret.amqp_frames.constants import FRAME_HEADER, FRAME_METHOD
from leveret.amqp_frames.methods import ChannelCloseOk, Method, decode_method
from leveret.amqp_frames.properties import Properties, decode_properties
from timeouts import TIMEOUT_SECONDS
from transcript import shown_body, shown_header, shown_method


class ScriptEnded(Exception):  # noqa: N818 - not an error: an answer like others
    """The broker has closed the connection, or says nothing: the script cannot go on."""


class Command(NamedTuple):
    """A method with its content, and the lines that show it."""

    channel: int
    method: Method
    lines: list[str]
    properties: Properties = TRANSIENT
    body: bytes = b""


class CommandSocket:
    """A connection to the broker at a port of this machine, over TLS if there is a context."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self._unread = bytearray()

    def read_command(self) -> Command:
        kind, channel, payload = self._read_frame()
        if kind != FRAME_METHOD:
            return Command(channel, ChannelCloseOk(), [f"frame of kind {kind}: {payload!r}"])
        method = decode_method(payload, 0, len(payload))
        lines = [shown_method(method, payload)]
        if not method.has_content:
            return Command(channel, method, lines)
        kind, _, header = self._read_frame()
        assert kind == FRAME_HEADER, (kind, header)
        properties = decode_properties(header, 12, len(header))
        (body_bytes,) = struct.unpack(">Q", header[4:12])
        lines.append(shown_header(properties, header[12:]))
        pieces: list[bytes] = []
        while sum(map(len, pieces)) < body_bytes:
            pieces.append(self._read_frame()[2])
        lines.append(shown_body([len(piece) for piece in pieces], b"".join(pieces)))
        return Command(channel, method, lines, properties, b"".join(pieces))

    def _read_frame(self) -> tuple[int, int, bytes]:
        kind, channel, size = struct.unpack(">BHI", self.read_bytes(7))
        payload = self.read_bytes(size + 1)
        assert payload[-1:] == b"\xce", payload
        return kind, channel, payload[:-1]

    def read_bytes(self, count: int) -> bytes:
        while len(self._unread) < count:
            try:
                data = self.socket.recv(1 << 20)
            except TimeoutError:
                raise ScriptEnded("nothing for too long") from None
            except ssl.SSLError as error:
                raise ScriptEnded(f"ended TLS: {error.reason}") from None
            except ConnectionError:
                data = b""
            if not data:
                left = f" after {bytes(self._unread)!r}" if self._unread else ""
                raise ScriptEnded(f"closed the socket{left}")
            self._unread += data
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken
