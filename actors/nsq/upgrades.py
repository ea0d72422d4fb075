"""A connection that changes while it lives: to TLS, and to compressed octets.

The writer and the reading gate have one transport from the first octet to the last. IDENTIFY agrees
on the streams; each begins once the answer before it is written.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

from ...core.nsq.incoming import Incoming
from ...core.nsq.session import Negotiated
from ...nsq_frames.compression import (
    Compressor,
    DeflateCompressor,
    DeflateDecompressor,
    SnappyCompressor,
    SnappyDecompressor,
)
from ...nsq_frames.responses import OK
from ..connection.listener import Connection
from ..connection.transport import ReadableTransport
from ..messages import Flush, Ref, Upgraded
from ..node_context import NodeContext
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


class Upgrades:
    """State of the streams that IDENTIFY agrees on, until they have begun.

    The outgoing one is the transport's, the incoming one is undone in `incoming`.
    """

    def __init__(
        self,
        context: NodeContext,
        transport: UpgradableTransport,
        incoming: Incoming,
        connection: Ref,
    ) -> None:
        self._context = context
        self._transport = transport
        self._incoming = incoming
        self._connection = connection
        # Streams that have not begun yet.
        self._agreed: Negotiated | None = None
        # From the question to the writer until TLS, if that is agreed on, has begun.
        self._is_flushing = False
        self._tls: TlsUpgrade | None = None

    @property
    def is_due(self) -> bool:
        """Does a stream begin once all answers are written?"""
        return self._agreed is not None and not self._is_flushing

    def agree(self, negotiated: Negotiated) -> bool:
        """IDENTIFY is carried out; False if all stays as it is."""
        if not (negotiated.tls or negotiated.deflate_level or negotiated.snappy):
            return False
        self._agreed = negotiated
        # As in nsqd nothing counts that the client has sent ahead: it was not asked for.
        self._incoming.discard()
        return True

    def flush(self, writer: Ref) -> None:
        """The last answer in the old stream is on its way; Flushed says that it is written."""
        self._is_flushing = True
        tell(writer, Flush())

    def begin(self, writer: Ref, tls: ssl.SSLContext | None) -> bool:
        """The answer is written; True if no stream is left to begin.

        `tls` is for the handshake, if TLS is agreed on, which ends with Upgraded. None: the broker
        has no certificate by now.
        """
        asked, self._agreed = self._agreed, None
        if asked is None:
            return False
        if not asked.tls or tls is None:
            self._is_flushing = False
            self._compress(asked)
            tell(writer, OK)
            return True
        self._agreed = asked._replace(tls=False)
        self._tls = TlsUpgrade(
            self._transport.transport,
            tls,
            self._context.handshake_timeout_seconds,
            self._context.write_buffer_bytes_max,
            self._connection,
        )
        self._tls.start()
        return False

    def encrypted(self, writer: Ref, transport: ReadableTransport) -> bool:
        """The handshake has succeeded; True if no stream is left to begin."""
        self._tls = None
        self._is_flushing = False
        self._transport.transport = transport
        tell(writer, OK)
        asked = self._agreed
        if asked is not None and (asked.deflate_level or asked.snappy):
            # It begins behind this OK.
            return False
        self._agreed = None
        return True

    def cancel(self) -> None:
        """The connection ends."""
        self._agreed = None
        if self._tls is not None:
            self._tls.cancel()

    def _compress(self, asked: Negotiated) -> None:
        if asked.snappy:
            self._transport.compressor = SnappyCompressor()
            self._incoming.decompress(SnappyDecompressor())
        elif asked.deflate_level:
            self._transport.compressor = DeflateCompressor(asked.deflate_level)
            self._incoming.decompress(DeflateDecompressor())
