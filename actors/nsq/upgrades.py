"""A transport that changes while its connection lives: to TLS, and to compressed octets.

The writer and the reading gate have this one from the first octet to the last.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

from ...nsq_frames.compression import Compressor
from ..connection.listener import Connection
from ..connection.transport import ReadableTransport
from ..messages import Ref, Upgraded
from ..runtime.runtime import tell


class UpgradableTransport:
    """Passes everything on to the transport that there is now."""

    def __init__(self, transport: ReadableTransport) -> None:
        self.transport = transport
        # None: octets go out as they are.
        self.compressor: Compressor | None = None

    def write(self, data: bytes) -> None:
        """As Transport."""
        if self.compressor is not None:
            data = self.compressor.compress(data)
        self.transport.write(data)

    def writelines(self, pieces: list[bytes]) -> None:
        """As Transport."""
        if self.compressor is None:
            self.transport.writelines(pieces)
        else:
            self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        """As Transport."""
        return self.transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """As Transport."""
        return self.transport.get_write_buffer_size()

    def get_extra_info(self, name: str) -> Any:
        """As Transport."""
        return self.transport.get_extra_info(name)

    def close(self) -> None:
        """As Transport."""
        self.transport.close()

    def abort(self) -> None:
        """As Transport."""
        self.transport.abort()

    def pause_reading(self) -> None:
        """As ReadableTransport."""
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """As ReadableTransport."""
        self.transport.resume_reading()


class TlsUpgrade:
    """A handshake on the socket of `connection`, which is told Upgraded when it is over."""

    def __init__(
        self,
        transport: ReadableTransport,
        context: ssl.SSLContext,
        timeout_seconds: float,
        write_buffer_bytes_max: int,
        connection: Ref,
    ) -> None:
        self._transport = transport
        self._context = context
        self._timeout_seconds = timeout_seconds
        self._write_buffer_bytes_max = write_buffer_bytes_max
        self._connection = connection
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the client's next octets are the handshake's."""
        self._task = asyncio.get_running_loop().create_task(self._shake_hands())

    def cancel(self) -> None:
        """The connection ends."""
        if self._task is not None:
            self._task.cancel()

    async def _shake_hands(self) -> None:
        plain = cast("asyncio.Transport", self._transport)
        protocol = cast("Connection", plain.get_protocol())
        protocol.stays_half_open = False
        upgraded: asyncio.Transport | None = None
        try:
            upgraded = await asyncio.get_running_loop().start_tls(
                plain,
                protocol,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._timeout_seconds,
            )
        except OSError:
            # ssl.SSLError is one, and so is a time-out. The event loop has closed the socket.
            upgraded = None
        if upgraded is not None:
            upgraded.set_write_buffer_limits(high=self._write_buffer_bytes_max)
        tell(self._connection, Upgraded(upgraded))
