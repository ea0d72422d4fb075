"""Fanout exchanges: a message goes to all bound queues and exchanges, whatever the keys are."""

from __future__ import annotations

from ..definitions import BindingDefinition, Destination, ExchangeDefinition
from .exchange import Destinations, Exchange


class FanoutExchange(Exchange):
    """One set of destinations, counted by their bindings under all keys."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._destinations = Destinations()

    def route(self, routing_key: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """All destinations."""
        return self._destinations.in_order()

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.add(destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.remove(destination)
