"""The routing table of one vhost: its exchanges, its queues, and what is bound to what.

Channels read it directly to route; only Topology changes it, one whole plan at a time. `version`
goes up with every plan that changes something, so that a channel can keep the routes it has
looked up until then.

The default exchange, whose name is "", is no object: it routes to the queue of the key's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ..amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND
from ..amqp_frames.errors import SoftError
from .definitions import (
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    BindingIdentity,
    Change,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
    resource,
)
from .exchange import Exchange, UnbuiltExchange
from .exchange_direct import DirectExchange
from .exchange_fanout import FanoutExchange
from .exchange_topic import TopicExchange

BUILT_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
}
# RabbitMQ's own; the types of its plugins are unknown to it too, unless they are enabled.
UNBUILT_TYPES: Final = frozenset({"headers", "x-local-random", "x-modulus-hash"})

PREDECLARED: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)


class ExchangeTable:
    """Names to exchanges and queues, and the bindings between them from either end."""

    def __init__(self, vhost: str = "/") -> None:
        self.vhost = vhost
        self.version = 0
        self._exchanges: dict[str, Exchange] = {}
        self._queues: dict[str, QueueDefinition] = {}
        self._bindings_by_queue: dict[
            QueueDefinition, dict[BindingIdentity, BindingDefinition]
        ] = {}
        self._queues_by_owner: dict[object, dict[QueueDefinition, None]] = {}
        for name, type_name in PREDECLARED:
            self._add_exchange(ExchangeDefinition(name, type_name, durable=True, vhost=vhost))

    # --- For channels.

    def route(self, exchange_name: str, routing_key: str) -> tuple[QueueDefinition, ...]:
        """The queues for one message, each once, in an order that is stable between changes.

        Raises 404 if there is no such exchange and 403 if it is internal, whatever the key: an
        empty tuple means unroutable.
        """
        if not exchange_name:
            queue = self._queues.get(routing_key)
            return () if queue is None else (queue,)
        exchange = self.exchange(exchange_name)
        if exchange.definition.internal:
            raise SoftError(ACCESS_REFUSED, f"cannot publish to internal {exchange.definition}")
        return exchange.route(routing_key)

    # --- For Topology.

    def exchange(self, name: str) -> Exchange:
        """The exchange, or 404."""
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise self.not_found("exchange", name)
        return exchange

    def find_exchange(self, name: str) -> Exchange | None:
        """The exchange, if there is one."""
        return self._exchanges.get(name)

    def find_queue(self, name: str) -> QueueDefinition | None:
        """The queue, if there is one."""
        return self._queues.get(name)

    def queues(self) -> Collection[QueueDefinition]:
        """All queues, oldest first."""
        return self._queues.values()

    def exchanges(self) -> Collection[Exchange]:
        """All exchanges but the default one."""
        return self._exchanges.values()

    def queues_of(self, owner: object) -> tuple[QueueDefinition, ...]:
        """The exclusive queues of a connection, oldest first."""
        return tuple(self._queues_by_owner.get(owner, ()))

    def bindings_to(self, queue: QueueDefinition) -> Collection[BindingDefinition]:
        """The bindings that lead to a queue, oldest first, without the default exchange's."""
        return self._bindings_by_queue[queue].values()

    def not_found(self, kind: str, name: str) -> SoftError:
        """404 for an exchange or a queue."""
        return SoftError(NOT_FOUND, f"no {resource(kind, name, self.vhost)}")

    # --- Changes.

    def apply(self, changes: Iterable[Change]) -> None:
        """Make the changes, each of which must be possible, in their order."""
        self.version += 1
        for change in changes:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        match change:
            case AddBinding(binding):
                queue = self._queues[binding.queue]
                self._exchanges[binding.source].bind(binding, queue)
                self._bindings_by_queue[queue][binding.identity] = binding
            case RemoveBinding(binding):
                queue = self._queues[binding.queue]
                self._exchanges[binding.source].unbind(binding, queue)
                del self._bindings_by_queue[queue][binding.identity]
            case AddQueue(queue):
                self._add_queue(queue)
            case RemoveQueue(queue):
                self._remove_queue(queue)
            case AddExchange(exchange):
                self._add_exchange(exchange)
            case RemoveExchange(exchange):
                assert not self._exchanges[exchange.name].bindings, exchange
                del self._exchanges[exchange.name]

    def _add_exchange(self, definition: ExchangeDefinition) -> None:
        assert definition.name not in self._exchanges, definition
        exchange_type = BUILT_TYPES.get(definition.type_name, UnbuiltExchange)
        self._exchanges[definition.name] = exchange_type(definition)

    def _add_queue(self, queue: QueueDefinition) -> None:
        assert queue.name not in self._queues, queue
        self._queues[queue.name] = queue
        self._bindings_by_queue[queue] = {}
        if queue.exclusive:
            self._queues_by_owner.setdefault(queue.owner, {})[queue] = None

    def _remove_queue(self, queue: QueueDefinition) -> None:
        assert self._queues[queue.name] is queue, queue
        assert not self._bindings_by_queue[queue], queue
        del self._queues[queue.name]
        del self._bindings_by_queue[queue]
        if queue.exclusive:
            owned = self._queues_by_owner[queue.owner]
            del owned[queue]
            if not owned:
                del self._queues_by_owner[queue.owner]
