"""Where a connection is, from its first byte to its last."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where the connection is."""

    HEADER = "header"
    HANDSHAKE = "handshake"
    RUNNING = "running"
    # connection.close was written; nothing but its close-ok counts.
    CLOSING = "closing"
    # The client's connection.close is answered once its exclusive queues are gone.
    CLIENT_CLOSING = "client closing"
    ENDED = "ended"
