"""The end of one connection: how long its socket stays once connection.close has been said.

A client may have frames on their way when it reads close-ok, from another of its threads, say.
A socket that is closed while they come in answers with a reset, which may take the close-ok
from the client again. So the broker reads on, and drops what it reads, until the client closes
its socket or answers the broker's own close; `drain_timeout_ms` bounds the time, and
`draining_sockets_max` the sockets: the oldest one gives way. A broker that stops waits for none of
them.
"""

from __future__ import annotations

from functools import partial

from ...core.connection.draining import Draining
from ..messages import Abandon, CloseTransport, Ref, StartHeartbeats
from ..node_context import NodeContext
from ..runtime.runtime import tell
from .clock import ConnectionClock
from .transport import ReadableTransport


def drop_soon(context: NodeContext, reader: Ref) -> None:
    """Have a connection dropped in the event loop's next round.

    Its connection.close may have been written in this round, and is sent at the round's end.
    """
    context.runtime.scheduler.call_soon(partial(tell, reader, Abandon()))


class ConnectionEnd:
    """Closes the transport of `reader`, which is told Woken("close") when it has waited enough."""

    def __init__(
        self,
        context: NodeContext,
        transport: ReadableTransport,
        clock: ConnectionClock,
        reader: Ref,
    ) -> None:
        self._context = context
        self._draining: Draining[Ref] = context.draining
        self._transport = transport
        self._clock = clock
        self._reader = reader
        # Why the broker aborts the socket; "" if the client closes it.
        self.reason = ""
        # Told to end by a Shutdown, as many others are at the same time.
        self.is_shut_down = False

    def drain(self, writer: Ref, heartbeat_seconds: int, seconds_max: float | None = None) -> None:
        """The connection is closed; its client has until then to close the socket, or answer."""
        self._context.unopened.discard(self._reader)
        if not self.is_shut_down:
            # At a stop all are closed at once. No connection gives way, because each client is to
            # read the reason, and the log names the open connections that have not answered.
            self._count_as_closed()
        # Nothing is written behind connection.close, or its close-ok.
        tell(writer, StartHeartbeats(0))
        # As rabbit_reader: a client that is to be heard of within the heartbeat has no longer.
        limits = [self._draining.timeout_ms / 1000]
        if heartbeat_seconds:
            limits.append(heartbeat_seconds)
        if seconds_max is not None:
            limits.append(seconds_max)
        self._clock.wake_in(min(limits), "close")

    def _count_as_closed(self) -> None:
        self._context.open_connections.pop(self._reader, None)
        gives_way = self._draining.add(self._reader)
        if gives_way is not None:
            drop_soon(self._context, gives_way)

    def close(self, writer: Ref) -> None:
        """Close the socket when its buffer is sent; abort it if that takes too long."""
        self._context.unopened.discard(self._reader)
        tell(writer, CloseTransport())
        self._clock.wake_in(self._context.close_timeout_seconds, "abort")

    def close_now(self, writer: Ref) -> None:
        """Close the socket of a connection that drains, because the broker stops."""
        if self._transport.get_write_buffer_size():
            # The client takes nothing; waiting for it would hold up the stop.
            self._transport.abort()
        else:
            self.close(writer)

    def abort(self, reason: str = "") -> None:
        """Close the socket at once, and note why."""
        self.reason = self.reason or reason
        self._transport.abort()

    def is_over(self) -> None:
        """The socket is closed."""
        self._draining.discard(self._reader)
