"""Direct exchanges: a message goes to the queues bound with exactly its routing key."""

from __future__ import annotations

from .definitions import ExchangeDefinition, QueueDefinition
from .destinations import Destinations
from .exchange import Exchange


class DirectExchange(Exchange):
    """One dict look-up per route."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._destinations_by_key: dict[str, Destinations] = {}

    def route(self, routing_key: str) -> tuple[QueueDefinition, ...]:
        """The queues bound with this key."""
        destinations = self._destinations_by_key.get(routing_key)
        return () if destinations is None else destinations.queues()

    def _add_route(self, routing_key: str, queue: QueueDefinition) -> None:
        self._destinations_by_key.setdefault(routing_key, Destinations()).add(queue)

    def _remove_route(self, routing_key: str, queue: QueueDefinition) -> None:
        destinations = self._destinations_by_key[routing_key]
        destinations.remove(queue)
        if not destinations:
            del self._destinations_by_key[routing_key]
