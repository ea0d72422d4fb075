"""Fanout exchanges: a message goes to all that is bound, whatever the keys are."""

from __future__ import annotations

from .definitions import BindingDefinition, Destination, ExchangeDefinition
from .destinations import Destinations
from .exchange import Exchange


class FanoutExchange(Exchange):
    """One set of destinations, counted by their bindings under all keys."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._destinations = Destinations()

    def route(self, routing_key: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """All that is bound."""
        return self._destinations.in_order()

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.add(destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.remove(destination)
