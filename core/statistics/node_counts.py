"""The message counts of a node, of its vhosts, exchanges and queues.

Channels count, once a batch and never once a message (channel_counts.py). The node collects their
counts on demand and before each sample. Only channels with new counts take part in that, so that
idle ones cost nothing. Names are RabbitMQ's, as in its API.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

from ..definitions import QueueDefinition
from ..topology.topology import Topology

# By name; one that is missing is 0.
Totals = dict[str, int]

CHURN: Final = (
    "channel_closed",
    "channel_created",
    "connection_closed",
    "connection_created",
    "queue_created",
    "queue_declared",
    "queue_deleted",
)
# With fewer names nobody looks which of them are still there.
NAMES_MIN: Final = 64


def add(totals: Totals, name: str, count: int) -> None:
    """Count, unless it is nothing."""
    if count:
        totals[name] = totals.get(name, 0) + count


class QueueCounts:
    """Of a queue: its messages, and how many of them came through which exchange."""

    __slots__ = ("_names_max", "by_exchange", "totals")

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.by_exchange: Totals = {}
        self._names_max = NAMES_MIN

    def came(self, topology: Topology, exchange: str, count: int) -> None:
        """Messages were told to the queue. Forgets exchanges that have been deleted."""
        add(self.totals, "publish", count)
        add(self.by_exchange, exchange, count)
        if len(self.by_exchange) > self._names_max:
            find = topology.table.find_exchange
            self.by_exchange = {
                name: known for name, known in self.by_exchange.items() if not name or find(name)
            }
            self._names_max = NAMES_MIN + 2 * len(self.by_exchange)


class VhostCounts:
    """Of a vhost, and of its exchange without a name, which is in no table."""

    __slots__ = ("default_exchange", "totals")

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.default_exchange: Totals = {}


class Counting(Protocol):
    """An object with counts of its own."""

    def drain(self) -> bool:
        """Add its counts to the totals; true if more may follow without any new event."""


class NodeCounts:
    """All counts of a node. They are its owner's: only `collect` and `churned` change them."""

    def __init__(self) -> None:
        self.totals: Totals = {}
        # Since the node's start, each of CHURN.
        self.churn: Totals = dict.fromkeys(CHURN, 0)
        self._vhosts: dict[Topology, VhostCounts] = {}
        self._changed: deque[Counting] = deque()

    def churned(self, name: str, count: int = 1) -> None:
        """Count one of CHURN."""
        self.churn[name] += count

    def note(self, counting: Counting) -> None:
        """The object has something to collect; it says so once, until it is drained."""
        self._changed.append(counting)

    def collect(self) -> None:
        """Have the totals be those of this moment."""
        for _ in self.collecting():
            pass

    def collecting(self) -> Iterator[None]:
        """As `collect`, in steps between which others may have their turn."""
        for _ in range(len(self._changed)):
            if not self._changed:
                return
            counting = self._changed.popleft()
            if counting.drain():
                self._changed.append(counting)
            yield

    # --- Counts of one object

    def of_vhost(self, topology: Topology) -> VhostCounts:
        """A vhost's, to be read or added to."""
        counts = self._vhosts.get(topology)
        if counts is None:
            self._vhosts = {
                each: kept for each, kept in self._vhosts.items() if not each.is_deleted
            }
            counts = self._vhosts[topology] = VhostCounts()
        return counts

    def of_exchange(self, topology: Topology, name: str) -> Totals | None:
        """An exchange's, to be read or added to; None if there is no such exchange any more."""
        if not name:
            return self.of_vhost(topology).default_exchange
        found = topology.table.find_exchange(name)
        return None if found is None else found.definition.counts

    def of_queue(self, queue: QueueDefinition) -> QueueCounts:
        """A queue's, to be read or added to."""
        counts: Any = queue.counts
        if counts is None:
            counts = queue.counts = QueueCounts()
        found: QueueCounts = counts
        return found
