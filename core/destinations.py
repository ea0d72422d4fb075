"""The queues and exchanges that one key leads to, each counted by its bindings.

A queue may be bound twice with one key, if the arguments differ; it gets a message once, and
leaves only with the last of those bindings. The tuple is made when it is asked for and kept until
the next change, so that binding 10,000 queues to one key does not make 10,000 tuples.
"""

from __future__ import annotations

from .definitions import Destination


class Destinations:
    """A set of queues and exchanges in the order of their first binding."""

    __slots__ = ("_bindings_by_destination", "_in_order")

    def __init__(self) -> None:
        self._bindings_by_destination: dict[Destination, int] = {}
        self._in_order: tuple[Destination, ...] | None = ()

    def add(self, destination: Destination) -> None:
        """One more binding leads there."""
        count = self._bindings_by_destination.get(destination, 0)
        self._bindings_by_destination[destination] = count + 1
        self._in_order = None

    def remove(self, destination: Destination) -> None:
        """One binding less leads there; there must be one."""
        count = self._bindings_by_destination[destination] - 1
        if count:
            self._bindings_by_destination[destination] = count
        else:
            del self._bindings_by_destination[destination]
            self._in_order = None

    def in_order(self) -> tuple[Destination, ...]:
        """Each destination once."""
        in_order = self._in_order
        if in_order is None:
            in_order = self._in_order = tuple(self._bindings_by_destination)
        return in_order

    def __bool__(self) -> bool:
        return bool(self._bindings_by_destination)
