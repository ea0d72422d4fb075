"""One channel: routes what is published, remembers what is unconfirmed, hands out deliveries.

Duties: sequence numbers and routes (core/publisher.py); returns, confirms and nacks, coalesced when
the mailbox is empty; commands, one at a time: one that needs an answer from the broker or a queue
holds back the commands behind it until the answer is there; consumers and unacked deliveries
(`channel_consuming.py`,
`channel_deliveries.py`). Parent: the reader. A client's mistake ends the channel and is told
to the reader, which alone writes close methods; an exception of ours ends the connection, 541.
"""

from __future__ import annotations

from functools import partial

from ..amqp_frames.batch import Batch, ChannelInput, Indexes
from ..amqp_frames.constants import INTERNAL_ERROR, PRECONDITION_FAILED
from ..amqp_frames.errors import AmqpError, HardError, SoftError
from ..amqp_frames.methods import ChannelCloseOk, ChannelOpenOk, Method, encode_method
from ..core.access import WRITE, Access
from ..core.definitions import QueueDefinition
from ..core.handshake import Handshake
from ..core.outlet import OutletShare
from ..core.publish_properties import PUBLISH
from ..core.publish_window import WindowShare
from ..core.publisher import Publisher, Routed
from ..core.routes import immediate_refused
from ..core.transaction import TransactionMemory
from .channel_commands import Commands
from .channel_consuming import Consuming
from .channel_transaction import ChannelTransaction
from .held_back import HeldBack
from .messages import (
    Absorbed,
    ChannelClosed,
    ChannelFailed,
    ChannelReport,
    Command,
    CommitMore,
    Confirm,
    ConsumerCancelled,
    CreditChanged,
    Deliver,
    DeliverReplies,
    Input,
    OversizedPublish,
    Publish,
    Ref,
    Reject,
    Release,
    ReportChannel,
    Woken,
)
from .node_context import NodeContext
from .runtime import LoopActor, tell
from .tracing import ChannelTracing


