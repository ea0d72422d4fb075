"""One queue: accepts the messages routed to it, confirms them, pushes them to consumers.

The rules are core/queue/rules.py's; this shell carries out the effects, in a fixed order:
append, confirm, reject, record, dead-letter, deliver. A persistent message of a durable queue is
confirmed only when the journal says that it is on disk: fsync before confirm. A queue that goes or
fails answers for everything that it owes: each publish is nacked, each question gets its 404.

Every queue has this actor, whatever its arguments: the rules have the parts that these ask for. If
time matters to one of them, the actor reads the clock for the rules, and asks to be woken in time.

A queue that holds much has rows whose bytes are on the disk only (`paging.py`). When the rules want
some of them, they are read; a basic.get that must wait for that is answered then.

What it owes publishers is in `answers.py`, the lease of a queue with `x-expires` in `lease.py`, the
time of the rules in `clock.py`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

from ...amqp_frames.constants import ACCESS_REFUSED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.values.field_table import Table
from ...core.channel.transaction import Part
from ...core.definitions import QueueDefinition
from ...core.queue.construction import equip
from ...core.queue.dedup import Deduplicated, Deduplication
from ...core.queue.in_flight import Delivery
from ...core.queue.rules import Effects, MessageQueue
from ...core.queue.span import EntryRange
from ...core.topology.topology import queue_gone_error
from ...storage.journal.identity_runs import NO_IDENTITY, Identities, identities_in
from ...storage.journal.ledger import joined
from ..messages import (
    AddConsumer,
    Append,
    ChannelDown,
    ConsumerAdded,
    ConsumerCancelled,
    ConsumerRemoved,
    CreditOffered,
    DeadLettersSafe,
    Delete,
    Deliver,
    Discard,
    DropQueue,
    Empty,
    EntriesLost,
    EntriesRead,
    EntriesSized,
    EntriesSpilled,
    ForgetIdentities,
    Get,
    GetAnswer,
    OutletOpened,
    PageOut,
    Persisted,
    Publish,
    PublishDead,
    Purge,
    Purged,
    QueueFailed,
    QueueUnused,
    RecordDeliveries,
    Ref,
    Refused,
    RemoveConsumer,
    Renamed,
    RenewLease,
    ReportStatus,
    Requeue,
    Resume,
    Sent,
    SetArguments,
    SetPaused,
    SetReadyCount,
    Settle,
    SettleSynced,
    Status,
    TimedOut,
    TopicAnswer,
    Touch,
    Unstored,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.room_offers import offer_credit
from ..runtime.runtime import LoopActor, tell
from ..tracing.queue import QueueTracing
from .answers import QueueAnswers, refuse
from .clock import QueueClock
from .gathered_publishes import GATHERED_COUNT_MAX, MERGED_BYTES_MAX, GatheredPublishes, as_one
from .last_letters import LastLetters
from .lease import LEASE_ENDS, QueueLease
from .missing_entries import report_missing
from .paging import QueuePaging
from .shared_runs import run_of


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
        self._counts = context.counts
        self._clock = QueueClock(messages, self.actor_ref, context)
        self._journal = context.journal
        self._tracing = QueueTracing(context.trace, definition)
        self._answers = QueueAnswers(definition, self._tracing)
        # The journal was told that the queue remembers no identity of an entry below; 0 while the
        # queue has no deduplication, and the journal no identities of it.
        self._identities_floor = 0
        self._is_deleted = False
        # While a delete is decided on: messages that came since the counts were reported.
        self._is_held = False
        self._held_back: deque[object] = deque()
        # Each waits for its message to be read.
        self._gets: deque[Get] = deque()
        self._paging = QueuePaging(
            context,
            definition,
            messages,
            self.actor_ref,
            self._tracing,
            self._answers.synced_below,
        )
        # The message at hand, or the publishes: if handling it fails, it is answered with the rest.
        self._at_hand: object = None
        # Small publishes of this turn, and acks.
        self._gathered = GatheredPublishes()
        self._settles: list[Settle] = []
        # What the journal is to be told of at the end of the turn.
        self._delivered_entries: list[EntryRange] = []
        self._settled_entries: list[EntryRange] = []

    def on_start(self) -> None:
        """Messages from the journal may be too many for the queue's limits, or too old."""
        if self._messages.is_paused:
            self._tracing.paused(self._messages, is_paused=True)
        self._lease.renew()
        if self._messages.next_entry_id > 1:
            if self._messages.needs_clock:
                self._clock.read()
            effects = Effects()
            self._messages.dispatch(effects)
            self._carry_out(effects)
            self.on_idle()

    def on_receive(self, message: object) -> None:
        """Dispatch, most frequent first."""
        if self._is_held and not isinstance(message, (Persisted, Unstored, Delete, Resume)):
            self._held_back.append(message)
            return
        if message.__class__ is Settle:
            # Behind the publishes of the turn, as within a read: nothing can tell the difference.
            self._settles.append(message)
            if len(self._settles) == GATHERED_COUNT_MAX:
                self._settle_gathered()
            return
        if isinstance(message, Publish) and len(message.batch.wire) <= MERGED_BYTES_MAX:
            if self._gathered.add(message) == GATHERED_COUNT_MAX:
                self._publish_gathered()
            return
        if self._gathered:
            # Should one of these fail, the message behind them is answered, too.
            self._held_back.appendleft(message)
            self._publish_gathered()
            self._held_back.popleft()
        self._at_hand = message
        if self._settles:
            self._settle_gathered()
        messages = self._messages
        if messages.needs_clock:
            # Deadlines are compared with the clock of the machine.
            self._clock.read()
        if isinstance(message, Publish):
            self._publish(message)
        elif isinstance(message, Persisted):
            self._answers.persisted(message.appends)
            if self._paging.awaits_sync:
                self._paging.synced()
        elif isinstance(message, Unstored):
            self._withdraw(message.appends)
        else:
            self._carry_out(self._apply(message))
        self._at_hand = None

    def _publish_gathered(self) -> None:
        """Publish the small publishes of this turn, merged where that makes no difference."""
        messages = self._messages
        if messages.needs_clock:
            self._clock.read()
        may_merge = not (
            # Each message's place, or whether it may enter, depends on which it is; and a trace
            # tells of each publish.
            messages.ready.priority_max
            or messages.gates
            or messages.deduplication is not None
            or self._context.trace.is_on
        )
        gathered = self._gathered
        while gathered:
            run = gathered.next_run(may_merge=may_merge)
            if len(run) == 1:
                self._at_hand = run[0]
                self._publish(run[0])
            else:
                self._publish_run(run)

    def _publish_run(self, run: list[Publish]) -> None:
        """Publish all of these as one batch, and note whom to answer."""
        self._at_hand = run
        effects = Effects()
        batch = self._merged(run)
        self._messages.publish(batch, range(len(batch.starts)), effects)
        # Channel, batch and indexes.
        published = [publish[:3] for publish in run]
        if effects.appended is not None:
            self._append(published, batch, effects, None)
        else:
            for channel, own, own_indexes in published:
                self._answers.confirm(channel, own, own_indexes)
        self._at_hand = None
        self._carry_out(effects)

    def _merged(self, run: list[Publish]) -> Batch:
        batches = [publish.batch for publish in run]
        context = self._context
        if not run[0].is_shared:
            return as_one(batches, context.next_batch_number())
        key = run_of(batches)
        batch = context.shared_runs.find(key)
        if batch is None:
            batch = as_one(batches, context.next_batch_number())
            context.shared_runs.keep(key, batch)
        return batch

    def _publish(self, message: Publish) -> None:
        messages = self._messages
        batch = message.batch
        if not messages.needs_clock and (message.delays_ms or batch.ttls_ms is not None):
            # Time matters here for the first time, from now on also to publishes of the same turn.
            self._clock.read()
        if not messages.ready.priority_max:
            self._publish_row(message)
            return
        rows = messages.rows_of(batch, message.indexes)
        # Should one fail, those behind it are answered, too, as they would be in the mailbox.
        self._held_back.extendleft(message._replace(indexes=row) for row in reversed(rows))
        for _ in rows:
            self._publish_row(self._held_back.popleft())  # type: ignore[arg-type]

    def _publish_row(self, row: Publish) -> None:
        self._at_hand = row
        effects = Effects()
        is_letter = row.channel is self._context.dead_letters
        self._messages.publish(row.batch, row.indexes, effects, is_letter, row.delays_ms)
        if row.batch.traced is not None:
            self._tracing.enqueued(row, effects, self._messages.ready.message_count)
        self._answer(row, effects)
        self._carry_out(effects)

    def _settle_gathered(self) -> None:
        """Settle what consumers have acked in this turn; deliver what that makes room for."""
        settles, self._settles = self._settles, []
        messages, is_traced = self._messages, self._context.trace.is_on
        if messages.needs_clock:
            self._clock.read()
        effects = Effects()
        try:
            for settle in settles:
                settled = messages.settle(settle.channel, settle.parts, effects)
                if is_traced:
                    self._tracing.settled(settled, settle.reason)
        finally:
            # Should one fail, those before it count all the same: what they acked must not come
            # back, and handed-over deliveries take up room of their channel and its connection.
            self._carry_out(effects)

    def _withdraw(self, appends: Sequence[Append]) -> None:
        """The disk has no room for these: no message of them stays, wherever it is by now.

        State before effects: a message that is nacked is not there any more.
        """
        for append in appends:
            identities = append.identities
            self._messages.withdraw(
                append.entry_ids, () if identities is None else identities_in(identities)
            )
        self._answers.unstored(appends)

    def _apply(self, message: object) -> Effects:
        """Have the rules handle what consumers and their channels did."""
        messages = self._messages
        effects = Effects()
        if isinstance(message, Discard):
            messages.discard(message.channel, message.parts, effects)
        elif isinstance(message, Sent):
            messages.sent(message.consumer, effects)
        elif isinstance(message, SetReadyCount):
            messages.set_ready_count(message.consumer, message.ready_count, effects)
        elif isinstance(message, Touch):
            touched_ms_max = message.timeout_ms_max
            if touched_ms_max is None:
                touched_ms_max = self._context.touched_timeout_ms_max
            touched = messages.touch(message.channel, message.parts, touched_ms_max)
            if self._context.trace.is_on:
                self._tracing.touched(touched, messages.uptime_ms)
        elif isinstance(message, Requeue):
            if message.delay_ms and not messages.needs_clock:
                self._clock.read()
            self._record_gathered()
            came_back = messages.requeue(message.channel, message.parts, effects, message.delay_ms)
            self._tracing.requeued(came_back, "given back")
        elif isinstance(message, DeadLettersSafe):
            effects.settled_entries.extend(message.ranges)
            if message.traced:
                self._tracing.letters_safe(message.traced)
        elif isinstance(message, CreditOffered):
            messages.dispatch(effects, message.channel)
            returned = message.credit.return_unused(self._definition)
            offer_credit(message.channel, message.credit, returned)
        elif isinstance(message, OutletOpened):
            messages.dispatch(effects)
        elif isinstance(message, EntriesRead):
            self._resume_read(message, effects)
        elif isinstance(message, ChannelDown):
            self._answers.forget(message.channel)
            if self._gets:
                self._gets = deque(get for get in self._gets if get.channel != message.channel)
            self._tracing.channel_ended(messages, message.channel)
            self._record_gathered()
            had_consumers = messages.channel_down(message.channel, effects)
            self._check_unused(bool(had_consumers))
        else:
            self._command(message, effects)
        return effects

    def on_idle(self) -> None:
        """Tell every channel its confirms, once; arrange to be woken in time."""
        if self._gathered:
            self._publish_gathered()
        if self._settles:
            self._settle_gathered()
        if self._counts.is_sampled:
            self._counts.touched[self._definition] = None
        self._answers.send()
        if self._messages.needs_clock:
            self._clock.watch()
        if self._messages.deduplication is not None or self._identities_floor:
            self._forget_identities(self._messages.deduplication)
        if self._gets:
            self._answer_gets()
        # Behind everything that delivers and settles, and before the journal is asked to read.
        if self._delivered_entries or self._settled_entries:
            self._record_gathered()
        messages = self._messages
        if messages.ready.may_be_paged or messages.dying or messages.wants_sizes:
            self._paging.read_wanted()
        self._paging.count_held()

    # --- Messages read again, and basic.get

    def _resume_read(self, message: EntriesRead, effects: Effects) -> None:
        """Go on with the rows read: clients that wait with basic.get go first."""
        messages = self._messages
        missing = messages.read(message.rows, message.through, effects)
        report_missing(self.runtime.log, self._definition, missing, message.lost)
        if effects.resident is not None:
            self._tracing.resident(effects.resident)
        self._answer_gets()
        messages.dispatch(effects)
        if messages.needs_clock:
            # Messages that have become due meanwhile have waited for this.
            messages.expire(effects)

    def _answer_gets(self) -> None:
        while self._gets and self._get(self._gets[0]):
            self._gets.popleft()

    def _get(self, message: Get) -> bool:
        """Answer basic.get; false if its message must be read first."""
        messages = self._messages
        got = Effects()
        delivery = messages.get(message.channel, message.no_ack, got, message.reading)
        if delivery is None and messages.wants_head:
            self._carry_out(got)
            return False
        self._tracing.get_answered(delivery, message.no_ack)
        self._carry_out(got)
        tell(message.channel, GetAnswer(delivery, messages.ready.message_count))
        return True

    # --- Effects

    def _forget_identities(self, deduplication: Deduplication | None) -> None:
        """Tell the journal which identities the queue does not remember any more."""
        if not self._definition.durable:
            return
        queue_id, next_entry_id = self._definition.queue_id, self._messages.next_entry_id
        if deduplication is None:
            # Should the queue get deduplication again, it begins with nothing.
            self._identities_floor = 0
            self._record_gathered()
            tell(self._journal, ForgetIdentities(queue_id, next_entry_id, for_good=True))
            return
        floor = deduplication.window.floor(next_entry_id)
        if floor != self._identities_floor:
            self._identities_floor = floor
            self._record_gathered()
            tell(self._journal, ForgetIdentities(queue_id, floor))

    def _append(
        self,
        publishes: Sequence[tuple[Ref, Batch, Indexes]],
        batch: Batch,
        effects: Effects,
        identities: Identities | None,
    ) -> None:
        """Have new messages appended, and owe their publishers the confirms."""
        assert effects.appended is not None
        # Fsync before confirm: confirmed when the journal answers; if it failed, never.
        append = Append(
            self.actor_ref,
            self._definition.queue_id,
            publishes,
            batch,
            *effects.appended,
            effects.deadlines,
            identities,
            effects.due_times,
        )
        self._answers.owe(append)
        tell(self._journal, append)

    def _answer(self, publish: Publish, effects: Effects) -> None:
        """Have new messages appended, and note what their publishers are answered."""
        found = effects.deduplicated
        if effects.appended is not None:
            published = ((publish.channel, publish.batch, effects.appended[0]),)
            identities = None if found is None else _identities_of(found)
            self._append(published, publish.batch, effects, identities)
        if effects.confirmed is not None:
            self._answers.confirm(publish.channel, publish.batch, effects.confirmed)
        if effects.rejected is not None:
            self._answers.reject(publish.channel, publish.batch, effects.rejected)
        if found is not None:
            # Behind the append, because a repeat waits for the message that it repeats. All others
            # are answered: should it fail, the repeats remain.
            repeats = sorted((*found.repeats_stored, *found.repeats_transient))
            self._at_hand = publish._replace(indexes=array("I", repeats))
            self._answers.repeat(publish, found)
        self._at_hand = None

    def _carry_out(self, effects: Effects) -> None:
        self._record(effects)
        if effects.timed_out is not None:
            self._tell_timed_out(effects.timed_out)
        if effects.due is not None and self._context.trace.is_on:
            self._tracing.due(effects.due, self._messages)
        if effects.deferred is not None and self._context.trace.is_on:
            self._tracing.deferred(effects.deferred)
        if effects.dead:
            if self._context.trace.is_on:
                has_letters = self._messages.dead_letters
                ready_count = self._messages.ready.message_count
                self._tracing.died(effects.dead, ready_count, are_settled=not has_letters)
            if self._messages.dead_letters:
                tell(self._context.dead_letters, PublishDead(self._definition, effects.dead))
        if effects.unspilled_entries is not None:
            self._paging.drop_spilled(effects.unspilled_entries)
        for consumer, deliveries in effects.delivered:
            if consumer.no_ack:
                self._tracing.not_acked(deliveries)
            tell(consumer.channel, Deliver(consumer, deliveries))  # type: ignore[arg-type]
        sweep = self._messages.sweep
        if sweep.arrived_bytes + sweep.departed_bytes > sweep.interval_bytes:
            self._messages.sweep_if_due()

    def _tell_timed_out(self, timed_out: list[tuple[object, Delivery, int, int]]) -> None:
        by_channel: dict[object, list[Part]] = {}
        for channel, delivery, low, high in timed_out:
            by_channel.setdefault(channel, []).append((delivery, low, high))
        for channel, parts in by_channel.items():
            self._tracing.requeued(parts, "its in-flight time-out has passed")
            tell(channel, TimedOut(parts))  # type: ignore[arg-type]

    def _record(self, effects: Effects) -> None:
        """Have deliveries and settles journalled at the end of the turn, without waiting for it.

        So nearly every delivery that a client has seen is counted after kill -9; one of the last
        moments may come back with an attempt too few.
        """
        if effects.timed_out is not None:
            self._record_gathered()
        self._delivered_entries += effects.delivered_entries
        self._settled_entries += effects.settled_entries
        deferred = effects.deferred_entries
        if deferred is not None:
            # Told in their order: a deferred message may be delivered again.
            self._record_gathered(deferred)
        elif len(self._settled_entries) > GATHERED_COUNT_MAX:
            # The mailbox of a busy queue may not be empty for long.
            self._record_gathered()

    def _record_gathered(self, deferred: Sequence[tuple[int, int, int]] = ()) -> None:
        """Tell the journal what this turn has delivered and settled, in one go.

        Before anything else that the journal is told of entries that it has; and before deliveries
        come back, because a message may be delivered again in the same turn: each attempt counts.
        """
        delivered, settled = self._delivered_entries, self._settled_entries
        if not (delivered or settled or deferred):
            return
        self._delivered_entries, self._settled_entries = [], []
        tell(
            self._journal,
            RecordDeliveries(
                self._definition.queue_id, joined(delivered), joined(settled), deferred
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
            self._lease.renew()
            if self._gets or not self._get(message):
                self._gets.append(message)
        elif isinstance(message, ReportStatus):
            is_over = self._lease.is_over()
            counts = messages.counts()
            deferred_count = messages.deferred_count
            tell(message.reply_to, Status(self._definition, *counts, is_over, deferred_count))
            self._is_held = message.holds
        elif isinstance(message, Purge):
            self._purge(message)
        elif isinstance(message, Empty):
            self._empty(message)
        elif isinstance(message, Resume):
            self._is_held = False
            while self._held_back:
                self.on_receive(self._held_back.popleft())
        elif isinstance(message, Delete):
            self._is_deleted = True
            self.stop()
        elif isinstance(message, RenewLease):
            self._lease.renew()
        elif isinstance(message, SetPaused):
            self._tracing.paused(messages, message.is_paused)
            if message.is_paused:
                messages.pause()
            else:
                messages.resume(effects)
        elif isinstance(message, Renamed):
            self._tracing.renamed(messages, message.name_before)
        elif isinstance(message, SetArguments):
            self._set_arguments(message.arguments, effects)
        elif isinstance(message, PageOut):
            self._paging.relieve(message.kept_bytes)
        elif isinstance(message, EntriesLost):
            messages.lose(message.ranges, effects)
        elif isinstance(message, EntriesSpilled):
            self._paging.spilled(message)
        elif isinstance(message, EntriesSized):
            missing = messages.count_sizes(message.rows, message.through, effects)
            report_missing(self.runtime.log, self._definition, missing, message.lost)
            messages.dispatch(effects)
        elif isinstance(message, Woken):
            if message.token is LEASE_ENDS:
                self._lease.check(len(messages.consumers))
            else:
                self._clock.wake(effects)

    def _set_arguments(self, arguments: Table, effects: Effects) -> None:
        """Have these arguments in effect, also for the messages that the queue holds."""
        # Time may matter for the first time, and until now for the last.
        self._clock.read()
        equip(self._messages, arguments, self._context.delivery_window_bytes_max)
        self._lease.change(arguments)
        self._messages.dispatch(effects)

    def _add_consumer(self, message: AddConsumer, effects: Effects) -> None:
        consumer = message.consumer
        reason = self._messages.refusal(consumer)
        if reason is not None:
            text = f"{self._definition} {reason}"
            tell(message.channel, Refused(SoftError(ACCESS_REFUSED, text)))
            return
        if consumer.in_flight_timeout_ms is not None and not self._messages.needs_clock:
            # Time matters here for the first time, and its deadlines begin with the ready messages.
            self._clock.read()
        self._messages.add_consumer(consumer)
        # First: deliveries come behind consume-ok.
        tell(message.channel, ConsumerAdded(consumer))
        # Nobody else has more room than before: a thousand without any need not be asked.
        self._messages.dispatch(effects, consumer.channel)

    def _purge(self, message: Purge) -> None:
        self._tracing.purged(self._messages)
        effects = Effects()
        count = self._messages.purge(effects)
        self._drop_synced(effects, message.reply_to, Purged(count))

    def _empty(self, message: Empty) -> None:
        self._tracing.purged(self._messages)
        effects = Effects()
        by_channel: dict[object, list[Part]] = {}
        for channel, delivery, low, high in self._messages.empty(effects):
            by_channel.setdefault(channel, []).append((delivery, low, high))
        for channel, parts in by_channel.items():
            self._tracing.settled(parts, "purged")
            tell(channel, TimedOut(parts, was_emptied=True))  # type: ignore[arg-type]
        answer = TopicAnswer(message.token, queue=self._definition)
        self._drop_synced(effects, message.reply_to, answer)

    def _drop_synced(self, effects: Effects, reply_to: Ref, answer: object) -> None:
        """Have dropped messages settled; who asked for it hears that it is on the disk."""
        ranges = effects.settled_entries
        if effects.unspilled_entries is not None:
            self._paging.drop_spilled(effects.unspilled_entries)
        if ranges:
            # The answer waits for its sync, or the messages could come back.
            self._record_gathered()
            settle = SettleSynced(self._definition.queue_id, joined(ranges), reply_to, answer)
            tell(self._journal, settle)
        else:
            tell(reply_to, answer)

    def _check_unused(self, lost_consumer: bool) -> None:
        if lost_consumer and not len(self._messages.consumers):
            self._lease.renew()
            if self._definition.auto_delete:
                tell(self._context.broker, QueueUnused(self._definition))

    # --- Endings

    def on_stop(self) -> None:
        """Answer all publishes that are owed an answer, if the queue is deleted.

        When the node stops, no client is left to hear an answer.
        """
        if self._is_deleted:
            self._answer_for_all()
            self._paging.release()
            self._drop()

    def _drop(self) -> None:
        """Have its messages dropped, those last that it owes its dead-letter exchange."""
        # Last: nothing may be appended for the queue behind it.
        dying = self._messages.dying
        if dying:
            context, tracing = self._context, self._tracing
            LastLetters.start_on(
                self.runtime, context, self._definition, dying, tracing, self._paging.has_spilled
            )
            return
        if self._paging.has_spilled:
            self._paging.drop_spilled(None)
        if self._definition.durable:
            self._record_gathered()
            tell(self._journal, DropQueue(self._definition.queue_id))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: nack all publishes owed an answer, and tell the broker.

        Messages in the journal stay there: the broker starts the queue anew when the node starts.
        """
        self._answer_for_all()
        self._paging.release()
        if self._is_deleted:
            self._drop()
        else:
            # Or messages that consumers have acked would come back.
            self._record_gathered()
            if self._paging.has_spilled:
                self._paging.drop_spilled(None)
        tell(self._context.broker, QueueFailed(self._definition))

    def _answer_for_all(self) -> None:
        """Nack every publish that was not confirmed, in the mailbox too; refuse every question."""
        answers = self._answers
        answers.reject_all(f"the queue {'was deleted' if self._is_deleted else 'has failed'}")
        at_hand = self._at_hand
        for message in (
            *(at_hand if isinstance(at_hand, list) else (at_hand,)),
            *self._gathered.drain(),
            *self._gets,
            *self._held_back,
            *self.actor_inbox.drain(),
        ):
            if isinstance(message, Delete):
                self._is_deleted = True
            refuse(
                message,
                answers,
                queue_gone_error(self._definition, has_crashed=not self._is_deleted),
            )
        answers.send()
        self._tracing.ended(self._messages, self._is_deleted)
        for consumer in self._messages.consumers.all():
            cancelled = ConsumerCancelled(self._definition, consumer.consumer_tag)
            tell(consumer.channel, cancelled)  # type: ignore[arg-type]
        self._messages.consumers.clear()


def _identities_of(found: Deduplicated) -> Identities | None:
    """The identities of appended messages, as the journal takes them; None if none has any."""
    if not found.identities:
        return None
    octets = b"".join([identity or NO_IDENTITY for identity in found.identities])
    return Identities(octets, found.until_ms)
