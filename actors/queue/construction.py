"""The making of queues: the rules with the parts that the arguments ask for, and the actor."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.definitions import QueueDefinition
from ...core.queue.batch_sweep import BatchSweep
from ...core.queue.construction import make_queue
from ...core.queue.dedup import RememberedRow
from ...core.queue.rules import MessageQueue
from ..node_context import NodeContext
from ..runtime.wall_clock import now_ms
from .queue import Queue


def new_messages(context: NodeContext, queue: QueueDefinition) -> MessageQueue:
    """The queue's messages, none so far."""
    window_bytes_max = context.delivery_window_bytes_max
    messages = make_queue(queue, queue.durable, queue.arguments, window_bytes_max)
    messages.sweep = BatchSweep(context.sweep_interval_bytes)
    return messages


def start_queue(
    context: NodeContext,
    queue: QueueDefinition,
    messages: MessageQueue,
    remembered: Iterable[RememberedRow] = (),
) -> None:
    """Give the queue an actor, its `handle` from now on.

    `remembered`: what the journal kept for its dedup window.
    """
    messages.sweep_all()
    if messages.deduplication is not None:
        messages.deduplication.window.restore(remembered, now_ms())
    queue.handle = Queue.start_on(context.runtime, context, queue, messages)
