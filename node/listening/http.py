"""The HTTP listener of a node: health and control of the trace (actors/control/)."""

from __future__ import annotations

import asyncio

from ..actors.control.http_connection import HttpLimits, HttpListener, HttpSocket
from ..actors.node_context import NodeContext
from ..configuration import Configuration
from ..errors import PORT_MAX, StartError, listening_fault

# RabbitMQ's management listens so far above AMQP: 15672.
PORTS_ABOVE = 10_000


class HttpListening:
    """Bound by `bind`, open from `open` to `close`; `port` says where, None if it is off."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._listener: HttpListener | None = None
        self._server: asyncio.Server | None = None
        self.port: int | None = None

    @property
    def address(self) -> str:
        """Host and port, or nothing if it is off."""
        return "" if self.port is None else f"{self._configuration.http_host}:{self.port}"

    async def bind(self, context: NodeContext) -> None:
        """Take the address, before AMQP clients come; StartError if it is not free."""
        configuration = self._configuration
        if configuration.http_listener == "off":
            return
        limits = HttpLimits(
            configuration.http_body_bytes_max,
            configuration.http_request_timeout_ms / 1000,
            configuration.http_connections_max,
            configuration.http_loopback_connections_kept,
        )
        listener = self._listener = HttpListener(context, limits)
        host, port = configuration.http_host, port_of(configuration)
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: HttpSocket(listener), host, port, start_serving=False
            )
        except OSError as error:
            both = "" if configuration.http_port >= 0 else "another `port` brings another here, "
            fault = listening_fault(error, "http_port", port)
            raise StartError(
                f"cannot listen on {host}:{port} for HTTP control: {fault}; "
                f"{both}LEVERET_HTTP_LISTENER=off does without"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def open(self) -> None:
        """Answer from now on."""
        if self._server is not None:
            await self._server.start_serving()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None and self._listener is not None:
            self._server.close()
            self._listener.abandon()
            self._server = None


def port_of(configuration: Configuration) -> int:
    """The port to listen on, 0 for a free one."""
    if configuration.http_port >= 0:
        return configuration.http_port
    above = configuration.port + PORTS_ABOVE
    return above if configuration.port and above <= PORT_MAX else 0
