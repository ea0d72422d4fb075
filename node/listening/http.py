"""The HTTP listeners of a node: of the management API, of Prometheus alone, and of NSQ's calls
(management/).

The addresses are bound, and clients may connect, before AMQP clients can. The API itself is
imported in a thread once the first client connects. This client waits for the import: aiohttp needs
some tenths of a second of the interpreter, which AMQP clients would miss behind each start, and
some memory.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from ..actors.node_context import NodeContext
from ..actors.nsq.settings import NsqSettings
from ..actors.runtime.out_of_memory import is_out_of_memory
from ..configuration import Configuration
from ..errors import PORT_MAX, StartError, listening_fault
from ..logs.events import HTTP_UNAVAILABLE
from ..management.about import (
    About,
    HttpLimits,
    ListLimits,
    NsqAddress,
    OpenAccess,
    SamplingLimits,
)
from ..management.sampler import Samples

if TYPE_CHECKING:
    from ..management.listeners import Listeners
    from ..management.server import HttpServer

# RabbitMQ's management listens so far above AMQP: 15672.
PORTS_ABOVE = 10_000
# And its metrics: 15692.
METRICS_PORTS_ABOVE = 10_020
_BACKLOG = 128
# After an import that failed, as it does where no file descriptor is left.
RETRY_SECONDS: Final = 5.0


class HttpListening:
    """Bound by `bind`, answers from `open` to `close`. One of the management API, one of
    Prometheus alone, and one of NSQ's calls; each says where it listens, unless it is off.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._samples: Samples | None = None
        self._listeners: Listeners | None = None
        self._api = _Listener("http", PORTS_ABOVE, "HTTP control", configuration)
        self._metrics = _Listener("prometheus", METRICS_PORTS_ABOVE, "Prometheus", configuration)
        self._nsq = _Listener("nsq_http", None, "NSQ's HTTP calls", configuration)

    @property
    def port(self) -> int | None:
        """Of the API; None if it is off."""
        return self._api.port

    @property
    def metrics_port(self) -> int | None:
        """Of the listener for Prometheus; None if it is off."""
        return self._metrics.port

    @property
    def nsq_port(self) -> int | None:
        """Of the listener for NSQ's calls; None if it is off."""
        return self._nsq.port

    @property
    def address(self) -> str:
        """Host and port of the API, or nothing if it is off."""
        return "" if self.port is None else f"{self._configuration.http_host}:{self.port}"

    async def bind(self) -> None:
        """Take the addresses, before AMQP clients come; StartError if one is not free."""
        await self._api.bind()
        await self._metrics.bind()
        await self._nsq.bind()

    def open(
        self, context: NodeContext, about: About, nsq: NsqSettings, nsq_port: int | None
    ) -> None:
        """Make samples, and answer whoever connects, from now on.

        `nsq_port` is where the broker speaks NSQ, for clients that look it up; None: nowhere.
        """
        if self.port is None and self.metrics_port is None and self.nsq_port is None:
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
        sampling = SamplingLimits(
            configuration.statistics_interval_ms,
            configuration.statistics_samples_max,
            configuration.statistics_bytes_max,
        )
        lists = ListLimits(
            configuration.list_age_ms / 1000,
            configuration.lists_kept_max,
            configuration.lists_bytes_max,
        )
        samples = self._samples = Samples(context, sampling)

        async def listeners() -> Listeners:
            listeners_class = await asyncio.to_thread(load_listeners)
            if self._listeners is None:
                per_object = configuration.prometheus_per_object == "on"
                self._listeners = listeners_class(
                    context, about, samples, lists, per_object=per_object
                )
            return self._listeners

        async def management() -> HttpServer:
            return (await listeners()).management(access, limits)

        async def metrics_alone() -> HttpServer:
            return (await listeners()).metrics_alone(limits)

        hostname = socket.gethostname()
        broadcast = configuration.nsq_broadcast_address or _announced(
            configuration.nsq_host, hostname
        )
        address = NsqAddress(broadcast, hostname, nsq_port or 0, self.nsq_port or 0)
        connections_max = configuration.nsq_http_connections_max
        nsq_limits = limits._replace(connections_max=connections_max)

        async def nsq_calls() -> HttpServer:
            return (await listeners()).nsq(nsq, address, nsq_limits)

        self._api.open(context, management)
        self._metrics.open(context, metrics_alone)
        self._nsq.open(context, nsq_calls)

    def close(self) -> None:
        """Answer no more, and make no samples."""
        self._api.close()
        self._metrics.close()
        self._nsq.close()
        if self._samples is not None:
            self._samples.stop()
            self._samples = None


