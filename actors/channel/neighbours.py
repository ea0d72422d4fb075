"""A channel's ways to its neighbours: methods to its client, questions to the broker and queues."""

from __future__ import annotations

from ...amqp_frames.methods import Method, encode_method
from ...core.channel.waiting import Waiting
from ...core.definitions import QueueDefinition
from ...core.topology.topology import queue_gone_error
from ..messages import Ref
from ..node_context import NodeContext
from ..runtime.runtime import tell


class ClientSide:
    """Sends methods on the channel `number`, by the writer of its connection.

    Frames are told to the `writer` as they are.
    """

    def __init__(self, number: int, writer: Ref) -> None:
        self._number = number
        self.writer = writer

    def write(self, method: Method) -> None:
        """Send a method."""
        tell(self.writer, encode_method(self._number, method))

    def answer(self, method: Method, answer: Method) -> None:
        """Send the answer to `method`, if its client asked for one."""
        if not getattr(method, "no_wait", False):
            self.write(answer)


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
