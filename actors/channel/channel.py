"""One channel: routes publishes, remembers the unconfirmed ones, hands out deliveries.

Duties: sequence numbers and routes (core/publishing/publisher.py); publishes on their way to
queues, and the queues' answers (`handover.py`); returns, confirms and nacks, coalesced when the
mailbox is empty; commands (`commands.py`), one at a time: while one is not carried out, the channel
holds back all later input (core/channel/waiting.py, held_back.py); consumers and unacked deliveries
(`consuming.py`, `deliveries.py`); transactions (core/channel/tx_mode.py). Parent: the reader. A
client's mistake ends the channel, which tells the reader, because the reader alone writes close
methods; an exception of ours ends the connection, 541.
"""

from __future__ import annotations

from typing import Final

from ...amqp_frames.constants import INTERNAL_ERROR, PRECONDITION_FAILED
from ...amqp_frames.decoder import Acks, ChannelInput
from ...amqp_frames.errors import AmqpError, HardError, SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
    TxSelectOk,
)
from ...core.channel.held_back import HeldBack, release_unused_bytes
from ...core.channel.queue_names import QueueNames
from ...core.channel.transaction import TransactionMemory
from ...core.channel.tx_mode import TransactionEnd, TxMode
from ...core.channel.waiting import State, Waiting
from ...core.connection.handshake import Handshake
from ...core.connection.outlet import OutletShare
from ...core.connection.publish_window import WindowShare
from ...core.connection.reading_time import ReadingTime
from ...core.exchanges.exchange import Steps
from ...core.publishing.properties import PUBLISH
from ...core.publishing.publisher import Publisher, Routed
from ...core.publishing.routes import immediate_refused
from ...core.publishing.vhost_users import VhostUser
from ...core.statistics.channel_counts import ChannelCounts
from ..messages import (
    Absorbed,
    ChannelClosed,
    ChannelFailed,
    ChannelLeft,
    ChannelReport,
    Command,
    CommitMore,
    Confirm,
    ConsumerCancelled,
    Deliver,
    DeliverReplies,
    Finish,
    OutletOpened,
    OversizedPublish,
    Ref,
    Reject,
    Release,
    ReportChannel,
    RouteMore,
    TimedOut,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from ..tracing.trace import ChannelTracing
from .commands import Commands, mixed
from .consuming import Consuming
from .firehose import FirehoseTap
from .handover import Handover
from .neighbours import ClientSide, Questions

# A large transaction is routed in several turns, between which others have theirs.
BATCHES_PER_TURN_MAX: Final = 64

# Where a state is asked for with each message: an attribute of an Enum's class takes long to find.
_FREE: Final = State.FREE
_ENDED: Final = State.ENDED

Incoming = ChannelInput | Command | OversizedPublish


class Channel(LoopActor):
    """A channel of one connection, from channel.open to its close."""

    def __init__(
        self,
        context: NodeContext,
        number: int,
        handshake: Handshake,
        vhost_user: VhostUser,
        window: WindowShare,
        outlet: OutletShare,
        reading: ReadingTime,
        transaction_memory: TransactionMemory,
        counts: ChannelCounts,
        reader: Ref,
        writer: Ref,
    ) -> None:
        super().__init__()
        self._context = context
        self._number = number
        self._reader = reader
        access = vhost_user.access
        frame_max_bytes = handshake.limits.frame_max_bytes
        self._publisher = Publisher(
            vhost_user.routes,
            context.next_batch_number,
            number,
            frame_max_bytes,
            handshake.user,
            handshake.capability("return_delivery_tag"),
            access.may_impersonate,
        )
        self._counts = counts
        self._sizes = context.message_sizes
        self.tracing = ChannelTracing(context.trace, number, handshake)
        tap = FirehoseTap(context, reader, number, handshake.user, access.topology)
        self._handover = Handover(
            context, self.actor_ref, self._publisher, counts, self.tracing, tap
        )
        self._client = ClientSide(number, writer)
        # What holds back the client's next message; one state for all of the channel.
        self._waiting = Waiting()
        names = QueueNames(access, reader)
        questions = Questions(context, self.actor_ref, self._waiting)
        self.consuming = Consuming(
            questions,
            names,
            self._client,
            self.tracing,
            context,
            number,
            frame_max_bytes,
            handshake,
            outlet,
            reading,
            self._publisher,
            self._counts,
            tap,
        )
        self._publisher.delivery_holder = self.consuming.deliveries.commands
        self._commands = Commands(
            context,
            access,
            reader,
            self._publisher,
            self.consuming,
            self._client,
            self.tracing,
            names,
            questions,
            self._waiting,
            self._counts,
        )
        # Of the batch whose routing takes several turns.
        self._routing: Steps[Routed] | None = None
        self._held_back: HeldBack[Incoming] = HeldBack(window)
        self._window = window
        # The memory that open transactions on all the connection's channels hold.
        self._transaction_memory = transaction_memory
        self._tx_mode: TxMode | None = None
        # Of commands and of held-back input, to be given back to the window.
        self._carried_out_bytes = 0
        # Of the input whose publishes are being routed.
        self._acks_behind: Acks | None = None
        # The connection has ended.
        self._is_abandoned = False
        # The client has closed the connection.
        self._is_finishing = False

    def on_start(self) -> None:
        """Say that the channel is open."""
        self.tracing.opened()
        self._client.write(ChannelOpenOk())

    def on_receive(self, message: object) -> None:
        """Dispatch, most frequent first; the one place where a client's mistake is caught."""
        state = self._waiting.state
        if state is _ENDED:
            # Closed, or closing for a mistake: the channel drops all later input.
            return
        try:
            if isinstance(message, ChannelInput):
                if state is _FREE:
                    self._input(message)
                else:
                    self._held_back.put(message, message)
            elif isinstance(message, (Confirm, Reject)):
                self._count_answers(message)
            elif isinstance(message, Deliver):
                self.consuming.deliveries.deliver(message)
            elif isinstance(message, (Command, OversizedPublish)):
                if self._waiting.state is _FREE:
                    self._handle(message)
                else:
                    self._held_back.put(message, None)
            elif isinstance(message, Release):
                self._is_abandoned = True
                self._end_if_abandoned()
            elif isinstance(message, Finish):
                self._is_finishing = True
            elif isinstance(message, DeliverReplies):
                self.consuming.replies.deliver(message)
            elif isinstance(message, CommitMore):
                if self._tx_mode is not None:
                    self._commit_more(self._tx_mode)
            elif isinstance(message, RouteMore):
                self._route_more()
            elif isinstance(message, ReportChannel):
                tell(message.reply_to, ChannelReport(self.actor_ref, self._report()))
            elif isinstance(message, TimedOut):
                self.consuming.deliveries.time_out(message)
            elif isinstance(message, Woken):
                self.consuming.deliveries.check_timeouts()
            elif isinstance(message, ConsumerCancelled):
                self.consuming.cancelled_by_queue(message)
            elif isinstance(message, OutletOpened):
                self._commands.outlet_opened()
                self._handle_held_back()
            else:
                # The answer of the broker or a queue to what Commands asked.
                self._commands.answered(message)
                self._handle_held_back()
        except AmqpError as error:
            self._fail(error)

    def on_idle(self) -> None:
        """Send what can be answered now, in as few frames as the cut-off rule allows."""
        if self._tx_mode is not None:
            self._finish_commit(self._tx_mode)
        if self._waiting.state is _ENDED:
            return
        unconfirmed = self._publisher.unconfirmed
        if unconfirmed.are_answers_due():
            self._answer()
        if self._is_finishing and self._waiting.state is _FREE and not self._held_back:
            self._end_for(0, "its connection ended")
            return
        released_bytes = unconfirmed.released_bytes + self._carried_out_bytes
        if released_bytes:
            unconfirmed.released_bytes = self._carried_out_bytes = 0
            for reader in self._window.remove(released_bytes):
                tell(reader, Absorbed())

    def _finish_commit(self, tx_mode: TxMode) -> None:
        try:
            while (end := tx_mode.finish()) is not None:
                self._end_transaction(end)
                self._handle_held_back()
        except AmqpError as error:
            self._fail(error)

    def _count_answers(self, message: Confirm | Reject) -> None:
        tx_mode = self._tx_mode
        if tx_mode is not None and isinstance(message, Reject) and message.is_for_now:
            tx_mode.why_refused = message.reason
        # In a transaction no publish is answered by itself.
        self._handover.answered(message, is_timed=tx_mode is None)

    def _answer(self) -> None:
        if self.tracing.answers.open:
            self.tracing.answers.answering(self._publisher.unconfirmed)
        frames = self._publisher.answers()
        if frames:
            tell(self._client.writer, frames)

    # --- Input from the client

    def _handle(self, message: Incoming) -> None:
        if isinstance(message, ChannelInput):
            self._input(message)
        elif isinstance(message, Command):
            self._carried_out_bytes += message.window_bytes
            self._carry_out(message.method)
        else:
            if message.is_immediate:
                raise immediate_refused()
            limit = self._context.message_size_max_bytes
            raise SoftError(
                PRECONDITION_FAILED,
                f"message size {message.body_bytes} is larger than configured max size {limit}",
                *PUBLISH,
            )

    def _carry_out(self, method: Method) -> None:
        if isinstance(method, ChannelClose):
            self._close()
        elif isinstance(method, (TxSelect, TxCommit, TxRollback)):
            try:
                self._transact(method)
            except AmqpError as error:
                error.class_id, error.method_id = method.class_id, method.method_id
                raise
        else:
            self._commands.carry_out(method)

    def _transact(self, method: TxSelect | TxCommit | TxRollback) -> None:
        tx_mode = self._tx_mode
        if isinstance(method, TxSelect):
            if self._publisher.confirm_mode:
                raise mixed("confirm", "tx")
            if tx_mode is None:
                self._tx_mode = TxMode(
                    self._publisher,
                    self.consuming.deliveries.outstanding,
                    self._waiting,
                    self._window,
                    self._transaction_memory,
                )
                self.tracing.is_transactional = True
            self._client.write(TxSelectOk())
        elif tx_mode is None:
            raise SoftError(PRECONDITION_FAILED, "channel is not transactional")
        elif isinstance(method, TxCommit):
            tx_mode.commit()
            self._commit_more(tx_mode)
        else:
            self._end_transaction(tx_mode.rollback())

    def _commit_more(self, tx_mode: TxMode) -> None:
        """Route the next batches of a commit."""
        for _ in range(BATCHES_PER_TURN_MAX):
            held = tx_mode.next_publishes()
            if held is None:
                return
            routed = self._begin_routing(self._publisher.route_held(held))
            if routed is None:
                return
            self._tell_queues(routed)
            tx_mode.routed(routed)
        if not tx_mode.is_told():
            tell(self.actor_ref, CommitMore())

    def _end_transaction(self, end: TransactionEnd) -> None:
        self.consuming.deliveries.end_transaction(end.returned)
        if end.answer is not None:
            self._client.write(end.answer)
        if self._context.trace.is_on:
            self.tracing.transaction(end)
        if end.error is not None:
            raise end.error

    def _handle_held_back(self) -> None:
        while self._held_back and self._waiting.state is State.FREE:
            message, kept_bytes = self._held_back.pop()
            self._carried_out_bytes += kept_bytes
            self._handle(message)

    def _input(self, channel_input: ChannelInput) -> None:
        if self._context.routing_turns.waiting:
            # Its routing, too, may have to wait.
            release_unused_bytes(channel_input)
        if channel_input.batch is not None:
            self._publish(channel_input.batch)
            if self._waiting.state is not _FREE:
                self._acks_behind = channel_input.acks
                return
        if channel_input.acks is not None:
            self._acknowledge(channel_input.acks)

    def _acknowledge(self, acks: Acks) -> None:
        self.consuming.deliveries.acknowledge(acks)

    def _publish(self, batch: Batch) -> None:
        self._sizes.published(batch)
        if self._tx_mode is not None:
            self._carried_out_bytes += batch.wire_bytes
            self._tx_mode.publish(batch)
            self._carry_out_commands()
            return
        if self._handover.pass_to_one(batch):
            return
        routed = self._publisher.route_known(batch)
        if routed is None:
            routed = self._begin_routing(self._publisher.route(batch))
        if routed is not None:
            self._pass_on(routed)

    def _begin_routing(self, steps: Steps[Routed]) -> Routed | None:
        """Go on with the routing of a batch; None if that goes on with RouteMore."""
        routed = self._context.routing_turns.start(steps, self.actor_ref)
        if routed is None:
            self._routing = steps
            self._waiting.route_in_steps()
        return routed

    def _route_more(self) -> None:
        if self._routing is None:
            return
        routed = self._context.routing_turns.go_on(self._routing, self.actor_ref)
        if routed is None:
            return
        self._routing = None
        self._waiting.routed()
        if self._tx_mode is not None:
            self._tell_queues(routed)
            self._tx_mode.routed(routed)
            self._commit_more(self._tx_mode)
        else:
            self._pass_on(routed)
            acks, self._acks_behind = self._acks_behind, None
            if acks is not None:
                self._acknowledge(acks)
        self._handle_held_back()
        self._end_if_abandoned()

    def _pass_on(self, routed: Routed) -> None:
        # State before effects: what queues owe is noted before they are told.
        self._tell_queues(routed)
        self._carry_out_commands()
        if routed.error is not None:
            raise routed.error

    def _tell_queues(self, routed: Routed) -> None:
        """Send the frames for the publisher at once, and tell each queue its own messages."""
        if routed.frames:
            tell(self._client.writer, routed.frames)
        self._handover.pass_to_queues(routed)
        for name, indexes in routed.replies.items():
            channel = self._context.reply_consumers.find(name)
            if channel is not None:
                tell(channel, DeliverReplies(name, routed.batch, indexes))

    def _carry_out_commands(self) -> None:
        """Tell the queues of the commands about deliveries that were among the publishes."""
        deliveries = self.consuming.deliveries
        if not deliveries.commands.is_empty:
            deliveries.carry_out_commands()

    def _end_if_abandoned(self) -> None:
        """End with the connection, but route the publishes that came in before its end."""
        if (
            not self._is_abandoned
            or self._waiting.is_routing()
            or self._waiting.state is State.ENDED
        ):
            return
        self.tracing.closed(0, "its connection ended")
        self._release()
        self.stop()

    def _report(self) -> dict[str, object]:
        publisher = self._publisher
        mode = "tx" if publisher.transactional else "confirm" if publisher.confirm_mode else ""
        counts = {"mode": mode, "unconfirmed": len(publisher.unconfirmed)}
        return counts | self.consuming.counts()

    # --- Endings

    def _close(self) -> None:
        """The client closed the channel: send the confirms that are due, then end."""
        self._answer()
        self._end_for(200, "closed by the client")
        self._client.write(ChannelCloseOk())

    def _end_for(self, reply_code: int, reason: str) -> None:
        """The client closed the channel, or its connection, and all input before that is
        handled."""
        self.tracing.closed(reply_code, reason)
        self._release()
        tell(self._reader, ChannelClosed(self._number))
        self.stop()

    def _fail(self, error: AmqpError) -> None:
        """The client made a mistake: let go of everything and tell the reader why."""
        if self._waiting.state is State.ENDED:
            return
        # A traceback refers to frames, and these to the channel and to the error.
        error = error.with_traceback(None)
        # The client still gets the confirms that were due before its mistake.
        self._answer()
        self.tracing.refused(error)
        self.tracing.closed(error.reply_code, error.reply_text)
        self._release()
        tell(self._reader, ChannelFailed(self._number, error))
        self.stop()

    def _release(self) -> None:
        if self._waiting.state is State.ENDED:
            return
        self._waiting.end()
        self._counts.end()
        self.consuming.release()
        if self._tx_mode is not None:
            self._tx_mode.release()
        self._held_back.clear()
        self._routing = None
        released = self._window.release()
        for reader in released.readers:
            tell(reader, Absorbed())
        if released.unabsorbed_bytes:
            tell(self._context.left_publishes, ChannelLeft(released.unabsorbed_bytes))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: queues take back what it held, the client gets 541."""
        self._release()
        error = HardError(INTERNAL_ERROR, f"channel {self._number} failed")
        tell(self._reader, ChannelFailed(self._number, error))