class Channel(LoopActor):
    """A channel of one connection, from channel.open to its close."""

    def __init__(
        self,
        context: NodeContext,
        number: int,
        handshake: Handshake,
        access: Access,
        window: WindowShare,
        outlet: OutletShare,
        transaction_memory: TransactionMemory,
        reader: Ref,
        writer: Ref,
    ) -> None:
        super().__init__()
        self._context = context
        self._number = number
        self._reader = reader
        self._writer = writer
        frame_max_bytes = handshake.limits.frame_max_bytes
        self._publisher = Publisher(
            access.topology.table,
            context.next_batch_number,
            number,
            frame_max_bytes,
            handshake.user,
            handshake.capability("return_delivery_tag"),
            partial(access.check, WRITE, "exchange"),
            access.may_impersonate,
        )
        self.tracing = ChannelTracing(context.trace, handshake.peer_name, number, handshake.user)
        self.consuming = Consuming(
            self, context, number, frame_max_bytes, handshake, outlet, self._publisher
        )
        self.commands = Commands(self, context, access, self._publisher, reader)
        self._held_back = HeldBack(window)
        self.window = window
        # What waits for a commit, of all the connection's channels, and what does on this one.
        self.transaction_memory = transaction_memory
        self.transaction: ChannelTransaction | None = None
        # Of commands and of what was held back, to be given back to the window.
        self._carried_out_bytes = 0
        self._is_released = False

    def on_start(self) -> None:
        """Say that the channel is open."""
        self.tracing.tell("channel.opened")
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
                self.consuming.deliveries.deliver(message)
            elif isinstance(message, (Input, Command, OversizedPublish)):
                if self.commands.awaited is None:
                    self._take(message)
                else:
                    self._held_back.put(message)
            elif isinstance(message, Reject):
                self.tracing.rejecting(message.queue.name, message.reason)
                for batch, indexes in message.items:
                    self._publisher.unconfirmed.reject(message.queue, batch, indexes)
            elif isinstance(message, Release):
                self.tracing.closed(0, "its connection ended")
                self._release()
                self.stop()
            elif isinstance(message, DeliverReplies):
                self.consuming.replies.deliver(message)
            elif isinstance(message, CommitMore):
                if self.transaction is not None:
                    self.transaction.commit_more()
            elif isinstance(message, ReportChannel):
                tell(message.reply_to, ChannelReport(self.actor_ref, self._counts()))
            elif isinstance(message, Woken):
                self.consuming.deliveries.timeouts.woken()
            elif isinstance(message, ConsumerCancelled):
                self.consuming.cancelled_by_queue(message.consumer_tag)
            elif isinstance(message, CreditChanged):
                self.commands.outlet_opened()
                self._take_held_back()
            else:
                self.commands.answered(message)
                self._take_held_back()
        except AmqpError as error:
            self._fail(error)

    def on_idle(self) -> None:
        """Send what can be answered now, in as few frames as the cut-off rule allows."""
        if self._is_released:
            return
        if self.transaction is not None:
            self._finish_commit(self.transaction)
            if self._is_released:
                return
        self._answer()
        publisher = self._publisher
        released_bytes = publisher.unconfirmed.released_bytes + self._carried_out_bytes
        if released_bytes:
            publisher.unconfirmed.released_bytes = self._carried_out_bytes = 0
            if self.window.give_back(released_bytes):
                tell(self._reader, Absorbed())

    def _finish_commit(self, transaction: ChannelTransaction) -> None:
        try:
            while transaction.finish():
                self._take_held_back()
        except AmqpError as error:
            self._fail(error)

    def _answer(self) -> None:
        self.tracing.answering(self._publisher.unconfirmed)
        frames = self._publisher.answers()
        if frames:
            tell(self._writer, frames)

    def _reject(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> None:
        self.tracing.rejected(queue.name, batch, indexes, "the queue was gone")
        self._publisher.unconfirmed.reject(queue, batch, indexes)

    # --- What comes in from the client

    def _take(self, message: Input | Command | OversizedPublish) -> None:
        if isinstance(message, Input):
            self._input(message.channel_input)
        elif isinstance(message, Command):
            self._carried_out_bytes += message.window_bytes
            self.commands.carry_out(message.method)
        else:
            if message.is_immediate:
                raise immediate_refused()
            limit = self._context.message_size_max_bytes
            raise SoftError(
                PRECONDITION_FAILED,
                f"message size {message.body_bytes} is larger than configured max size {limit}",
                *PUBLISH,
            )

    def _take_held_back(self) -> None:
        while self._held_back and self.commands.awaited is None:
            message, kept_bytes = self._held_back.take_out()
            self._carried_out_bytes += kept_bytes
            self._take(message)

    def _input(self, channel_input: ChannelInput) -> None:
        if channel_input.batch is not None:
            self._publish(channel_input.batch)
        if channel_input.acks is not None:
            self.consuming.deliveries.acknowledge(channel_input.acks)

    def _publish(self, batch: Batch) -> None:
        if self.transaction is not None:
            self._carried_out_bytes += batch.wire_bytes()
            self.transaction.publish(batch)
            return
        # State before effects: what queues owe is noted before they are told.
        routed = self._publisher.route(batch)
        self.tell_queues(routed)
        if routed.error is not None:
            raise routed.error

    def _counts(self) -> dict[str, object]:
        publisher = self._publisher
        mode = "tx" if publisher.transactional else "confirm" if publisher.confirm_mode else ""
        counts = {"mode": mode, "unconfirmed": len(publisher.unconfirmed)}
        return counts | self.consuming.counts()

    # --- For this actor and its halves

    def tell_queues(self, routed: Routed) -> None:
        """Send what comes back to the publisher at once, and tell each queue what is its own."""
        batch = routed.batch
        if self._context.trace.is_on:
            self.tracing.published(routed, self._publisher.unconfirmed)
        if routed.frames:
            tell(self._writer, routed.frames)
        for queue, indexes in routed.told.items():
            handle: Ref = queue.handle  # type: ignore[assignment]
            if not tell(handle, Publish(self.actor_ref, batch, indexes)):
                # The queue vanished between routing and enqueuing: nack, no return.
                self._reject(queue, batch, indexes)
        for name, indexes in routed.replies.items():
            channel = self._context.reply_consumers.find(name)
            if channel is not None:
                tell(channel, DeliverReplies(name, batch, indexes))

    def write(self, method: Method) -> None:
        """Send a method to the client."""
        tell(self._writer, encode_method(self._number, method))

    def write_frames(self, frames: object) -> None:
        """Send frames, bytes or WriteDeliveries, to the client."""
        tell(self._writer, frames)

    # --- Endings

    def close(self) -> None:
        """The client closed the channel: what is confirmed by now is still said."""
        self._answer()
        self.tracing.closed(200, "closed by the client")
        self._release()
        tell(self._reader, ChannelClosed(self._number))
        self.write(ChannelCloseOk())
        self.stop()

    def _fail(self, error: AmqpError) -> None:
        """The client made a mistake: let go of everything and tell the reader why."""
        if self._is_released:
            return
        # What was confirmed before the mistake is still said.
        self._answer()
        self.tracing.refused(error)
        self.tracing.closed(error.reply_code, error.reply_text)
        self._release()
        tell(self._reader, ChannelFailed(self._number, error))
        self.stop()

    def _release(self) -> None:
        if self._is_released:
            return
        self._is_released = True
        self.consuming.release()
        if self.transaction is not None:
            self.transaction.release()
        self._held_back.clear()
        if self.window.release():
            tell(self._reader, Absorbed())

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: queues take back what it held, the client gets 541."""
        self._release()
        error = HardError(INTERNAL_ERROR, f"channel {self._number} failed")
        tell(self._reader, ChannelFailed(self._number, error))
