"""Octets that one connection has received and sent."""

from __future__ import annotations


class Traffic:
    """Bytes, and how many reads and writes brought them: the reader and the writer count."""

    __slots__ = ("received_bytes", "received_count", "sent_bytes", "sent_count")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.received_count = 0
        self.sent_bytes = 0
        self.sent_count = 0
