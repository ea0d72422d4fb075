"""The routing table of one vhost: its exchanges, its queues, and their bindings.

Channels read it directly to route; only Topology changes it, one whole plan at a time. `version`
goes up with every plan that changes something, so that a channel can keep the routes it has
looked up until then.

The default exchange, whose name is "", is no object: it routes to the queue of the key's name.

A message goes on through bindings between exchanges, and to the alternate exchange of each one on
the way whose bindings lead nowhere. Each exchange is visited once, so that cycles end, and each
queue gets the message once. An alternate exchange that does not exist takes nothing; the default
exchange takes nothing as an alternate, as its bindings are only implied. Facts from
rabbit_exchange:route1 and process_alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, cast

from ...amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND
from ...amqp_frames.errors import SoftError
from ...amqp_frames.properties import Properties
from ..definitions import (
    DEDUP_IDENTITIES_MAX,
    DEDUP_WINDOW_MAX,
    DELIVERY_EXCHANGE,
    FIREHOSE_EXCHANGE,
    TO_EXCHANGE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    BindingIdentity,
    Change,
    Destination,
    ExchangeDefinition,
    PauseQueue,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
    RenameQueue,
    ReplaceExchangeArguments,
    ReplaceQueueArguments,
    resource,
)
from .consistent_hash import ConsistentHashExchange
from .delayed import DELAYED_TYPE, routing_type
from .direct import DirectExchange
from .exchange import Exchange, Result, Steps
from .fanout import FanoutExchange
from .headers import HeadersExchange
from .random_exchange import RandomExchange
from .topic import TOPIC_COSTLY_WORDS_MAX, TopicExchange


class Exchanges(Protocol):
    """Where exchanges are found by their names: the routing table."""

    def find_exchange(self, name: str) -> Exchange | None:
        """The exchange, if there is one."""


# Where exchanges send one message.
Ways = dict[Exchange, Sequence[Destination]]
NO_PROPERTIES: Final = Properties()


def walk(
    exchanges: Exchanges,
    first: Exchange,
    routing_keys: Sequence[str],
    properties: Properties,
    ways: Ways,
    *,
    at_once: bool = False,
) -> Steps[tuple[QueueDefinition, ...]]:
    """The queues, each once, in an order that is stable between changes.

    With `at_once` without those that the message reaches only through exchanges that delay it.
    `ways` has where exchanges have sent the message already, and stays so: chance decides once.
    """
    queues: dict[QueueDefinition, None] = {}
    visited = {first.definition.name}
    # Breadth first. It grows while it is walked through.
    to_visit = [first]
    for exchange in to_visit:
        if at_once and exchange.delays:
            continue
        destinations = ways.get(exchange)
        if destinations is None:
            destinations = yield from exchange.route_message(routing_keys, properties)
            ways[exchange] = destinations
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


def within_reach(exchanges: Exchanges, first: Exchange) -> Iterator[Exchange]:
    """The exchanges to which some message to this one can come, itself first."""
    visited = {first.definition.name}
    to_visit = [first]
    for exchange in to_visit:
        yield exchange
        for name in _next_names(exchange):
            found = None if name in visited else exchanges.find_exchange(name)
            if found is not None:
                visited.add(name)
                to_visit.append(found)


def _next_names(exchange: Exchange) -> Iterator[str]:
    if exchange.alternate is not None:
        yield exchange.alternate
    if not exchange.is_plain:
        for binding in exchange.bindings.values():
            if binding.destination_kind == TO_EXCHANGE:
                yield binding.destination


def carry_out(steps: Steps[Result]) -> Result:
    """Do all of it at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result


BUILT_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-random": RandomExchange,
}
# RabbitMQ's own; the types of its plugins are unknown to it too, unless they are enabled.
UNBUILT_TYPES: Final = frozenset({"x-local-random", "x-modulus-hash"})

# All that can be declared.
TYPES: Final = frozenset({*BUILT_TYPES, DELAYED_TYPE})

PREDECLARED: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    # Nothing is bound to it: core/publishing/delivery_commands.py.
    (DELIVERY_EXCHANGE, "direct"),
    (FIREHOSE_EXCHANGE, "topic"),
)


class TopologyLimits(NamedTuple):
    """Settings of a node that bound what may be declared and bound: in each vhost, unless noted."""

    dedup_window_max: int = DEDUP_WINDOW_MAX
    topic_costly_words_max: int = TOPIC_COSTLY_WORDS_MAX
    # Of all vhosts together.
    dedup_identities_max: int = DEDUP_IDENTITIES_MAX


