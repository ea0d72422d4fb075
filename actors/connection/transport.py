"""A connection's needs of the network; asyncio's transports meet them, a simulation can."""

from __future__ import annotations

import socket
import struct
from typing import Any, Protocol


class Transport(Protocol):
    """A connection as the writer needs it; asyncio's transports are one."""

    def write(self, data: bytes) -> None:
        """Buffer and send."""

    def writelines(self, pieces: list[bytes]) -> None:
        """Buffer and send, in order; the list is the transport's from now on."""

    def is_closing(self) -> bool:
        """Is it closed, or going to be?"""

    def get_write_buffer_size(self) -> int:
        """Bytes that wait in the buffer."""

    def get_extra_info(self, name: str) -> Any:
        """A property of the connection by its name: "socket", if there is one."""

    def close(self) -> None:
        """Close when the buffer is sent."""

    def abort(self) -> None:
        """Close at once."""


class ReadableTransport(Transport, Protocol):
    """A transport whose reading can be stopped."""

    def pause_reading(self) -> None:
        """Stop calling data_received."""

    def resume_reading(self) -> None:
        """Start again."""


# Where tcpi_bytes_acked lies in Linux's struct tcp_info, since 4.1.
_BYTES_ACKED_AT = 120
_TCP_INFO_BYTES = 128


def acknowledged_bytes(transport: Transport, written_bytes: int) -> int:
    """How many of the written bytes the client has taken; grows as long as it takes any.

    The kernel says so where it can, because over TLS a transport's buffer is in front of another
    one, and shrinks in steps of megabytes only.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_INFO"):
        try:
            tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:
            tcp_info = b""
        if len(tcp_info) == _TCP_INFO_BYTES:
            acked: int = struct.unpack_from("=Q", tcp_info, _BYTES_ACKED_AT)[0]
            return acked
    return written_bytes - transport.get_write_buffer_size()
