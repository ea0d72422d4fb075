"""The TLS port: accepts sockets, shakes hands, and hands over what then is a connection like any.

A handshake that fails or takes too long ends with its socket and one line in the log, which an
event loop's own TLS server would not write. The client is told by TLS's alert (`tls_alerts.py`);
nobody else hears of it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ..actors.connection.listener import Connection, Listener
from ..actors.runtime.descriptors import REFUSAL, is_one_of_the_last
from ..core.connection.waiting_peers import SILENT_SECONDS_MIN, Crowds, WaitingPeers
from ..logs.events import CONNECTION_REFUSED, LISTENER_FAILING
from .tls_alerts import refusal

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# Clients that may wait to be accepted, if the system allows so many. The system of a further client
# tries again after a second, or three, or seven: as when all come back to a broker at once.
BACKLOG_CONNECTIONS = 1024
# No more file descriptors: accepting is tried again after so long.
ACCEPT_RETRY_SECONDS = 1.0
# A handshake that is waited for may have become old enough to give way.
_LOOK_SECONDS = 0.05
# What OpenSSL says of octets that are no TLS at all.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


class _Handshake:
    """A handshake in progress."""

    __slots__ = ("peer", "task")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.task: asyncio.Task[None] | None = None


class TlsServer:
    """Listens where `open` was told to; `port` is the real one. Belongs to one event loop."""

    def __init__(
        self,
        listener: Listener,
        context: ssl.SSLContext,
        log: FilteringBoundLogger,
        *,
        crowds: Crowds,
        handshakes_max: int,
        file_descriptors_kept: int,
        handshake_timeout_seconds: float,
        close_timeout_seconds: float,
        accept_retry_seconds: float = ACCEPT_RETRY_SECONDS,
    ) -> None:
        self._listener = listener
        # For the next handshakes; another one may take its place.
        self.context = context
        self._log = log
        self._file_descriptors_kept = file_descriptors_kept
        self._handshake_timeout_seconds = handshake_timeout_seconds
        self._close_timeout_seconds = close_timeout_seconds
        self._accept_retry_seconds = accept_retry_seconds
        self._sockets: list[socket.socket] = []
        # What accepts, and every handshake that is going on.
        self._tasks: set[asyncio.Task[None]] = set()
        # A handshake takes memory, and is begun for anybody.
        self._handshakes_max = handshakes_max
        self._handshakes: WaitingPeers[_Handshake] = WaitingPeers(SILENT_SECONDS_MIN)
        self._crowds = crowds
        crowds.add(self._handshakes, self._abandon)
        # Set when one of them is over.
        self._is_one_over = asyncio.Event()
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

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                if isinstance(error, ConnectionError):
                    continue  # The client has gone already.
                self._log.error(LISTENER_FAILING, reason=str(error))
                await asyncio.sleep(self._accept_retry_seconds)
            else:
                await self._begin_handshake(accepted, address[0], f"{address[0]}:{address[1]}")

    async def _begin_handshake(self, accepted: socket.socket, host: str, peer: str) -> None:
        """Begin a handshake; without room for it another one gives way, or is waited for.

        Nothing else is accepted meanwhile, so that clients wait in the system's queue.
        """
        now = asyncio.get_running_loop().time
        descriptor, kept = accepted.fileno(), self._file_descriptors_kept
        if is_one_of_the_last(descriptor, kept):
            # The file descriptor of what gives way is not free yet, and the files' own must not be
            # used up meanwhile.
            has_room = self._crowds.make_room(host, now(), REFUSAL)
            if not has_room or is_one_of_the_last(descriptor, kept // 2):
                accepted.close()
                self._log.warning(CONNECTION_REFUSED, peer=peer, reason=REFUSAL)
                return
        while len(self._handshakes) >= self._handshakes_max:
            gives_way = self._handshakes.evict(host, now())
            if gives_way is not None:
                self._abandon(gives_way, "tls_handshakes_max")
            else:
                self._is_one_over.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_one_over.wait(), _LOOK_SECONDS)
        handshake = _Handshake(peer)
        task = handshake.task = self._start(self._shake_hands(accepted, handshake))
        self._handshakes.add(handshake, host, now())
        # This includes a handshake that ends before it has begun, because then nothing else holds
        # its socket.
        task.add_done_callback(partial(self._is_over, handshake))

    def _is_over(self, handshake: _Handshake, _task: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        handshake.task = None
        self._is_one_over.set()

    def _abandon(self, handshake: _Handshake, limit: str) -> None:
        if handshake.task is not None:
            handshake.task.cancel()
        self._log.warning(CONNECTION_REFUSED, peer=handshake.peer, reason=f"gave way: {limit}")

    async def _shake_hands(self, accepted: socket.socket, handshake: _Handshake) -> None:
        loop = asyncio.get_running_loop()
        refused = loop.create_future()
        refusal.set(refused)
        # Frames are written in one go already: to wait for more would only delay them.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shaking = loop.create_task(self._connect(accepted))
        try:
            await asyncio.wait((shaking, refused), return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                self._log_refusal(handshake.peer, refused.result())
                await self._send_alert(accepted, shaking)
            else:
                await shaking
        except OSError as error:
            # ssl.SSLError is one, and so is a time-out. The event loop has closed the socket.
            self._log_refusal(handshake.peer, error)
        finally:
            shaking.cancel()

    async def _connect(self, accepted: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(self._listener),
            accepted,
            ssl=self.context,
            ssl_handshake_timeout=self._handshake_timeout_seconds,
            ssl_shutdown_timeout=self._close_timeout_seconds,
        )

    async def _send_alert(self, accepted: socket.socket, shaking: asyncio.Task[None]) -> None:
        """End the sending side behind the alert, and wait for the client to close.

        To close at once would reset the connection if the client sends more, as it does with
        TLS 1.3, and a reset overtakes the alert.
        """
        # The event loop has written the alert when it has gone round once.
        await asyncio.sleep(0)
        with suppress(OSError):
            accepted.shutdown(socket.SHUT_WR)
        await asyncio.wait((shaking,), timeout=self._close_timeout_seconds)
        if shaking.done() and not shaking.cancelled():
            # Its own end, a reset as a rule, says less than the refusal.
            shaking.exception()

    def _log_refusal(self, peer: str, error: OSError) -> None:
        self._log.warning(CONNECTION_REFUSED, peer=peer, reason=f"TLS handshake: {_words(error)}")


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        words = error.reason.lower().replace("_", " ")
        return f"{words} (plaintext?)" if error.reason in _NOT_TLS else words
    return error.strerror or str(error) or type(error).__name__
