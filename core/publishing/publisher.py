"""A channel's publishing side: numbers, routes, returns and the owed confirms of each publish.

One batch at a time: its distinct keys are routed once each, its indexes divided among the queues,
and the channel's actor tells every queue once. What the queues answer comes back through
`unconfirmed`, and `answers` makes the frames that the publisher gets.

A basic.return carries no delivery tag, so a client cannot tell which publish it means. For a client
that announced the capability `return_delivery_tag`, the publisher adds the header `x-delivery-tag`,
the publish's seq_no, to the returned message.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.constants import CONTENT_HEADER_BYTES, EMPTY_FRAME_BYTES
from ...amqp_frames.errors import AmqpError
from ...amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from ...amqp_frames.messages.copies import with_properties
from ...amqp_frames.messages.deliveries import (
    BASIC_ACK,
    BASIC_NACK,
    encode_ack,
    encode_answers,
    encode_returns,
    encode_tagged_return,
)
from ...amqp_frames.properties import decode_properties, encode_properties
from ...amqp_frames.values.field_table import Field
from ..definitions import QueueDefinition
from ..exchanges.exchange import Steps
from .delayed_publishes import delays_by_queue, published_delays, with_delays_passed
from .delivery_commands import DeliveryHolder, is_command_key, read_command
from .properties import PUBLISH, PublishProperties
from .routes import Route, Routes, divide, durable_indexes, property_octets
from .unconfirmed import Unconfirmed, coalesce

TAG_HEADER = "x-delivery-tag"


def encode_returned(
    batch: Batch,
    indexes: Sequence[int],
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
    tags_returns: bool,
) -> bytes:
    """The frames of basic.return 312 for these messages, each directly before its ack."""
    if not tags_returns or not first_seq_no:
        return encode_returns(batch, indexes, first_seq_no, channel_number, frame_max_bytes)
    properties_bytes_max = (
        (frame_max_bytes or 0xFFFFFFFF) - EMPTY_FRAME_BYTES - CONTENT_HEADER_BYTES
    )
    pieces = []
    for index in indexes:
        properties = _tagged(batch, index, first_seq_no + index)
        if len(properties) <= properties_bytes_max:
            pieces.append(
                encode_tagged_return(
                    batch, index, first_seq_no, channel_number, frame_max_bytes, properties
                )
            )
        else:
            # A content header cannot be split: this one has no room for the tag.
            pieces.append(
                encode_returns(batch, (index,), first_seq_no, channel_number, frame_max_bytes)
            )
    return b"".join(pieces)


def _tagged(batch: Batch, index: int, seq_no: int) -> bytes:
    """The message's properties with the tag among its headers."""
    header = batch.headers[index]
    size = int.from_bytes(batch.wire[header + 3 : header + 7], "big")
    properties = decode_properties(batch.wire, header + 19, header + 7 + size)
    headers = dict(properties.headers or {})
    headers[TAG_HEADER] = Field("long", seq_no)
    return encode_properties(properties._replace(headers=headers))


_NO_FURTHER: Final[Mapping[int, Sequence[str]]] = {}


class Routed(NamedTuple):
    """A routed batch: write `frames`, tell each queue its indexes, then raise `error` if any.

    Messages from the first error on are not published: `message_count` are before it. What queues
    are told are indexes into `batch`: the batch that was routed, or a copy in which properties that
    must not stay are gone.
    """

    batch: Batch
    message_count: int
    first_seq_no: int
    by_queue: dict[QueueDefinition, Indexes]
    frames: bytes
    error: AmqpError | None
    # Names of reply consumers and the indexes that are theirs, at most once.
    replies: Mapping[str, Indexes]
    # Of queues that are to defer messages: for how many milliseconds, by index, 0 for not at all.
    delays: Mapping[QueueDefinition, array[int]]
    # Messages that no queue got, and those of them that are returned.
    unrouted: Sequence[int] = ()
    returned: Sequence[int] = ()
    # Routing keys that messages have beside their own, by index.
    further: Mapping[int, Sequence[str]] = _NO_FURTHER


_NONE: Final = range(0)
_NO_DELAYS: Final[Mapping[QueueDefinition, array[int]]] = {}


class Held(NamedTuple):
    """A batch of a transaction: checked, and routed when it is committed.

    `further` has the routing keys that messages have beside their own, `delays` in milliseconds by
    index how long exchanges that delay are to delay them, if any has a delay.
    """

    batch: Batch
    further: Mapping[int, Sequence[str]]
    delays: array[int] | None = None


