"""The messages that a topic has kept in its hidden queue move on to its channels.

A topic's hidden queue (core/nsq/topics.py) that is not bound any more, because the topic was
resumed, for example, has messages for all channels. A mover consumes it and publishes to the
topic's queues, like a client of both: a message is settled when every queue has confirmed it, so a
crash may leave it in both places, and never in none. The node's next start goes on with it. When
the hidden queue is empty, the broker deletes it.

Each round is one commit of the journal, and a stop of the node waits for it. A message that expires
keeps the rest of its time; its attempts begin at none, because no client has had it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.copies import copied
from ...core.connection.channel_credit import ChannelCredit
from ...core.definitions import HIDDEN_PREFIX, QueueDefinition
from ...core.exchanges.table import carry_out
from ...core.queue.consumers import Consumer
from ...core.queue.expiry import deadline_of
from ...core.queue.in_flight import Delivery
from ...core.queue.span import Span
from ...storage.arrivals import arrived
from ..messages import (
    AddConsumer,
    ChannelDown,
    Confirm,
    ConsumerCancelled,
    Deliver,
    Publish,
    QueueUnused,
    Ref,
    Reject,
    ReportStatus,
    Sent,
    Settle,
    Status,
    StopMoving,
    WakeAt,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell

# So many messages are moved at once, one commit of the journal for them all.
ROUND_MESSAGES_MAX: Final = 4_096
# Behind an alarm, or a queue that is full, a mover tries again.
RETRY_SECONDS: Final = 1.0
_RETRY: Final = "go on moving"


class TopicMoves:
    """The movers of a node: one for each hidden queue that is not bound."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._movers: dict[QueueDefinition, Ref] = {}

    def look_at(self, hidden_queues: Iterable[QueueDefinition]) -> None:
        """Begin to move what these hold, or end it, as their bindings say now."""
        self._movers = {queue: each for queue, each in self._movers.items() if each.is_alive()}
        for queue in hidden_queues:
            table = self._context.vhosts.table_of(queue)
            mover = self._movers.get(queue)
            if table is None or table.bindings_to(queue):
                if mover is not None:
                    tell(self._movers.pop(queue), StopMoving())
            elif mover is None:
                runtime = self._context.runtime
                self._movers[queue] = TopicMover.start_on(runtime, self._context, queue)


