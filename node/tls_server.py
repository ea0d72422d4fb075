"""The TLS port: accepts sockets, shakes hands, and hands over what then is a connection like any.

A handshake that fails or takes too long ends with its socket and one line in the log, which an
event loop's own TLS server would not write; nobody else hears of it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from .actors.descriptors import REFUSAL, is_one_of_the_last
from .actors.listener import Connection, Listener
from .logs.events import CONNECTION_REFUSED, LISTENER_FAILING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Clients that may wait to be accepted, if the system allows so many. One that comes when there are
# more tries again after a second, or three, or seven: as when all come back to a broker at once.
BACKLOG_CONNECTIONS = 1024
# No more file descriptors: accepting is tried again after so long.
ACCEPT_RETRY_SECONDS = 1.0
# What OpenSSL says of octets that are no TLS at all.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


class TlsServer:
    """Listens where `open` was told to; `port` is the real one. Belongs to one event loop."""

    def __init__(
        self,
        listener: Listener,
        context: ssl.SSLContext,
        log: FilteringBoundLogger,
        *,
        handshakes_max: int,
        file_descriptors_kept: int,
        handshake_timeout_seconds: float,
        close_timeout_seconds: float,
    ) -> None:
        self._listener = listener
        # For the next handshakes; another one may take its place.
        self.context = context
        self._log = log
        self._file_descriptors_kept = file_descriptors_kept
        self._handshake_timeout_seconds = handshake_timeout_seconds
        self._close_timeout_seconds = close_timeout_seconds
        self._sockets: list[socket.socket] = []
        # What accepts, and every handshake that is going on.
        self._tasks: set[asyncio.Task[None]] = set()
        # A handshake takes memory, and is begun for anybody.
        self._slots = asyncio.Semaphore(handshakes_max)
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Bind every address that the host has, and accept; OSError if that cannot be."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _kind, _protocol, _name, address in dict.fromkeys(found):
                listening = socket.socket(family, socket.SOCK_STREAM)
                self._sockets.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind(address)
                listening.listen(BACKLOG_CONNECTIONS)
        except OSError:
            self.close()
            raise
        self.port = self._sockets[0].getsockname()[1]
        for listening in self._sockets:
            listening.setblocking(False)
            self._start(self._accept(listening))

    def close(self) -> None:
        """Listen no more; give up the handshakes that are going on."""
        for task in self._tasks:
            task.cancel()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                self._slots.release()
                if isinstance(error, ConnectionError):
                    continue  # The client has gone already.
                self._log.error(LISTENER_FAILING, reason=str(error))
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
            else:
                peer = f"{address[0]}:{address[1]}"
                if is_one_of_the_last(accepted.fileno(), self._file_descriptors_kept):
                    accepted.close()
                    self._slots.release()
                    self._log.warning(CONNECTION_REFUSED, peer=peer, reason=REFUSAL)
                else:
                    self._start(self._shake_hands(accepted, peer))

    async def _shake_hands(self, accepted: socket.socket, peer: str) -> None:
        try:
            # Frames are written in one go already: to wait for more would only delay them.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._listener),
                accepted,
                ssl=self.context,
                ssl_handshake_timeout=self._handshake_timeout_seconds,
                ssl_shutdown_timeout=self._close_timeout_seconds,
            )
        except OSError as error:
            # ssl.SSLError is one, and so is a time-out. The event loop has closed the socket.
            self._log.warning(
                CONNECTION_REFUSED, peer=peer, reason=f"TLS handshake: {_words(error)}"
            )
        finally:
            self._slots.release()


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        words = error.reason.lower().replace("_", " ")
        return f"{words} (plaintext?)" if error.reason in _NOT_TLS else words
    return error.strerror or str(error) or type(error).__name__
