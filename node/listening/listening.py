"""The sockets that a node listens on: the plain port, and TLS's if there is a certificate."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from ..actors.connection.listener import Connection, Listener, StartReader
from ..amqp_frames.compiled import FORM
from ..configuration import Configuration
from ..errors import StartError, listening_fault
from ..logs.events import BROKER_LISTENING, CERTIFICATES_REFUSED, CERTIFICATES_RENEWED
from .tls import tls_context
from .tls_server import BACKLOG_CONNECTIONS, TlsServer

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Listening:
    """Opened once and closed once; then `host`, `port`, `tls_port` and `nsq_port` say where it
    listened."""

    def __init__(self, configuration: Configuration, log: FilteringBoundLogger) -> None:
        self._configuration = configuration
        self._log = log
        self._server: asyncio.Server | None = None
        self._tls_server: TlsServer | None = None
        self.host = configuration.host
        self.port = configuration.port
        # None: there is no TLS listener.
        self.tls_port: int | None = None
        self._nsq_server: asyncio.Server | None = None
        # None: nobody listens for NSQ.
        self.nsq_port: int | None = None

    async def bind(self, listener: Listener) -> None:
        """Reserve the plain port; no client can connect yet. StartError if it is not free."""
        configuration = self._configuration
        host, port = configuration.host, configuration.port
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Connection(listener),
                host,
                port,
                backlog=BACKLOG_CONNECTIONS,
                start_serving=False,
            )
        except OSError as error:
            raise _start_error(error, "port", host, port) from error
        self.host, self.port = self._server.sockets[0].getsockname()[:2]

    async def open(
        self,
        listener: Listener,
        tls: ssl.SSLContext | None,
        http_address: str = "",
        start_nsq: StartReader | None = None,
    ) -> None:
        """Hand the listener what connects from now on; StartError if an address is not free.

        `start_nsq` starts the actor of an NSQ connection, if there is a port for these.
        """
        configuration = self._configuration
        host, port, setting = configuration.host, configuration.port, "port"
        try:
            assert self._server is not None
            await self._server.start_serving()
            addresses = {"address": f"{self.host}:{self.port}"}
            if tls is not None:
                port, setting = configuration.tls_port, "tls_port"
                self._tls_server = self._new_tls_server(listener, tls)
                await self._tls_server.open(host, port)
                self.tls_port = self._tls_server.port
                addresses["tls_address"] = f"{self.host}:{self.tls_port}"
            if start_nsq is not None:
                host, port = configuration.nsq_host, configuration.nsq_port
                setting = "nsq_port"
                addresses["nsq_address"] = await self._open_nsq(listener, start_nsq)
        except OSError as error:
            self.close()
            raise _start_error(error, setting, host, port) from error
        if http_address:
            addresses["http_address"] = http_address
        self._log.info(BROKER_LISTENING, **addresses, codec=FORM)

    async def _open_nsq(self, listener: Listener, start: StartReader) -> str:
        configuration = self._configuration
        self._nsq_server = await asyncio.get_running_loop().create_server(
            lambda: Connection(listener, start, stays_half_open=True),
            configuration.nsq_host,
            configuration.nsq_port,
            backlog=BACKLOG_CONNECTIONS,
        )
        host, self.nsq_port = self._nsq_server.sockets[0].getsockname()[:2]
        return f"{host}:{self.nsq_port}"

    def _new_tls_server(self, listener: Listener, tls: ssl.SSLContext) -> TlsServer:
        return TlsServer(
            listener,
            tls,
            self._log,
            crowds=listener.crowds,
            handshakes_max=self._configuration.tls_handshakes_max,
            file_descriptors_kept=self._configuration.file_descriptors_kept,
            handshake_timeout_seconds=self._configuration.handshake_timeout_ms / 1000,
            close_timeout_seconds=self._configuration.close_timeout_ms / 1000,
        )

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context for handshakes from now on; None without a certificate."""
        return None if self._tls_server is None else self._tls_server.context

    def renew_certificates(self) -> bool:
        """Read the files of TLS again: handshakes from now on go by them. False without TLS.

        Connections stay as they are. Files that cannot be used are told to the log, and change
        nothing.
        """
        if self._tls_server is None:
            return False
        try:
            context = tls_context(self._configuration)
        except StartError as fault:
            self._log.error(CERTIFICATES_REFUSED, reason=str(fault))
            return True
        assert context is not None
        self._tls_server.context = context
        self._log.info(CERTIFICATES_RENEWED, certificate=self._configuration.tls_certificate)
        return True

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
        if self._tls_server is not None:
            self._tls_server.close()
        if self._nsq_server is not None:
            self._nsq_server.close()


def _start_error(error: OSError, setting: str, host: str, port: int) -> StartError:
    return StartError(f"cannot listen on {host}:{port}: {listening_fault(error, setting, port)}")
