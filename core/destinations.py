"""The queues that one key leads to, each counted by its bindings.

A queue may be bound twice with one key, if the arguments differ; it gets a message once, and
leaves only with the last of those bindings. The tuple of queues is made when it is asked for and
kept until the next change, so that binding 10,000 queues to one key does not make 10,000 tuples.
"""

from __future__ import annotations

from .definitions import QueueDefinition


class Destinations:
    """A set of queues in the order of their first binding."""

    __slots__ = ("_bindings_by_queue", "_queues")

    def __init__(self) -> None:
        self._bindings_by_queue: dict[QueueDefinition, int] = {}
        self._queues: tuple[QueueDefinition, ...] | None = ()

    def add(self, queue: QueueDefinition) -> None:
        """One more binding leads to the queue."""
        self._bindings_by_queue[queue] = self._bindings_by_queue.get(queue, 0) + 1
        self._queues = None

    def remove(self, queue: QueueDefinition) -> None:
        """One binding less leads to the queue; there must be one."""
        count = self._bindings_by_queue[queue] - 1
        if count:
            self._bindings_by_queue[queue] = count
        else:
            del self._bindings_by_queue[queue]
            self._queues = None

    def queues(self) -> tuple[QueueDefinition, ...]:
        """Each queue once."""
        queues = self._queues
        if queues is None:
            queues = self._queues = tuple(self._bindings_by_queue)
        return queues

    def __bool__(self) -> bool:
        return bool(self._bindings_by_queue)
