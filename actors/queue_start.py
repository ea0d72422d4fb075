"""The making of queues: the structure that a queue's arguments ask for, and the actor for it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..core.batch_sweep import BatchSweep
from ..core.dedup_window import RememberedRow, window_of
from ..core.definitions import QueueDefinition
from ..core.message_queue import MessageQueue
from ..core.queue_structures import make_queue
from ..core.ready_by_priority import ReadyByPriority
from .node_context import NodeContext
from .queue import Queue
from .queue_by_priority import QueueByPriority
from .queue_dedup import DedupQueue, DedupQueueByPriority


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
    # Limits are kept in the order in which messages came, so a batch stays as it is.
    divides = type(messages) is MessageQueue and isinstance(messages.ready, ReadyByPriority)
    window = window_of(queue.arguments)
    if window is None:
        kind = QueueByPriority if divides else Queue
        queue.handle = kind.start_on(context.runtime, context, queue, messages)
        return
    window.restore(remembered, time.time_ns() // 1_000_000)
    dedup_kind = DedupQueueByPriority if divides else DedupQueue
    queue.handle = dedup_kind.start_on(context.runtime, context, queue, messages, window)
