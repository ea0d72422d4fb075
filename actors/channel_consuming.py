"""The consuming half of a channel: its consumers, its deliveries, its acknowledgements.

Runs inside the channel's actor, and is apart from it only to be read by itself. Delivery tags
ascend from 1 over all consumers of the channel; credit is AMQP's prefetch, per consumer and,
with the global flag, for the channel.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ..amqp_frames.batch import Acks
from ..amqp_frames.constants import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
)
from ..amqp_frames.deliveries import encode_deliveries, encode_get_ok
from ..amqp_frames.errors import HardError, SoftError
from ..amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    Method,
)
from ..amqp_frames.short_strings import encode_short_string
from ..core.arguments import check_consumer_arguments
from ..core.consumers import ChannelCredit, Consumer
from ..core.definitions import QueueDefinition
from ..core.handshake import Handshake
from ..core.unacked import Part, Unacked, runs_of_tags
from .messages import (
    AddConsumer,
    ChannelDown,
    ConsumerAdded,
    ConsumerRemoved,
    CreditChanged,
    Deliver,
    Get,
    GetAnswer,
    Ref,
    RemoveConsumer,
    Requeue,
    Settle,
    WriteDeliveries,
)
from .node_context import NodeContext
from .runtime import tell

if TYPE_CHECKING:
    from .channel import Channel

CONSUMING_METHODS = (
    BasicQos,
    BasicConsume,
    BasicCancel,
    BasicGet,
    BasicAck,
    BasicNack,
    BasicReject,
    BasicRecover,
    BasicRecoverAsync,
)


class Consuming:
    """State of the consuming half; `channel` is the actor it belongs to."""

    def __init__(
        self,
        channel: Channel,
        context: NodeContext,
        number: int,
        frame_max_bytes: int,
        handshake: Handshake,
    ) -> None:
        self._channel = channel
        self._context = context
        self._number = number
        self._frame_max_bytes = frame_max_bytes
        self._hears_cancels = handshake.capability("consumer_cancel_notify")
        self._unacked = Unacked()
        self._next_delivery_tag = 1
        self._prefetch = 0
        self._credit = ChannelCredit()
        # Consumer tag on the wire -> its queue.
        self._queues_by_tag: dict[str, QueueDefinition] = {}
        # Queues that hold consumers or deliveries of this channel.
        self._queues_used: set[QueueDefinition] = set()
        self._next_generated_tag = 1
        self._get_no_ack = False

    # --- Commands

    def command(self, method: Method) -> None:
        """Carry out one of CONSUMING_METHODS."""
        if isinstance(method, BasicAck):
            self._settle(self._unacked.take(method.delivery_tag, method.multiple))
        elif isinstance(method, BasicNack):
            parts = self._unacked.take(method.delivery_tag, method.multiple)
            (self._requeue if method.requeue else self._settle)(parts)
        elif isinstance(method, BasicReject):
            parts = self._unacked.take(method.delivery_tag, False)
            (self._requeue if method.requeue else self._settle)(parts)
        elif isinstance(method, BasicConsume):
            self._consume(method)
        elif isinstance(method, BasicCancel):
            self._cancel(method)
        elif isinstance(method, BasicGet):
            queue = self._channel.queue(method.queue)
            self._get_no_ack = method.no_ack
            # Now, not when the answer comes: a channel that ends meanwhile must give it back.
            self._queues_used.add(queue)
            question = Get(self._channel.actor_ref, method.no_ack)
            self._channel.ask_queue(method, queue, question)
        elif isinstance(method, BasicQos):
            self._qos(method)
        elif isinstance(method, (BasicRecover, BasicRecoverAsync)):
            if not method.requeue:
                raise HardError(NOT_IMPLEMENTED, "requeue=false")
            self._requeue(self._unacked.take_all())
            if isinstance(method, BasicRecover):
                self._channel.write(BasicRecoverOk())

    def _qos(self, method: BasicQos) -> None:
        if method.prefetch_size:
            raise HardError(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            self._credit.limit = method.prefetch_count
            self._offer_credit()
        else:
            # For consumers to come, as RabbitMQ has it.
            self._prefetch = method.prefetch_count
        self._channel.write(BasicQosOk())

    def _consume(self, method: BasicConsume) -> None:
        queue = self._channel.queue(method.queue)
        tag = method.consumer_tag
        if not tag:
            tag = f"amq.ctag-{self._channel.actor_urn[-36:]}-{self._next_generated_tag}"
            self._next_generated_tag += 1
        if tag in self._queues_by_tag:
            raise HardError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        limit = self._context.consumers_per_channel_max
        if limit and len(self._queues_by_tag) >= limit:
            raise HardError(NOT_ALLOWED, f"reached maximum ({limit}) of consumers per channel")
        check_consumer_arguments(str(queue), method.arguments)
        consumer = Consumer(
            self._channel.actor_ref,
            encode_short_string(tag),
            self._prefetch,
            self._credit,
            method.no_ack,
            method.exclusive,
        )
        self._queues_by_tag[tag] = queue
        self._queues_used.add(queue)
        question = AddConsumer(consumer, self._channel.actor_ref)
        self._channel.ask_queue(method, queue, question)

    def _cancel(self, method: BasicCancel) -> None:
        queue = self._queues_by_tag.get(method.consumer_tag)
        if queue is not None:
            question = RemoveConsumer(
                self._channel.actor_ref, encode_short_string(method.consumer_tag)
            )
            if tell(_handle(queue), question):
                self._channel.await_answer(method)
                return
        # Cancelling what is not there is no error.
        self._channel.write_unless_no_wait(method, BasicCancelOk(method.consumer_tag))

    def answered(
        self, method: Method, message: ConsumerAdded | ConsumerRemoved | GetAnswer
    ) -> None:
        """A queue has answered the command that was awaited."""
        if isinstance(message, ConsumerAdded):
            tag = _tag_text(message.consumer.consumer_tag)
            self._channel.write_unless_no_wait(method, BasicConsumeOk(tag))
        elif isinstance(message, ConsumerRemoved):
            tag = _tag_text(message.consumer_tag)
            self._queues_by_tag.pop(tag, None)
            self._channel.write_unless_no_wait(method, BasicCancelOk(tag))
        else:
            self._got(message)

    def _got(self, message: GetAnswer) -> None:
        delivery = message.delivery
        if delivery is None:
            self._channel.write(BasicGetEmpty())
            return
        tag = self._next_delivery_tag
        self._next_delivery_tag += 1
        if not self._get_no_ack:
            self._unacked.add(tag, delivery)
        span = delivery.span
        self._channel.write_frames(
            encode_get_ok(
                span.batch,
                span.indexes[0],
                tag,
                span.attempts > 0,
                message.message_count,
                self._number,
                self._frame_max_bytes,
            )
        )

    def cancelled_by_queue(self, consumer_tag: bytes) -> None:
        """The queue is gone: tell clients that understand it."""
        tag = _tag_text(consumer_tag)
        if self._queues_by_tag.pop(tag, None) is not None and self._hears_cancels:
            self._channel.write(BasicCancel(tag, True))

    # --- Deliveries and acknowledgements

    def deliver(self, message: Deliver) -> None:
        """Encode messages for a consumer and remember them until they are acked."""
        consumer = message.consumer
        frames: list[bytes] = []
        window_bytes = 0
        for delivery in message.deliveries:
            span = delivery.span
            tag = self._next_delivery_tag
            self._next_delivery_tag += len(span)
            if not consumer.no_ack:
                self._unacked.add(tag, delivery)
            window_bytes += span.wire_bytes()
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
        queue: QueueDefinition = message.deliveries[0].queue  # type: ignore[assignment]
        self._channel.write_frames(
            WriteDeliveries(b"".join(frames), _handle(queue), consumer, window_bytes)
        )

    def acknowledge(self, acks: Acks) -> None:
        """Settle what a run of basic.ack names; 406 for a tag that is not held."""
        parts: list[Part] = []
        try:
            for first, last, multiple in runs_of_tags(acks.tags, acks.multiples):
                if multiple:
                    parts += self._unacked.take(first, True)
                else:
                    parts += self._unacked.take_range(first, last)
        except SoftError as error:
            error.class_id, error.method_id = BasicAck.class_id, BasicAck.method_id
            raise
        finally:
            self._settle(parts)

    def _settle(self, parts: list[Part]) -> None:
        self._give_back(parts, Settle)

    def _requeue(self, parts: list[Part]) -> None:
        self._give_back(parts, Requeue)

    def _give_back(self, parts: list[Part], message: type[Settle] | type[Requeue]) -> None:
        if not parts:
            return
        credit = self._credit
        was_full = credit.room() <= 0
        for delivery, low, high in parts:
            if delivery.consumer is not None:
                credit.in_use -= high - low
        for queue, group in groupby(parts, _queue_of):
            tell(_handle(queue), message(self._channel.actor_ref, list(group)))
        if was_full:
            self._offer_credit()

    def _offer_credit(self) -> None:
        """Room in the channel's credit may be any of its queues' to use."""
        for queue in set(self._queues_by_tag.values()):
            tell(_handle(queue), CreditChanged())

    def release(self) -> None:
        """The channel ends: its queues take back what it held."""
        for queue in self._queues_used:
            tell(_handle(queue), ChannelDown(self._channel.actor_ref))
        self._queues_used.clear()
        self._queues_by_tag.clear()


def _queue_of(part: Part) -> QueueDefinition:
    queue: QueueDefinition = part[0].queue  # type: ignore[assignment]
    return queue


def _handle(queue: QueueDefinition) -> Ref:
    handle: Ref = queue.handle  # type: ignore[assignment]
    return handle


def _tag_text(consumer_tag: bytes) -> str:
    return consumer_tag[1:].decode("utf-8", "surrogateescape")
