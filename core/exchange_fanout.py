"""Fanout exchanges: a message goes to every queue that is bound, whatever the keys are."""

from __future__ import annotations

from .definitions import ExchangeDefinition, QueueDefinition
from .destinations import Destinations
from .exchange import Exchange


class FanoutExchange(Exchange):
    """One set of queues, counted by their bindings under all keys."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._destinations = Destinations()

    def route(self, routing_key: str) -> tuple[QueueDefinition, ...]:  # noqa: ARG002
        """All bound queues."""
        return self._destinations.queues()

    def _add_route(self, routing_key: str, queue: QueueDefinition) -> None:  # noqa: ARG002
        self._destinations.add(queue)

    def _remove_route(self, routing_key: str, queue: QueueDefinition) -> None:  # noqa: ARG002
        self._destinations.remove(queue)
