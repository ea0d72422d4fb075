"""Where publishes lead: the routes of keys, and of messages that have their own.

A key (exchange, routing key and bits, as in a batch) has one route, which is kept until the
topology or what its user may do changes: most publishers use few keys. Where properties decide, a
route belongs to one message; those of one batch with the same properties share it. Where chance
decides, they do not.

Routes are kept for all connections of a user to a vhost together (vhost_users.py), since they are
the same for all of them, and for no longer than there is one. Publishers choose their keys, so
`RouteMemory` bounds the kept routes for the node. `divide` divides the messages of a batch among
the queues that get them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from ...amqp_frames.constants import NOT_IMPLEMENTED
from ...amqp_frames.errors import AmqpError, HardError
from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.indexes import rows_of, split
from ...amqp_frames.messages.publishes import IMMEDIATE
from ...amqp_frames.properties import Properties, decode_properties
from ..definitions import DELIVERY_EXCHANGE, QueueDefinition
from ..exchanges.exchange import Steps
from ..exchanges.table import NO_PROPERTIES, ExchangeTable, Ways
from .delivery_commands import command_key_fault
from .properties import PUBLISH
from .reply_consumers import reply_names


def divide(
    keys: Sequence[int], routes: Sequence[Sequence[QueueDefinition]], count: int
) -> tuple[dict[QueueDefinition, Indexes], Sequence[int]]:
    """Each queue's indexes, and those that no queue gets.

    Message k of the first `count` goes to the queues `routes[keys[k]]`.
    """
    everything = range(count)
    if not count:
        return {}, everything
    # Keys that lead to the same queues share a row.
    numbers: dict[Sequence[QueueDefinition], int] = {}
    row_of_key = [numbers.setdefault(queues, len(numbers)) for queues in routes]
    if len(numbers) == 1:
        queues = routes[0]
        return dict.fromkeys(queues, everything), () if queues else everything
    rows_by_queue: dict[QueueDefinition, list[array[int]]] = {}
    unrouted: Sequence[int] = ()
    for queues, row in zip(numbers, rows_of(keys, row_of_key, len(numbers), count), strict=True):
        if row:
            if not queues:
                unrouted = row
            for queue in queues:
                rows_by_queue.setdefault(queue, []).append(row)
    by_queue: dict[QueueDefinition, Indexes] = {}
    for queue, rows in rows_by_queue.items():
        if len(rows) == 1:
            by_queue[queue] = everything if len(rows[0]) == count else rows[0]
        elif sum(map(len, rows)) == count:
            by_queue[queue] = everything
        else:
            by_queue[queue] = array("I", sorted(chain.from_iterable(rows)))
    return by_queue, unrouted


def durable_indexes(
    batch: Batch, by_queue: dict[QueueDefinition, Indexes], told_count: int
) -> Indexes | None:
    """The persistent messages that reach a durable queue; None if these are all.

    `told_count` messages reach any queue.
    """
    persistent = batch.persistent
    if 1 not in persistent:
        return range(0)
    reached = [indexes for queue, indexes in by_queue.items() if queue.durable]
    if not reached:
        return range(0)
    are_all_persistent = 0 not in persistent
    are_all_told = told_count == len(batch.starts)
    if are_all_persistent and are_all_told and len(reached) == len(by_queue):
        return None
    if len(reached) == 1 or any(len(indexes) == told_count for indexes in reached):
        indexes = max(reached, key=len)
    else:
        indexes = array("I", sorted(set(chain.from_iterable(reached))))
    if are_all_persistent and len(indexes) == len(batch.starts):
        return None
    flagged, _, _ = split(indexes, persistent, 0)
    return flagged


_MANDATORY = 1
# What a route takes up beside its key and 8 bytes for each of its queues.
ROUTE_BYTES: Final = 400
ROUTES_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024


class Route(NamedTuple):
    """Where one key, or one message, leads, or why it cannot be published to.

    With `by_message` the key alone does not say: each message has a route of its own, which with
    `is_random` may be another one for the same message. `further` are routing keys beside the
    key's.
    """

    queues: tuple[QueueDefinition, ...]
    mandatory: bool
    error: AmqpError | None
    by_message: bool = False
    is_random: bool = False
    further: Sequence[str] = ()
    # Names of reply consumers; they are no queues.
    replies: tuple[str, ...] = ()
    # May a message with this key be delayed? Those of the queues that are to defer it, if it has a
    # delay: it reaches them through an exchange that delays, and in no other way.
    may_delay: bool = False
    delayed: tuple[QueueDefinition, ...] = ()


class RouteMemory:
    """The memory that all kept routes of a node use together."""

    def __init__(self, bytes_max: int = ROUTES_KEPT_BYTES_MAX) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._keepers: dict[Routes, None] = {}

    def reserve(self, keeper: Routes, byte_count: int) -> None:
        """So much more is kept; past the limit whoever keeps most forgets all of it."""
        self._keepers[keeper] = None
        self.used_bytes += byte_count
        while self.used_bytes > self._bytes_max:
            max(self._keepers, key=_kept_bytes).forget()

    def release(self, keeper: Routes, byte_count: int) -> None:
        """The keeper has forgotten all that it kept."""
        self.used_bytes -= byte_count
        self._keepers.pop(keeper, None)


class Routes:
    """The routes of one user in one vhost.

    `check_write` raises 403 if he may not write to an exchange, `check_topic` if not with a key.
    """

    def __init__(
        self,
        table: ExchangeTable,
        check_write: Callable[[str], None],
        memory: RouteMemory,
        check_topic: Callable[[str, str], None] | None = None,
    ) -> None:
        self.vhost = table.vhost
        self._table = table
        self._check_write = check_write
        self._check_topic = check_topic
        self._memory = memory
        self._kept: dict[bytes, Route] = {}
        self.kept_bytes = 0
        self._version = -1
        self._is_closed = False
        # Whether any route ever went by messages; most users never meet one. It stays so when the
        # topology changes, because a batch may be in the midst of its routing then.
        self.has_by_message = False
        # Whether any route ever led to a reply consumer; most users never answer one.
        self.has_replies = False
        # Whether any key was that of a command about deliveries; most users never give one.
        self.has_commands = False
        # Whether any route ever led to an exchange that delays; most users never meet one.
        self.has_delays = False

    def forget(self) -> None:
        """Keep none of them; they are looked up anew."""
        self._kept.clear()
        self._memory.release(self, self.kept_bytes)
        self.kept_bytes = 0

    def close(self) -> None:
        """The last connection has gone: keep nothing from now on."""
        self._is_closed = True
        self.forget()

    def faults_of(self, batch: Batch) -> list[AmqpError | None]:
        """Why the batch's distinct keys cannot be published to, without a look where they lead."""
        return [self._fault_of(key) for key in batch.distinct]

    def of_keys(self, batch: Batch) -> Steps[list[Route]]:
        """The routes of the batch's distinct keys.

        Kept routes take no step. What changes between steps, changes for the rest: as if
        they had been published a little later.
        """
        routes: list[Route] = []
        for key in batch.distinct:
            # Each time: between two steps there may have been a change.
            if self._version != self._table.version:
                self.forget()
                self._version = self._table.version
            route = self._kept.get(key)
            if route is None:
                route = yield from self._look_up(key)
                self._keep(key, route)
            routes.append(route)
        return routes

    def known(self, batch: Batch) -> list[Route] | None:
        """The routes of the batch's distinct keys, if all are kept and the keys alone decide."""
        if (
            self._version != self._table.version
            or self.has_by_message
            or self.has_delays
            or self.has_commands
        ):
            return None
        kept = self._kept
        routes: list[Route] = []
        for key in batch.distinct:
            route = kept.get(key)
            if route is None:
                return None
            routes.append(route)
        return routes

    def known_alone(self, distinct: Sequence[bytes]) -> Route | None:
        """As `known`, of a batch with one distinct key."""
        if (
            len(distinct) != 1
            or self._version != self._table.version
            or self.has_by_message
            or self.has_delays
            or self.has_commands
        ):
            return None
        return self._kept.get(distinct[0])

    def with_keys(self, key: bytes, route: Route, further: Sequence[str]) -> Steps[Route]:
        """The route of a message that has these routing keys, too; each queue gets it once."""
        exchange, routing_key = names_of_key(key)
        keys = (routing_key, *further)
        replies = self._replies(exchange, keys)
        route = route._replace(further=further, replies=replies)
        if route.by_message:
            # `by_message` routes it.
            return route
        queues, delayed = yield from self._routed(exchange, keys, NO_PROPERTIES)
        return route._replace(queues=queues, delayed=delayed)

    def by_message(
        self, batch: Batch, routes: list[Route], numbers: Sequence[int], count: int
    ) -> Steps[Sequence[int]]:
        """Let properties and chance have their say on the messages before `count`.

        `numbers` has each message's route; the same is returned, unless some have routes of their
        own, which are added to `routes`.
        """
        if not any(route.by_message for route in routes):
            return numbers
        own = array("I", numbers)
        known: dict[tuple[int, bytes], int] = {}
        for index, number in enumerate(numbers[:count]):
            route = routes[number]
            if route.by_message:
                properties = property_octets(batch, index)
                same = number, properties
                if route.is_random or same not in known:
                    known[same] = len(routes)
                    key = batch.distinct[batch.keys[index]]
                    routes.append((yield from self._of_message(key, route, properties)))
                own[index] = known[same]
        return own

    def _keep(self, key: bytes, route: Route) -> None:
        self.has_by_message = self.has_by_message or route.by_message
        self.has_delays = self.has_delays or route.may_delay
        # After a mistake its channel is closed, so there is nobody to ask again. A result from
        # before a change may be wrong by now, or another channel was faster.
        is_late = self._version != self._table.version or key in self._kept
        if route.error is None and not self._is_closed and not is_late:
            self._kept[key] = route
            byte_count = ROUTE_BYTES + len(key) + 8 * len(route.queues)
            self.kept_bytes += byte_count
            self._memory.reserve(self, byte_count)

    def _fault_of(self, key: bytes) -> AmqpError | None:
        if key[-1] & IMMEDIATE:
            return immediate_refused()
        exchange, routing_key = names_of_key(key)
        try:
            self._check_write(exchange)
            self._table.check_publish(exchange)
            if self._check_topic is not None:
                self._check_topic(exchange, routing_key)
        except AmqpError as error:
            error.class_id, error.method_id = PUBLISH
            # The frames of its traceback refer to the whole batch.
            return error.with_traceback(None)
        if exchange == DELIVERY_EXCHANGE:
            self.has_commands = True
            return command_key_fault(routing_key, self.vhost)
        return None

    def _look_up(self, key: bytes) -> Steps[Route]:
        fault = self._fault_of(key)
        if fault is not None:
            return Route((), False, fault)
        exchange, routing_key = names_of_key(key)
        replies = self._replies(exchange, (routing_key,))
        # A command goes to no queue, and is not returned for that.
        mandatory = bool(key[-1] & _MANDATORY) and exchange != DELIVERY_EXCHANGE
        may_delay = self._table.delays(exchange)
        by_message = self._table.routes_each_message(exchange)
        is_random = by_message and self._table.is_random(exchange)
        route = Route((), mandatory, None, by_message, is_random, (), replies, may_delay)
        if by_message:
            return route
        if may_delay:
            queues, delayed = yield from self._routed(exchange, (routing_key,), NO_PROPERTIES)
            return route._replace(queues=queues, delayed=delayed)
        return route._replace(queues=(yield from self._table.route(exchange, routing_key)))

    def may_delay(self, batch: Batch) -> list[bool] | None:
        """Which of the batch's distinct keys may lead to an exchange that delays; None: none."""
        if not self._table.delayed_count:
            return None
        return [self._table.delays(names_of_key(key)[0]) for key in batch.distinct]

    def _routed(
        self, exchange: str, keys: Sequence[str], properties: Properties
    ) -> Steps[tuple[tuple[QueueDefinition, ...], tuple[QueueDefinition, ...]]]:
        """The message's queues, and those that it reaches through exchanges that delay only."""
        ways: Ways = {}
        queues = yield from self._table.route_message(exchange, keys, properties, ways)
        if not self._table.delays(exchange):
            return queues, ()
        at_once = yield from self._table.route_at_once(exchange, keys, properties, ways)
        return queues, tuple(queue for queue in queues if queue not in at_once)

    def _replies(self, exchange: str, routing_keys: Sequence[str]) -> tuple[str, ...]:
        replies = reply_names(exchange, routing_keys)
        self.has_replies = self.has_replies or bool(replies)
        return replies

    def _of_message(self, key: bytes, route: Route, properties: bytes) -> Steps[Route]:
        exchange, routing_key = names_of_key(key)
        keys = (routing_key, *route.further)
        decoded = decode_properties(properties, 0, len(properties))
        queues, delayed = yield from self._routed(exchange, keys, decoded)
        return route._replace(queues=queues, by_message=False, delayed=delayed)


def _kept_bytes(routes: Routes) -> int:
    return routes.kept_bytes


def property_octets(batch: Batch, index: int) -> bytes:
    """A message's property flags and values."""
    header = batch.headers[index]
    size = int.from_bytes(batch.wire[header + 3 : header + 7], "big")
    return batch.wire[header + 19 : header + 7 + size]


def immediate_refused() -> HardError:
    """The refusal of a publish that asks for `immediate`, as RabbitMQ has it."""
    return HardError(NOT_IMPLEMENTED, "immediate=true", *PUBLISH)


def names_of_key(key: bytes) -> tuple[str, str]:
    """The exchange and the routing key of a batch's key."""
    exchange_end = 1 + key[0]
    exchange = key[1:exchange_end].decode("utf-8", "surrogateescape")
    return exchange, key[exchange_end + 1 : -1].decode("utf-8", "surrogateescape")
