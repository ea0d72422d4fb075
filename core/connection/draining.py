"""Connections that are closed and whose sockets are still open, in the order of their closing."""

from __future__ import annotations

from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class Draining(Generic[Connection]):
    """At most `sockets_max` of them: if there is one more, the oldest one gives way.

    Otherwise clients that close their connections and keep their sockets could take all of the
    broker's sockets, however few connections it allows.
    """

    def __init__(self, sockets_max: int, timeout_ms: int) -> None:
        """`timeout_ms` is how long a client may take to close its socket."""
        self.timeout_ms = timeout_ms
        self._sockets_max = sockets_max
        # A dictionary keeps the order in which they were added.
        self._connections: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: Connection) -> Connection | None:
        """Remember a connection; return the connection that gives way to it, or None."""
        self._connections[connection] = None
        return self.oldest() if len(self) > self._sockets_max else None

    def oldest(self) -> Connection | None:
        """Forget the connection that was closed first, and return it; None if there is none."""
        connection = next(iter(self._connections), None)
        if connection is not None:
            del self._connections[connection]
        return connection

    def discard(self, connection: Connection) -> None:
        """Forget a connection, if it is there."""
        self._connections.pop(connection, None)
