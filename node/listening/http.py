"""The HTTP listener of a node: the address of the management API (management/).

The address is bound, and clients may connect, before AMQP clients can; the API itself is imported
in a thread after that, because aiohttp takes some tenths of a second. Clients wait so long.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from ..actors.node_context import NodeContext
from ..configuration import Configuration
from ..errors import PORT_MAX, StartError, listening_fault
from ..management.about import About, HttpLimits, SamplingLimits

if TYPE_CHECKING:
    from ..management.server import HttpServer

# RabbitMQ's management listens so far above AMQP: 15672.
PORTS_ABOVE = 10_000
_BACKLOG = 128


class HttpListening:
    """Bound by `bind`, answers from `open` to `close`; `port` says where, None if it is off."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._sockets: list[socket.socket] = []
        self._server: HttpServer | None = None
        self._servers: list[asyncio.Server] = []
        self.port: int | None = None

    @property
    def address(self) -> str:
        """Host and port, or nothing if it is off."""
        return "" if self.port is None else f"{self._configuration.http_host}:{self.port}"

    async def bind(self) -> None:
        """Take the address, before AMQP clients come; StartError if it is not free."""
        configuration = self._configuration
        if configuration.http_listener == "off":
            return
        host, port = configuration.http_host, port_of(configuration)
        try:
            self._sockets = await _bound(host, port)
        except OSError as error:
            both = "" if configuration.http_port >= 0 else "another `port` brings another here, "
            fault = listening_fault(error, "http_port", port)
            raise StartError(
                f"cannot listen on {host}:{port} for HTTP control: {fault}; "
                f"{both}LEVERET_HTTP_LISTENER=off does without"
            ) from error
        self.port = self._sockets[0].getsockname()[1]

    async def open(self, context: NodeContext, about: About) -> None:
        """Answer from now on."""
        if not self._sockets:
            return
        configuration = self._configuration
        limits = HttpLimits(
            configuration.http_body_bytes_max,
            configuration.definitions_bytes_max,
            configuration.http_request_timeout_ms / 1000,
            configuration.http_connections_max,
            configuration.http_loopback_connections_kept,
            configuration.http_health_without_password,
            SamplingLimits(
                configuration.statistics_interval_ms,
                configuration.statistics_samples_max,
                configuration.statistics_bytes_max,
            ),
        )
        new_server = await asyncio.to_thread(_load)
        server = self._server = new_server(context, about, limits)
        loop = asyncio.get_running_loop()
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            self._servers.append(await loop.create_server(server, sock=each, backlog=_BACKLOG))

    def close(self) -> None:
        """Answer no more."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._server is not None:
            self._server.abandon()
            self._server = None


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of the host, on one port."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Port 0 is a free one for the first, and the same for the others.
            taken = port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            one.bind((address[0], taken, *address[2:]))
            one.listen(_BACKLOG)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


def _load() -> type[HttpServer]:
    """The server's class; in a thread, because the import takes long."""
    from ..management.server import HttpServer

    return HttpServer


def port_of(configuration: Configuration) -> int:
    """The port to listen on, 0 for a free one."""
    if configuration.http_port >= 0:
        return configuration.http_port
    above = configuration.port + PORTS_ABOVE
    return above if configuration.port and above <= PORT_MAX else 0
