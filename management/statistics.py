"""The numbers in rows: what rows ask of a queue, and sums of it.

Rows ask here, and nowhere else, so that counters and their histories have one place. All is read on
the event loop, where the actors that own it run, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from ..actors.node_context import NodeContext
from ..core.definitions import QueueDefinition

Numbers = dict[str, Any]


class Statistics:
    """Of one node."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    def of_queue(self, queue: QueueDefinition) -> Numbers:
        """How many messages it has. Deferred messages count as unacknowledged: they are not ready,
        and come back."""
        if queue.rules is None:
            return {}
        ready, consumers, unacked = queue.rules.counts()
        unacked += queue.rules.deferred_count
        return {
            "consumers": consumers,
            "memory": queue.rules.held_bytes,
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
        }

    def state_of_queue(self, queue: QueueDefinition) -> object:
        """Another one whenever `of_queue` is; quick to make, because lists ask it of each queue."""
        rules = queue.rules
        if rules is None:
            return None
        return rules.counts(), rules.deferred_count, rules.held_bytes

    def of_queues(self, queues: Iterable[QueueDefinition]) -> Generator[None, None, Numbers]:
        """The sums of several, in short steps; `queues` are not to change meanwhile."""
        ready = unacked = consumers = 0
        for queue in queues:
            yield
            if queue.rules is not None:
                counts = queue.rules.counts()
                ready += counts[0]
                consumers += counts[1]
                unacked += counts[2] + queue.rules.deferred_count
        return {
            "consumers": consumers,
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
        }
