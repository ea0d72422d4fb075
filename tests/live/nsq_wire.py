"""The commands that an NSQ client sends, to the byte, and a client that reads frames."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from timeouts import TIMEOUT_SECONDS

RESPONSE, ERROR, MESSAGE = 0, 1, 2
OK = (RESPONSE, b"OK")


def pub(topic: str, body: bytes) -> bytes:
    return b"PUB " + topic.encode() + b"\n" + sized(body)


def dpub(topic: str, delay_ms: int, body: bytes) -> bytes:
    return b"DPUB %s %d\n" % (topic.encode(), delay_ms) + sized(body)


def mpub(topic: str, *bodies: bytes) -> bytes:
    content = struct.pack(">I", len(bodies)) + b"".join(map(sized, bodies))
    return b"MPUB " + topic.encode() + b"\n" + sized(content)


def sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def identify(**fields: object) -> bytes:
    return b"IDENTIFY\n" + sized(json.dumps(fields).encode())


def auth(body: bytes) -> bytes:
    return b"AUTH\n" + sized(body)


class Message(NamedTuple):
    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


class NsqClient:
    """A connection that has sent the magic."""

    def __init__(
        self,
        port: int,
        magic: bytes = b"  V2",
        host: str = "127.0.0.1",
        receive_buffer_bytes: int = 0,
    ) -> None:
        self.socket: socket.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.send(magic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> Self:
        self.socket.sendall(b"".join(pieces))
        return self

    def half_close(self) -> None:
        """Send nothing more, and still read."""
        self.socket.shutdown(socket.SHUT_WR)

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame but heartbeats; None: the broker has closed the connection."""
        while True:
            frame = self.receive_any()
            if frame != (RESPONSE, b"_heartbeat_"):
                return frame

    def receive_any(self) -> tuple[int, bytes] | None:
        while True:
            received = self._received
            if len(received) >= 8:
                size, kind = struct.unpack_from(">II", received)
                if len(received) >= 4 + size:
                    self._received = received[4 + size :]
                    return kind, received[8 : 4 + size]
            try:
                more = self.socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self._received += more

    def message(self) -> Message:
        frame = self.receive()
        assert frame is not None
        assert frame[0] == MESSAGE, frame
        timestamp_ns, attempts = struct.unpack_from(">qH", frame[1])
        return Message(timestamp_ns, attempts, frame[1][10:26], frame[1][26:])

    def messages(self, count: int) -> list[Message]:
        return [self.message() for _ in range(count)]

    def upgrade(self, wrapped: Callable[[Any, bytes], Any]) -> Self:
        """Go on with another kind of octets, of which some may be here already."""
        received, self._received = self._received, b""
        self.socket = wrapped(self.socket, received)
        return self

    def ok(self, count: int = 1) -> Self:
        for _ in range(count):
            assert self.receive() == OK
        return self

    def json(self) -> dict[str, Any]:
        frame = self.receive()
        assert frame is not None
        assert frame[0] == RESPONSE, frame
        decoded: dict[str, Any] = json.loads(frame[1])
        return decoded

    def subscribe(self, topic: str, channel: str, ready: int | None = None) -> Self:
        self.send(f"SUB {topic} {channel}\n".encode()).ok()
        return self if ready is None else self.send(b"RDY %d\n" % ready)

    def error(self) -> bytes:
        frame = self.receive()
        assert frame is not None
        assert frame[0] == ERROR, frame
        return frame[1]

    def nothing(self) -> None:
        """Nothing has come before the answer to a question that a subscriber asks now."""
        self.send(b"FIN nothing_has_come\n")
        assert self.error() == b"E_FIN_FAILED FIN nothing_has_come failed ID not in flight"
