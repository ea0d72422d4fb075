"""The queue that a channel's command means: by its name, or as the one it declared last."""

from __future__ import annotations

from ...amqp_frames.constants import NOT_FOUND
from ...amqp_frames.errors import SoftError
from ..definitions import QueueDefinition
from ..topology.topology import READ
from ..users.access import Access


class QueueNames:
    """Resolves names for one channel; `connection` stands for the owner of exclusive queues."""

    def __init__(self, access: Access, connection: object) -> None:
        self._access = access
        self._connection = connection
        self.last_declared = ""

    def resolve(self, name: str) -> str:
        """That name, or the last declared one for ""; 404 if there is none."""
        if name:
            return name
        if not self.last_declared:
            raise SoftError(NOT_FOUND, "no previously declared queue")
        return self.last_declared

    def readable(self, name: str) -> QueueDefinition:
        """The queue to read from; 403, 404 or 405 if the client may not have it."""
        name = self.resolve(name)
        self._access.check(READ, "queue", name)
        return self._access.topology.queue(name, self._connection)
