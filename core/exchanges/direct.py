"""Direct exchanges: a message goes wherever a binding has exactly its routing key."""

from __future__ import annotations

from ..definitions import BindingDefinition, Destination, ExchangeDefinition
from .exchange import Destinations, Exchange


class DirectExchange(Exchange):
    """One dict look-up per route."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._destinations_by_key: dict[str, Destinations] = {}

    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """The destinations bound with this key."""
        destinations = self._destinations_by_key.get(routing_key)
        return () if destinations is None else destinations.in_order()

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:
        self._destinations_by_key.setdefault(binding.routing_key, Destinations()).add(destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:
        destinations = self._destinations_by_key[binding.routing_key]
        destinations.remove(destination)
        if not destinations:
            del self._destinations_by_key[binding.routing_key]
