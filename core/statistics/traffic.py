"""Octets that one connection has received and sent."""

from __future__ import annotations

from collections.abc import Callable

from .history import History


class Traffic:
    """Bytes, and how many reads and writes brought them: the reader and the writer count.

    `count` adds new bytes to those of the connection's vhost; until this is open they wait.
    """

    __slots__ = (
        "_counted",
        "count_octets",
        "history",
        "received_bytes",
        "received_count",
        "sent_bytes",
        "sent_count",
    )

    def __init__(self) -> None:
        self.received_bytes = 0
        self.received_count = 0
        self.sent_bytes = 0
        self.sent_count = 0
        self.history: History | None = None
        self.count_octets: Callable[[int, int], None] | None = None
        self._counted = (0, 0)

    def octets(self) -> tuple[int, int]:
        """Received and sent."""
        return self.received_bytes, self.sent_bytes

    def count(self) -> None:
        """Add new octets to those of the vhost."""
        if self.count_octets is not None:
            received, sent = self._counted
            self._counted = self.octets()
            self.count_octets(self.received_bytes - received, self.sent_bytes - sent)
