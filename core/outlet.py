"""How much one connection has been handed that its socket has not taken, over all its channels."""

from __future__ import annotations


class Outlet:
    """Bytes on their way out of one connection, from the queue that hands them over to the socket.

    Past `bytes_max` none of the connection's consumers gets more and none of its basic.gets is
    carried out, whatever their own windows say, or they all together would fill the memory for a
    client that does not read. Who is passed over waits to be told. All run on one thread.

    What has been written counts in `written`, and not for its channel any more: until the socket
    has taken it, it takes up memory, and a client that can end channels could have any number.
    `replies` is the same of direct replies, which are dropped past a limit of their own.
    """

    __slots__ = ("_used_bytes", "_waiting", "bytes_max", "replies", "written")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._used_bytes = 0
        self._waiting: dict[object, None] = {}
        self.replies = OutletShare(self)
        self.written = OutletShare(self)

    def share(self) -> OutletShare:
        """One channel's part of it."""
        return OutletShare(self)

    def is_closed(self, passed_over: object) -> bool:
        """May nothing more be handed over? Then whoever asks is told when something may be."""
        if self._used_bytes < self.bytes_max:
            return False
        self._waiting[passed_over] = None
        return True

    def add(self, count: int) -> None:
        """So many bytes more, or less, are on their way."""
        self._used_bytes += count

    def opened(self) -> list[object]:
        """Those that wait, longest first, once half of it is free: they wait no longer."""
        if not self._waiting or self._used_bytes > self.bytes_max // 2:
            return []
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting


class OutletShare:
    """One channel's part of its connection's outlet, or what has been written for all of them.

    What a channel that ended had and had not written is gone.
    """

    __slots__ = ("_is_released", "_used_bytes", "outlet")

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self._used_bytes = 0
        self._is_released = False

    def take(self, count: int) -> None:
        """So many bytes are handed to the channel."""
        if not self._is_released:
            self._used_bytes += count
            self.outlet.add(count)

    @property
    def used_bytes(self) -> int:
        """What it has out."""
        return self._used_bytes

    def wrote(self, count: int) -> OutletShare:
        """So many of them are written now; gives the share in which the socket takes them."""
        self.give_back(count)
        self.outlet.written.take(count)
        return self.outlet.written

    def give_back(self, count: int) -> None:
        """The socket took so many of them."""
        self.take(-count)

    def release(self) -> None:
        """The channel has ended."""
        self.give_back(self._used_bytes)
        self._is_released = True
