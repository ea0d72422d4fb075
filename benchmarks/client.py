"""A blocking client for what happens before and after the clock runs: handshake, declare, delete.

One request at a time; a channel or connection closed by the broker is raised with its text. Once
the load starts, the generator takes the socket and this client is silent.
"""

from __future__ import annotations

import socket
import ssl
import struct

from benchmarks import wire
from benchmarks.tls import TlsSocket

FRAME_BYTES_MAX = 131072

Reply = tuple[int, int]

START: Reply = (10, 10)
TUNE: Reply = (10, 30)
OPEN_OK: Reply = (10, 41)
CONNECTION_CLOSE: Reply = (10, 50)
CONNECTION_CLOSE_OK: Reply = (10, 51)
CHANNEL_OPEN_OK: Reply = (20, 11)
CHANNEL_CLOSE: Reply = (20, 40)
CHANNEL_CLOSE_OK: Reply = (20, 41)


class RefusedError(Exception):
    """The broker closed the channel or the connection; the text is its own."""


class Client:
    """One open connection to a broker on this machine, as guest on vhost "/"."""

    def __init__(
        self,
        port: int,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Log in; over TLS if there is a context."""
        connected = socket.create_connection(("127.0.0.1", port), timeout=60)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected if context is None else TlsSocket(connected, context)
        self._handshake(frame_bytes_max)

    def _handshake(self, frame_bytes_max: int) -> None:
        self.socket.sendall(wire.PROTOCOL_HEADER)
        self.expect(START)
        login = b"\x00guest\x00guest"
        arguments = (
            struct.pack(">I", 0)
            + wire.shortstr("PLAIN")
            + struct.pack(">I", len(login))
            + login
            + wire.shortstr("en_US")
        )
        tune = self.request(wire.method(0, 10, 11, arguments), TUNE)
        channel_max, frame_max, _ = struct.unpack(">HIH", tune)
        frame_max = min(frame_max or frame_bytes_max, frame_bytes_max)
        # No heartbeats: a frame of another size would only make the counting harder.
        tune_ok = struct.pack(">HIH", channel_max, frame_max, 0)
        self.socket.sendall(wire.method(0, 10, 31, tune_ok))
        self.request(wire.method(0, 10, 40, wire.shortstr("/") + b"\x00\x00"), OPEN_OK)

    def expect(self, reply: Reply) -> bytes:
        """Read frames until this reply comes; give its arguments."""
        while True:
            head = self._read(7)
            kind, _, size = struct.unpack(">BHI", head)
            payload = self._read(size + 1)[:-1]
            if kind != 1:
                continue
            seen = struct.unpack_from(">HH", payload)
            if seen == reply:
                return payload[4:]
            if seen in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                code, length = struct.unpack_from(">HB", payload, 4)
                raise RefusedError(f"{code} {payload[7 : 7 + length].decode()}")

    def _read(self, size: int) -> bytes:
        # Never more than asked for: what follows belongs to the load.
        data = b""
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise RefusedError("the broker closed the socket")
            data += received
        return data

    def request(self, data: bytes, reply: Reply) -> bytes:
        """Send one method and wait for its answer; give the answer's arguments."""
        self.socket.sendall(data)
        return self.expect(reply)

    def open_channel(self, channel: int, confirm: bool = False) -> None:
        """Open a channel, in confirm mode if asked."""
        self.request(wire.method(channel, 20, 10, b"\x00"), CHANNEL_OPEN_OK)
        if confirm:
            self.request(wire.method(channel, 85, 10, b"\x00"), (85, 11))

    def close_channel(self, channel: int) -> None:
        """Close a channel and wait for the answer."""
        arguments = struct.pack(">H", 200) + wire.shortstr("") + struct.pack(">HH", 0, 0)
        self.request(wire.method(channel, 20, 40, arguments), CHANNEL_CLOSE_OK)

    def declare_queue(self, channel: int, queue: str, durable: bool = True) -> None:
        """Declare a queue and wait for the answer."""
        self.request(wire.queue_declare(channel, queue, durable), (50, 11))

    def find_queue(self, channel: int, queue: str) -> None:
        """Declare a queue passively: refused if it is not there."""
        self.request(wire.queue_declare(channel, queue, durable=True, passive=True), (50, 11))

    def delete_queue(self, channel: int, queue: str) -> None:
        """Delete a queue with its messages, if it exists."""
        self.request(wire.queue_delete(channel, queue), (50, 41))

    def declare_fanout(self, channel: int, exchange: str, queues: list[str]) -> None:
        """Declare a durable fanout exchange and bind these queues to it."""
        self.request(wire.exchange_declare(channel, exchange, "fanout"), (40, 11))
        for queue in queues:
            self.request(wire.queue_bind(channel, queue, exchange, ""), (50, 21))

    def delete_exchange(self, channel: int, exchange: str) -> None:
        """Delete an exchange, if it is there."""
        self.request(wire.exchange_delete(channel, exchange), (40, 21))

    def consume(self, channel: int, queue: str, prefetch_count: int) -> None:
        """Start a consumer that acks, with this prefetch."""
        self.request(wire.basic_qos(channel, prefetch_count), (60, 11))
        self.request(wire.basic_consume(channel, queue, "consumer"), (60, 21))

    def close(self) -> None:
        """Close the connection as the protocol asks, then the socket."""
        arguments = struct.pack(">H", 200) + wire.shortstr("") + struct.pack(">HH", 0, 0)
        self.request(wire.method(0, 10, 50, arguments), CONNECTION_CLOSE_OK)
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without a word: for a connection that still gets deliveries."""
        self.socket.close()
