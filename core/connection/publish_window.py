"""How much clients have published that the broker has not yet absorbed, per connection and in all.

The bytes between a socket and the disk are in memory, and no queue can page them out, because only
the disk makes room for them. A bound for each connection is not enough: a thousand publishers would
take a thousand times as much. So the node has a window, too. While it is closed, a connection that
publishes is not read any more, in its turn, until half of the node's window is free; connections
that do not publish go on, because their acks make room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class NodeWindow:
    """Wire bytes of all connections between their readers and the queues, or the disk.

    It closes when they pass `bytes_max`, by no more than what one read brings and what the reads of
    others bring until each has had one, and opens at half of it. All run on one thread.
    """

    __slots__ = ("_waiting", "bytes_max", "is_closed", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.is_closed = False
        # The connections that published while it was closed, longest first.
        self._waiting: dict[PublishWindow, None] = {}

    @property
    def waiting_count(self) -> int:
        """How many connections wait for room."""
        return len(self._waiting)

    def remove(self, count: int) -> Sequence[Any]:
        """Count absorbed bytes; gives the readers that wait for this and may go on."""
        self.used_bytes -= count
        if not self.is_closed or self.used_bytes > self.bytes_max // 2:
            return ()
        self.is_closed = False
        waiting = list(self._waiting)
        self._waiting.clear()
        return [window.reader for window in waiting if window.node_has_room()]

    def wait(self, window: PublishWindow) -> None:
        """This connection has published and waits until the window opens."""
        self._waiting[window] = None

    def forget(self, window: PublishWindow) -> None:
        """The connection has ended."""
        self._waiting.pop(window, None)


class PublishWindow:
    """Wire bytes between one connection's reader and the queues, or the disk.

    Each channel has a share: the reader counts up what it hands to the channel, the channel counts
    down what its queues have confirmed; both run on one thread. Past `bytes_max`, or while the
    node's window is closed, the reader stops reading. It reads again at half of `bytes_max`, once
    the node's has opened: `is_closed` says that it waits to be told.
    """

    __slots__ = (
        "_is_full",
        "bytes_max",
        "is_closed",
        "node",
        "reader",
        "used_bytes",
        "waits_for_node",
    )

    def __init__(self, bytes_max: int, node: NodeWindow, reader: object) -> None:
        self.bytes_max = bytes_max
        self.node = node
        # Whom `remove` names: the actor that reads the connection.
        self.reader = reader
        self.used_bytes = 0
        self._is_full = False
        # Is it closed because of what all connections together have published?
        self.waits_for_node = False
        # Is the connection not to be read? Asked for at each read, so it is kept up to date.
        self.is_closed = False

    def add(self, count: int) -> None:
        """Count bytes that the reader hands to a channel, here and in the node's window."""
        node = self.node
        self.used_bytes += count
        node.used_bytes += count
        if node.used_bytes > node.bytes_max:
            node.is_closed = True
        if self.used_bytes > self.bytes_max:
            self._is_full = self.is_closed = True

    def published(self) -> None:
        """Among them were publishes: the connection takes part in what the node has to bear."""
        if self.node.is_closed and not self.waits_for_node:
            self.waits_for_node = self.is_closed = True
            self.node.wait(self)

    def remove(self, count: int) -> Sequence[Any]:
        """Count absorbed bytes; gives the readers that wait for this and may go on."""
        if self._is_full:
            return [*self.leave(count), *self.node.remove(count)]
        self.used_bytes -= count
        return self.node.remove(count)

    def leave(self, count: int) -> Sequence[Any]:
        """The connection answers for these bytes no more, but the node has not absorbed them."""
        self.used_bytes -= count
        if not self._is_full or self.used_bytes > self.bytes_max // 2:
            return ()
        self._is_full = False
        self.is_closed = self.waits_for_node
        return () if self.waits_for_node else (self.reader,)

    def node_has_room(self) -> bool:
        """The node's window has opened; may this connection go on?"""
        self.waits_for_node = False
        self.is_closed = self._is_full
        return not self._is_full

    def end(self) -> None:
        """The connection has ended, and waits for nothing."""
        self.waits_for_node = False
        self.is_closed = self._is_full
        self.node.forget(self)


class Released(NamedTuple):
    """The end of a channel's share: its readers as in `remove`, and the bytes not yet absorbed."""

    readers: Sequence[Any]
    unabsorbed_bytes: int


class WindowShare:
    """One channel's part of its connection's window.

    A channel that ends gives back all it has, what it never looked at included, and what reaches it
    afterwards is dropped and does not count. The node has those bytes all the same, until they are
    on the disk: a client that ends its channels must not fill the memory.
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

    def remove(self, count: int) -> Sequence[Any]:
        """Count absorbed bytes; gives the readers that wait for this and may go on."""
        if self._is_released:
            return ()
        self._used_bytes -= count
        window = self._window
        if window.is_closed or window.node.is_closed:
            return window.remove(count)
        window.used_bytes -= count
        window.node.used_bytes -= count
        return ()

    def release(self) -> Released:
        """The channel has ended; the node's window keeps the bytes that were not absorbed."""
        if self._is_released:
            return Released((), 0)
        self._is_released = True
        return Released(self._window.leave(self._used_bytes), self._used_bytes)