class TopicMover(LoopActor):
    """Moves the messages of one hidden queue, in rounds. Parent: the broker."""

    def __init__(self, context: NodeContext, hidden: QueueDefinition) -> None:
        super().__init__()
        self._context = context
        self._hidden = hidden
        self._topic = hidden.name.removeprefix(HIDDEN_PREFIX)
        self._consumer = Consumer(
            self.actor_ref,
            b"\0",
            ROUND_MESSAGES_MAX,
            ChannelCredit(),
            no_ack=False,
            exclusive=False,
        )
        # The round at hand, later deliveries, and how many messages of the round queues have not
        # answered.
        self._round: list[Delivery] = []
        self._waiting: list[Delivery] = []
        self._owed: dict[tuple[QueueDefinition, Batch], int] = {}
        # Refused messages, which queues are told again while they exist.
        self._refused: list[tuple[QueueDefinition, Batch, Indexes]] = []
        self._is_asked = False
        self._is_stopping = self._has_ended = False

    def on_start(self) -> None:
        """Ask for what there is."""
        self._tell_hidden(AddConsumer(self._consumer, self.actor_ref))
        self._ask_whether_empty()

    def on_receive(self, message: object) -> None:
        """Move deliveries, count answers; stop when nothing is left."""
        if self._has_ended:
            return
        if isinstance(message, Deliver):
            self._waiting += message.deliveries
        elif isinstance(message, Confirm):
            for batch, indexes in message.items:
                self._answered(message.queue, batch, indexes)
        elif isinstance(message, Reject):
            for batch, indexes in message.items:
                self._refused.append((message.queue, batch, indexes))
                self._answered(message.queue, batch, indexes)
        elif isinstance(message, Status):
            self._told_status(message)
        elif isinstance(message, (StopMoving, ConsumerCancelled)):
            self._is_stopping = True
        elif isinstance(message, Woken):
            self._go_on()

    def on_idle(self) -> None:
        """Begin the next round behind the last."""
        if self._owed or self._has_ended:
            return
        if self._refused and not self._is_stopping:
            self._wait()
            return
        if self._round and not self._refused:
            self._end_round()
        if self._is_stopping:
            self._end()
        elif self._waiting:
            self._begin_round()

    def _begin_round(self) -> None:
        if self._context.is_stopping:
            return
        queues = () if self._context.alarms.reason else self._queues()
        if self._hidden in queues:
            # The topic keeps its messages again.
            self._end()
            return
        if not queues:
            self._wait()
            return
        self._round, self._waiting = self._waiting, []
        for delivery in self._round:
            span = delivery.span
            batch_number = self._context.next_batch_number()
            since = arrived(span.batch, self._context.wall_distance_ns)
            batch = copied(span.batch, span.indexes, batch_number, self._ttl_ms(span), since)
            for queue in queues:
                indexes = range(len(batch.starts))
                self._publish(queue, batch, indexes, is_shared=len(queues) > 1)

    def _ttl_ms(self, span: Span) -> int | None:
        deadline_ms = deadline_of(span)
        if deadline_ms is None:
            return None
        return max(0, deadline_ms - self.runtime.wall_clock.now_ms())

    def _queues(self) -> tuple[QueueDefinition, ...]:
        """Where the topic's messages go now: nowhere while AMQP has removed its bindings."""
        topology = self._context.vhosts.find(self._hidden.vhost)
        if topology is None or topology.table.find_exchange(self._topic) is None:
            return ()
        return carry_out(topology.table.route(self._topic, ""))

    def _publish(
        self, queue: QueueDefinition, batch: Batch, indexes: Indexes, *, is_shared: bool
    ) -> None:
        self._context.moving.add(self.actor_ref)
        place = queue, batch
        self._owed[place] = self._owed.get(place, 0) + len(indexes)
        publish = Publish(self.actor_ref, batch, indexes, is_shared=is_shared)
        if not tell(queue.handle, publish):
            self._refused.append((queue, batch, indexes))
            self._answered(queue, batch, indexes)

    def _answered(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> None:
        place = queue, batch
        self._owed[place] -= len(indexes)
        if not self._owed[place]:
            del self._owed[place]

    def _go_on(self) -> None:
        """A wait is over; `on_idle` goes on with messages that are waiting."""
        if self._owed:
            return
        if not self._round:
            self._ask_whether_empty()
        elif not (self._context.alarms.reason or self._context.is_stopping):
            refused, self._refused = self._refused, []
            for queue, batch, indexes in refused:
                # A deleted queue has lost its messages anyhow.
                if self._context.vhosts.table_of(queue) is not None:
                    self._publish(queue, batch, indexes, is_shared=True)

    def _told_status(self, status: Status) -> None:
        self._is_asked = False
        if self._round or self._waiting or status.message_count:
            return
        if status.unacked_count or status.deferred_count:
            # Deferred ones come when they are due, unless they expire.
            self._wait()
            return
        self._end()
        # Publishers may have routed more to it before it lost its binding: the broker looks again.
        tell(self._context.broker, QueueUnused(self._hidden))

    def _end_round(self) -> None:
        """Every queue has all of them: fsync before settle."""
        done, self._round = self._round, []
        parts = []
        for each in done:
            delivery, start = each.found()
            parts.append((delivery, start, start + len(each.span)))
        count = sum(len(each.span) for each in done)
        self._consumer.channel_credit.release(count)
        self._tell_hidden(Settle(self.actor_ref, parts, "moved on to the channels"))
        self._context.moving.discard(self.actor_ref)
        if self._consumer.sent(sum(each.wire_bytes for each in done)):
            self._tell_hidden(Sent(self._consumer))
        self._ask_whether_empty()

    def _ask_whether_empty(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._tell_hidden(ReportStatus(self.actor_ref))

    def _wait(self) -> None:
        self._context.moving.discard(self.actor_ref)
        when = self.runtime.scheduler.time() + RETRY_SECONDS
        tell(self._context.ticker, WakeAt(when, self.actor_ref, _RETRY))

    def _end(self) -> None:
        """Move nothing more; unsettled messages are the hidden queue's again."""
        self._has_ended = True
        self._context.moving.discard(self.actor_ref)
        self._tell_hidden(ChannelDown(self.actor_ref))
        self.stop()

    def _tell_hidden(self, message: object) -> None:
        tell(self._hidden.handle, message)

    def on_failure(self, *_exception: Any) -> None:
        """The messages stay where they are until the next start, or the next change."""
        self._context.moving.discard(self.actor_ref)
        self._tell_hidden(ChannelDown(self.actor_ref))
