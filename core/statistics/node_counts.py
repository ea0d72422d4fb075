"""The message counts of a node, of its vhosts, exchanges and queues.

Channels count, once a batch and never once a message (channel_counts.py). The node collects their
counts on demand and before each sample. Only channels with new counts take part in that, so that
idle ones cost nothing. Names are RabbitMQ's, as in its API.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, Protocol

from ..definitions import QueueDefinition
from ..topology.topology import Topology
from .history import History

# By name; a missing one is 0.
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
LENGTHS: Final = ("messages_ready", "messages_unacknowledged")


def add(totals: Totals, name: str, count: int) -> None:
    """Count, unless it is nothing."""
    if count:
        totals[name] = totals.get(name, 0) + count


class Counted:
    """Totals, and their history once the object is sampled."""

    __slots__ = ("history", "totals")

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.history: History | None = None


class VhostCounts:
    """Of a vhost, and of its exchange without a name, which is in no table.

    `levels` has the messages of its queues at the last sample, and the octets of its connections.
    """

    __slots__ = ("default_exchange", "history", "levels", "totals")

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.levels: Totals = {}
        self.history: History | None = None
        self.default_exchange = Counted()


class QueueCounts:
    """Of a queue: its messages, and how many of them came through which exchange.

    `lengths` are its ready and its other messages at the last sample.
    """

    __slots__ = ("_names_max", "by_exchange", "changes", "history", "lengths", "totals", "vhost")

    def __init__(self, vhost: VhostCounts | None = None) -> None:
        self.vhost = vhost
        self.totals: Totals = {}
        self.by_exchange: dict[str, Counted] = {}
        # How often the totals have changed.
        self.changes = 0
        self.lengths = (0, 0)
        self.history: History | None = None
        self._names_max = NAMES_MIN

    def came(self, topology: Topology, exchange: str, count: int) -> None:
        """Messages were told to the queue. Forgets exchanges that have been deleted."""
        self.changes += 1
        add(self.totals, "publish", count)
        counted = self.by_exchange.get(exchange)
        if counted is None:
            counted = self.by_exchange[exchange] = Counted()
        add(counted.totals, "publish", count)
        if len(self.by_exchange) > self._names_max:
            find = topology.table.find_exchange
            self.by_exchange = {
                name: known for name, known in self.by_exchange.items() if not name or find(name)
            }
            self._names_max = NAMES_MIN + 2 * len(self.by_exchange)


class Counting(Protocol):
    """An object with counts of its own."""

    def draining(self) -> Iterator[None]:
        """Add its counts to the totals, in short steps."""

    def has_more(self) -> bool:
        """May more follow without being noted anew?"""


class NodeCounts:
    """All counts of a node. They are its owner's: only `collect` and `churned` change them."""

    def __init__(self) -> None:
        self.totals: Totals = {}
        # As those of vhosts.
        self.levels: Totals = {}
        self.history: History | None = None
        # Does anybody sample? Then these objects have changed since the last sample.
        self.is_sampled = False
        self.touched: dict[object, None] = {}
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

    @property
    def has_new(self) -> bool:
        """Is there anything to collect?"""
        return bool(self._changed)

    def collect(self) -> None:
        """Have the totals be those of this moment."""
        for _ in self.collecting():
            pass

    def collecting(self) -> Generator[None, None, None]:
        """As `collect`, in steps between which others may have their turn."""
        for _ in range(len(self._changed)):
            if not self._changed:
                return
            counting = self._changed.popleft()
            steps = counting.draining()
            try:
                for _ in steps:
                    yield
            finally:
                # Also if the caller gives up: it may be a request whose client has gone.
                for _ in steps:
                    pass
                if counting.has_more():
                    self._changed.append(counting)
            yield

    # --- Levels

    def touch(self, *changed: object) -> None:
        """These objects have changed, and are to be sampled."""
        if self.is_sampled:
            for each in changed:
                self.touched[each] = None

    def count_lengths(self, counts: QueueCounts, lengths: tuple[int, int]) -> None:
        """Count the messages of a queue for its vhost and the node."""
        before, counts.lengths = counts.lengths, lengths
        for name, now, earlier in zip(LENGTHS, lengths, before, strict=True):
            self._change_level(counts.vhost, name, now - earlier)

    def add_queue(self, queue: QueueDefinition, topology: Topology) -> None:
        """A queue has an actor from now on."""
        queue.counts = QueueCounts(self.of_vhost(topology))

    def remove_queue(self, queue: QueueDefinition) -> None:
        """A queue is deleted."""
        counts = self.of_queue(queue)
        self.count_lengths(counts, (0, 0))
        counts.history = None
        self.touched.pop(queue, None)

    def count_octets(self, topology: Topology, received_bytes: int, sent_bytes: int) -> None:
        """Count octets of a connection for its vhost and the node."""
        counts = self.of_vhost(topology)
        self._change_level(counts, "recv_oct", received_bytes)
        self._change_level(counts, "send_oct", sent_bytes)

    def _change_level(self, vhost: VhostCounts | None, name: str, change: int) -> None:
        add(self.levels, name, change)
        if vhost is not None and change:
            add(vhost.levels, name, change)
            self.touch(vhost)

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

    def vhosts(self) -> Sequence[VhostCounts]:
        """Those of all vhosts that have counted something."""
        return tuple(self._vhosts.values())

    def of_exchange(self, topology: Topology, name: str) -> Counted | None:
        """An exchange's, to be read or added to; None if there is no such exchange any more."""
        if not name:
            return self.of_vhost(topology).default_exchange
        found = topology.table.find_exchange(name)
        if found is None:
            return None
        counts: Any = found.definition.counts
        if counts is None:
            counts = found.definition.counts = Counted()
        known: Counted = counts
        return known

    def of_queue(self, queue: QueueDefinition) -> QueueCounts:
        """A queue's, to be read or added to."""
        counts: Any = queue.counts
        if counts is None:
            counts = queue.counts = QueueCounts()
        found: QueueCounts = counts
        return found
