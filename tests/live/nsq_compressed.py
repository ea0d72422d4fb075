"""Sockets of NSQ clients whose octets are compressed, and octets that are few for many."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from cramjam import snappy

MIB = 1 << 20


class Deflated:
    """A socket whose octets are deflated."""

    def __init__(self, socket: Any, received: bytes) -> None:
        self._socket = socket
        self._received = received
        self._out = zlib.compressobj(6, zlib.DEFLATED, -15)
        self._in = zlib.decompressobj(-15)

    def send_compressed(self, data: bytes) -> None:
        """Send what is compressed already."""
        self._socket.sendall(data)

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(self._out.compress(data) + self._out.flush(zlib.Z_SYNC_FLUSH))

    def recv(self, count: int) -> bytes:
        while data := self._received or self._socket.recv(count):
            self._received = b""
            if plain := self._in.decompress(data):
                return plain
        return b""

    def close(self) -> None:
        self._socket.close()


class Snappy:
    """A socket whose octets are snappy's framing format."""

    def __init__(self, socket: Any, received: bytes) -> None:
        self._socket = socket
        self._received = received
        self._pending = b""

    def send_compressed(self, data: bytes) -> None:
        """As Deflated."""
        self._socket.sendall(data)

    def sendall(self, data: bytes) -> None:
        framed = bytes(snappy.compress(data))
        # In pieces: chunks come in parts.
        for at in range(0, len(framed), 7_000):
            self._socket.sendall(framed[at : at + 7_000])

    def recv(self, count: int) -> bytes:
        while data := self._received or self._socket.recv(count):
            self._received = b""
            self._pending += data
            at = 0
            while at + 4 <= len(self._pending):
                size = int.from_bytes(self._pending[at + 1 : at + 4], "little")
                if at + 4 + size > len(self._pending):
                    break
                at += 4 + size
            chunks, self._pending = self._pending[:at], self._pending[at:]
            header = b"" if chunks.startswith(b"\xff") else b"\xff\x06\0\0sNaPpY"
            if plain := bytes(snappy.decompress(header + chunks)):
                return plain
        return b""

    def close(self) -> None:
        self._socket.close()


WRAPPERS = {"deflate": Deflated, "snappy": Snappy}


def _deflating() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress, lambda: stream.flush(zlib.Z_SYNC_FLUSH)


def _framing() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    # Each piece has the stream's header, which may come again.
    return lambda data: bytes(snappy.compress(data)), lambda: b""


_STREAMS = {"deflate": _deflating, "snappy": _framing}


def bomb(stream: str, octets: bytes, count: int, end: bytes) -> bytes:
    """So many times these octets, and the end, compressed."""
    compress, flush = _STREAMS[stream]()
    block = octets * (MIB // len(octets))
    pieces = [compress(block) for _ in range(count * len(octets) // MIB)]
    return b"".join(pieces) + compress(end) + flush()
