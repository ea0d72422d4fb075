"""The deliveries of a channel: delivery tags, what is unacked, and giving it back to the queues.

Runs inside the channel's actor, and is apart from it only to be read by itself. Delivery tags
ascend from 1 over all consumers of the channel and basic.get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..amqp_frames.batch import Acks, Batch
from ..amqp_frames.deliveries import encode_deliveries, encode_get_ok
from ..amqp_frames.errors import SoftError
from ..amqp_frames.methods import BasicAck, BasicGetEmpty
from ..core.consumers import ChannelCredit
from ..core.definitions import QueueDefinition
from ..core.delivery_counts import counted
from ..core.transaction import Transaction
from ..core.unacked import Part, Unacked, runs_of_tags
from .ack_timeouts import AckTimeouts
from .messages import (
    Deliver,
    Discard,
    GetAnswer,
    Ref,
    Requeue,
    Sent,
    Settle,
    WriteDeliveries,
)
from .node_context import NodeContext
from .runtime import tell

if TYPE_CHECKING:
    from .channel import Channel


class Deliveries:
    """What the channel has out. `offer_credit` is called when its full credit has room again."""

    def __init__(
        self,
        channel: Channel,
        context: NodeContext,
        number: int,
        frame_max_bytes: int,
        credit: ChannelCredit,
        offer_credit: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._number = number
        self._frame_max_bytes = frame_max_bytes
        self._credit = credit
        self._offer_credit = offer_credit
        self._unacked = Unacked()
        self.timeouts = AckTimeouts(context, channel.actor_ref, number, self._unacked)
        self._next_delivery_tag = 1
        # In tx mode, what waits for its commit.
        self.transaction: Transaction[type[Settle] | type[Discard] | type[Requeue]] | None = None

    def deliver(self, message: Deliver) -> None:
        """Encode messages for a consumer and remember them until they are acked."""
        consumer = message.consumer
        queue: QueueDefinition = message.deliveries[0].queue  # type: ignore[assignment]
        frames: list[bytes] = []
        first_tag = self._next_delivery_tag
        window_bytes = 0
        for delivery in message.deliveries:
            span = delivery.span
            tag = self._next_delivery_tag
            self._next_delivery_tag += len(span)
            if not consumer.no_ack:
                self._unacked.add(tag, delivery)
            window_bytes += delivery.wire_bytes
            if span.batch.traced is not None:
                self._channel.tracing.delivered(queue.name, span, tag, consumer.consumer_tag)
            if span.attempts and queue.is_quorum:
                span = counted(span)
            frames.append(
                encode_deliveries(
                    span.batch,
                    span.indexes,
                    tag,
                    consumer.consumer_tag,
                    span.attempts > 0,
                    self._number,
                    self._frame_max_bytes,
                )
            )
        timeout_ms = queue.consumer_timeout_ms
        if timeout_ms is not None and not consumer.no_ack:
            self.timeouts.delivered(first_tag, self._next_delivery_tag - 1, timeout_ms)
        sent = Sent(consumer, window_bytes)
        written = self._credit.outlet.wrote(window_bytes)
        self._channel.write_frames(
            WriteDeliveries(frames, written, window_bytes, handle_of(queue), sent)
        )

    def got(self, message: GetAnswer, no_ack: bool) -> None:
        """Encode what basic.get brought, or that there was nothing."""
        delivery = message.delivery
        if delivery is None:
            self._channel.write(BasicGetEmpty())
            return
        tag = self._next_delivery_tag
        self._next_delivery_tag += 1
        if not no_ack:
            self._unacked.add(tag, delivery)
            timeout_ms = delivery.queue.consumer_timeout_ms  # type: ignore[attr-defined]
            if timeout_ms is not None:
                self.timeouts.delivered(tag, tag, timeout_ms)
        span = delivery.span
        if span.batch.traced is not None:
            name = delivery.queue.name  # type: ignore[attr-defined]
            self._channel.tracing.delivered(name, span, tag, b"\0")
        if delivery.queue.is_quorum:  # type: ignore[attr-defined]
            span = counted(span)
        frames = encode_get_ok(
            span.batch,
            span.indexes[0],
            tag,
            span.attempts > 0,
            message.message_count,
            self._number,
            self._frame_max_bytes,
        )
        written = self._credit.outlet.outlet.written
        written.take(len(frames))
        self._channel.write_frames(WriteDeliveries([frames], written, len(frames), None, None))

    def encode_replies(self, batch: Batch, indexes: Sequence[int], consumer_tag: bytes) -> bytes:
        """The frames of direct replies; nothing of them is remembered."""
        tag = self._next_delivery_tag
        self._next_delivery_tag += len(indexes)
        return encode_deliveries(
            batch, indexes, tag, consumer_tag, False, self._number, self._frame_max_bytes
        )

    def unacked_count(self) -> int:
        """How many deliveries the client has neither acked nor given back."""
        return self._unacked.count

    def is_outlet_closed(self) -> bool:
        """Must the next basic.get wait until the socket has taken more? The channel is told when.

        Or a client that asks and does not read would have all it asked for wait in memory.
        """
        return self._credit.outlet.outlet.is_closed(self._channel.actor_ref)

    def acknowledge(self, acks: Acks) -> None:
        """Settle what a run of basic.ack names; 406 for a tag that is not held."""
        parts: list[Part] = []
        try:
            try:
                for first, last, multiple in runs_of_tags(acks.tags, acks.multiples):
                    if multiple:
                        parts += self._unacked.take(first, True)
                    else:
                        parts += self._unacked.take_range(first, last)
            finally:
                self._done(parts, Settle)
        except SoftError as error:
            error.class_id, error.method_id = BasicAck.class_id, BasicAck.method_id
            raise

    def settle(self, delivery_tag: int, multiple: bool) -> None:
        """Acked; 406 for a tag that is not held."""
        self._done(self._unacked.take(delivery_tag, multiple), Settle)

    def discard(self, delivery_tag: int, multiple: bool) -> None:
        """Rejected for good; 406 for a tag that is not held."""
        self._done(self._unacked.take(delivery_tag, multiple), Discard)

    def requeue(self, delivery_tag: int, multiple: bool) -> None:
        """Given back undone; 406 for a tag that is not held."""
        self._done(self._unacked.take(delivery_tag, multiple), Requeue)

    def requeue_all(self) -> None:
        """Give back all that is held, in tx mode, too: basic.recover waits for no commit."""
        self.timeouts.recovered()
        self.give_back(self._unacked.take_all(), Requeue)

    def put_back(self, parts: list[Part]) -> None:
        """A transaction was rolled back: its acknowledgements never were."""
        self._unacked.put_back(parts)

    def _done(
        self, parts: list[Part], message: type[Settle] | type[Discard] | type[Requeue]
    ) -> None:
        if self.transaction is None:
            self.give_back(parts, message)
        elif parts:
            self.transaction.hold_acks(message, parts)

    def give_back(
        self, parts: list[Part], message: type[Settle] | type[Discard] | type[Requeue]
    ) -> None:
        """Tell the queues what is settled or requeued; what it took up of the credit is free."""
        if not parts:
            return
        credit = self._credit
        was_full = credit.room() <= 0
        for delivery, low, high in parts:
            if delivery.consumer is not None:
                credit.in_use -= high - low
        # To each queue in one go: what was requeued in parts would be out again, part by part,
        # before what belongs before it has come back.
        by_queue: dict[QueueDefinition, list[Part]] = {}
        for part in parts:
            queue: QueueDefinition = part[0].queue  # type: ignore[assignment]
            by_queue.setdefault(queue, []).append(part)
        for queue, own in by_queue.items():
            tell(handle_of(queue), message(self._channel.actor_ref, own))
        if was_full:
            self._offer_credit()


def handle_of(queue: QueueDefinition) -> Ref:
    """The actor of a queue."""
    handle: Ref = queue.handle  # type: ignore[assignment]
    return handle
