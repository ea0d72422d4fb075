"""The commands of a channel: one at a time, each carried out or asked of who can.

Runs inside the channel's actor, and is apart from it only to be read by itself. A command that
needs an answer from the broker or a queue is `awaited`: the channel holds back what comes in
behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..amqp_frames.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
)
from ..amqp_frames.errors import AmqpError, HardError, SoftError
from ..amqp_frames.methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
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
    TxCommit,
    TxRollback,
    TxSelect,
    TxSelectOk,
)
from ..core.access import READ, Access
from ..core.declaration_checks import gone, stripped
from ..core.definitions import QueueDefinition
from ..core.permitted import check_permitted
from ..core.publisher import Publisher
from ..core.reply_consumers import is_pseudo_queue
from .channel_consuming import CONSUMING_METHODS
from .channel_transaction import ChannelTransaction
from .messages import (
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
from .node_context import NodeContext
from .runtime import tell

if TYPE_CHECKING:
    from .channel import Channel

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
_TX_METHODS = (TxSelect, TxCommit, TxRollback)


class Commands:
    """Carries out what is neither a publish nor an acknowledgement, for the actor `channel`."""

    def __init__(
        self,
        channel: Channel,
        context: NodeContext,
        access: Access,
        publisher: Publisher,
        connection: Ref,
    ) -> None:
        self._channel = channel
        self._context = context
        self._access = access
        self._publisher = publisher
        # What exclusive queues belong to: the connection, by its reader.
        self._connection = connection
        self._last_queue = ""
        # The command whose answer is awaited, or a basic.get that had one and waits for the socket.
        self.awaited: Method | None = None
        self._awaits_outlet = False

    def carry_out(self, method: Method) -> None:
        """Carry the method out, or ask who can; AmqpError, with its ids, if it is wrong."""
        try:
            if isinstance(method, _TOPOLOGY_METHODS):
                self._topology(method)
            elif isinstance(method, CONSUMING_METHODS):
                self._channel.consuming.command(method)
            elif isinstance(method, QueuePurge):
                self.ask_queue(method, self.queue(method.queue), Purge(self._channel.actor_ref))
            elif isinstance(method, ConfirmSelect):
                if self._publisher.transactional:
                    raise _mixed("tx", "confirm")
                self._publisher.confirm_mode = True
                if not method.no_wait:
                    self._channel.write(ConfirmSelectOk())
            elif isinstance(method, _TX_METHODS):
                self._transact(method)
            elif isinstance(method, ChannelFlow):
                if not method.active:
                    raise HardError(NOT_IMPLEMENTED, "active=false")
                self._channel.tracing.tell("channel.flow", active=True)
                self._channel.write(ChannelFlowOk(True))
            elif isinstance(method, AccessRequest):
                self._channel.write(AccessRequestOk(1))
            elif isinstance(method, ChannelClose):
                self._channel.close()
            elif isinstance(method, ChannelOpen):
                raise HardError(CHANNEL_ERROR, "second 'channel.open' seen")
            elif not isinstance(method, (ChannelCloseOk, ChannelFlowOk)):
                raise HardError(COMMAND_INVALID, "unimplemented method")
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise

    def _topology(self, method: Method) -> None:
        if isinstance(method, QueueDeclare) and is_pseudo_queue(method.queue):
            self._declare_pseudo_queue(method)
            return
        if isinstance(method, (QueueBind, QueueDelete, QueueUnbind)) and not method.queue:
            # "" is the queue declared last on this channel, and as a key its name.
            name = self.queue_name("")
            if isinstance(method, (QueueBind, QueueUnbind)) and not method.routing_key:
                method = replace(method, routing_key=name)
            method = replace(method, queue=name)
        check_permitted(self._access, method)
        tell(
            self._context.broker,
            TopologyCommand(self._channel.actor_ref, self._connection, self._access, method),
        )
        self.await_answer(method)

    def _declare_pseudo_queue(self, method: QueueDeclare) -> None:
        """Passive in all but name: it is there, with its one consumer, or 404."""
        name = stripped(method.queue)
        if not self._context.reply_consumers.exists(name):
            raise self._access.topology.table.not_found("queue", name)
        self._last_queue = name
        self.write_unless_no_wait(method, QueueDeclareOk(name, 0, 1))

    def _transact(self, method: Method) -> None:
        channel = self._channel
        if isinstance(method, TxSelect):
            if self._publisher.confirm_mode:
                raise _mixed("confirm", "tx")
            if channel.transaction is None:
                channel.transaction = ChannelTransaction(
                    channel,
                    self._publisher,
                    channel.consuming.deliveries,
                    channel.transaction_memory,
                )
            channel.write(TxSelectOk())
        elif channel.transaction is None:
            raise SoftError(PRECONDITION_FAILED, "channel is not transactional")
        elif isinstance(method, TxCommit):
            channel.transaction.commit(method)
        else:
            channel.transaction.rollback()

    # --- Answers to what was asked

    def await_answer(self, method: Method) -> None:
        """Hold back what comes in until the question that `method` put to an actor is answered."""
        self.awaited = method

    def ask_queue(self, method: Method, queue: QueueDefinition, question: object) -> None:
        """Put `method`'s question to a queue and await the answer; 404 if the queue is no more."""
        handle: Ref = queue.handle  # type: ignore[assignment]
        if not tell(handle, question):
            raise gone(queue, self._context.vhosts.table_of(queue) is not None)
        self.await_answer(method)

    def answered(self, message: object) -> None:
        """An actor has answered the question at hand; the channel may go on."""
        method = self.awaited
        if method is None:
            return
        try:
            if isinstance(message, TopologyAnswer):
                if self._topology_answer(method, message):
                    return
            elif isinstance(message, Status):
                self.write_unless_no_wait(
                    method,
                    QueueDeclareOk(
                        message.queue.name, message.message_count, message.consumer_count
                    ),
                )
            elif isinstance(message, Purged):
                self.write_unless_no_wait(method, QueuePurgeOk(message.message_count))
            elif isinstance(message, (ConsumerAdded, ConsumerRemoved)):
                self._channel.consuming.answered(method, message)
            elif isinstance(message, GetAnswer):
                self._channel.consuming.got(message)
                self._awaits_outlet = self._channel.consuming.deliveries.is_outlet_closed()
                if self._awaits_outlet:
                    return
            elif isinstance(message, Refused):
                raise message.error
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise
        self.awaited = None

    def outlet_opened(self) -> None:
        """The socket has taken what there was: the channel may go on behind its basic.get."""
        if self._awaits_outlet:
            self._awaits_outlet = self._channel.consuming.deliveries.is_outlet_closed()
            if not self._awaits_outlet:
                self.awaited = None

    def _topology_answer(self, method: Method, message: TopologyAnswer) -> bool:
        """Write what the broker answered; true if a queue must be asked for its counts first."""
        if isinstance(message.answer, AmqpError):
            raise message.answer
        if message.queue is not None:
            self._last_queue = message.queue.name
            if message.asks_queue:
                self.ask_queue(method, message.queue, ReportStatus(self._channel.actor_ref))
                return True
        self.write_unless_no_wait(method, message.answer)
        return False

    def write_unless_no_wait(self, method: Method, answer: Method) -> None:
        """Send the answer to `method`, if that asked for one."""
        if not getattr(method, "no_wait", False):
            self._channel.write(answer)

    # --- Names of queues

    def queue(self, name: str) -> QueueDefinition:
        """The queue to read, or the last declared for ""; 403, 404 or 405 if it cannot be had."""
        name = self.queue_name(name)
        self._access.check(READ, "queue", name)
        return self._access.topology.queue(name, self._connection)

    def queue_name(self, name: str) -> str:
        """That name, or the last declared one for ""; 404 if there is none."""
        if name:
            return name
        if not self._last_queue:
            raise SoftError(NOT_FOUND, "no previously declared queue")
        return self._last_queue


def _mixed(current: str, wanted: str) -> SoftError:
    return SoftError(PRECONDITION_FAILED, f"cannot switch from {current} to {wanted} mode")
