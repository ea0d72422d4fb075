"""One queue: takes what is routed to it, confirms it, pushes it to consumers.

The rules are core/message_queue.py's; this shell carries out the effects, in a fixed order:
append, confirm, reject, record, dead-letter, deliver. A persistent message of a durable queue is
confirmed only when the journal says that it is on disk: fsync before confirm. A queue that goes or
fails answers for everything that it owes: each publish is nacked, each question gets its 404.
"""

from __future__ import annotations

from collections import deque

from ..amqp_frames.constants import ACCESS_REFUSED
from ..amqp_frames.errors import SoftError
from ..core.declaration_checks import gone
from ..core.definitions import QueueDefinition
from ..core.effects import Effects
from ..core.expiring_queue import ExpiringQueue
from ..core.message_queue import MessageQueue
from .messages import (
    AddConsumer,
    Append,
    ChannelDown,
    ConsumerAdded,
    ConsumerCancelled,
    ConsumerRemoved,
    CreditChanged,
    DeadLettersSafe,
    Delete,
    Deliver,
    Discard,
    DropQueue,
    Get,
    GetAnswer,
    Persisted,
    PrepareDelete,
    Publish,
    PublishDead,
    Purge,
    Purged,
    QueueFailed,
    QueueUnused,
    RecordDeliveries,
    Refused,
    RemoveConsumer,
    RenewLease,
    ReportStatus,
    Requeue,
    Resume,
    Sent,
    Settle,
    SettleSynced,
    Status,
    Woken,
)
from .node_context import NodeContext
from .queue_answers import QueueAnswers, drained, refuse
from .queue_expiry import QueueExpiry
from .queue_lease import LEASE_ENDS, QueueLease
from .queue_tracing import QueueTracing
from .runtime import LoopActor, tell


