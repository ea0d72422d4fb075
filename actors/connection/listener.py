"""Accepts connections: an actor for each, and the way to reach them all when the node stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from ...core.connection.peer import Peer
from ..messages import (
    Abandon,
    AlarmCleared,
    ConnectionLost,
    Down,
    Evict,
    InputEnded,
    Ref,
    Shutdown,
    WriteBuffer,
)
from ..node_context import NodeContext
from ..runtime.descriptors import REFUSAL, has_one_of_the_last
from ..runtime.read_rounds import SHARE_BYTES_MIN
from ..runtime.runtime import LoopActor, tell
from .end import drop_soon
from .reader import Reader

GONE = "it had gone again before it was accepted"
# What one read of a socket takes at most. Every read costs a turn of five actors, whatever it
# brings, and a copy of the message that it cuts in two: with 8 KB messages, four times what an
# event loop reads of its own accord halves the CPU that a message takes.
READ_BYTES_MAX = 1024 * 1024


# Of runtime, context, transport, peer and the listener, which is its parent.
StartReader = Callable[..., Ref]


class Listener(LoopActor):
    """Parent of the readers. `on_drained` is called when, after a Shutdown, the last has gone."""

    def __init__(self, context: NodeContext, on_drained: Any) -> None:
        super().__init__()
        self._context = context
        self._on_drained = on_drained
        self._readers: dict[Ref, None] = {}
        # All connections read into this, because each read's bytes are copied before the next read.
        self.read_memory = memoryview(bytearray(READ_BYTES_MAX))
        # While publishes wait for the disk: that a connection publishes is only known once it is
        # read, and the first publishes of all others together must not take much. About 200 acks.
        self._narrow_memory = self.read_memory[:SHARE_BYTES_MIN]
        self._is_stopping = False
        # Of all listeners: the TLS server has its handshakes here, too.
        self.crowds = context.crowds
        self.crowds.add(context.unopened, _abandon)

    @property
    def next_read_memory(self) -> memoryview:
        """The part of `read_memory` that the next read may fill."""
        context = self._context
        if context.node_window.is_closed:
            return self._narrow_memory
        return self.read_memory[: context.read_rounds.share_bytes]

    def connection_made(
        self, transport: asyncio.Transport, start: StartReader = Reader.start_on
    ) -> Ref | None:
        """Start a reader; called on the event loop, not through the mailbox. None: refused.

        `start` is that of the protocol which the connection's port speaks.
        """
        peer = self._peer(transport)
        reason = ""
        if peer is None:
            # Reset before it was accepted. Its bytes could still be read, but nobody could say
            # whose they were: not for loopback_users, not in the log.
            self.runtime.log.info("connection.closed", peer="unknown", reason=GONE)
            transport.abort()
            return None
        limit = self._reached_limit(transport)
        if self._is_stopping:
            reason = "broker is stopping"
        elif limit and not self._makes_room(transport, peer, limit):
            reason = limit
        if reason:
            self.runtime.log.warning("connection.refused", peer=peer.name, reason=reason)
            transport.abort()
            return None
        transport.set_write_buffer_limits(high=self._context.write_buffer_bytes_max)
        reader = start(self.runtime, self._context, transport, peer, self.actor_ref)
        self._readers[reader] = None
        self._context.unopened.add(reader, peer.host, self.runtime.scheduler.time())
        return reader

    def _reached_limit(self, transport: asyncio.Transport) -> str:
        limit = self._context.connections_max
        if limit and len(self._readers) >= limit + self._context.sockets_above_connections_max:
            return "connections_max"
        if has_one_of_the_last(transport, self._context.file_descriptors_kept):
            return REFUSAL
        if len(self._context.unopened) >= self._context.unopened_connections_max:
            return "unopened_connections_max"
        return ""

    def _makes_room(self, transport: asyncio.Transport, peer: Peer, limit: str) -> bool:
        """Have another connection give way to this one; false if it has no room all the same."""
        context = self._context
        # First a connection that is closed already, and whose client keeps its socket.
        drained = context.draining.oldest()
        if drained is not None:
            drop_soon(context, drained)
        elif limit == REFUSAL:
            if not context.crowds.make_room(peer.host, self.runtime.scheduler.time(), limit):
                return False
        else:
            silent = context.unopened.evict(peer.host, self.runtime.scheduler.time())
            if silent is None:
                return False
            _abandon(silent, limit)
        # Its file descriptor is not free yet, and the files' own must not be used up meanwhile.
        return not has_one_of_the_last(transport, context.file_descriptors_kept // 2)

    def _peer(self, transport: asyncio.Transport) -> Peer | None:
        address = transport.get_extra_info("peername")
        if not address:
            return None
        own = transport.get_extra_info("sockname") or ("", 0)
        peer = Peer(f"{address[0]}:{address[1]}", local_host=str(own[0]), local_port=own[1])
        tls = transport.get_extra_info("ssl_object")
        if tls is None:
            return peer
        cipher = tls.cipher() or ("",)
        peer = peer._replace(tls_protocol=tls.version() or "", tls_cipher=cipher[0])
        if tls.context.verify_mode is ssl.CERT_NONE:
            return peer
        # Empty, or None, without a certificate; a certificate that is here has been verified.
        certificate = transport.get_extra_info("peercert") or {}
        named = self._context.certificate_name(certificate.get("subject", ()))
        return peer._replace(asks_certificate=True, user=named)

    def on_receive(self, message: object) -> None:
        """Forget a reader that has gone; pass on the messages that are for all readers."""
        if isinstance(message, Down):
            self._readers.pop(message.actor, None)
            self._context.open_connections.pop(message.actor, None)
        elif isinstance(message, (Shutdown, Abandon, AlarmCleared)):
            self._is_stopping = self._is_stopping or not isinstance(message, AlarmCleared)
            for reader in self._readers:
                tell(reader, message)
        if self._is_stopping and not self._readers:
            self._on_drained()

    def on_failure(self, *exception: Any) -> None:
        """Without it the node hears of no connection: all are dropped, and the node ends."""
        for reader in self._readers:
            tell(reader, Abandon())
        self._on_drained()
        self._context.on_fatal("listener", exception[1])


def _abandon(reader: Ref, limit: str) -> None:
    tell(reader, Evict(limit))


class Connection(asyncio.BufferedProtocol):
    """asyncio's side of a connection: turns its callbacks into messages for the reader."""

    __slots__ = ("_listener", "_reader", "_start", "stays_half_open")

    def __init__(
        self,
        listener: Listener,
        start: StartReader = Reader.start_on,
        *,
        stays_half_open: bool = False,
    ) -> None:
        self._listener = listener
        self._start = start
        self._reader: Ref | None = None
        # May the client end its own direction, and read answers still? Over TLS it cannot.
        self.stays_half_open = stays_half_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transports by their methods only.
        made = cast("asyncio.Transport", transport)
        self._reader = self._listener.connection_made(made, self._start)

    def get_buffer(self, _size_hint: int) -> memoryview:
        """Where the next read goes; `buffer_updated` takes it from there at once."""
        return self._listener.next_read_memory

    def buffer_updated(self, nbytes: int) -> None:
        """One read."""
        listener = self._listener
        if self._reader is not None:
            listener.runtime.tell_read(self._reader, bytes(listener.read_memory[:nbytes]))

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        self._tell(WriteBuffer(True))

    def resume_writing(self) -> None:
        """It does again."""
        self._tell(WriteBuffer(False))

    def eof_received(self) -> bool:
        """The client sends nothing more; if that ends the connection, `connection_lost` follows."""
        if self.stays_half_open:
            self._tell(InputEnded())
        return self.stays_half_open

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._tell(ConnectionLost(str(error) if error else "closed"))

    def _tell(self, message: object) -> None:
        if self._reader is not None:
            tell(self._reader, message)
