"""What a connection of the API's own has instead of a socket and a listener."""

from __future__ import annotations

from typing import Any, Protocol

from ..actors.messages import AlarmCleared, Down
from ..actors.runtime.runtime import LoopActor


class OtherEnd(Protocol):
    """The client side."""

    def received(self, data: bytes) -> None:
        """The broker has written this."""

    def closed(self) -> None:
        """The broker has closed the transport."""


class MemoryTransport:
    """A transport (actors/connection/transport.py): each write is at the other end at once."""

    def __init__(self, other_end: OtherEnd) -> None:
        self._other_end = other_end
        self._is_closing = False

    def write(self, data: bytes) -> None:
        """Hand it over."""
        self._other_end.received(data)

    def writelines(self, pieces: list[bytes]) -> None:
        """Hand them over."""
        self._other_end.received(b"".join(pieces))

    def is_closing(self) -> bool:
        """Has the broker closed it?"""
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def get_extra_info(self, _name: str) -> Any:
        """There is no socket."""
        return None

    def pause_reading(self) -> None:
        """The client side waits for answers, and sends no more than one command ahead."""

    def resume_reading(self) -> None:
        """As `pause_reading`."""

    def close(self) -> None:
        """The broker is done."""
        if not self._is_closing:
            self._is_closing = True
            self._other_end.closed()

    def abort(self) -> None:
        """As `close`."""
        self.close()


class InternalParent(LoopActor):
    """The connection's parent, as the listener is of others; it ends with the connection."""

    def on_receive(self, message: object) -> None:
        """The connection has ended."""
        if isinstance(message, Down):
            self.stop()
        else:
            assert isinstance(message, AlarmCleared), message