DEFAULT_LIMITS: Final = TopologyLimits()


def _routes_each_message(exchange: Exchange) -> bool:
    return exchange.routes_each_message


def _is_random(exchange: Exchange) -> bool:
    return exchange.is_random


def _delays(exchange: Exchange) -> bool:
    return exchange.delays


class ExchangeTable:
    """Names to exchanges and queues, and the bindings between them from either end."""

    def __init__(
        self,
        vhost: str = "/",
        limits: TopologyLimits = DEFAULT_LIMITS,
        random_octets: Callable[[int], bytes] = bytes,
    ) -> None:
        """`random_octets` returns so many octets, by which chance decides; zeros by default."""
        self.vhost = vhost
        self._random_octets = random_octets
        self.limits = limits
        self.version = 0
        self._exchanges: dict[str, Exchange] = {}
        self._queues: dict[str, QueueDefinition] = {}
        # By their names, too, but `find_queue` does not find them: core/nsq/topics.py.
        self._hidden_queues: dict[str, QueueDefinition] = {}
        self._bindings_by_destination: dict[
            Destination, dict[BindingIdentity, BindingDefinition]
        ] = {}
        self._queues_by_owner: dict[object, dict[QueueDefinition, None]] = {}
        # Cached facts about exchanges that are not plain, until the next change.
        self._routes_each_message: dict[str, bool] = {}
        self._is_random: dict[str, bool] = {}
        self._delays: dict[str, bool] = {}
        # How many of the exchanges delay messages; in most vhosts none.
        self.delayed_count = 0
        # How many identities its queues remember at most.
        self.dedup_identities = 0
        for name, type_name in PREDECLARED:
            # Only the broker publishes to the firehose.
            internal = name == FIREHOSE_EXCHANGE
            self._add_exchange(
                ExchangeDefinition(name, type_name, durable=True, internal=internal, vhost=vhost)
            )

    # --- For channels.

    def check_publish(self, exchange_name: str) -> None:
        """404 if there is no such exchange, 403 if it is internal: nobody may publish to it."""
        if exchange_name:
            exchange = self.exchange(exchange_name)
            if exchange.definition.internal:
                raise SoftError(ACCESS_REFUSED, f"cannot publish to internal {exchange.definition}")

    def route(self, exchange_name: str, routing_key: str) -> Steps[tuple[QueueDefinition, ...]]:
        """The queues for one message, each once, in an order that is stable between changes.

        Raises as `check_publish`, whatever the key: an empty tuple means unroutable.
        """
        self.check_publish(exchange_name)
        if not exchange_name:
            queue = self._queues.get(routing_key)
            return () if queue is None else (queue,)
        exchange = self.exchange(exchange_name)
        if exchange.is_plain:
            yield
            # Without bindings to exchanges, its destinations are all queues.
            return cast("tuple[QueueDefinition, ...]", exchange.route(routing_key))
        return (yield from walk(self, exchange, (routing_key,), NO_PROPERTIES, {}))

    def route_message(
        self,
        exchange_name: str,
        routing_keys: Sequence[str],
        properties: Properties,
        ways: Ways | None = None,
    ) -> Steps[tuple[QueueDefinition, ...]]:
        """The queues for one message with all that it is routed by; 404 as `route`.

        Internal exchanges are not refused: that is a matter of who publishes. `ways` is empty, and
        for `route_at_once` of the same message.
        """
        if exchange_name:
            exchange = self.exchange(exchange_name)
            ways = {} if ways is None else ways
            return (yield from walk(self, exchange, routing_keys, properties, ways))
        queues = map(self._queues.get, dict.fromkeys(routing_keys))
        return tuple(queue for queue in queues if queue is not None)

    def route_at_once(
        self,
        exchange_name: str,
        routing_keys: Sequence[str],
        properties: Properties,
        ways: Ways,
    ) -> Steps[tuple[QueueDefinition, ...]]:
        """Those of the queues of `route_message` that the message reaches without a delay."""
        exchange = self.exchange(exchange_name)
        return (yield from walk(self, exchange, routing_keys, properties, ways, at_once=True))

    def routes_each_message(self, exchange_name: str) -> bool:
        """Whether more than its key may decide where a message to this exchange goes."""
        return self._is_within_reach(exchange_name, self._routes_each_message, _routes_each_message)

    def is_random(self, exchange_name: str) -> bool:
        """Whether chance may decide where a message to this exchange goes."""
        return self._is_within_reach(exchange_name, self._is_random, _is_random)

    def delays(self, exchange_name: str) -> bool:
        """Whether a message to this exchange may be delayed on its way; 404 as `route`."""
        if not self.delayed_count:
            return False
        return self._is_within_reach(exchange_name, self._delays, _delays)

    def _is_within_reach(
        self, name: str, cached: dict[str, bool], is_one: Callable[[Exchange], bool]
    ) -> bool:
        if not name:
            return False
        exchange = self.exchange(name)
        if exchange.is_plain:
            return False
        found = cached.get(name)
        if found is None:
            found = cached[name] = any(map(is_one, within_reach(self, exchange)))
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
        """The queue, if there is one; a hidden one is not found."""
        return self._queues.get(name)

    def find_hidden_queue(self, name: str) -> QueueDefinition | None:
        """The hidden queue, if there is one."""
        return self._hidden_queues.get(name)

    def queues(self) -> Collection[QueueDefinition]:
        """All queues but hidden ones, oldest first."""
        return self._queues.values()

    def hidden_queues(self) -> Collection[QueueDefinition]:
        """The broker's own."""
        return self._hidden_queues.values()

    def has_queue(self, queue: QueueDefinition) -> bool:
        """Is it this queue that is there under its name, hidden or not?"""
        return self._by_name(queue).get(queue.name) is queue

    def _by_name(self, queue: QueueDefinition) -> dict[str, QueueDefinition]:
        return self._hidden_queues if queue.is_hidden else self._queues

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
        self._routes_each_message.clear()
        self._is_random.clear()
        self._delays.clear()
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
            case RenameQueue(queue, name):
                assert not self._bindings_by_destination[queue], queue
                del self._by_name(queue)[queue.name]
                queue.name = name
                by_name = self._by_name(queue)
                assert name not in by_name, name
                by_name[name] = queue
            case PauseQueue(queue, is_paused):
                queue.is_paused = is_paused
            case ReplaceQueueArguments(queue, arguments, policies):
                self.dedup_identities -= queue.dedup_window
                queue.put_in_effect(arguments, policies)
                self.dedup_identities += queue.dedup_window
            case ReplaceExchangeArguments(definition, arguments, policies):
                definition.policies = policies
                self._exchanges[definition.name].replace_arguments(arguments)
            case AddExchange(exchange):
                self._add_exchange(exchange)
            case RemoveExchange(exchange):
                assert not self._exchanges[exchange.name].bindings, exchange
                assert not self._bindings_by_destination[exchange], exchange
                self.delayed_count -= self._exchanges.pop(exchange.name).delays
                del self._bindings_by_destination[exchange]

    def _destination(self, binding: BindingDefinition) -> Destination:
        if binding.destination_kind == TO_EXCHANGE:
            return self._exchanges[binding.destination].definition
        queues = self._hidden_queues if binding.is_hidden else self._queues
        return queues[binding.destination]

    def _add_exchange(self, definition: ExchangeDefinition) -> None:
        assert definition.name not in self._exchanges, definition
        routes_as = routing_type(definition.type_name, definition.arguments)
        built = BUILT_TYPES[routes_as]
        if issubclass(built, RandomExchange):
            exchange: Exchange = built(definition, self._random_octets)
        else:
            exchange = built(definition)
        self._exchanges[definition.name] = exchange
        self.delayed_count += exchange.delays
        self._bindings_by_destination[definition] = {}

    def _add_queue(self, queue: QueueDefinition) -> None:
        by_name = self._by_name(queue)
        assert queue.name not in by_name, queue
        by_name[queue.name] = queue
        self.dedup_identities += queue.dedup_window
        self._bindings_by_destination[queue] = {}
        if queue.exclusive:
            self._queues_by_owner.setdefault(queue.owner, {})[queue] = None

    def _remove_queue(self, queue: QueueDefinition) -> None:
        assert self.has_queue(queue), queue
        assert not self._bindings_by_destination[queue], queue
        del self._by_name(queue)[queue.name]
        self.dedup_identities -= queue.dedup_window
        del self._bindings_by_destination[queue]
        if queue.exclusive:
            owned = self._queues_by_owner[queue.owner]
            del owned[queue]
            if not owned:
                del self._queues_by_owner[queue.owner]
