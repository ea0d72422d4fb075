"""Where a channel's publishes lead: the routes of its keys, and of messages that have their own.

A key (exchange, routing key and bits, as in a batch) has one route, which is kept until the
topology or what its user may do changes: most publishers use few keys. Where headers decide, a
route belongs to one message; those of one batch with the same properties share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..amqp_frames.assembly import IMMEDIATE
from ..amqp_frames.batch import Batch
from ..amqp_frames.constants import NOT_IMPLEMENTED
from ..amqp_frames.errors import AmqpError, HardError
from ..amqp_frames.properties import decode_properties
from .definitions import QueueDefinition
from .exchange_table import ExchangeTable
from .publish_properties import PUBLISH
from .reply_consumers import reply_names

_MANDATORY = 1
# Routes kept between changes of the table; past this many they are looked up anew.
ROUTES_KEPT_MAX = 10_000


class Route(NamedTuple):
    """Where one key, or one message, leads, or why it cannot be published to.

    With `by_headers` the key alone does not say: each message has a route of its own. `further`
    are routing keys beside the key's.
    """

    queues: tuple[QueueDefinition, ...]
    mandatory: bool
    error: AmqpError | None
    by_headers: bool = False
    further: Sequence[str] = ()
    # Names of reply consumers; they are no queues.
    replies: tuple[str, ...] = ()


class Routes:
    """The routes of one channel. `check_write` raises 403 if its user may not write."""

    def __init__(self, table: ExchangeTable, check_write: Callable[[str], None]) -> None:
        self._table = table
        self._check_write = check_write
        self._kept: dict[bytes, Route] = {}
        self._version = -1
        # Whether any of those kept goes by headers; most channels never meet one.
        self._has_by_headers = False
        # Whether any route ever led to a reply consumer; most channels never answer one.
        self.has_replies = False

    def of_keys(self, batch: Batch) -> list[Route]:
        """The routes of the batch's distinct keys."""
        return [self._of_key(key) for key in batch.distinct]

    def with_keys(self, key: bytes, route: Route, further: Sequence[str]) -> Route:
        """The route of a message that has these routing keys, too; each queue gets it once."""
        exchange, routing_key = _names(key)
        keys = (routing_key, *further)
        queues = self._table.route_message(exchange, keys, {})
        return route._replace(queues=queues, further=further, replies=self._replies(exchange, keys))

    def by_headers(
        self, batch: Batch, routes: list[Route], numbers: Sequence[int], count: int
    ) -> Sequence[int]:
        """Let headers have their say on the messages before `count`.

        `numbers` has each message's route; the same is returned, unless some have routes of their
        own, which are added to `routes`.
        """
        if not self._has_by_headers or not any(route.by_headers for route in routes):
            return numbers
        own = array("I", numbers)
        known: dict[tuple[int, bytes], int] = {}
        for index, number in enumerate(numbers[:count]):
            route = routes[number]
            if route.by_headers:
                properties = property_octets(batch, index)
                same = number, properties
                if same not in known:
                    known[same] = len(routes)
                    key = batch.distinct[batch.keys[index]]
                    routes.append(self._of_message(key, route, properties))
                own[index] = known[same]
        return own

    def _of_key(self, key: bytes) -> Route:
        if self._version != self._table.version:
            self._kept.clear()
            self._version = self._table.version
            self._has_by_headers = False
        elif len(self._kept) > ROUTES_KEPT_MAX:
            self._kept.clear()
        route = self._kept.get(key)
        if route is None:
            route = self._kept[key] = self._look_up(key)
            self._has_by_headers = self._has_by_headers or route.by_headers
        return route

    def _look_up(self, key: bytes) -> Route:
        exchange, routing_key = _names(key)
        if key[-1] & IMMEDIATE:
            return Route((), False, immediate_refused())
        try:
            self._check_write(exchange)
            queues = self._table.route(exchange, routing_key)
        except AmqpError as error:
            error.class_id, error.method_id = PUBLISH
            return Route((), False, error)
        by_headers = self._table.reads_headers(exchange)
        replies = self._replies(exchange, (routing_key,))
        return Route(queues, bool(key[-1] & _MANDATORY), None, by_headers, replies=replies)

    def _replies(self, exchange: str, routing_keys: Sequence[str]) -> tuple[str, ...]:
        replies = reply_names(exchange, routing_keys)
        self.has_replies = self.has_replies or bool(replies)
        return replies

    def _of_message(self, key: bytes, route: Route, properties: bytes) -> Route:
        exchange, routing_key = _names(key)
        headers = decode_properties(properties, 0, len(properties)).headers or {}
        queues = self._table.route_message(exchange, (routing_key, *route.further), headers)
        return route._replace(queues=queues, by_headers=False)


def property_octets(batch: Batch, index: int) -> bytes:
    """A message's property flags and values."""
    header = batch.headers[index]
    size = int.from_bytes(batch.wire[header + 3 : header + 7], "big")
    return batch.wire[header + 19 : header + 7 + size]


def immediate_refused() -> HardError:
    """The refusal of a publish that asks for `immediate`, as RabbitMQ has it."""
    return HardError(NOT_IMPLEMENTED, "immediate=true", *PUBLISH)


def _names(key: bytes) -> tuple[str, str]:
    exchange_end = 1 + key[0]
    exchange = key[1:exchange_end].decode("utf-8", "surrogateescape")
    return exchange, key[exchange_end + 1 : -1].decode("utf-8", "surrogateescape")
