"""How much one connection has published that the broker has not yet absorbed."""

from __future__ import annotations


class PublishWindow:
    """Wire bytes between a connection's reader and the queues, or the disk.

    Each channel has a share: the reader counts up what it hands to the channel, the channel counts
    down what its queues have confirmed; both run on one thread. Past `bytes_max` the reader stops
    reading, and reads again at half of it: `is_closed` says that it waits to be told.
    """

    __slots__ = ("bytes_max", "is_closed", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.is_closed = False

    def add(self, count: int) -> None:
        """Count bytes that the reader hands to a channel."""
        self.used_bytes += count
        if self.used_bytes > self.bytes_max:
            self.is_closed = True

    def remove(self, count: int) -> bool:
        """Count absorbed bytes; true if the reader waits for this and may go on."""
        self.used_bytes -= count
        if self.is_closed and self.used_bytes <= self.bytes_max // 2:
            self.is_closed = False
            return True
        return False


class WindowShare:
    """One channel's part of its connection's window.

    A channel that ends gives back all it has, what it never looked at included, and what reaches it
    afterwards is dropped and does not count.
    """

    __slots__ = ("_is_released", "_used_bytes", "_window")

    def __init__(self, window: PublishWindow) -> None:
        self._window = window
        self._used_bytes = 0
        self._is_released = False

    def add(self, count: int) -> None:
        """Count bytes that the channel is handed."""
        if not self._is_released:
            self._used_bytes += count
            self._window.add(count)

    def remove(self, count: int) -> bool:
        """Count absorbed bytes; true if the reader waits for this and may go on."""
        if self._is_released:
            return False
        self._used_bytes -= count
        return self._window.remove(count)

    def release(self) -> bool:
        """The channel has ended; true as in `remove`."""
        may_go_on = self.remove(self._used_bytes)
        self._is_released = True
        return may_go_on
