"""How much one connection has published that the broker has not yet absorbed."""

from __future__ import annotations


class PublishWindow:
    """Wire bytes between a connection's reader and the queues, or the disk.

    The reader counts up what it hands to its channels, the channels count down what their queues
    have confirmed; both run on one thread. Past `bytes_max` the reader stops reading, and reads
    again at half of it: `is_closed` says that it waits to be told.
    """

    __slots__ = ("bytes_max", "is_closed", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.is_closed = False

    def take(self, count: int) -> None:
        """So many bytes came in."""
        self.used_bytes += count
        if self.used_bytes > self.bytes_max:
            self.is_closed = True

    def give_back(self, count: int) -> bool:
        """So many bytes are absorbed; true if the reader waits for this and may go on."""
        self.used_bytes -= count
        if self.is_closed and self.used_bytes <= self.bytes_max // 2:
            self.is_closed = False
            return True
        return False