class Publisher:
    """Publishes of one channel. `next_batch_number` numbers batches broker-wide."""

    def __init__(
        self,
        routes: Routes,
        next_batch_number: Callable[[], int],
        channel_number: int,
        frame_max_bytes: int,
        user: str,
        tags_returns: bool,
        may_impersonate: Callable[[], bool],
    ) -> None:
        self.unconfirmed = Unconfirmed()
        self.confirm_mode = False
        # In tx mode: numbered as in confirm mode, but the answer is the commit's.
        self.transactional = False
        # The channel's, as soon as it has some: they carry out its client's commands.
        self.delivery_holder: DeliveryHolder | None = None
        # Starts at 1 at confirm.select; publishes before it use up no number.
        self.next_seq_no = 1
        self._next_batch_number = next_batch_number
        self._channel_number = channel_number
        self._frame_max_bytes = frame_max_bytes
        self._properties = PublishProperties(user, may_impersonate)
        self._tags_returns = tags_returns
        self._routes = routes

    def route(self, batch: Batch) -> Steps[Routed]:
        """Number and route a batch, and note what its queues owe.

        In steps, none if all its routes are kept; the last one records the owed confirms. The next
        batch is to wait for that.
        """
        routes = yield from self._routes.of_keys(batch)
        count, error = _sound_count(batch, [route.error for route in routes])
        further: Mapping[int, Sequence[str]] = {}
        if batch.flagged:
            came = batch
            count, error, further, batch = self._look_into(batch, batch.flagged, count, error)
            # The window was told of the batch as it came, and is given back what queues get.
            self.unconfirmed.released_bytes += came.wire_bytes - batch.wire_bytes
        delays: array[int] | None = None
        if self._routes.has_delays:
            may_delay = [route.may_delay for route in routes]
            delays, count, fault = published_delays(batch, may_delay, count)
            error = fault or error
        if self._routes.has_commands:
            count, error = self._carry_out_commands(batch, count, error)
        return (yield from self._route_sound(batch, routes, count, error, further, delays))

    def route_known(self, batch: Batch) -> Routed | None:
        """As `route`, where that takes no step and no look into messages; else None.

        So it is with most publishes: their routes are kept, and say all.
        """
        routes = self._routes.known(batch)
        if routes is None or batch.flagged:
            return None
        return self._number(
            batch, routes, batch.keys, len(batch.starts), None, _NO_DELAYS, _NO_FURTHER
        )

    def route_to_one(self, batch: Batch) -> tuple[QueueDefinition, Indexes] | None:
        """As `route_known`, where all of the batch goes to one queue, and nothing else is to be
        done; else None, and nothing is done. So it is with nearly all lone publishes."""
        route = None if batch.flagged else self._routes.known_alone(batch.distinct)
        if route is None or len(route.queues) != 1 or self._routes.has_replies:
            return None
        batch.number = self._next_batch_number()
        queue = route.queues[0]
        indexes = range(len(batch.starts))
        first_seq_no = 0
        if self.confirm_mode:
            first_seq_no = self.next_seq_no
            self.next_seq_no = first_seq_no + len(indexes)
        # Most often all are persistent, or none is.
        persistent = batch.persistent
        if not queue.durable or 1 not in persistent:
            batch.durable = _NONE
        elif 0 in persistent:
            batch.durable = durable_indexes(batch, {queue: indexes}, len(indexes))
        self.unconfirmed.insert_whole(batch, first_seq_no, queue, indexes)
        return queue, indexes

    def hold(self, batch: Batch) -> Held:
        """Check a batch for a transaction; AmqpError if one of its messages is a mistake.

        Its commands about deliveries are carried out now, as far as they do not wait themselves.
        """
        count, error = _sound_count(batch, self._routes.faults_of(batch))
        further: Mapping[int, Sequence[str]] = {}
        if batch.flagged:
            count, error, further, batch = self._look_into(batch, batch.flagged, count, error)
        may_delay = self._routes.may_delay(batch) if error is None else None
        delays: array[int] | None = None
        if may_delay is not None:
            delays, count, error = published_delays(batch, may_delay, count)
        if self._routes.has_commands:
            count, error = self._carry_out_commands(batch, count, error)
        if error is not None:
            raise error
        return Held(batch, further, delays)

    def check_held(self, held: Held) -> None:
        """Raise if the held publishes have no route any more."""
        for fault in self._routes.faults_of(held.batch):
            if fault is not None:
                raise fault

    def route_held(self, held: Held) -> Steps[Routed]:
        """Route a batch of a transaction that is being committed, in steps as `route`."""
        batch = held.batch
        routes = yield from self._routes.of_keys(batch)
        count, error = _sound_count(batch, [route.error for route in routes])
        further = {index: keys for index, keys in held.further.items() if index < count}
        return (yield from self._route_sound(batch, routes, count, error, further, held.delays))

    def _route_sound(
        self,
        batch: Batch,
        routes: list[Route],
        count: int,
        error: AmqpError | None,
        further: Mapping[int, Sequence[str]],
        delays: array[int] | None,
    ) -> Steps[Routed]:
        """Route the first `count` messages; `further` has routing keys beside their own.

        `delays` has those of messages that are to be delayed, if their route delays.
        """
        keys: Sequence[int] = batch.keys
        if further:
            keys = yield from self._with_further(batch, routes, further)
        if self._routes.has_by_message:
            keys = yield from self._routes.by_message(batch, routes, keys, count)
        deferred: Mapping[QueueDefinition, array[int]] = {}
        if delays is not None:
            deferred = delays_by_queue(delays, keys, routes, count)
            passed = with_delays_passed(batch, delays, keys, routes, count)
            self.unconfirmed.released_bytes += batch.wire_bytes - passed.wire_bytes
            batch = passed
        return self._number(batch, routes, keys, count, error, deferred, further)

    def _number(
        self,
        batch: Batch,
        routes: Sequence[Route],
        keys: Sequence[int],
        count: int,
        error: AmqpError | None,
        deferred: Mapping[QueueDefinition, array[int]],
        further: Mapping[int, Sequence[str]],
    ) -> Routed:
        """Number the first `count` messages, divide them among queues, note what these owe."""
        batch.number = self._next_batch_number()
        first_seq_no = 0
        if self.confirm_mode or self.transactional:
            first_seq_no = self.next_seq_no
            self.next_seq_no += count
        by_queue, unrouted = divide(keys, [route.queues for route in routes], count)
        told_count = count - len(unrouted)
        batch.durable = durable_indexes(batch, by_queue, told_count)
        frames = b""
        mandatory: Sequence[int] = ()
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
                dropped = array("I", [i for i in unrouted if not routes[keys[i]].mandatory])
                unconfirmed.confirm_unrouted(first_seq_no, dropped)
        unconfirmed.insert(batch, first_seq_no, by_queue, told_count)
        numbered_from = first_seq_no if self.confirm_mode else 0
        replies = _divide_replies(keys, routes, count) if self._routes.has_replies else {}
        return Routed(
            batch,
            count,
            numbered_from,
            by_queue,
            frames,
            error,
            replies,
            deferred,
            unrouted,
            mandatory,
            further,
        )

    def set_reply_name(self, name: str) -> None:
        """The secret name of the channel's reply consumer; "" if it has none."""
        self._properties.set_reply_name(name)

    def answers(self) -> bytes:
        """The acks and nacks that can be sent now; acks before nacks, as in RabbitMQ."""
        if self.transactional:
            # tx.commit-ok, or its refusal, answers for all of them.
            return b""
        unconfirmed, number = self.unconfirmed, self._channel_number
        lone = unconfirmed.pop_lone_confirm()
        if lone:
            # A lone answer is never cumulative.
            return encode_ack(number, lone)
        rejected = unconfirmed.rejected
        if not rejected:
            cumulative, singles = unconfirmed.acks()
            return encode_answers(number, BASIC_ACK, cumulative, singles)
        confirmed, smallest = unconfirmed.confirmed, unconfirmed.smallest()
        frames = b""
        if confirmed:
            cumulative, singles = coalesce(confirmed, rejected, smallest)
            frames = encode_answers(number, BASIC_ACK, cumulative, singles)
        cumulative, singles = coalesce(rejected, confirmed, smallest)
        frames += encode_answers(number, BASIC_NACK, cumulative, singles)
        confirmed.clear()
        rejected.clear()
        return frames

    def _look_into(
        self, batch: Batch, flagged: Sequence[int], count: int, error: AmqpError | None
    ) -> tuple[int, AmqpError | None, Mapping[int, Sequence[str]], Batch]:
        """Look into the messages with properties that publishing depends on.

        Returns how many messages are sound and the fault of the next one; routing keys that
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
                    ttls_ms = array("Q", [TTL_NONE]) * len(batch.starts)
                ttls_ms[index] = looked.ttl_ms
        if rewritten:
            batch = with_properties(batch, rewritten)
        batch.ttls_ms = ttls_ms
        return count, error, further, batch

    def _carry_out_commands(
        self, batch: Batch, count: int, error: AmqpError | None
    ) -> tuple[int, AmqpError | None]:
        """Carry out the commands about deliveries among the first `count` messages.

        Returns how many messages are sound, up to the first command that is a mistake.
        """
        commands = [is_command_key(key) for key in batch.distinct]
        if not any(commands):
            return count, error
        holder = self.delivery_holder
        assert holder is not None
        for index, number in enumerate(batch.keys[:count]):
            if commands[number]:
                key = batch.distinct[number]
                try:
                    properties = property_octets(batch, index)
                    holder.carry_out(read_command(key, properties, self._routes.vhost))
                except AmqpError as fault:
                    fault.class_id, fault.method_id = PUBLISH
                    return index, fault.with_traceback(None)
        return count, error

    def _with_further(
        self, batch: Batch, routes: list[Route], further: Mapping[int, Sequence[str]]
    ) -> Steps[Sequence[int]]:
        """Each message's number of route; those with further keys get routes added for them."""
        keys = list(batch.keys)
        numbers: dict[tuple[int, Sequence[str]], int] = {}
        for index, routing_keys in further.items():
            number = keys[index]
            same = number, routing_keys
            if same not in numbers:
                numbers[same] = len(routes)
                key, route = batch.distinct[number], routes[number]
                routes.append((yield from self._routes.with_keys(key, route, routing_keys)))
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


def _sound_count(batch: Batch, faults: Sequence[AmqpError | None]) -> tuple[int, AmqpError | None]:
    """How many messages come before the first whose key has a fault, and that fault."""
    count = len(batch.starts)
    error: AmqpError | None = None
    for number, fault in enumerate(faults):
        if fault is not None:
            first = batch.keys.index(number)
            if first < count:
                count, error = first, fault
    return count, error
