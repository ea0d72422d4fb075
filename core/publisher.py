"""A channel's publishing side: numbers, routes, returns and what is owed for each publish.

One batch at a time: its distinct keys are routed once each, its indexes divided among the queues,
and the channel's actor tells every queue once. What the queues answer comes back through
`unconfirmed`, and `answers` makes the frames that the publisher gets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..amqp_frames.batch import TTL_NONE, Batch, Indexes
from ..amqp_frames.deliveries import BASIC_ACK, BASIC_NACK, encode_answers
from ..amqp_frames.errors import AmqpError
from ..amqp_frames.rewritten import with_properties
from .coalescing import coalesce
from .definitions import QueueDefinition
from .division import divide, durable_indexes
from .exchange_table import ExchangeTable
from .publish_properties import PublishProperties
from .returns import encode_returned
from .routes import Route, Routes, property_octets
from .unconfirmed import Unconfirmed


class Routed(NamedTuple):
    """What to do with a batch: write `frames`, tell each queue its indexes, then fail if `error`.

    Messages from the first error on are not published: `message_count` are before it. What queues
    are told are indexes into `batch`: the batch that was routed, or a copy in which properties that
    must not stay are gone.
    """

    batch: Batch
    message_count: int
    first_seq_no: int
    told: dict[QueueDefinition, Indexes]
    frames: bytes
    error: AmqpError | None
    # Names of reply consumers and the indexes that are theirs, at most once.
    replies: Mapping[str, Indexes]


class Held(NamedTuple):
    """A batch of a transaction: checked, and routed when it is committed.

    `further` has the routing keys that messages have beside their own.
    """

    batch: Batch
    further: Mapping[int, Sequence[str]]


class Publisher:
    """Publishes of one channel. `next_batch_number` numbers batches broker-wide."""

    def __init__(
        self,
        table: ExchangeTable,
        next_batch_number: Callable[[], int],
        channel_number: int,
        frame_max_bytes: int,
        user: str,
        tags_returns: bool,
        check_write: Callable[[str], None],
        may_impersonate: Callable[[], bool],
    ) -> None:
        self.unconfirmed = Unconfirmed()
        self.confirm_mode = False
        # In tx mode: numbered as in confirm mode, but the answer is the commit's.
        self.transactional = False
        # Starts at 1 at confirm.select; publishes before it use up no number.
        self._next_seq_no = 1
        self._next_batch_number = next_batch_number
        self._channel_number = channel_number
        self._frame_max_bytes = frame_max_bytes
        self._properties = PublishProperties(user, may_impersonate)
        self._tags_returns = tags_returns
        self._routes = Routes(table, check_write)

    def route(self, batch: Batch) -> Routed:
        """Number and route a batch, and note what its queues owe."""
        routes = self._routes.of_keys(batch)
        count, error = _sound_count(batch, routes)
        if batch.flagged:
            came = batch
            count, error, further, batch = self._look_into(batch, batch.flagged, count, error)
            # The window was told of the batch as it came, and is given back what queues get.
            self.unconfirmed.released_bytes += came.wire_bytes() - batch.wire_bytes()
            return self._route_sound(batch, routes, count, error, further)
        return self._route_sound(batch, routes, count, error, {})

    def hold(self, batch: Batch) -> Held:
        """Check a batch for a transaction; AmqpError if one of its messages is a mistake."""
        count, error = _sound_count(batch, self._routes.of_keys(batch))
        further: Mapping[int, Sequence[str]] = {}
        if batch.flagged:
            count, error, further, batch = self._look_into(batch, batch.flagged, count, error)
        if error is not None:
            raise error
        return Held(batch, further)

    def check_held(self, held: Held) -> None:
        """Raise if there is no way any more for what was held."""
        for route in self._routes.of_keys(held.batch):
            if route.error is not None:
                raise route.error

    def route_held(self, held: Held) -> Routed:
        """Route a batch of a transaction that is being committed."""
        batch = held.batch
        routes = self._routes.of_keys(batch)
        count, error = _sound_count(batch, routes)
        further = {index: keys for index, keys in held.further.items() if index < count}
        return self._route_sound(batch, routes, count, error, further)

    def _route_sound(
        self,
        batch: Batch,
        routes: list[Route],
        count: int,
        error: AmqpError | None,
        further: Mapping[int, Sequence[str]],
    ) -> Routed:
        """Route the first `count` messages; `further` has routing keys beside their own."""
        keys = self._with_further(batch, routes, further) if further else batch.keys
        keys = self._routes.by_headers(batch, routes, keys, count)
        batch.number = self._next_batch_number()
        first_seq_no = 0
        if self.confirm_mode or self.transactional:
            first_seq_no = self._next_seq_no
            self._next_seq_no += count
        told, unrouted = divide(keys, [route.queues for route in routes], count)
        batch.durable = durable_indexes(batch, told, count)
        frames = b""
        unconfirmed = self.unconfirmed
        if unrouted:
            mandatory = [index for index in unrouted if routes[keys[index]].mandatory]
            # Return before confirm: each return goes out with its own ack directly behind it,
            # and these numbers take no part in the coalescing of the others.
            frames = encode_returned(
                batch,
                mandatory,
                first_seq_no if self.confirm_mode else 0,
                self._channel_number,
                self._frame_max_bytes,
                self._tags_returns,
            )
            if self.confirm_mode and len(mandatory) < len(unrouted):
                dropped = [i for i in unrouted if not routes[keys[i]].mandatory]
                unconfirmed.confirm_unrouted(first_seq_no, dropped)
        unconfirmed.insert(batch, first_seq_no, told)
        numbered_from = first_seq_no if self.confirm_mode else 0
        replies = _divide_replies(keys, routes, count) if self._routes.has_replies else {}
        return Routed(batch, count, numbered_from, told, frames, error, replies)

    def set_reply_name(self, name: str) -> None:
        """The secret name of the channel's reply consumer; "" if it has none."""
        self._properties.set_reply_name(name)

    def answers(self) -> bytes:
        """The acks and nacks that can be sent now; acks before nacks, as in RabbitMQ."""
        if self.transactional:
            # tx.commit-ok, or its refusal, answers for all of them.
            return b""
        unconfirmed = self.unconfirmed
        confirmed, rejected = unconfirmed.confirmed, unconfirmed.rejected
        if not confirmed and not rejected:
            return b""
        smallest = unconfirmed.smallest()
        frames = b""
        if confirmed:
            cumulative, singles = coalesce(confirmed, rejected, smallest)
            frames = encode_answers(self._channel_number, BASIC_ACK, cumulative, singles)
        if rejected:
            cumulative, singles = coalesce(rejected, confirmed, smallest)
            frames += encode_answers(self._channel_number, BASIC_NACK, cumulative, singles)
        confirmed.clear()
        rejected.clear()
        return frames

    def _look_into(
        self, batch: Batch, flagged: Sequence[int], count: int, error: AmqpError | None
    ) -> tuple[int, AmqpError | None, Mapping[int, Sequence[str]], Batch]:
        """Look into the messages with properties that publishing depends on.

        Returns how many messages are sound and what is wrong with the next one; routing keys that
        messages have beside their own; and the batch, or a copy in which properties are rewritten.
        """
        further: dict[int, Sequence[str]] = {}
        rewritten: dict[int, bytes] = {}
        ttls_ms: array[int] | None = None
        for index in flagged:
            if index >= count:
                break
            looked = self._properties.look(property_octets(batch, index))
            if looked.error is not None:
                count, error = index, looked.error
                break
            if looked.routing_keys:
                further[index] = looked.routing_keys
            if looked.rewritten is not None:
                rewritten[index] = looked.rewritten
            if looked.ttl_ms is not None:
                if ttls_ms is None:
                    ttls_ms = array("Q", [TTL_NONE]) * len(batch)
                ttls_ms[index] = looked.ttl_ms
        if rewritten:
            batch = with_properties(batch, rewritten)
        batch.ttls_ms = ttls_ms
        return count, error, further, batch

    def _with_further(
        self, batch: Batch, routes: list[Route], further: Mapping[int, Sequence[str]]
    ) -> Sequence[int]:
        """Each message's number of route; those with further keys get routes added for them."""
        keys = list(batch.keys)
        numbers: dict[tuple[int, Sequence[str]], int] = {}
        for index, routing_keys in further.items():
            number = keys[index]
            same = number, routing_keys
            if same not in numbers:
                numbers[same] = len(routes)
                routes.append(
                    self._routes.with_keys(batch.distinct[number], routes[number], routing_keys)
                )
            keys[index] = numbers[same]
        return keys


def _divide_replies(
    keys: Sequence[int], routes: Sequence[Route], count: int
) -> Mapping[str, Indexes]:
    """Each reply consumer's indexes."""
    replies: dict[str, array[int]] = {}
    if any(route.replies for route in routes):
        for index, number in enumerate(keys[:count]):
            for name in routes[number].replies:
                replies.setdefault(name, array("I")).append(index)
    return replies


def _sound_count(batch: Batch, routes: Sequence[Route]) -> tuple[int, AmqpError | None]:
    """How many messages come before the first that has nowhere to go, and why that has not."""
    count = len(batch)
    error: AmqpError | None = None
    for number, route in enumerate(routes):
        if route.error is not None:
            first = batch.keys.index(number)
            if first < count:
                count, error = first, route.error
    return count, error
