"""How much one connection has been handed that its socket has not taken, over all its channels.

Clients that do not read hold that much each. So that a thousand of them do not hold a thousand
times as much, the connections of the node share a bound, too: while they hold more together, each
gets only as much as keeps it going.
"""

from __future__ import annotations

from typing import Final

# A connection may have this much on its way whatever all others have: about what a socket takes.
KEPT_OPEN_BYTES: Final = 65_536


class NodeOutlet:
    """Bytes on their way out of all connections, and how much may be before each gets less."""

    __slots__ = ("bytes_max", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0


class Outlet:
    """Bytes on their way out of one connection, from the queue that hands them over to the socket.

    Past `bytes_max`, or past KEPT_OPEN_BYTES while those of the `node` are too many, none of the
    connection's consumers gets more and none of its basic.gets is carried out, whatever their own
    windows say, or they all together would fill the memory for a client that does not read. A queue
    or channel that is passed over waits until it hears that the outlet is open. All run on one
    thread.

    Written bytes count for the connection, and not for its channel any more: until the socket has
    taken them, they take up memory, and a client that can end channels could have any number of
    them. Direct replies, which are dropped past a limit of their own, are counted by themselves as
    well, in `replies_bytes`.

    It refers to no share of it: with a cycle, all that a connection had would stay in memory until
    the collector comes by.
    """

    __slots__ = ("_node", "_used_bytes", "_waiting", "bytes_max", "replies_bytes")

    def __init__(self, bytes_max: int, node: NodeOutlet) -> None:
        self.bytes_max = bytes_max
        self._node = node
        self.replies_bytes = 0
        self._used_bytes = 0
        self._waiting: dict[object, None] = {}

    def share(self) -> OutletShare:
        """One channel's part of it."""
        return OutletShare(self)

    @property
    def outlet(self) -> Outlet:
        """Itself, as the share for bytes that are written already."""
        return self

    @property
    def replies(self) -> RepliesShare:
        """The share for direct replies."""
        return RepliesShare(self)

    @property
    def used_bytes(self) -> int:
        """Bytes that are on their way."""
        return self._used_bytes

    def is_closed(self, passed_over: object) -> bool:
        """May nothing more be handed over? Then `passed_over` hears when the outlet opens."""
        # As `_limit`, but this is asked for each delivery.
        used_bytes, node = self._used_bytes, self._node
        if used_bytes < self.bytes_max and (
            used_bytes < KEPT_OPEN_BYTES or node.used_bytes < node.bytes_max
        ):
            return False
        self._waiting[passed_over] = None
        return True

    def _limit(self) -> int:
        is_node_full = self._node.used_bytes >= self._node.bytes_max
        return min(self.bytes_max, KEPT_OPEN_BYTES) if is_node_full else self.bytes_max

    def add(self, count: int) -> None:
        """Count bytes that a queue or a channel hands over."""
        self._used_bytes += count
        self._node.used_bytes += count

    def remove(self, count: int) -> None:
        """Count bytes that the socket has taken, or that are gone with a channel."""
        self.add(-count)

    def end(self) -> None:
        """The connection has ended: the node, too, counts its bytes on their way no more."""
        self._node.used_bytes -= self._used_bytes
        # Its channels and its writer may count on.
        self._node = NodeOutlet(self.bytes_max)

    def opened(self) -> list[object]:
        """Those that wait, longest first, once half of it is free: they wait no longer."""
        if not self._waiting or self._used_bytes > self._limit() // 2:
            return []
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting


class OutletShare:
    """One channel's part of its connection's outlet.

    What a channel that ended had and had not written is gone.
    """

    __slots__ = ("_is_released", "_used_bytes", "outlet")

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self._used_bytes = 0
        self._is_released = False

    def add(self, count: int) -> None:
        """Count bytes that a queue hands to the channel."""
        if not self._is_released:
            self._used_bytes += count
            self.outlet.add(count)

    @property
    def used_bytes(self) -> int:
        """Bytes that are on their way through this channel."""
        return self._used_bytes

    def wrote(self, count: int) -> Outlet:
        """So many of them are written now; gives the share in which the socket takes them."""
        if self._is_released:
            # They were counted out with the channel.
            self.outlet.add(count)
        else:
            self._used_bytes -= count
        return self.outlet

    def remove(self, count: int) -> None:
        """Count bytes that the socket has taken."""
        self.add(-count)

    def release(self) -> None:
        """The channel has ended."""
        self.remove(self._used_bytes)
        self._is_released = True


class RepliesShare:
    """The direct replies of a connection that its socket has not taken, of all its channels."""

    __slots__ = ("outlet",)

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    @property
    def used_bytes(self) -> int:
        """Bytes that are on their way."""
        return self.outlet.replies_bytes

    def add(self, count: int) -> None:
        """Count bytes that are written."""
        self.outlet.replies_bytes += count
        self.outlet.add(count)

    def remove(self, count: int) -> None:
        """Count bytes that the socket has taken."""
        self.add(-count)
