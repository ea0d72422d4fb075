"""The commands of a channel on topology and consuming: one at a time, carried out or asked.

Runs inside the channel's actor. While a command needs an answer from the broker or a queue the
channel holds back all later input (core/channel/waiting.py). The channel itself
carries out the commands that change or end it: tx and channel.close.
"""

from __future__ import annotations

from dataclasses import replace

from ...amqp_frames.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
)
from ...amqp_frames.errors import AmqpError, HardError, SoftError
from ...amqp_frames.methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)
from ...core.channel.queue_names import QueueNames
from ...core.channel.waiting import State, Waiting
from ...core.publishing.publisher import Publisher
from ...core.publishing.reply_consumers import REPLY_TO
from ...core.statistics.channel_counts import ChannelCounts
from ...core.topology.topology import READ, needed_access, needed_topic, stripped
from ...core.users.access import Access
from ..messages import (
    ConsumerAdded,
    ConsumerRemoved,
    GetAnswer,
    Purge,
    Purged,
    Ref,
    Refused,
    ReportStatus,
    Status,
    TopologyAnswer,
    TopologyCommand,
)
from ..node_context import NodeContext
from ..tracing.trace import ChannelTracing
from .consuming import CONSUMING_METHODS, Consuming
from .neighbours import ClientSide, Questions

_TOPOLOGY_METHODS = (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueDeclare,
    QueueDelete,
    QueueBind,
    QueueUnbind,
)


class Commands:
    """Carries out commands for the actor that `questions` are asked for.

    `connection` stands for the owner of exclusive queues.
    """

    __slots__ = (
        "_access",
        "_channel",
        "_client",
        "_connection",
        "_consuming",
        "_context",
        "_counts",
        "_names",
        "_publisher",
        "_questions",
        "_tracing",
        "_waiting",
    )

    def __init__(
        self,
        context: NodeContext,
        access: Access,
        connection: Ref,
        publisher: Publisher,
        consuming: Consuming,
        client: ClientSide,
        tracing: ChannelTracing,
        names: QueueNames,
        questions: Questions,
        waiting: Waiting,
        counts: ChannelCounts,
    ) -> None:
        self._context = context
        self._access = access
        self._connection = connection
        self._publisher = publisher
        self._consuming = consuming
        self._client = client
        self._tracing = tracing
        self._names = names
        self._questions = questions
        self._channel = questions.channel
        self._waiting = waiting
        self._counts = counts

    def carry_out(self, method: Method) -> None:
        """Carry the method out, or ask who can; AmqpError, with its ids, if it is wrong."""
        try:
            if isinstance(method, _TOPOLOGY_METHODS):
                self._topology(method)
            elif isinstance(method, CONSUMING_METHODS):
                self._consuming.command(method)
            elif isinstance(method, QueuePurge):
                queue = self._names.readable(method.queue)
                self._questions.ask_queue(method, queue, Purge(self._channel))
            elif isinstance(method, ConfirmSelect):
                if self._publisher.transactional:
                    raise mixed("tx", "confirm")
                self._publisher.confirm_mode = True
                self._counts.confirm_mode(self._publisher.unconfirmed)
                if not method.no_wait:
                    self._client.write(ConfirmSelectOk())
            elif isinstance(method, ChannelFlow):
                if not method.active:
                    raise HardError(NOT_IMPLEMENTED, "active=false")
                self._tracing.tell("channel.flow", active=True)
                self._client.write(ChannelFlowOk(True))
            elif isinstance(method, AccessRequest):
                self._client.write(AccessRequestOk(1))
            elif isinstance(method, ChannelOpen):
                raise HardError(CHANNEL_ERROR, "second 'channel.open' seen")
            else:
                # An answer, such as channel.close-ok, to what the broker has not asked.
                raise HardError(COMMAND_INVALID, "unimplemented method")
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise

    def _topology(self, method: Method) -> None:
        if isinstance(method, QueueDeclare) and method.queue.startswith(REPLY_TO):
            self._declare_pseudo_queue(method)
            return
        if isinstance(method, (QueueBind, QueueDelete, QueueUnbind)) and not method.queue:
            # "" is the queue declared last on this channel, and as a key its name.
            name = self._names.resolve("")
            if isinstance(method, (QueueBind, QueueUnbind)) and not method.routing_key:
                method = replace(method, routing_key=name)
            method = replace(method, queue=name)
        for needed in needed_access(method):
            self._access.check(*needed)
        topic = needed_topic(method)
        if topic is not None:
            self._access.check_topic(READ, *topic)
        command = TopologyCommand(self._channel, self._connection, self._access, method)
        self._questions.ask_broker(method, command)

    def _declare_pseudo_queue(self, method: QueueDeclare) -> None:
        """Passive in all but name: it is there, with its one consumer, or 404."""
        name = stripped(method.queue)
        if not self._context.reply_consumers.exists(name):
            raise self._access.topology.table.not_found("queue", name)
        self._names.last_declared = name
        self._client.answer(method, QueueDeclareOk(name, 0, 1))

    # --- Answers to the questions

    def answered(self, message: object) -> None:
        """An actor has answered the question at hand; the channel may go on."""
        method = self._waiting.method
        if method is None:
            return
        try:
            if isinstance(message, TopologyAnswer):
                if self._topology_answer(method, message):
                    return
            elif isinstance(message, Status):
                self._client.answer(
                    method,
                    QueueDeclareOk(
                        message.queue.name, message.message_count, message.consumer_count
                    ),
                )
            elif isinstance(message, Purged):
                self._client.answer(method, QueuePurgeOk(message.message_count))
            elif isinstance(message, (ConsumerAdded, ConsumerRemoved)):
                self._consuming.answered(method, message)
            elif isinstance(message, GetAnswer):
                self._consuming.answer_get(message)
                if self._consuming.deliveries.is_outlet_closed():
                    self._waiting.wait_for_outlet()
                    return
            elif isinstance(message, Refused):
                raise message.error
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise
        self._waiting.answered()

    def outlet_opened(self) -> None:
        """The socket has taken what there was: the channel may go on behind its basic.get."""
        awaits_it = self._waiting.state is State.OUTLET
        if awaits_it and not self._consuming.deliveries.is_outlet_closed():
            self._waiting.outlet_opened()

    def _topology_answer(self, method: Method, message: TopologyAnswer) -> bool:
        """Write what the broker answered; true if a queue must be asked for its counts first."""
        if isinstance(message.answer, AmqpError):
            raise message.answer
        if message.queue is not None:
            self._names.last_declared = message.queue.name
            if message.asks_queue:
                self._questions.ask_queue(method, message.queue, ReportStatus(self._channel))
                return True
        self._client.answer(method, message.answer)
        return False


def mixed(current: str, wanted: str) -> SoftError:
    """406: a channel is in confirm mode or in tx mode, never both."""
    return SoftError(PRECONDITION_FAILED, f"cannot switch from {current} to {wanted} mode")
