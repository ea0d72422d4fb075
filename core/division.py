"""A batch divided among queues: which of its messages each of them gets."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

from ..amqp_frames.batch import Batch, Indexes
from .definitions import QueueDefinition


def divide(
    keys: Sequence[int], routes: Sequence[Sequence[QueueDefinition]], count: int
) -> tuple[dict[QueueDefinition, Indexes], Sequence[int]]:
    """Each queue's indexes, and those that no queue gets.

    Message k of the first `count` goes to the queues `routes[keys[k]]`.
    """
    everything = range(count)
    if not count:
        return {}, everything
    if len(routes) == 1:
        queues = routes[0]
        return dict.fromkeys(queues, everything), () if queues else everything
    rows: list[list[int]] = [[] for _ in routes]
    for index, number in enumerate(keys[:count]):
        rows[number].append(index)
    by_queue: dict[QueueDefinition, list[list[int]]] = {}
    unrouted: list[list[int]] = []
    for queues, row in zip(routes, rows, strict=True):
        if row:
            if not queues:
                unrouted.append(row)
            for queue in queues:
                by_queue.setdefault(queue, []).append(row)
    told: dict[QueueDefinition, Indexes] = {}
    for queue, parts in by_queue.items():
        told[queue] = everything if sum(map(len, parts)) == count else array("I", _in_order(parts))
    return told, _in_order(unrouted) if unrouted else ()


def _in_order(rows: Sequence[list[int]]) -> Sequence[int]:
    return rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows))


def durable_indexes(
    batch: Batch, told: dict[QueueDefinition, Indexes], count: int
) -> Indexes | None:
    """The persistent messages that reach a durable queue; None if these are all."""
    persistent = batch.persistent
    persistent_count = persistent.count(1)
    if not persistent_count:
        return range(0)
    reached = [indexes for queue, indexes in told.items() if queue.durable]
    if not reached:
        return range(0)
    if len(reached) == 1 or any(len(indexes) == count for indexes in reached):
        indexes: Sequence[int] = max(reached, key=len)
    else:
        indexes = sorted(set(chain.from_iterable(reached)))
    if persistent_count == len(batch) and len(indexes) == len(batch):
        return None
    return array("I", [index for index in indexes if persistent[index]])
