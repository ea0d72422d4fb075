"""The parts that a queue's arguments ask for: chosen when it is made, or changed later.

A queue without such arguments has none of them, and pays nothing for them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.values.field_table import Table
from .attempts import attempts_part
from .batch_sweep import SWEEP_INTERVAL_BYTES
from .consumers import Consumers, SingleActiveConsumers
from .dedup import deduplication_part
from .deferral import deferral_part, divided
from .expiry import Deadlines, deadlines_part, spans_of
from .in_flight_timeouts import in_flight_timeouts_part
from .length import length_part
from .parts import Part
from .ready import Ready
from .ready_by_priority import ReadyByPriority
from .rules import MessageQueue
from .span import PagedSpan

# Batch, indexes, first entry id, attempts so far, when they expire, as `spans_of` takes it, and
# when they are due, likewise.
Run = tuple[Batch, Indexes, int, int, "int | array[int]", "int | array[int]"]
# First entry id, count, attempts so far, when they expire, and when they are due; 0 for neither.
PagedRun = tuple[int, int, int, int, int]

# The arguments that ask for a part, and a function that makes it from the arguments of a queue,
# which were checked.
PartMakers = tuple[tuple[frozenset[str], Callable[[Table], Part | None]], ...]
# Parts that are called at the same place are called in this order. A new part is added here.
PART_MAKERS: Final[PartMakers] = (
    (frozenset({"x-dedup-window"}), deduplication_part),
    (frozenset({"x-max-length", "x-max-length-bytes"}), length_part),
    (frozenset({"x-message-ttl"}), deadlines_part),
    (frozenset({"x-delivery-limit"}), attempts_part),
    (frozenset({"x-in-flight-timeout"}), in_flight_timeouts_part),
    (frozenset({"x-requeue-delay"}), deferral_part),
)


def make_queue(
    identity: object,
    durable: bool,
    arguments: Table,
    delivery_window_bytes_max: int,
    sweep_interval_bytes: int = SWEEP_INTERVAL_BYTES,
    part_makers: PartMakers = PART_MAKERS,
) -> MessageQueue:
    """An empty queue with the parts that its arguments, which were checked, ask for."""
    messages = MessageQueue(identity, durable, delivery_window_bytes_max, sweep_interval_bytes)
    if arguments:
        equip(messages, arguments, delivery_window_bytes_max, part_makers)
    return messages


def equip(
    messages: MessageQueue,
    arguments: Table,
    delivery_window_bytes_max: int,
    part_makers: PartMakers = PART_MAKERS,
) -> None:
    """Give a queue the parts that these arguments ask for, and take away all others.

    The queue may be in use: parts that are replaced hand their state on. `dispatch` is to be called
    then, because messages may have to leave.
    """
    messages.dead_letters = "x-dead-letter-exchange" in arguments
    made = [make(arguments) for names, make in part_makers if not names.isdisjoint(arguments)]
    parts = [part for part in made if part is not None]
    if parts or messages.parts:
        messages.compose(parts)
    # A lower maximum sends no consumer away.
    messages.consumers_max = _number(arguments, "x-max-consumers")
    priority_max = _number(arguments, "x-max-priority")
    if priority_max != messages.ready.priority_max:
        messages.order_by(ReadyByPriority(priority_max) if priority_max else Ready())
    single_active = arguments.get("x-single-active-consumer")
    kind = Consumers
    if single_active is not None and single_active.value is True:
        kind = SingleActiveConsumers
    if type(messages.consumers) is not kind:
        messages.serve(kind(delivery_window_bytes_max, messages.identity))


def refill(messages: MessageQueue, runs: Iterable[Run]) -> None:
    """Give a new queue back what the journal kept, in the order of entry ids.

    If messages may be deferred, the caller has set the queue's `now_ms` and `uptime_ms`.
    """
    for batch, indexes, first_entry_id, attempts, deadlines, due_times in runs:
        if deadlines and messages.deadlines is None:
            messages.compose((*messages.parts, Deadlines()))
        for span in spans_of(batch, indexes, first_entry_id, attempts, deadlines):
            if not due_times:
                messages.restore(span)
                continue
            start = span.first_entry_id - first_entry_id
            own = due_times if isinstance(due_times, int) else due_times[start : start + len(span)]
            for part, due_ms in divided(span, own):
                messages.restore(part, due_ms)


def refill_paged(messages: MessageQueue, runs: Iterable[PagedRun]) -> None:
    """Give a new queue back what the journal kept, without reading it; as `refill` otherwise.

    Not for a queue that must know priorities or sizes of its messages.
    """
    for first_entry_id, count, attempts, deadline_ms, due_ms in runs:
        if deadline_ms and messages.deadlines is None:
            messages.compose((*messages.parts, Deadlines()))
        span = PagedSpan(first_entry_id, count, attempts, True, deadline_ms)
        messages.restore(span, due_ms)


def _number(arguments: Table, name: str) -> int:
    """The value of an argument that was checked; 0 without it."""
    argument = arguments.get(name)
    if argument is None:
        return 0
    assert isinstance(argument.value, int)
    return argument.value
