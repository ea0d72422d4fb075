"""From exchange to exchange: the queues of a message whose first exchange is not the only one.

A message goes on through bindings between exchanges, and to the alternate exchange of each one on
the way whose bindings lead nowhere. Each exchange is visited once, so that cycles end, and each
queue gets the message once. An alternate exchange that does not exist takes nothing; the default
exchange takes nothing as an alternate, as its bindings are only implied. Facts from
rabbit_exchange:route1 and process_alternate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ..amqp_frames.field_table import Table
from .definitions import TO_EXCHANGE, ExchangeDefinition, QueueDefinition
from .exchange import Exchange


class Exchanges(Protocol):
    """Where exchanges are found by their names: the routing table."""

    def find_exchange(self, name: str) -> Exchange | None:
        """The exchange, if there is one."""


def walk(
    exchanges: Exchanges, first: Exchange, routing_keys: Sequence[str], headers: Table
) -> tuple[QueueDefinition, ...]:
    """The queues, each once, in an order that is stable between changes."""
    queues: dict[QueueDefinition, None] = {}
    visited = {first.definition.name}
    # Breadth first. It grows while it is walked through.
    to_visit = [first]
    for exchange in to_visit:
        destinations = exchange.route_message(routing_keys, headers)
        names: list[str] = []
        for destination in destinations:
            if isinstance(destination, ExchangeDefinition):
                names.append(destination.name)
            else:
                queues[destination] = None
        if not destinations and exchange.alternate is not None:
            names.append(exchange.alternate)
        for name in names:
            found = None if name in visited else exchanges.find_exchange(name)
            if found is not None:
                visited.add(name)
                to_visit.append(found)
    return tuple(queues)


def leads_to_headers(exchanges: Exchanges, first: Exchange) -> bool:
    """Whether some message to this exchange can come to one that looks into headers."""
    visited = {first.definition.name}
    to_visit = [first]
    for exchange in to_visit:
        if exchange.reads_headers:
            return True
        for name in _next_names(exchange):
            found = None if name in visited else exchanges.find_exchange(name)
            if found is not None:
                visited.add(name)
                to_visit.append(found)
    return False


def _next_names(exchange: Exchange) -> Iterator[str]:
    if exchange.alternate is not None:
        yield exchange.alternate
    if not exchange.is_plain:
        for binding in exchange.bindings.values():
            if binding.destination_kind == TO_EXCHANGE:
                yield binding.destination
