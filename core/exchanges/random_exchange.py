"""Random exchanges: each message goes to one of the bound queues, by chance.

As RabbitMQ's plugin rabbitmq_random_exchange has them: routing keys and weights do not count, and a
queue that is bound twice is no likelier than others. The same message published again may go
elsewhere, so its route is not kept. Random octets come from outside, because core has no chance of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...amqp_frames.properties import Properties
from ..definitions import BindingDefinition, Destination, ExchangeDefinition
from .exchange import Destinations, Exchange, Steps

# Enough that the remainder of a division by a number of bindings favours none of them.
_RANDOM_BYTES: Final = 8


class RandomExchange(Exchange):
    """One set of destinations; `random_octets` returns so many random octets."""

    is_random = True

    def __init__(
        self, definition: ExchangeDefinition, random_octets: Callable[[int], bytes]
    ) -> None:
        super().__init__(definition, routes_each_message=True)
        self._random_octets = random_octets
        self._destinations = Destinations()

    def route(self, routing_key: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """One of the destinations, another one each time."""
        destinations = self._destinations.in_order()
        if len(destinations) < 2:
            return destinations
        number = int.from_bytes(self._random_octets(_RANDOM_BYTES), "big")
        return (destinations[number % len(destinations)],)

    def route_message(
        self,
        routing_keys: Sequence[str],
        properties: Properties,  # noqa: ARG002
    ) -> Steps[Sequence[Destination]]:
        """The same, once for all of the message's keys."""
        yield
        return self.route(routing_keys[0])

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.add(destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:  # noqa: ARG002
        self._destinations.remove(destination)
