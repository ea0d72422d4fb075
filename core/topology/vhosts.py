"""The vhosts of a node: worlds of exchanges and queues that know nothing of each other.

The broker's actor alone adds and removes them, as `accounts` does, whose names these are. A
connection keeps the Topology of the vhost that it opened; a removed vhost is empty by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from ..exchanges.table import DEFAULT_LIMITS, ExchangeTable, TopologyLimits
from .topology import Topology


class Vhosts:
    """Vhost name -> its topology. Queue ids are the node's: no two queues share one."""

    def __init__(
        self,
        names: Iterable[str],
        next_queue_id: Callable[[], int],
        random_octets: Callable[[int], bytes],
        limits: TopologyLimits = DEFAULT_LIMITS,
    ) -> None:
        self._next_queue_id = next_queue_id
        self._random_octets = random_octets
        self._limits = limits
        self._topologies: dict[str, Topology] = {}
        for name in names:
            self.add(name)

    def restore(
        self,
        exchanges: Iterable[ExchangeDefinition],
        queues: Iterable[QueueDefinition],
        bindings: Iterable[BindingDefinition],
    ) -> None:
        """Take in what the catalog holds; ValueError if it does not fit together."""
        exchanges, queues, bindings = tuple(exchanges), tuple(queues), tuple(bindings)
        used = {each.vhost for each in exchanges} | {each.vhost for each in queues}
        used |= {each.vhost for each in bindings}
        if strays := used - set(self._topologies):
            raise ValueError(f"the catalog has things in vhosts that are not there: {strays}")
        for name, topology in self._topologies.items():
            topology.restore(
                [exchange for exchange in exchanges if exchange.vhost == name],
                [queue for queue in queues if queue.vhost == name],
                [binding for binding in bindings if binding.vhost == name],
            )

    def add(self, name: str) -> Topology:
        """A new vhost, with the exchanges that each has."""
        assert name not in self._topologies, name
        self._topologies[name] = Topology(
            self._next_queue_id, self._random_octets, name, self._limits
        )
        return self._topologies[name]

    def remove(self, name: str) -> None:
        """The vhost goes; all its contents have gone before."""
        del self._topologies[name]

    def __getitem__(self, name: str) -> Topology:
        return self._topologies[name]

    def __iter__(self) -> Iterator[Topology]:
        """Oldest first."""
        return iter(tuple(self._topologies.values()))

    def find(self, name: str) -> Topology | None:
        """The vhost, if there is one."""
        return self._topologies.get(name)

    def find_table(self, name: str) -> ExchangeTable | None:
        """The vhost's routing table, if there is such a vhost."""
        topology = self._topologies.get(name)
        return None if topology is None else topology.table

    def has(self, topology: Topology) -> bool:
        """Is this vhost still there, and not another of its name?"""
        return self._topologies.get(topology.vhost) is topology

    def table_of(self, queue: QueueDefinition) -> ExchangeTable | None:
        """The routing table that leads to the queue; None if the queue is no more."""
        topology = self._topologies.get(queue.vhost)
        if topology is None or topology.table.find_queue(queue.name) is not queue:
            return None
        return topology.table

    def queues(self) -> Iterator[QueueDefinition]:
        """All queues of all vhosts."""
        for topology in self:
            yield from topology.table.queues()
