"""What a scrape asks for, and what its answer is read from.

Three forms, as RabbitMQ has them: `/metrics` sums up all objects, `/metrics/per-object` has a
sample for each, and `/metrics/detailed` has the families and vhosts that are asked for, each object
with samples of its own, under names that begin with `rabbitmq_detailed_`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from ...actors.node_context import NodeContext
from ...core.definitions import QueueDefinition
from ...core.histogram import Histogram
from ..about import About
from ..statistics import Statistics

RABBITMQ: Final = "rabbitmq_"
DETAILED: Final = "rabbitmq_detailed_"


class Form(Enum):
    """How objects are shown; the value is RabbitMQ's word for it."""

    AGGREGATED = "aggregated"
    PER_OBJECT = "per-object"
    DETAILED = "detailed"


class Asked(NamedTuple):
    """`families` and `vhosts` count for the form DETAILED; no vhosts are all."""

    form: Form
    families: frozenset[str] = frozenset()
    vhosts: frozenset[str] = frozenset()

    @property
    def prefix(self) -> str:
        """What names of RabbitMQ's metrics begin with."""
        return DETAILED if self.form is Form.DETAILED else RABBITMQ

    @property
    def per_object(self) -> bool:
        """Has each object samples of its own?"""
        return self.form is not Form.AGGREGATED

    def wants(self, *families: str) -> bool:
        """Is one of these families asked for?"""
        return self.form is not Form.DETAILED or not self.families.isdisjoint(families)

    def wants_vhost(self, vhost: str) -> bool:
        """Are objects of this vhost asked for?"""
        return not self.vhosts or vhost in self.vhosts


class Source(NamedTuple):
    """What metrics are read from, on the event loop."""

    context: NodeContext
    about: About
    statistics: Statistics
    # How late the event loop was, in seconds.
    lag_seconds: Histogram

    def queues(self, asked: Asked) -> Collection[QueueDefinition]:
        """Those of the vhosts that are asked for."""
        # In one step, which is short: no loop of Python's goes over the queues.
        found: list[QueueDefinition] = []
        for topology in self.context.vhosts:
            if asked.wants_vhost(topology.vhost):
                found.extend(topology.table.queues())
        return found
