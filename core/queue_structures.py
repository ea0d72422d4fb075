"""What a queue's arguments ask of its structures, chosen once, when the queue is made.

A queue without such arguments keeps the plain ones, and pays nothing for the others.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.field_table import Table
from .expiring_queue import ExpiringQueue, spans_of
from .limited_queue import LimitedQueue
from .limits import limits_of
from .message_queue import MessageQueue
from .queue_types import delivery_limit
from .ready_by_priority import ReadyByPriority
from .single_active import SingleActiveConsumers

# Batch, indexes, first entry id, attempts so far, and when they expire, as `spans_of` takes them.
Run = tuple[Batch, Indexes, int, int, "int | array[int]"]


def make_queue(
    identity: object, durable: bool, arguments: Table, delivery_window_bytes_max: int
) -> MessageQueue:
    """An empty queue with what its arguments, which were checked, ask for."""
    limits = limits_of(arguments)
    if limits is None:
        messages = MessageQueue(identity, durable, delivery_window_bytes_max)
    else:
        kind = LimitedQueue if limits.ttl_ms is None else ExpiringQueue
        messages = kind(identity, durable, delivery_window_bytes_max, limits)
    equip(messages, arguments, delivery_window_bytes_max)
    return messages


def refill(messages: MessageQueue, runs: Iterable[Run]) -> MessageQueue:
    """Give a new queue back what the journal kept, in the order of entry ids.

    Returns the queue, which is another one if it has messages that expire and had no such.
    """
    for run in runs:
        if run[-1] and not isinstance(messages, ExpiringQueue):
            messages = ExpiringQueue.continuing(messages)
        for span in spans_of(*run):
            messages.restore(span)
    return messages


def equip(messages: MessageQueue, arguments: Table, delivery_window_bytes_max: int) -> None:
    """Give a new queue the structures that its arguments, which were checked, ask for."""
    messages.dead_letters = "x-dead-letter-exchange" in arguments
    messages.delivery_limit = delivery_limit(arguments)
    single_active = arguments.get("x-single-active-consumer")
    if single_active is not None and single_active.value is True:
        messages.consumers = SingleActiveConsumers(delivery_window_bytes_max, messages.identity)
    priority_max = arguments.get("x-max-priority")
    # With 0 every message has the same.
    if priority_max is not None and priority_max.value:
        assert isinstance(priority_max.value, int)
        messages.ready = ReadyByPriority(priority_max.value)
