"""Where a connection is, from its first byte to its last: one state, one table of transitions.

The handshake moves the phase on as the client's methods come in, the reader when either side closes
the connection; all who depend on it look at the same `ConnectionPhase`. Any transition that
`_TRANSITIONS` does not list is a mistake of ours: it ends the connection's reader, and with it the
connection.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..transitions import Transitions


class Phase(Enum):
    """Where the connection is; the values of the handshake's phases are RabbitMQ's words."""

    HEADER = "header"
    # connection.start is written.
    STARTING = "starting"
    # It is being decided elsewhere whether the user may log in.
    SECURING = "securing"
    # connection.tune is written.
    TUNING = "tuning"
    # The limits are settled; connection.open is the next.
    OPENING = "opening"
    RUNNING = "running"
    # connection.close was written; nothing but its close-ok counts.
    CLOSING = "closing"
    # The client's connection.close is answered once its exclusive queues are gone.
    CLIENT_CLOSING = "client closing"
    # The client has its close-ok; what it still sends is dropped until it closes the socket.
    DRAINING = "draining"
    ENDED = "ended"


_HANDSHAKE: Final = (Phase.STARTING, Phase.SECURING, Phase.TUNING, Phase.OPENING)
# connection.close or its close-ok is written: all input is dropped, but for methods that close.
_DRAINED: Final = (Phase.CLOSING, Phase.DRAINING)
_ENDING: Final = (*_DRAINED, Phase.CLIENT_CLOSING, Phase.ENDED)

_TRANSITIONS: Final = Transitions(
    "the connection is",
    {
        ("start", Phase.HEADER): Phase.STARTING,
        ("log_in", Phase.STARTING): Phase.SECURING,
        ("tune", Phase.SECURING): Phase.TUNING,
        ("settle_limits", Phase.TUNING): Phase.OPENING,
        ("open", Phase.OPENING): Phase.RUNNING,
        **{("close", phase): Phase.CLOSING for phase in (*_HANDSHAKE, Phase.RUNNING)},
        ("close_for_client", Phase.RUNNING): Phase.CLIENT_CLOSING,
        ("drain", Phase.CLIENT_CLOSING): Phase.DRAINING,
    },
)


class ConnectionPhase:
    """The phase of one connection, `now`. `end` leads from every phase to Phase.ENDED."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = Phase.HEADER

    def is_before_open(self) -> bool:
        """Has the client not opened a vhost, and is nothing closed yet?"""
        return self.now is Phase.HEADER or self.now in _HANDSHAKE

    def is_handshake(self) -> bool:
        """Is the client's next method the handshake's?"""
        return self.now in _HANDSHAKE

    def awaits_close_ok(self) -> bool:
        """Is all that the client may still say the end of the connection?"""
        return self.now in _DRAINED

    def is_ending(self) -> bool:
        """Has either side closed the connection?"""
        return self.now in _ENDING

    def start(self) -> None:
        """The protocol header was read."""
        self._go("start")

    def log_in(self) -> None:
        """The client has said who it is."""
        self._go("log_in")

    def tune(self) -> None:
        """The login is allowed."""
        self._go("tune")

    def settle_limits(self) -> None:
        """The client has answered connection.tune."""
        self._go("settle_limits")

    def open(self) -> None:
        """The client may use its vhost."""
        self._go("open")

    def close(self) -> None:
        """The broker closes the connection, for an error or a shutdown."""
        self._go("close")

    def close_for_client(self) -> None:
        """The client closes the connection."""
        self._go("close_for_client")

    def drain(self) -> None:
        """The client's connection.close is answered."""
        self._go("drain")

    def end(self) -> None:
        """The socket is closed, or is about to be; from here on it stays so."""
        self.now = Phase.ENDED

    def _go(self, event: str) -> None:
        self.now = _TRANSITIONS[event, self.now]
