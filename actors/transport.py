"""What a connection needs of the network; asyncio's transports have it, a simulation can."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """What the writer needs of a connection; asyncio's transports are one."""

    def write(self, data: bytes) -> None:
        """Buffer and send."""

    def writelines(self, pieces: list[bytes]) -> None:
        """Buffer and send, in order; the list is the transport's from now on."""

    def is_closing(self) -> bool:
        """Is it closed, or going to be?"""

    def close(self) -> None:
        """Close when the buffer is sent."""

    def abort(self) -> None:
        """Close at once."""


class ReadableTransport(Transport, Protocol):
    """A transport whose reading can be stopped."""

    def pause_reading(self) -> None:
        """Stop calling data_received."""

    def resume_reading(self) -> None:
        """Start again."""
