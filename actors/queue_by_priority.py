"""The actor of a queue with `x-max-priority`.

A Queue that takes a batch as if it had come as several, one for each priority, the highest first:
so each has its entry ids in a row, and is stored, confirmed and delivered like any other batch.
"""

from __future__ import annotations

from ..core.definitions import QueueDefinition
from ..core.message_queue import MessageQueue
from ..core.ready_by_priority import ReadyByPriority
from .messages import Publish
from .node_context import NodeContext
from .queue import Queue


class QueueByPriority(Queue):
    """A Queue whose messages are ReadyByPriority."""

    def __init__(
        self, context: NodeContext, definition: QueueDefinition, messages: MessageQueue
    ) -> None:
        super().__init__(context, definition, messages)
        assert isinstance(messages.ready, ReadyByPriority)
        self._divide = messages.ready.divide

    def on_receive(self, message: object) -> None:
        """As any queue, but publishes are divided."""
        if not isinstance(message, Publish) or self._is_held:
            super().on_receive(message)
            return
        parts = self._divide(message.batch, message.indexes)
        # Should one fail, those behind it are answered, too, as they would be in the mailbox.
        self._held_back.extendleft(message._replace(indexes=part) for part in reversed(parts))
        for _ in parts:
            super().on_receive(self._held_back.popleft())
