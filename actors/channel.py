"""One channel: routes what is published, remembers what is unconfirmed, hands out deliveries.

Duties: sequence numbers and routes (core/publisher.py); returns, confirms and nacks, coalesced when
the mailbox is empty; commands, one at a time: one that needs an answer from the broker or a queue
holds back the commands behind it until the answer is there; consumers and unacked deliveries
(`channel_consuming.py`). Parent: the reader. A client's mistake ends the channel and is told
to the reader, which alone writes close methods; an exception of ours ends the connection, 541.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ..amqp_frames.batch import Batch, ChannelInput
from ..amqp_frames.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    INTERNAL_ERROR,
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
    ChannelOpenOk,
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
    encode_method,
)
from ..core.definitions import QueueDefinition
from ..core.handshake import Handshake
from ..core.publish_window import WindowShare
from ..core.publisher import PUBLISH, Publisher
from .channel_consuming import CONSUMING_METHODS, Consuming
from .messages import (
    Absorbed,
    ChannelClosed,
    ChannelFailed,
    Command,
    Confirm,
    ConsumerAdded,
    ConsumerCancelled,
    ConsumerRemoved,
    Deliver,
    GetAnswer,
    Input,
    OversizedPublish,
    Publish,
    Purge,
    Purged,
    Ref,
    Refused,
    Reject,
    Release,
    ReportStatus,
    Status,
    TopologyAnswer,
    TopologyCommand,
)
from .node_context import NodeContext
from .runtime import LoopActor, tell

_TOPOLOGY_METHODS = (
    ExchangeDeclare,
    ExchangeDelete,
    QueueDeclare,
    QueueDelete,
    QueueBind,
    QueueUnbind,
)
_UNBUILT_METHODS = (TxSelect, TxCommit, TxRollback, ExchangeBind, ExchangeUnbind)


class Channel(LoopActor):
    """A channel of one connection, from channel.open to its close."""

    def __init__(
        self,
        context: NodeContext,
        number: int,
        handshake: Handshake,
        window: WindowShare,
        reader: Ref,
        writer: Ref,
    ) -> None:
        super().__init__()
        self._context = context
        self._number = number
        self._reader = reader
        self._writer = writer
        self._connection = reader
        self._last_queue = ""
        frame_max_bytes = handshake.limits.frame_max_bytes
        self._publisher = Publisher(
            context.table,
            context.next_batch_number,
            number,
            frame_max_bytes,
            handshake.user,
            handshake.capability("return_delivery_tag"),
        )
        self._consuming = Consuming(self, context, number, frame_max_bytes, handshake)
        # The command whose answer is awaited, and what came in behind it.
        self._awaited: Method | None = None
        self._held_back: deque[Input | Command | OversizedPublish] = deque()
        self._window = window
        self._is_released = False

    def on_start(self) -> None:
        """Say that the channel is open."""
        self.write(ChannelOpenOk())

    def on_receive(self, message: object) -> None:
        """Dispatch, most frequent first; the one place where a client's mistake is caught."""
        if self._is_released:
            # Closed, or closing for a mistake: what was sent behind that is dropped.
            return
        try:
            if isinstance(message, Confirm):
                for batch, indexes in message.items:
                    self._publisher.unconfirmed.confirm(message.queue, batch, indexes)
            elif isinstance(message, Deliver):
                self._consuming.deliver(message)
            elif isinstance(message, (Input, Command, OversizedPublish)):
                if self._awaited is None:
                    self._take(message)
                else:
                    self._held_back.append(message)
            elif isinstance(message, Reject):
                for batch, indexes in message.items:
                    self._publisher.unconfirmed.reject(message.queue, batch, indexes)
            elif isinstance(message, Release):
                self._release()
                self.stop()
            elif isinstance(message, ConsumerCancelled):
                self._consuming.cancelled_by_queue(message.consumer_tag)
            else:
                self._answered(message)
        except AmqpError as error:
            self._fail(error)

    def on_idle(self) -> None:
        """Send what can be answered now, in as few frames as the cut-off rule allows."""
        if self._is_released:
            return
        publisher = self._publisher
        frames = publisher.answers()
        if frames:
            tell(self._writer, frames)
        released = publisher.unconfirmed.released_bytes
        if released:
            publisher.unconfirmed.released_bytes = 0
            if self._window.give_back(released):
                tell(self._reader, Absorbed())

    # --- What comes in from the client

    def _take(self, message: Input | Command | OversizedPublish) -> None:
        if isinstance(message, Input):
            self._input(message.channel_input)
        elif isinstance(message, Command):
            self._command(message.method)
        else:
            limit = self._context.message_size_max_bytes
            raise SoftError(
                PRECONDITION_FAILED,
                f"message size {message.body_bytes} is larger than configured max size {limit}",
                *PUBLISH,
            )

    def _input(self, channel_input: ChannelInput) -> None:
        if channel_input.batch is not None:
            self._publish(channel_input.batch)
        if channel_input.acks is not None:
            self._consuming.acknowledge(channel_input.acks)

    def _publish(self, batch: Batch) -> None:
        # State before effects: what queues owe is noted before they are told.
        routed = self._publisher.route(batch)
        if routed.frames:
            tell(self._writer, routed.frames)
        for queue, indexes in routed.told.items():
            handle: Ref = queue.handle  # type: ignore[assignment]
            if not tell(handle, Publish(self.actor_ref, batch, indexes)):
                # The queue vanished between routing and enqueuing: nack, no return.
                self._publisher.unconfirmed.reject(queue, batch, indexes)
        if routed.error is not None:
            raise routed.error

    def _command(self, method: Method) -> None:
        try:
            if isinstance(method, _TOPOLOGY_METHODS):
                self._topology(method)
            elif isinstance(method, CONSUMING_METHODS):
                self._consuming.command(method)
            elif isinstance(method, QueuePurge):
                self.ask_queue(method, self.queue(method.queue), Purge(self.actor_ref))
            elif isinstance(method, ConfirmSelect):
                self._publisher.confirm_mode = True
                if not method.no_wait:
                    self.write(ConfirmSelectOk())
            elif isinstance(method, ChannelFlow):
                if not method.active:
                    raise HardError(NOT_IMPLEMENTED, "active=false")
                self.write(ChannelFlowOk(True))
            elif isinstance(method, AccessRequest):
                self.write(AccessRequestOk(1))
            elif isinstance(method, ChannelClose):
                self._close()
            elif isinstance(method, ChannelOpen):
                raise HardError(CHANNEL_ERROR, "second 'channel.open' seen")
            elif isinstance(method, _UNBUILT_METHODS):
                raise HardError(NOT_IMPLEMENTED, f"{method.name}")
            elif not isinstance(method, (ChannelCloseOk, ChannelFlowOk)):
                raise HardError(COMMAND_INVALID, "unimplemented method")
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise

    def _topology(self, method: Method) -> None:
        if isinstance(method, (QueueBind, QueueDelete, QueueUnbind)) and not method.queue:
            # "" is the queue declared last on this channel, and as a key its name.
            name = self._queue_name("")
            if isinstance(method, QueueBind) and not method.routing_key:
                method = replace(method, routing_key=name)
            method = replace(method, queue=name)
        tell(self._context.broker, TopologyCommand(self.actor_ref, self._connection, method))
        self.await_answer(method)

    # --- Answers to what was asked

    def await_answer(self, method: Method) -> None:
        """Hold back what comes in until the question that `method` put to an actor is answered."""
        self._awaited = method

    def ask_queue(self, method: Method, queue: QueueDefinition, question: object) -> None:
        """Put `method`'s question to a queue and await the answer; 404 if the queue is no more."""
        handle: Ref = queue.handle  # type: ignore[assignment]
        if not tell(handle, question):
            if self._context.table.find_queue(queue.name) is queue:
                raise SoftError(NOT_FOUND, f"{queue} has crashed and failed to restart")
            raise SoftError(NOT_FOUND, f"no {queue}")
        self.await_answer(method)

    def _answered(self, message: object) -> None:
        method = self._awaited
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
            elif isinstance(message, (ConsumerAdded, ConsumerRemoved, GetAnswer)):
                self._consuming.answered(method, message)
            elif isinstance(message, Refused):
                raise message.error
        except AmqpError as error:
            error.class_id, error.method_id = method.class_id, method.method_id
            raise
        self._awaited = None
        while self._held_back and self._awaited is None:
            self._take(self._held_back.popleft())

    def _topology_answer(self, method: Method, message: TopologyAnswer) -> bool:
        """Write what the broker answered; true if a queue must be asked for its counts first."""
        if isinstance(message.answer, AmqpError):
            raise message.answer
        if message.queue is not None:
            self._last_queue = message.queue.name
            if message.asks_queue:
                self.ask_queue(method, message.queue, ReportStatus(self.actor_ref))
                return True
        self.write_unless_no_wait(method, message.answer)
        return False

    def write_unless_no_wait(self, method: Method, answer: Method) -> None:
        """Send the answer to `method`, if that asked for one."""
        if not getattr(method, "no_wait", False):
            self.write(answer)

    # --- For this actor and its consuming half

    def write(self, method: Method) -> None:
        """Send a method to the client."""
        tell(self._writer, encode_method(self._number, method))

    def write_frames(self, frames: object) -> None:
        """Send frames, bytes or WriteDeliveries, to the client."""
        tell(self._writer, frames)

    def queue(self, name: str) -> QueueDefinition:
        """The queue of that name, or the last declared for ""; 404 or 405 if it cannot be had."""
        return self._context.topology.queue(self._queue_name(name), self._connection)

    def _queue_name(self, name: str) -> str:
        if name:
            return name
        if not self._last_queue:
            raise SoftError(NOT_FOUND, "no previously declared queue")
        return self._last_queue

    # --- Endings

    def _close(self) -> None:
        self._release()
        tell(self._reader, ChannelClosed(self._number))
        self.write(ChannelCloseOk())
        self.stop()

    def _fail(self, error: AmqpError) -> None:
        """The client made a mistake: let go of everything and tell the reader why."""
        if self._is_released:
            return
        # What was confirmed before the mistake is still said.
        frames = self._publisher.answers()
        if frames:
            tell(self._writer, frames)
        self._release()
        tell(self._reader, ChannelFailed(self._number, error))
        self.stop()

    def _release(self) -> None:
        if self._is_released:
            return
        self._is_released = True
        self._consuming.release()
        self._held_back.clear()
        if self._window.release():
            tell(self._reader, Absorbed())

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: queues take back what it held, the client gets 541."""
        self._release()
        error = HardError(INTERNAL_ERROR, f"channel {self._number} failed")
        tell(self._reader, ChannelFailed(self._number, error))