class Queue(LoopActor):
    """The actor of one queue. Parent: the broker."""

    def __init__(
        self, context: NodeContext, definition: QueueDefinition, messages: MessageQueue
    ) -> None:
        super().__init__()
        self._definition = definition
        self._messages = messages
        self._lease = QueueLease(context, definition, self.actor_ref)
        self._context = context
        self._expiry: QueueExpiry | None = None  # only of a queue whose messages may expire
        self._journal = context.journal
        self._tracing = QueueTracing(context.trace, definition.name, definition.queue_id)
        self._answers = QueueAnswers(definition, self._tracing)
        self._is_deleted = False
        # While a delete is decided on: what came since its counts were told.
        self._is_held = False
        self._held_back: deque[object] = deque()
        # What is being handled: if that fails, it is answered with the rest.
        self._at_hand: object = None

    def on_start(self) -> None:
        """What came back from the journal may be too much for the queue's limits, or too old."""
        if isinstance(self._messages, ExpiringQueue):
            self._begin_expiry(self._messages)
        effects = Effects()
        self._messages.dispatch(effects)
        self._carry_out(effects)
        self._lease.renew()
        self.on_idle()

    def _begin_expiry(self, messages: ExpiringQueue) -> None:
        self._messages = messages
        self._expiry = QueueExpiry(messages, self.actor_ref, self._context)
        self._expiry.read_clock()

    def on_receive(self, message: object) -> None:
        """Dispatch, most frequent first."""
        if self._is_held and not isinstance(message, (Persisted, Delete, Resume)):
            self._held_back.append(message)
            return
        self._at_hand = message
        if self._expiry is not None:
            self._expiry.read_clock()
        effects = Effects()
        if isinstance(message, Publish):
            if message.batch.ttls_ms is not None and self._expiry is None:
                self._begin_expiry(ExpiringQueue.continuing(self._messages))
            self._messages.publish(message.batch, message.indexes, effects)
            self._tracing.enqueued(message, effects, self._messages.ready.message_count)
            self._carry_out(effects, message)
        elif isinstance(message, Persisted):
            self._answers.persisted(message.appends)
        else:
            self._give_and_take(message, effects)
            self._carry_out(effects)
        self._at_hand = None

    def _give_and_take(self, message: object, effects: Effects) -> None:
        messages = self._messages
        if isinstance(message, Settle):
            messages.settle(message.channel, message.parts, effects)
            self._tracing.parts("message.settled", message.parts, "acked")
        elif isinstance(message, Discard):
            messages.discard(message.channel, message.parts, effects)
        elif isinstance(message, Sent):
            messages.sent(message.consumer, message.window_bytes, effects)
        elif isinstance(message, Requeue):
            messages.requeue(message.channel, message.parts, effects)
            self._tracing.parts("message.requeued", message.parts, "given back")
        elif isinstance(message, DeadLettersSafe):
            effects.settled_entries.extend(message.ranges)
            self._tracing.letters_safe(message.traced)
        elif isinstance(message, CreditChanged):
            messages.dispatch(effects, message.channel)
        elif isinstance(message, ChannelDown):
            self._answers.forget(message.channel)
            self._tracing.given_back(messages, message.channel)
            had_consumers = messages.channel_down(message.channel, effects)
            self._check_unused(bool(had_consumers))
        else:
            self._command(message, effects)

    def on_idle(self) -> None:
        """Tell every channel what is confirmed, once; see to it to be woken in time."""
        self._answers.send()
        if self._expiry is not None:
            self._expiry.watch()

    def _carry_out(self, effects: Effects, publish: Publish | None = None) -> None:
        if publish is not None:
            if effects.appended is not None:
                # Fsync before confirm: confirmed when the journal answers; if it failed, never.
                append = Append(
                    self.actor_ref,
                    self._definition.queue_id,
                    publish.channel,
                    publish.batch,
                    *effects.appended,
                    effects.deadlines,
                )
                self._answers.owe(append)
                tell(self._journal, append)
            if effects.confirmed is not None:
                self._answers.confirm(publish.channel, publish.batch, effects.confirmed)
            if effects.rejected is not None:
                self._answers.reject(publish.channel, publish.batch, effects.rejected)
        self._record(effects)
        if effects.dead:
            self._tracing.died(effects.dead, self._messages)
            if self._messages.dead_letters:
                tell(self._context.dead_letters, PublishDead(self._definition, effects.dead))
        for consumer, deliveries in effects.delivered:
            if consumer.no_ack:
                self._tracing.not_acked(deliveries)
            tell(consumer.channel, Deliver(consumer, deliveries))  # type: ignore[arg-type]
        self._messages.sweep_if_due()

    def _record(self, effects: Effects) -> None:
        """Have deliveries and settles journalled: before they are sent, but not waited for.

        So nearly every delivery that a client has seen is counted after kill -9; one of the last
        moments may come back with an attempt too few.
        """
        if effects.delivered_entries or effects.settled_entries:
            # When the node stops, dead letters may become safe behind the journal's end.
            tell(
                self._journal,
                RecordDeliveries(
                    self._definition.queue_id, effects.delivered_entries, effects.settled_entries
                ),
            )

    # --- Commands and questions

    def _command(self, message: object, effects: Effects) -> None:
        messages = self._messages
        if isinstance(message, AddConsumer):
            self._add_consumer(message, effects)
        elif isinstance(message, RemoveConsumer):
            # First: what it leaves to others comes behind cancel-ok.
            tell(message.channel, ConsumerRemoved(message.consumer_tag))
            removed = messages.cancel(message.channel, message.consumer_tag, effects)
            self._check_unused(removed is not None)
        elif isinstance(message, Get):
            got = Effects()
            delivery = messages.get(message.channel, message.no_ack, got)
            self._tracing.got(delivery, message.no_ack)
            self._carry_out(got)
            self._lease.renew()
            tell(message.channel, GetAnswer(delivery, messages.ready.message_count))
        elif isinstance(message, (ReportStatus, PrepareDelete)):
            is_over = self._lease.is_over()
            tell(message.reply_to, Status(self._definition, *messages.counts(), is_over))
            self._is_held = isinstance(message, PrepareDelete)
        elif isinstance(message, Purge):
            self._purge(message)
        elif isinstance(message, Resume):
            self._is_held = False
            while self._held_back:
                self.on_receive(self._held_back.popleft())
        elif isinstance(message, Delete):
            self._is_deleted = True
            self.stop()
        elif isinstance(message, RenewLease):
            self._lease.renew()
        elif isinstance(message, Woken):
            if message.token is LEASE_ENDS:
                self._lease.woken(len(messages.consumers))
            elif self._expiry is not None:
                self._expiry.woken(effects)

    def _add_consumer(self, message: AddConsumer, effects: Effects) -> None:
        consumers, consumer = self._messages.consumers, message.consumer
        if consumers.is_refused(consumer):
            text = f"{self._definition} in exclusive use"
            tell(message.channel, Refused(SoftError(ACCESS_REFUSED, text)))
            return
        consumers.add(consumer)
        # First: deliveries come behind consume-ok.
        tell(message.channel, ConsumerAdded(consumer))
        # Nobody else has more room than before: a thousand who have none need not be asked.
        self._messages.dispatch(effects, consumer.channel)

    def _purge(self, message: Purge) -> None:
        self._tracing.purged(self._messages)
        count, ranges = self._messages.purge()
        answer = (message.reply_to, Purged(count))
        if ranges:
            # purge-ok waits for its sync, or the messages could come back.
            tell(self._journal, SettleSynced(self._definition.queue_id, ranges, *answer))
        else:
            tell(*answer)

    def _check_unused(self, lost_consumer: bool) -> None:
        if lost_consumer and not len(self._messages.consumers):
            self._lease.renew()
            if self._definition.auto_delete:
                tell(self._context.broker, QueueUnused(self._definition))

    # --- Endings

    def on_stop(self) -> None:
        """Deleted, or the node stops: answer for what is owed."""
        if self._is_deleted:
            self._answer_for_all()
            self._drop()

    def _drop(self) -> None:
        # Last: nothing may be appended for the queue behind it.
        if self._definition.durable:
            tell(self._journal, DropQueue(self._definition.queue_id))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: nack what is owed, have the broker told.

        What is in the journal stays there: the broker starts the queue anew when the node starts.
        """
        self._answer_for_all()
        if self._is_deleted:
            self._drop()
        tell(self._context.broker, QueueFailed(self._definition))

    def _answer_for_all(self) -> None:
        """Nack every publish that was not confirmed, in the mailbox too; refuse every question."""
        answers = self._answers
        answers.reject_all(f"the queue {'was deleted' if self._is_deleted else 'has failed'}")
        for message in (self._at_hand, *self._held_back, *drained(self.actor_inbox)):
            if isinstance(message, Delete):
                self._is_deleted = True
            refuse(message, answers, gone(self._definition, has_crashed=not self._is_deleted))
        answers.send()
        self._tracing.ended(self._messages, self._is_deleted)
        for consumer in self._messages.consumers.all():
            tell(consumer.channel, ConsumerCancelled(consumer.consumer_tag))  # type: ignore[arg-type]
