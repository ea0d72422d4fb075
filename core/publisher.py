"""A channel's publishing side: numbers, routes, returns and what is owed for each publish.

One batch at a time: its distinct keys are routed once each, its indexes divided among the queues,
and the channel's actor tells every queue once. What the queues answer comes back through
`unconfirmed`, and `answers` makes the frames that the publisher gets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.deliveries import BASIC_ACK, BASIC_NACK, encode_answers
from ..amqp_frames.errors import AmqpError
from ..amqp_frames.rewritten import with_properties
from .coalescing import coalesce
from .definitions import QueueDefinition
from .exchange_table import ExchangeTable
from .publish_properties import PublishProperties
from .returns import encode_returned
from .routes import Route, Routes, property_octets
from .unconfirmed import Unconfirmed


class Routed(NamedTuple):
    """What to do with a batch: write `frames`, tell each queue its indexes, then fail if `error`.

    Messages from the first error on are not published. What queues are told are indexes into
    `batch`: the batch that was routed, or a copy in which properties that must not stay are gone.
    """

    batch: Batch
    told: dict[QueueDefinition, Indexes]
    frames: bytes
    error: AmqpError | None


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
    ) -> None:
        self.unconfirmed = Unconfirmed()
        self.confirm_mode = False
        # Starts at 1 at confirm.select; publishes before it use up no number.
        self._next_seq_no = 1
        self._next_batch_number = next_batch_number
        self._channel_number = channel_number
        self._frame_max_bytes = frame_max_bytes
        self._properties = PublishProperties(user)
        self._tags_returns = tags_returns
        self._routes = Routes(table)

    def route(self, batch: Batch) -> Routed:
        """Number and route a batch, and note what its queues owe."""
        routes = self._routes.of_keys(batch)
        keys: Sequence[int] = batch.keys
        count, error = _sound_count(batch, routes)
        if batch.flagged:
            count, error, keys, batch = self._look_into(batch, batch.flagged, routes, count, error)
        keys = self._routes.by_headers(batch, routes, keys, count)
        batch.number = self._next_batch_number()
        first_seq_no = 0
        if self.confirm_mode:
            first_seq_no = self._next_seq_no
            self._next_seq_no += count
        told, unrouted = _divide(keys, routes, count)
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
                first_seq_no,
                self._channel_number,
                self._frame_max_bytes,
                self._tags_returns,
            )
            if first_seq_no and len(mandatory) < len(unrouted):
                dropped = [i for i in unrouted if not routes[keys[i]].mandatory]
                unconfirmed.confirm_unrouted(first_seq_no, dropped)
        unconfirmed.insert(batch, first_seq_no, told)
        return Routed(batch, told, frames, error)

    def answers(self) -> bytes:
        """The acks and nacks that can be sent now; acks before nacks, as in RabbitMQ."""
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
        self,
        batch: Batch,
        flagged: Sequence[int],
        routes: list[Route],
        count: int,
        error: AmqpError | None,
    ) -> tuple[int, AmqpError | None, Sequence[int], Batch]:
        """Look into the messages with properties that publishing depends on.

        Returns how many messages are sound and what is wrong with the next one; for each message
        the number of its route, which may be one of its own, added to `routes`; and the batch, or
        a copy in which properties are rewritten.
        """
        keys: Sequence[int] = batch.keys
        rewritten: dict[int, bytes] = {}
        numbers: dict[tuple[int, tuple[str, ...]], int] = {}
        for index in flagged:
            if index >= count:
                break
            looked = self._properties.look(property_octets(batch, index))
            if looked.error is not None:
                count, error = index, looked.error
                break
            if looked.routing_keys:
                if keys is batch.keys:
                    keys = list(keys)
                number = keys[index]
                same = number, looked.routing_keys
                if same not in numbers:
                    numbers[same] = len(routes)
                    routes.append(
                        self._routes.with_keys(batch.distinct[number], routes[number], same[1])
                    )
                keys[index] = numbers[same]  # type: ignore[index]
            if looked.rewritten is not None:
                rewritten[index] = looked.rewritten
        if rewritten:
            made = with_properties(batch, rewritten)
            # The window was told of the batch as it came, and is given back what queues get.
            self.unconfirmed.released_bytes += batch.wire_bytes() - made.wire_bytes()
            batch = made
        return count, error, keys, batch


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


def _divide(
    keys: Sequence[int], routes: Sequence[Route], count: int
) -> tuple[dict[QueueDefinition, Indexes], Sequence[int]]:
    """Each queue's indexes, and those that no queue gets. `keys` has each message's route."""
    everything = range(count)
    if not count:
        return {}, everything
    if len(routes) == 1:
        queues = routes[0].queues
        return dict.fromkeys(queues, everything), () if queues else everything
    rows: list[list[int]] = [[] for _ in routes]
    for index, number in enumerate(keys[:count]):
        rows[number].append(index)
    by_queue: dict[QueueDefinition, list[list[int]]] = {}
    unrouted: list[list[int]] = []
    for route, row in zip(routes, rows, strict=True):
        if row:
            if not route.queues:
                unrouted.append(row)
            for queue in route.queues:
                by_queue.setdefault(queue, []).append(row)
    told: dict[QueueDefinition, Indexes] = {}
    for queue, parts in by_queue.items():
        told[queue] = everything if sum(map(len, parts)) == count else array("I", _in_order(parts))
    return told, _in_order(unrouted) if unrouted else ()


def _in_order(rows: Sequence[list[int]]) -> Sequence[int]:
    return rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows))


def durable_indexes(
    batch: Batch, told: dict[QueueDefinition, Indexes], count: int
) -> Indexes | None:
    """The persistent messages that reach a durable queue; None if these are all."""
    persistent = batch.persistent
    persistent_count = persistent.count(1)
    if not persistent_count:
        return range(0)
    reached = [indexes for queue, indexes in told.items() if queue.durable]
    if not reached:
        return range(0)
    if len(reached) == 1 or any(len(indexes) == count for indexes in reached):
        indexes: Sequence[int] = max(reached, key=len)
    else:
        indexes = sorted(set(chain.from_iterable(reached)))
    if persistent_count == len(batch) and len(indexes) == len(batch):
        return None
    return array("I", [index for index in indexes if persistent[index]])
