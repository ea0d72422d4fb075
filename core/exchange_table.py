"""The routing table of one vhost: its exchanges, its queues, and what is bound to what.

Channels read it directly to route; only Topology changes it, one whole plan at a time. `version`
goes up with every plan that changes something, so that a channel can keep the routes it has
looked up until then.

The default exchange, whose name is "", is no object: it routes to the queue of the key's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, cast

from ..amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND
from ..amqp_frames.errors import SoftError
from ..amqp_frames.field_table import Table
from .definitions import (
    TO_EXCHANGE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    BindingIdentity,
    Change,
    Destination,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
    resource,
)
from .exchange import Exchange
from .exchange_direct import DirectExchange
from .exchange_fanout import FanoutExchange
from .exchange_headers import HeadersExchange
from .exchange_topic import TopicExchange
from .exchange_walk import leads_to_headers, walk

BUILT_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
}
# RabbitMQ's own; the types of its plugins are unknown to it too, unless they are enabled.
UNBUILT_TYPES: Final = frozenset({"x-local-random", "x-modulus-hash"})

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
        self._bindings_by_destination: dict[
            Destination, dict[BindingIdentity, BindingDefinition]
        ] = {}
        self._queues_by_owner: dict[object, dict[QueueDefinition, None]] = {}
        # What was found out about exchanges that are not plain, until the next change.
        self._reads_headers: dict[str, bool] = {}
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
        if exchange.is_plain:
            # Without bindings to exchanges, its destinations are all queues.
            return cast("tuple[QueueDefinition, ...]", exchange.route(routing_key))
        return walk(self, exchange, (routing_key,), {})

    def route_message(
        self, exchange_name: str, routing_keys: Sequence[str], headers: Table
    ) -> tuple[QueueDefinition, ...]:
        """The queues for one message with all that it is routed by; 404 as `route`.

        Internal exchanges are not refused: that is a matter of who publishes.
        """
        if exchange_name:
            return walk(self, self.exchange(exchange_name), routing_keys, headers)
        queues = map(self._queues.get, dict.fromkeys(routing_keys))
        return tuple(queue for queue in queues if queue is not None)

    def reads_headers(self, exchange_name: str) -> bool:
        """Whether headers may decide where a message to this exchange goes, or only its key."""
        if not exchange_name:
            return False
        exchange = self.exchange(exchange_name)
        if exchange.is_plain:
            return False
        found = self._reads_headers.get(exchange_name)
        if found is None:
            found = self._reads_headers[exchange_name] = leads_to_headers(self, exchange)
        return found

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

    def bindings_to(self, destination: Destination) -> Collection[BindingDefinition]:
        """The bindings that lead to a queue or an exchange, oldest first.

        Without the default exchange's.
        """
        return self._bindings_by_destination[destination].values()

    def not_found(self, kind: str, name: str) -> SoftError:
        """404 for an exchange or a queue."""
        return SoftError(NOT_FOUND, f"no {resource(kind, name, self.vhost)}")

    def forget_routes(self) -> None:
        """Have channels look up their routes anew: what their users may do has changed."""
        self.version += 1

    # --- Changes.

    def apply(self, changes: Iterable[Change]) -> None:
        """Make the changes, each of which must be possible, in their order."""
        self.version += 1
        self._reads_headers.clear()
        for change in changes:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        match change:
            case AddBinding(binding):
                destination = self._destination(binding)
                self._exchanges[binding.source].bind(binding, destination)
                self._bindings_by_destination[destination][binding.identity] = binding
            case RemoveBinding(binding):
                destination = self._destination(binding)
                self._exchanges[binding.source].unbind(binding, destination)
                del self._bindings_by_destination[destination][binding.identity]
            case AddQueue(queue):
                self._add_queue(queue)
            case RemoveQueue(queue):
                self._remove_queue(queue)
            case AddExchange(exchange):
                self._add_exchange(exchange)
            case RemoveExchange(exchange):
                assert not self._exchanges[exchange.name].bindings, exchange
                assert not self._bindings_by_destination[exchange], exchange
                del self._exchanges[exchange.name]
                del self._bindings_by_destination[exchange]

    def _destination(self, binding: BindingDefinition) -> Destination:
        if binding.destination_kind == TO_EXCHANGE:
            return self._exchanges[binding.destination].definition
        return self._queues[binding.destination]

    def _add_exchange(self, definition: ExchangeDefinition) -> None:
        assert definition.name not in self._exchanges, definition
        self._exchanges[definition.name] = BUILT_TYPES[definition.type_name](definition)
        self._bindings_by_destination[definition] = {}

    def _add_queue(self, queue: QueueDefinition) -> None:
        assert queue.name not in self._queues, queue
        self._queues[queue.name] = queue
        self._bindings_by_destination[queue] = {}
        if queue.exclusive:
            self._queues_by_owner.setdefault(queue.owner, {})[queue] = None

    def _remove_queue(self, queue: QueueDefinition) -> None:
        assert self._queues[queue.name] is queue, queue
        assert not self._bindings_by_destination[queue], queue
        del self._queues[queue.name]
        del self._bindings_by_destination[queue]
        if queue.exclusive:
            owned = self._queues_by_owner[queue.owner]
            del owned[queue]
            if not owned:
                del self._queues_by_owner[queue.owner]
