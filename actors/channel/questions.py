"""The questions that a channel puts to its broker and its queues, one at a time."""

from __future__ import annotations

from ...amqp_frames.methods import Method
from ...core.channel.waiting import Waiting
from ...core.definitions import QueueDefinition
from ...core.topology.topology import queue_gone_error
from ..messages import Ref
from ..node_context import NodeContext
from ..runtime.runtime import tell


class Questions:
    """Asks for `channel`, which then holds back its input until the answer is there."""

    def __init__(self, context: NodeContext, channel: Ref, waiting: Waiting) -> None:
        self._context = context
        self.channel = channel
        self._waiting = waiting

    def ask_broker(self, method: Method, question: object) -> None:
        """Put `method`'s question to the broker."""
        tell(self._context.broker, question)
        self._waiting.ask(method)

    def ask_queue(self, method: Method, queue: QueueDefinition, question: object) -> None:
        """Put `method`'s question to a queue; 404 if the queue has ended."""
        if not self.could_ask(method, queue, question):
            raise queue_gone_error(queue, self._context.vhosts.table_of(queue) is not None)

    def could_ask(self, method: Method, queue: QueueDefinition, question: object) -> bool:
        """Put `method`'s question to a queue; False if the queue has ended."""
        if not tell(queue.handle, question):
            return False
        self._waiting.ask(method)
        return True
