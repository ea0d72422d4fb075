"""The consuming half of a channel: its consumers and their credit.

Runs inside the channel's actor, and is apart from it only to be read by itself. Credit is AMQP's
prefetch, per consumer and, with the global flag, for the channel. What is delivered is in
`channel_deliveries.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..amqp_frames.constants import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
)
from ..amqp_frames.errors import HardError
from ..amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
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
from ..core.arguments import check_consumer_arguments, consumer_priority
from ..core.consumers import ChannelCredit, Consumer
from ..core.definitions import QueueDefinition
from ..core.handshake import Handshake
from ..core.outlet import OutletShare
from ..core.publisher import Publisher
from ..core.reply_consumers import REPLY_TO
from .channel_deliveries import Deliveries, handle_of
from .channel_replies import Replies
from .messages import (
    AddConsumer,
    ChannelDown,
    ConsumerAdded,
    ConsumerRemoved,
    CreditChanged,
    Get,
    GetAnswer,
    RemoveConsumer,
)
from .node_context import NodeContext
from .outlet_waiters import tell_opened
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

# With so many queues a channel first looks which of those that it has used are still there.
QUEUES_USED_MIN = 64


class Consuming:
    """State of the consuming half; `channel` is the actor it belongs to."""

    def __init__(
        self,
        channel: Channel,
        context: NodeContext,
        number: int,
        frame_max_bytes: int,
        handshake: Handshake,
        outlet: OutletShare,
        publisher: Publisher,
    ) -> None:
        self._channel = channel
        self._context = context
        self._hears_cancels = handshake.capability("consumer_cancel_notify")
        self._prefetch = 0
        self._credit = ChannelCredit(outlet)
        self.deliveries = Deliveries(
            channel, context, number, frame_max_bytes, self._credit, self._offer_credit
        )
        self.replies = Replies(channel, context, publisher, self.deliveries, outlet)
        # Consumer tag on the wire -> its queue.
        self._queues_by_tag: dict[str, QueueDefinition] = {}
        # Queues that hold consumers or deliveries of this channel.
        self._queues_used: set[QueueDefinition] = set()
        self._queues_used_max = QUEUES_USED_MIN
        self._next_generated_tag = 1
        self._get_no_ack = False

    # --- Commands

    def command(self, method: Method) -> None:
        """Carry out one of CONSUMING_METHODS."""
        if isinstance(method, BasicAck):
            self.deliveries.settle(method.delivery_tag, method.multiple)
        elif isinstance(method, BasicNack):
            deliveries = self.deliveries
            give_back = deliveries.requeue if method.requeue else deliveries.discard
            give_back(method.delivery_tag, method.multiple)
        elif isinstance(method, BasicReject):
            deliveries = self.deliveries
            give_back = deliveries.requeue if method.requeue else deliveries.discard
            give_back(method.delivery_tag, False)
        elif isinstance(method, BasicConsume):
            self._consume(method)
        elif isinstance(method, BasicCancel):
            self._cancel(method)
        elif isinstance(method, BasicGet):
            queue = self._channel.commands.queue(method.queue)
            self._get_no_ack = method.no_ack
            # Now, not when the answer comes: a channel that ends meanwhile must give it back.
            self._use(queue)
            question = Get(self._channel.actor_ref, method.no_ack)
            self._channel.commands.ask_queue(method, queue, question)
        elif isinstance(method, BasicQos):
            self._qos(method)
        elif isinstance(method, (BasicRecover, BasicRecoverAsync)):
            if not method.requeue:
                raise HardError(NOT_IMPLEMENTED, "requeue=false")
            self.deliveries.requeue_all()
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
        # In RabbitMQ's order: the tag, how many there are, and only then the queue.
        name = self._channel.commands.queue_name(method.queue)
        tag = method.consumer_tag
        if not tag:
            tag = f"amq.ctag-{self._channel.actor_urn[-36:]}-{self._next_generated_tag}"
            self._next_generated_tag += 1
        if tag in self._queues_by_tag or tag == self.replies.consumer_tag:
            raise HardError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        limit = self._context.consumers_per_channel_max
        if limit and len(self._queues_by_tag) >= limit:
            raise HardError(NOT_ALLOWED, f"reached maximum ({limit}) of consumers per channel")
        if name == REPLY_TO:
            self.replies.check(method.no_ack)
            self.replies.consume(tag)
            self._channel.commands.write_unless_no_wait(method, BasicConsumeOk(tag))
            return
        queue = self._channel.commands.queue(name)
        check_consumer_arguments(str(queue), method.arguments, queue.is_quorum)
        consumer = Consumer(
            self._channel.actor_ref,
            encode_short_string(tag),
            self._prefetch,
            self._credit,
            method.no_ack,
            method.exclusive,
            consumer_priority(method.arguments),
        )
        self._queues_by_tag[tag] = queue
        self._use(queue)
        question = AddConsumer(consumer, self._channel.actor_ref)
        self._channel.commands.ask_queue(method, queue, question)

    def _use(self, queue: QueueDefinition) -> None:
        """Remember that the queue may hold something of the channel's."""
        if queue not in self._queues_used:
            if len(self._queues_used) >= self._queues_used_max:
                # Queues that were deleted meanwhile are not kept by who has used them once.
                alive = {each for each in self._queues_used if handle_of(each).is_alive()}
                self._queues_used = alive
                self._queues_used_max = 2 * len(alive) + QUEUES_USED_MIN
            self._queues_used.add(queue)

    def _cancel(self, method: BasicCancel) -> None:
        if method.consumer_tag == self.replies.consumer_tag:
            self.replies.cancel()
        queue = self._queues_by_tag.get(method.consumer_tag)
        if queue is not None:
            question = RemoveConsumer(
                self._channel.actor_ref, encode_short_string(method.consumer_tag)
            )
            if tell(handle_of(queue), question):
                self._channel.commands.await_answer(method)
                return
        # Cancelling what is not there is no error.
        self._channel.commands.write_unless_no_wait(method, BasicCancelOk(method.consumer_tag))

    def answered(self, method: Method, message: ConsumerAdded | ConsumerRemoved) -> None:
        """A queue has answered the command that was awaited."""
        tracing = self._channel.tracing
        if isinstance(message, ConsumerAdded):
            consumer = message.consumer
            tag = _tag_text(consumer.consumer_tag)
            queue = self._queues_by_tag[tag]
            tracing.consumer_added(queue.name, tag, consumer.prefetch, consumer.no_ack)
            self._channel.commands.write_unless_no_wait(method, BasicConsumeOk(tag))
        else:
            tag = _tag_text(message.consumer_tag)
            gone = self._queues_by_tag.pop(tag, None)
            if gone is not None:
                tracing.consumer_removed(gone.name, tag, "cancelled by the client")
            self._channel.commands.write_unless_no_wait(method, BasicCancelOk(tag))

    def got(self, message: GetAnswer) -> None:
        """A queue has answered the basic.get that was awaited."""
        self.deliveries.got(message, self._get_no_ack)

    def cancelled_by_queue(self, consumer_tag: bytes) -> None:
        """The queue is gone: tell clients that understand it."""
        tag = _tag_text(consumer_tag)
        queue = self._queues_by_tag.pop(tag, None)
        if queue is not None:
            self._channel.tracing.consumer_removed(queue.name, tag, "its queue is gone")
            if self._hears_cancels:
                self._channel.write(BasicCancel(tag, True))

    def _offer_credit(self) -> None:
        """Room in the channel's credit may be any of its queues' to use."""
        for queue in set(self._queues_by_tag.values()):
            tell(handle_of(queue), CreditChanged(self._channel.actor_ref))

    def counts(self) -> dict[str, object]:
        """What a report says of the consuming half."""
        return {
            "prefetch": self._prefetch,
            "global_prefetch": self._credit.limit,
            "consumers": len(self._queues_by_tag),
            "unacked": self.deliveries.unacked_count(),
        }

    def release(self) -> None:
        """The channel ends: its queues take back what it held."""
        self.replies.cancel()
        outlet = self._credit.outlet
        outlet.release()
        tell_opened(outlet.outlet)
        for queue in self._queues_used:
            tell(handle_of(queue), ChannelDown(self._channel.actor_ref))
        self._queues_used.clear()
        for tag, definition in self._queues_by_tag.items():
            self._channel.tracing.consumer_removed(definition.name, tag, "its channel ended")
        self._queues_by_tag.clear()


def _tag_text(consumer_tag: bytes) -> str:
    return consumer_tag[1:].decode("utf-8", "surrogateescape")
