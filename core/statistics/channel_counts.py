"""Counts of one channel: publishes by exchange, deliveries and acks by queue.

The channel counts once a batch. It first adds counts of a kind up in small objects. `draining`
empties these into the totals of the channel, its vhost, the node, exchanges and queues. A count
that finds no such object tells the node that there is something to drain. What happens with each
small batch, the channel adds by itself: `run_count` and `delivered` are for that, because a call
costs as much as the count.

Nobody counts confirms as they are sent: their number is that of the numbered publishes, less the
open and the nacked ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..definitions import DELIVERY_EXCHANGE, QueueDefinition
from ..publishing.by_exchange import (
    count_by_exchange,
    exchange_name,
    exchange_of,
    single_exchange,
)
from ..publishing.publisher import Routed
from ..publishing.unconfirmed import Unconfirmed
from ..topology.topology import Topology
from .history import History
from .node_counts import NAMES_MIN, Counted, NodeCounts, Totals, add

_NO_KEY: Final = b""
_COMMANDS: Final = bytes([len(DELIVERY_EXCHANGE)]) + DELIVERY_EXCHANGE.encode()


class _Published:
    """To one exchange, since the last drain."""

    __slots__ = ("body_bytes", "by_queue", "count", "drop_unroutable", "return_unroutable")

    def __init__(self) -> None:
        self.count = 0
        # Of NSQ clients' publishes only: of others nobody asks for them.
        self.body_bytes = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.by_queue: dict[QueueDefinition, int] = {}


class DeliveredCounts:
    """From one queue, since the last drain."""

    __slots__ = (
        "ack",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_empty",
        "get_no_ack",
        "redeliver",
        "requeue",
        "time_out",
    )

    def __init__(self) -> None:
        self.ack = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_empty = 0
        self.get_no_ack = 0
        self.redeliver = 0
        self.requeue = 0
        self.time_out = 0


class ChannelCounts:
    """Of one channel. Totals are those of the last drain.

    The node counts it among its channels unless it `is_internal`.
    """

    __slots__ = (
        "_is_ended",
        "_is_internal",
        "_is_noted",
        "_names_max",
        "_node",
        "_published",
        "_topology",
        "_unconfirmed",
        "delivered",
        "exchanges",
        "history",
        "queues",
        "run_count",
        "run_key",
        "run_queue",
        "totals",
    )

    def __init__(self, node: NodeCounts, topology: Topology, is_internal: bool = False) -> None:
        self._is_internal = is_internal
        if not is_internal:
            node.churned("channel_created")
        self._node = node
        self._topology = topology
        self._is_noted = False
        self._is_ended = False
        self._published: dict[bytes, _Published] = {}
        # By queue; `begin_queue` adds one.
        self.delivered: dict[QueueDefinition, DeliveredCounts] = {}
        # Of publishes, one after another, with this key and to this queue: nearly all of them are.
        self.run_key = _NO_KEY
        self.run_queue: QueueDefinition | None = None
        self.run_count = 0
        # In confirm mode.
        self._unconfirmed: Unconfirmed | None = None
        self.totals: Totals = {}
        self.exchanges: dict[bytes, Counted] = {}
        self.queues: dict[QueueDefinition, Counted] = {}
        self.history: History | None = None
        self._names_max = NAMES_MIN

    @property
    def vhost(self) -> str:
        """Its vhost's name."""
        return self._topology.vhost

    # --- Counting

    def begin_run(self, key: bytes, queue: QueueDefinition, count: int) -> None:
        """All of a batch with one key went to one queue, which are not those of the run."""
        self._end_run()
        self._note()
        self.run_key, self.run_queue, self.run_count = key, queue, count

    def routed(self, routed: Routed) -> None:
        """A batch was divided among queues."""
        batch = routed.batch
        exchange = single_exchange(batch)
        if exchange is None:
            self._routed_from_several(routed)
            return
        published = self._published.get(exchange) or self._to(exchange)
        published.count += routed.message_count
        by_queue = published.by_queue
        for queue, indexes in routed.by_queue.items():
            by_queue[queue] = by_queue.get(queue, 0) + len(indexes)
        if routed.unrouted:
            dropped_count = len(routed.unrouted) - len(routed.returned)
            published.return_unroutable += len(routed.returned)
            if exchange != _COMMANDS:
                for replies in routed.replies.values():
                    dropped_count -= len(replies)
                published.drop_unroutable += max(dropped_count, 0)

    def came_in(self, key: bytes, body_bytes: int) -> None:
        """Messages of an NSQ client with this key are so large together."""
        exchange = exchange_of(key)
        published = self._published.get(exchange) or self._to(exchange)
        published.body_bytes += body_bytes

    def _routed_from_several(self, routed: Routed) -> None:
        batch = routed.batch
        for exchange, count in count_by_exchange(batch, range(routed.message_count)).items():
            self._to(exchange).count += count
        for queue, indexes in routed.by_queue.items():
            for exchange, count in count_by_exchange(batch, indexes).items():
                by_queue = self._to(exchange).by_queue
                by_queue[queue] = by_queue.get(queue, 0) + count
        replied: set[int] = set().union(*routed.replies.values())
        returned = set(routed.returned)
        dropped = [each for each in routed.unrouted if each not in returned | replied]
        for exchange, count in count_by_exchange(batch, routed.returned).items():
            self._to(exchange).return_unroutable += count
        for exchange, count in count_by_exchange(batch, dropped).items():
            if exchange != _COMMANDS:
                self._to(exchange).drop_unroutable += count

    def begin_queue(self, queue: QueueDefinition) -> DeliveredCounts:
        """The first from this queue since the last drain."""
        self._note()
        found = self.delivered[queue] = DeliveredCounts()
        return found

    def got(self, queue: QueueDefinition, is_redelivered: bool, no_ack: bool) -> None:
        """basic.get brought a message."""
        delivered = self.delivered.get(queue) or self.begin_queue(queue)
        if no_ack:
            delivered.get_no_ack += 1
        else:
            delivered.get += 1
        if is_redelivered:
            delivered.redeliver += 1

    def got_nothing(self, queue: QueueDefinition) -> None:
        """basic.get found the queue empty."""
        (self.delivered.get(queue) or self.begin_queue(queue)).get_empty += 1

    def requeued(self, queue: QueueDefinition, count: int) -> None:
        """The client has given messages back; of NSQ clients only."""
        (self.delivered.get(queue) or self.begin_queue(queue)).requeue += count

    def timed_out(self, queue: QueueDefinition, count: int) -> None:
        """The client has not answered in time; of NSQ clients only."""
        (self.delivered.get(queue) or self.begin_queue(queue)).time_out += count

    def confirm_mode(self, unconfirmed: Unconfirmed) -> None:
        """The channel numbers its publishes from now on; `unconfirmed` holds the open ones."""
        if self._unconfirmed is None:
            # These have no numbers.
            for _ in self._add_published():
                pass
            self._unconfirmed = unconfirmed

    def _to(self, exchange: bytes) -> _Published:
        found = self._published.get(exchange)
        if found is None:
            self._note()
            found = self._published[exchange] = _Published()
        return found

    def _end_run(self) -> None:
        if self.run_count:
            assert self.run_queue is not None
            published = self._to(exchange_of(self.run_key))
            published.count += self.run_count
            before = published.by_queue.get(self.run_queue, 0)
            published.by_queue[self.run_queue] = before + self.run_count
            self.run_count = 0

    def _note(self) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._node.note(self)

    # --- Adding up

    def end(self) -> None:
        """The channel ends: no confirm comes any more."""
        for _ in self.draining():
            pass
        self._is_ended = True
        self.history = None
        if not self._is_internal:
            self._node.churned("channel_closed")

    def has_more(self) -> bool:
        """Is there anything to drain, or may confirms come?"""
        return self._is_noted

    def draining(self) -> Iterator[None]:
        """Add new counts to the totals, in short steps."""
        self._node.touch(self, self._node.of_vhost(self._topology))
        yield from self._add_published()
        yield from self._add_delivered()
        awaits_confirms = False
        if self._unconfirmed is not None and not self._is_ended:
            awaits_confirms = self._add_confirms(self._unconfirmed)
        # Between two steps the channel may have counted more.
        has_new = bool(self.run_count or self._published or self.delivered)
        self._is_noted = awaits_confirms or has_new
        if len(self.exchanges) + len(self.queues) > self._names_max and not awaits_confirms:
            self._forget_gone()

    def _add_published(self) -> Iterator[None]:
        self._end_run()
        self.run_key, self.run_queue = _NO_KEY, None
        pending, self._published = self._published, {}
        # Between two steps the channel may begin to number its publishes: not these.
        numbers_them = self._unconfirmed is not None
        for exchange, published in pending.items():
            self._add(exchange, "publish", published.count)
            if numbers_them:
                self._add(exchange, "publish_numbered", published.count)
            self._add(exchange, "return_unroutable", published.return_unroutable)
            self._add(exchange, "drop_unroutable", published.drop_unroutable)
            name = exchange_name(exchange)
            of_exchange = self._node.of_exchange(self._topology, name)
            if of_exchange is not None:
                self._node.touch(of_exchange)
                add(of_exchange.totals, "publish_in", published.count)
                add(of_exchange.totals, "publish_in_bytes", published.body_bytes)
            for queue, count in published.by_queue.items():
                self._node.of_queue(queue).came(self._topology, name, count)
                self._node.touch(queue)
                if of_exchange is not None:
                    add(of_exchange.totals, "publish_out", count)
                yield

    def _add_delivered(self) -> Iterator[None]:
        pending, self.delivered = self.delivered, {}
        for queue, delivered in pending.items():
            own = self.queues.get(queue)
            if own is None:
                own = self.queues[queue] = Counted()
            of_queue = self._node.of_queue(queue)
            of_queue.changes += 1
            self._node.touch(queue)
            named = {name: getattr(delivered, name) for name in DeliveredCounts.__slots__}
            named["deliver_get"] = (
                delivered.deliver + delivered.deliver_no_ack + delivered.get + delivered.get_no_ack
            )
            for name, count in named.items():
                if count:
                    add(own.totals, name, count)
                    add(of_queue.totals, name, count)
                    self._add_all(name, count)
            yield

    def _add_confirms(self, unconfirmed: Unconfirmed) -> bool:
        """Whether some are still to come."""
        open_count = len(unconfirmed)
        nacked = unconfirmed.nacked
        open_by_exchange: Mapping[bytes, int] = {}
        if open_count and len(self.exchanges) > 1:
            open_by_exchange = unconfirmed.open_by_exchange()
        elif open_count:
            open_by_exchange = dict.fromkeys(self.exchanges, open_count)
        for exchange, counted in self.exchanges.items():
            totals = counted.totals
            answered = totals.get("publish_numbered", 0) - open_by_exchange.get(exchange, 0)
            count = answered - nacked.get(exchange, 0) - totals.get("confirm", 0)
            # Open ones may have come since their publishes were added: a counter never falls.
            self._add(exchange, "confirm", max(count, 0))
        return open_count > 0

    def _add(self, exchange: bytes, name: str, count: int) -> None:
        if count:
            counted = self.exchanges.get(exchange)
            if counted is None:
                counted = self.exchanges[exchange] = Counted()
            add(counted.totals, name, count)
            self._add_all(name, count)

    def _add_all(self, name: str, count: int) -> None:
        add(self.totals, name, count)
        add(self._node.totals, name, count)
        add(self._node.of_vhost(self._topology).totals, name, count)

    def _forget_gone(self) -> None:
        find = self._topology.table.find_exchange
        self.exchanges = {
            exchange: counted
            for exchange, counted in self.exchanges.items()
            if len(exchange) == 1 or find(exchange_name(exchange)) is not None
        }
        self.queues = {
            queue: counted for queue, counted in self.queues.items() if queue.rules is not None
        }
        nacked = {} if self._unconfirmed is None else self._unconfirmed.nacked
        for exchange in nacked.keys() - self.exchanges.keys():
            del nacked[exchange]
        self._names_max = NAMES_MIN + 2 * (len(self.exchanges) + len(self.queues))