class _Listener:
    """One address."""

    def __init__(
        self, name: str, ports_above: int | None, purpose: str, configuration: Configuration
    ) -> None:
        """`name` is what its settings begin with. A port of -1 is so far above AMQP's, or with
        None that it is off.
        """
        self._name = name
        self._ports_above = ports_above
        self._purpose = purpose
        self._configuration = configuration
        # Those that no server has yet.
        self._sockets: list[socket.socket] = []
        self._context: NodeContext
        self._make: Callable[[], Awaitable[HttpServer]]
        self._beginning: asyncio.Task[None] | None = None
        self._retrying: asyncio.TimerHandle | None = None
        self._server: HttpServer | None = None
        self._servers: list[asyncio.Server] = []
        self.port: int | None = None

    def _setting(self, name: str) -> Any:
        return getattr(self._configuration, f"{self._name}_{name}")

    async def bind(self) -> None:
        """Take the address; StartError if it is not free."""
        host, setting = self._setting("host"), f"{self._name}_port"
        port, off = self._setting("port"), "PORT=-1"
        if self._ports_above is not None:
            if self._setting("listener") == "off":
                return
            port = port_of(self._configuration.port, port, self._ports_above)
            off = "LISTENER=off"
        elif port < 0:
            return
        try:
            self._sockets = await _bound(host, port)
        except OSError as error:
            is_given = self._setting("port") >= 0
            both = "" if is_given else "another `port` brings another here, "
            fault = listening_fault(error, setting, port)
            raise StartError(
                f"cannot listen on {host}:{port} for {self._purpose}: {fault}; "
                f"{both}LEVERET_{self._name.upper()}_{off} does without"
            ) from error
        self.port = self._sockets[0].getsockname()[1]

    def open(self, context: NodeContext, make: Callable[[], Awaitable[HttpServer]]) -> None:
        """Have the server made once somebody connects, and hand it all that connect."""
        self._context, self._make = context, make
        self._await_client()

    def _await_client(self) -> None:
        self._retrying = None
        for each in self._sockets:
            asyncio.get_running_loop().add_reader(each, self._begin)

    def _begin(self) -> None:
        """Somebody has connected; the kernel holds him, and those behind him."""
        self._stop_waiting()
        self._beginning = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            server = self._server = await self._make()
            while self._sockets:
                listening = await loop.create_server(
                    server, sock=self._sockets[-1], backlog=_BACKLOG
                )
                self._sockets.pop()
                self._servers.append(listening)
        except Exception as fault:
            if is_out_of_memory(fault):
                self._context.on_fatal("http", fault)
                return
            log = self._context.runtime.log
            log.exception(HTTP_UNAVAILABLE, retry_seconds=RETRY_SECONDS)
            self._retrying = loop.call_later(RETRY_SECONDS, self._await_client)

    def _stop_waiting(self) -> None:
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)

    def close(self) -> None:
        """Answer no more."""
        if self._retrying is not None:
            self._retrying.cancel()
        if self._beginning is not None:
            self._beginning.cancel()
        self._stop_waiting()
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


def load_listeners() -> type[Listeners]:
    """The class that makes the servers. Called in a thread, because the import needs long."""
    from ..management.listeners import Listeners

    return Listeners


def port_of(amqp_port: int, port: int, ports_above: int) -> int:
    """The port to listen on, 0 for a free one; -1 is so far above AMQP's."""
    if port >= 0:
        return port
    above = amqp_port + ports_above
    return above if amqp_port and above <= PORT_MAX else 0


def _announced(nsq_host: str, hostname: str) -> str:
    """Where clients are sent: to the host's name, as by nsqd, if that can lead to the listener.

    A listener on a loopback address has that one only, and the name is another one's as a rule:
    Debian's installer writes it beside 127.0.1.1.
    """
    try:
        is_loopback = ip_address(nsq_host).is_loopback
    except ValueError:
        is_loopback = nsq_host == "localhost"
    return nsq_host if is_loopback else hostname
