"""The consuming half of a channel: its consumers and their credit.

Runs inside the channel's actor. The rules are core/channel/consumers.py's; `deliveries.py` has the
deliveries themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_urlsafe
from typing import Final

from ...amqp_frames.constants import NOT_IMPLEMENTED
from ...amqp_frames.errors import HardError
from ...amqp_frames.methods import (
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
from ...amqp_frames.values.field_table import encode_short_string
from ...core.channel.consumers import ChannelConsumers
from ...core.channel.queue_names import QueueNames
from ...core.channel.transaction import Outcome
from ...core.connection.channel_credit import ChannelCredit
from ...core.connection.handshake import Handshake
from ...core.connection.outlet import OutletShare
from ...core.connection.reading_time import ReadingTime
from ...core.definitions import QueueDefinition
from ...core.publishing.publisher import Publisher
from ...core.publishing.reply_consumers import REPLY_TO
from ...core.statistics.channel_counts import ChannelCounts
from ..messages import (
    AddConsumer,
    ChannelDown,
    ConsumerAdded,
    ConsumerCancelled,
    ConsumerRemoved,
    Get,
    GetAnswer,
    RemoveConsumer,
)
from ..node_context import NodeContext
from ..runtime.room_offers import offer_credit, tell_opened
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .deliveries import Deliveries
from .firehose import FirehoseTap
from .neighbours import ClientSide, Questions
from .replies import Replies

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

# As long as RabbitMQ's: 22 characters of base 64.
GENERATED_TAG_BYTES: Final = 16


class Consuming:
    """State of the consuming half of the actor that `questions` are asked for."""

    __slots__ = (
        "_channel",
        "_client",
        "_consumers",
        "_context",
        "_counts",
        "_credit",
        "_get_no_ack",
        "_get_queue",
        "_hears_cancels",
        "_names",
        "_questions",
        "_tracing",
        "deliveries",
        "replies",
    )

    def __init__(
        self,
        questions: Questions,
        names: QueueNames,
        client: ClientSide,
        tracing: ChannelTracing,
        context: NodeContext,
        number: int,
        frame_max_bytes: int,
        handshake: Handshake,
        outlet: OutletShare,
        reading: ReadingTime,
        publisher: Publisher,
        counts: ChannelCounts,
        tap: FirehoseTap,
    ) -> None:
        self._questions = questions
        self._names = names
        self._client = client
        self._tracing = tracing
        channel = self._channel = questions.channel
        self._context = context
        self._hears_cancels = handshake.capability("consumer_cancel_notify")
        self._credit = ChannelCredit(outlet, reading)
        self._consumers = ChannelConsumers(channel, self._credit, context.consumers_per_channel_max)
        self.deliveries = Deliveries(
            channel, client, tracing, context, number, frame_max_bytes, self._credit, counts, tap
        )
        self.replies = Replies(channel, client, context, publisher, self.deliveries, outlet)
        self._counts = counts
        self._get_no_ack = False
        self._get_queue: QueueDefinition | None = None

    # --- Commands

    def command(self, method: Method) -> None:
        """Carry out one of CONSUMING_METHODS."""
        if isinstance(method, BasicAck):
            self.deliveries.settle(method.delivery_tag, method.multiple, Outcome.ACKED)
        elif isinstance(method, BasicNack):
            outcome = Outcome.RETURNED if method.requeue else Outcome.REJECTED
            self.deliveries.settle(method.delivery_tag, method.multiple, outcome)
        elif isinstance(method, BasicReject):
            outcome = Outcome.RETURNED if method.requeue else Outcome.REJECTED
            self.deliveries.settle(method.delivery_tag, False, outcome)
        elif isinstance(method, BasicConsume):
            self._consume(method)
        elif isinstance(method, BasicCancel):
            self._cancel(method)
        elif isinstance(method, BasicGet):
            queue = self._names.readable(method.queue)
            self._get_no_ack = method.no_ack
            self._get_queue = queue
            # Now, not when the answer comes: a channel that ends meanwhile must give it back.
            self._consumers.use(queue, _is_there)
            question = Get(self._channel, method.no_ack, self._credit.reading)
            self._questions.ask_queue(method, queue, question)
        elif isinstance(method, BasicQos):
            self._qos(method)
        elif isinstance(method, (BasicRecover, BasicRecoverAsync)):
            if not method.requeue:
                raise HardError(NOT_IMPLEMENTED, "requeue=false")
            self.deliveries.return_all()
            if isinstance(method, BasicRecover):
                self._client.write(BasicRecoverOk())

    def _qos(self, method: BasicQos) -> None:
        self._offer(self._consumers.set_prefetch(method))
        self._client.write(BasicQosOk())

    def _consume(self, method: BasicConsume) -> None:
        # In RabbitMQ's order: the tag, how many there are, and only then the queue.
        name = self._names.resolve(method.queue)
        tag = method.consumer_tag
        if not tag:
            tag = f"amq.ctag-{token_urlsafe(GENERATED_TAG_BYTES)}"
        self._consumers.check_new(tag, self.replies.consumer_tag)
        if name == REPLY_TO:
            self.replies.check(method.no_ack)
            self.replies.consume(tag)
            self._client.answer(method, BasicConsumeOk(tag))
            return
        queue = self._names.readable(name)
        consumer = self._consumers.add(tag, queue, method)
        self._consumers.use(queue, _is_there)
        question = AddConsumer(consumer, self._channel)
        self._questions.ask_queue(method, queue, question)

    def _cancel(self, method: BasicCancel) -> None:
        if method.consumer_tag == self.replies.consumer_tag:
            self.replies.cancel()
        queue = self._consumers.queue_of(method.consumer_tag)
        if queue is not None:
            question = RemoveConsumer(self._channel, encode_short_string(method.consumer_tag))
            if self._questions.could_ask(method, queue, question):
                return
            # The queue's own word of its end is on its way, and comes too late.
            self._forget_consumer(method.consumer_tag)
            self._tracing.consumer_removed(
                queue.name, method.consumer_tag, "cancelled by the client"
            )
        # Cancelling a missing consumer is no error.
        self._client.answer(method, BasicCancelOk(method.consumer_tag))

    def answered(self, method: Method, message: ConsumerAdded | ConsumerRemoved) -> None:
        """A queue has answered the command that was awaited."""
        tracing = self._tracing
        if isinstance(message, ConsumerAdded):
            consumer = message.consumer
            tag = _tag_text(consumer.consumer_tag)
            queue = self._consumers.queue_of(tag)
            assert queue is not None
            tracing.consumer_added(queue.name, tag, consumer.prefetch, consumer.no_ack)
            self._client.answer(method, BasicConsumeOk(tag))
        else:
            tag = _tag_text(message.consumer_tag)
            left = self._forget_consumer(tag)
            if left is not None:
                tracing.consumer_removed(left.name, tag, "cancelled by the client")
            self._client.answer(method, BasicCancelOk(tag))

    def answer_get(self, message: GetAnswer) -> None:
        """A queue has answered the basic.get that was awaited."""
        queue, self._get_queue = self._get_queue, None
        if message.delivery is None and queue is not None:
            self._counts.got_nothing(queue)
        self.deliveries.answer_get(message, self._get_no_ack)

    def cancelled_by_queue(self, message: ConsumerCancelled) -> None:
        """The queue is gone: tell clients that understand it."""
        tag = _tag_text(message.consumer_tag)
        # A client that has cancelled it may use its tag for another by now.
        if self._consumers.queue_of(tag) is message.queue:
            self._forget_consumer(tag)
            self._tracing.consumer_removed(message.queue.name, tag, "its queue is gone")
            if self._hears_cancels:
                self._client.write(BasicCancel(tag, True))

    def _forget_consumer(self, tag: str) -> QueueDefinition | None:
        queue, offered = self._consumers.forget(tag)
        self._offer(offered)
        return queue

    def _offer(self, queues: Sequence[object]) -> None:
        offer_credit(self._channel, self._credit, queues)

    def counts(self) -> dict[str, object]:
        """The channel's counts of consumers and deliveries, for a report."""
        return {
            "prefetch": self._consumers.prefetch,
            "global_prefetch": self._credit.limit,
            "consumers": len(self._consumers),
            "unacked": len(self.deliveries.outstanding),
        }

    def release(self) -> None:
        """The channel ends: its queues take back what it held."""
        self.replies.cancel()
        outlet = self._credit.outlet
        outlet.release()
        tell_opened(outlet.outlet)
        queues_used, consumers = self._consumers.release()
        for queue in queues_used:
            tell(queue.handle, ChannelDown(self._channel))
        for tag, definition in consumers.items():
            self._tracing.consumer_removed(definition.name, tag, "its channel ended")


def _is_there(queue: QueueDefinition) -> bool:
    is_alive: bool = queue.handle.is_alive()
    return is_alive


def _tag_text(consumer_tag: bytes) -> str:
    return consumer_tag[1:].decode("utf-8", "surrogateescape")
