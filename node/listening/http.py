"""The HTTP listeners of a node: of the management API, and of Prometheus alone (management/).

The addresses are bound, and clients may connect, before AMQP clients can; the API itself is
imported in a thread after that, because aiohttp takes some tenths of a second. Clients wait so
long.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from ..actors.node_context import NodeContext
from ..configuration import Configuration
from ..errors import PORT_MAX, StartError, listening_fault
from ..management.about import About, HttpLimits, OpenAccess, SamplingLimits

if TYPE_CHECKING:
    from ..management.listeners import Listeners
    from ..management.server import HttpServer

# RabbitMQ's management listens so far above AMQP: 15672.
PORTS_ABOVE = 10_000
# And its metrics: 15692.
METRICS_PORTS_ABOVE = 10_020
_BACKLOG = 128


class HttpListening:
    """Bound by `bind`, answers from `open` to `close`. One of the management API, and one of
    Prometheus alone; each says where it listens, unless it is off.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._listeners: Listeners | None = None
        self._api = _Listener("http", PORTS_ABOVE, "HTTP control", configuration)
        self._metrics = _Listener("prometheus", METRICS_PORTS_ABOVE, "Prometheus", configuration)

    @property
    def port(self) -> int | None:
        """Of the API; None if it is off."""
        return self._api.port

    @property
    def metrics_port(self) -> int | None:
        """Of the listener for Prometheus; None if it is off."""
        return self._metrics.port

    @property
    def address(self) -> str:
        """Host and port of the API, or nothing if it is off."""
        return "" if self.port is None else f"{self._configuration.http_host}:{self.port}"

    async def bind(self) -> None:
        """Take the addresses, before AMQP clients come; StartError if one is not free."""
        await self._api.bind()
        await self._metrics.bind()

    async def open(self, context: NodeContext, about: About) -> None:
        """Answer from now on."""
        if self.port is None and self.metrics_port is None:
            return
        configuration = self._configuration
        limits = HttpLimits(
            configuration.http_body_bytes_max,
            configuration.definitions_bytes_max,
            configuration.http_request_timeout_ms / 1000,
            configuration.http_connections_max,
            configuration.http_loopback_connections_kept,
        )
        access = OpenAccess(
            configuration.http_health_without_password,
            configuration.prometheus_without_password,
        )
        listeners_class = await asyncio.to_thread(_load)
        sampling = SamplingLimits(
            configuration.statistics_interval_ms,
            configuration.statistics_samples_max,
            configuration.statistics_bytes_max,
        )
        per_object = configuration.prometheus_per_object == "on"
        listeners = listeners_class(context, about, sampling, per_object=per_object)
        self._listeners = listeners
        if self.port is not None:
            await self._api.open(listeners.management(access, limits))
        if self.metrics_port is not None:
            await self._metrics.open(listeners.metrics_alone(limits))

    def close(self) -> None:
        """Answer no more."""
        self._api.close()
        self._metrics.close()
        if self._listeners is not None:
            self._listeners.stop()
            self._listeners = None


class _Listener:
    """One address."""

    def __init__(
        self, name: str, ports_above: int, purpose: str, configuration: Configuration
    ) -> None:
        """`name` is what its settings begin with."""
        self._name = name
        self._ports_above = ports_above
        self._purpose = purpose
        self._configuration = configuration
        self._sockets: list[socket.socket] = []
        self._server: HttpServer | None = None
        self._servers: list[asyncio.Server] = []
        self.port: int | None = None

    def _setting(self, name: str) -> Any:
        return getattr(self._configuration, f"{self._name}_{name}")

    async def bind(self) -> None:
        """Take the address; StartError if it is not free."""
        if self._setting("listener") == "off":
            return
        host, setting = self._setting("host"), f"{self._name}_port"
        port = port_of(self._configuration.port, self._setting("port"), self._ports_above)
        try:
            self._sockets = await _bound(host, port)
        except OSError as error:
            is_given = self._setting("port") >= 0
            both = "" if is_given else "another `port` brings another here, "
            fault = listening_fault(error, setting, port)
            raise StartError(
                f"cannot listen on {host}:{port} for {self._purpose}: {fault}; "
                f"{both}LEVERET_{self._name.upper()}_LISTENER=off does without"
            ) from error
        self.port = self._sockets[0].getsockname()[1]

    async def open(self, server: HttpServer) -> None:
        """Hand the server what connects."""
        self._server = server
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


def _load() -> type[Listeners]:
    """The class of the servers; in a thread, because the import takes long."""
    from ..management.listeners import Listeners

    return Listeners


def port_of(amqp_port: int, port: int, ports_above: int) -> int:
    """The port to listen on, 0 for a free one; -1 is so far above AMQP's."""
    if port >= 0:
        return port
    above = amqp_port + ports_above
    return above if amqp_port and above <= PORT_MAX else 0
