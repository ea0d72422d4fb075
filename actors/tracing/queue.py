"""The trace events of queues, of the journal and of the broker actor.

`Batch.traced` says which messages of a batch are traced. It is chosen once, by the channel that
published them or by recovery, so every hop but the first costs one look at it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...amqp_frames.messages.batch import Batch, Indexes
from ...core.channel.transaction import Part
from ...core.dead_letters.letters import Dead
from ...core.queue.parts import EXPIRED, REJECTED
from ...core.queue.rules import Effects, MessageQueue
from ...core.queue.span import PAGED, EntryRange, positions_in
from ...logs.trace.sampling import among, positions, ranges
from ...logs.trace.trace import Trace
from ...storage.journal.ledger import ranges_without
from ...storage.journal.replay import JournalPlace
from ..messages import Append, Publish
from ..runtime.wall_clock import MACHINE_CLOCK
from .marks import mark, mark_late

if TYPE_CHECKING:
    from ...core.definitions import QueueDefinition
    from ...core.queue.in_flight import Delivery
    from ...core.queue.span import Span
    from ...storage.journal.journal import Commit, CommitResult
    from ...storage.journal.loading import MessageRun


_LEAVING = {EXPIRED: "message.expired", REJECTED: "message.rejected"}


class QueueTracing:
    """One queue's share of the trace."""

    def __init__(self, trace: Trace, queue: QueueDefinition) -> None:
        self._trace = trace
        self._queue = queue
        # Traced entries that are paged; ascending, as far as they were paged in order.
        self._paged: list[EntryRange] = []

    def _event(self, event: str, messages: MessageQueue) -> None:
        """An event of the queue itself; before what it had is gone."""
        if self._trace.filter.wants(queue=self._queue.name):
            ready = messages.ready.message_count
            out = messages.in_flight.message_count
            self._trace.write(
                event,
                "queue",
                vhost=self._queue.vhost,
                queue=self._queue.name,
                queue_id=self._queue.queue_id,
                ready_before=ready,
                unacked_before=out,
            )

    def step(self, event: str, batch: Batch, indexes: Indexes, **fields: object) -> None:
        """An event about these messages, if any of them is traced."""
        if batch.traced is not None:
            queue_step(self._trace, event, self._queue, batch, indexes, **fields)

    def enqueued(self, publish: Publish, effects: Effects, ready: int) -> None:
        """The queue has taken messages of a traced batch; `ready` are now ready in it."""
        batch, indexes = publish.batch, publish.indexes
        assert batch.traced is not None
        outside = set(effects.rejected or ())
        if effects.deduplicated is not None:
            outside.update(effects.deduplicated.repeats_stored)
            outside.update(effects.deduplicated.repeats_transient)
        if outside:
            indexes = array("I", [index for index in indexes if index not in outside])
        appended = effects.appended
        waits = [] if appended is None else ranges(among(batch.traced, appended[0]))
        self.step(
            "message.enqueued",
            batch,
            indexes,
            queue_id=self._queue.queue_id,
            ready_after=ready,
            waits_for_sync=waits,
        )

    def paged(self, span: Span) -> None:
        """A row is paged: its batch goes, and with it the mark that says what of it is traced."""
        assert span.batch.traced is not None
        at = positions(span.batch.traced, span.indexes)
        first = span.first_entry_id
        self._paged += [(first + low, first + high) for low, high in ranges(at)]
        # As a rule it is in order already.
        self._paged.sort()

    def resident(self, spans: Iterable[Span]) -> None:
        """Rows were read: their traced messages are traced again."""
        if not self._paged:
            return
        traced: dict[Batch, set[int]] = {}
        for span in spans:
            for low, high, is_within in positions_in(span, 0, len(span), self._paged):
                if is_within:
                    traced.setdefault(span.batch, set()).update(span.indexes[low:high])
        for batch, indexes in traced.items():
            mark(batch, sorted(indexes.union(batch.traced or ())))
        read = [(each.first_entry_id, each.first_entry_id + len(each) - 1) for each in spans]
        self._paged = list(ranges_without(self._paged, sorted(read)))

    def wrong(self, event: str, batch: Batch, indexes: Indexes, **fields: object) -> None:
        """Something went wrong with these messages: from here on they are traced.

        Not if they are paged: what they are is not known here.
        """
        if self._trace.is_on and batch is not PAGED:
            self.step(event, batch, indexes, **fields)
            if self._trace.filter.is_of_queue(self._queue.name):
                late = mark_late(self._trace, batch, indexes)
                if late is not None:
                    queue_step(self._trace, event, self._queue, batch, late, late=True, **fields)

    def settled(self, parts: Iterable[Part], reason: str) -> None:
        """These parts of deliveries are gone from the queue."""
        for delivery, low, high in parts:
            span = delivery.span
            if span.batch.traced is not None:
                about = {"reason": reason, "attempt": delivery.attempts}
                self.step("message.settled", span.batch, span.indexes[low:high], **about)

    def requeued(self, parts: Iterable[Part], reason: str) -> None:
        """These parts of deliveries came back, and will be delivered again."""
        if self._trace.is_on:
            for delivery, low, high in parts:
                span = delivery.span
                about = {"reason": reason, "attempt": delivery.attempts}
                self.wrong("message.requeued", span.batch, span.indexes[low:high], **about)

    def touched(self, touched: Iterable[tuple[Delivery, int, int, int]], uptime_ms: int) -> None:
        """The time of these parts has begun anew, up to a moment on the clock of `uptime_ms`."""
        ahead_ms = MACHINE_CLOCK.now_ms() - uptime_ms
        for delivery, low, high, due_ms in touched:
            span = delivery.span
            until = moment(due_ms + ahead_ms)
            self.step("message.touched", span.batch, span.indexes[low:high], until=until)

    def deferred(self, deferred: Iterable[tuple[Span, int]]) -> None:
        """These rows are not ready before their times, in milliseconds since the epoch."""
        for span, due_ms in deferred:
            until = moment(due_ms)
            about = {"until": until, "attempt": span.attempts}
            self.step("message.deferred", span.batch, span.indexes, **about)

    def due(self, due: Iterable[Span], messages: MessageQueue) -> None:
        """These rows were deferred and are ready now."""
        for span in due:
            about = {"ready_after": messages.ready.message_count, "attempt": span.attempts}
            self.step("message.due", span.batch, span.indexes, **about)

    def died(self, dead: Iterable[Dead], ready_after: int, *, are_settled: bool) -> None:
        """These left other than by an ack; without a dead-letter exchange they are settled."""
        for span, reason in dead:
            # Refused ones were never in.
            if span.first_entry_id:
                event = _LEAVING.get(reason, "message.evicted")
                self.wrong(event, span.batch, span.indexes, reason=reason, ready_after=ready_after)
                if are_settled:
                    self.step("message.settled", span.batch, span.indexes, reason=reason)

    def letters_safe(self, traced: Iterable[tuple[Batch, Indexes, str]]) -> None:
        """The dead letters of these are safe, or nobody gets any: they are settled now."""
        for batch, indexes, reason in traced:
            self.step("message.settled", batch, indexes, reason=reason)

    def purged(self, messages: MessageQueue) -> None:
        """All ready and deferred messages are about to go."""
        if self._trace.is_on:
            self._event("queue.purged", messages)
            for span in messages.waiting():
                self.step("message.settled", span.batch, span.indexes, reason="purged")

    def paused(self, messages: MessageQueue, is_paused: bool) -> None:
        """A request pauses or resumes the queue."""
        if self._trace.is_on:
            self._event("queue.paused" if is_paused else "queue.resumed", messages)

    def renamed(self, messages: MessageQueue, name_before: str) -> None:
        """The queue has another name: its messages have left the one before, and are here."""
        if self._trace.is_on:
            before = replace(self._queue, name=name_before)
            queue_declared(self._trace, self._queue)
            for span in messages.waiting():
                reason = f"its queue is '{self._queue.name}' now"
                about = (before, span.batch, span.indexes)
                queue_step(self._trace, "message.settled", *about, reason=reason)
                self.step("message.recovered", span.batch, span.indexes, attempt=span.attempts)
            recovered_deferrals(self._trace, self._queue, messages)

    def ended(self, messages: MessageQueue, is_deleted: bool) -> None:
        """The queue is about to go: deleted, or by a fault of ours."""
        if self._trace.is_on:
            self._event("queue.deleted" if is_deleted else "queue.failed", messages)
            if is_deleted:
                reason = "its queue was deleted"
                for span in messages.waiting():
                    self.step("message.settled", span.batch, span.indexes, reason=reason)
                self.settled(messages.in_flight.parts(), reason)

    def channel_ended(self, messages: MessageQueue, channel: object) -> None:
        """A channel ends: its messages in flight come back."""
        if self._trace.is_on:
            self.requeued(messages.in_flight.parts_of(channel), "its channel ended")

    def get_answered(self, delivery: Delivery | None, no_ack: bool) -> None:
        """Report the message that basic.get has taken, if there was any."""
        if no_ack and delivery is not None:
            self.not_acked([delivery])

    def not_acked(self, deliveries: Iterable[Delivery]) -> None:
        """A consumer without acks gets these: with that they are gone from the queue."""
        for delivery in deliveries:
            span = delivery.span
            self.step("message.settled", span.batch, span.indexes, reason="no ack wanted")


def moment(time_ms: int) -> str:
    """A time of the wall clock, in milliseconds since the epoch, as ISO 8601."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def queue_declared(trace: Trace, queue: QueueDefinition) -> None:
    """The broker has made a queue."""
    if trace.is_on and trace.filter.wants(queue=queue.name):
        trace.write(
            "queue.declared",
            "broker",
            vhost=queue.vhost,
            queue=queue.name,
            queue_id=queue.queue_id,
            durable=queue.durable,
        )


def queue_step(
    trace: Trace,
    event: str,
    queue: QueueDefinition,
    batch: Batch,
    indexes: Indexes,
    **fields: object,
) -> None:
    """An event of a queue about these messages, if any of them is traced."""
    if batch.traced is not None and (traced := among(batch.traced, indexes)):
        trace.write(
            event,
            "queue",
            vhost=queue.vhost,
            queue=queue.name,
            batch=batch.number,
            messages=ranges(received(batch, traced)),
            **fields,
        )


def commit_traced(
    trace: Trace,
    commit: Commit,
    appends: Mapping[Any, Sequence[Append]],
    clock: Callable[[], float],
) -> CommitResult:
    """The journal's commit is run, with the events of the traced batches in it."""
    batches: dict[int, None] = {}
    for append in chain.from_iterable(appends.values()):
        batch = append.batch
        if batch.traced is not None and (traced := among(batch.traced, append.indexes)):
            batches[batch.number] = None
            trace.write(
                "journal.appended",
                "journal",
                queue_id=append.queue_id,
                batch=batch.number,
                messages=ranges(received(batch, traced)),
            )
    start_ns = trace.now_ns()
    result = commit.run(clock)
    if batches:
        trace.write(
            "journal.synced",
            "journal",
            batches=list(batches),
            appends=sum(map(len, appends.values())),
            records=result.records,
            bytes=result.bytes,
            duration_ns=trace.now_ns() - start_ns,
        )
    return result


def recovered_run(trace: Trace, queue: QueueDefinition, run: MessageRun) -> None:
    """The journal gave messages back at the start; no client is known any more."""
    batch = run.batch
    # All messages of the batch, or those in this queue if the filter names queues.
    indexes = run.indexes if trace.filter.queues else range(len(batch))
    places = array("I", received(batch, indexes))
    chosen = trace.choose(batch.number, places[-1] + 1, "", "", [queue.name])
    if chosen is not None:
        traced = {indexes[position] for position in positions(chosen, places)}
        mark(batch, sorted(traced.union(batch.traced or ())))
    queue_step(trace, "message.recovered", queue, batch, run.indexes, attempt=run.attempts)


def recovered_deferrals(trace: Trace, queue: QueueDefinition, messages: MessageQueue) -> None:
    """Some of a queue's recovered messages are deferred still; behind `recovered_run` of all."""
    if messages.deferral is not None:
        ahead_ms = messages.now_ms - messages.uptime_ms
        rows = ((span, due_ms + ahead_ms) for span, due_ms in messages.deferral.rows())
        QueueTracing(trace, queue).deferred(rows)


def received(batch: Batch, indexes: Sequence[int]) -> Sequence[int]:
    """Places in the batch as it was received.

    A batch that was read back, or copied out of another, may hold a part of it.
    """
    if batch.excerpted is not None:
        indexes = [batch.excerpted[index] for index in indexes]
    place = batch.journal_place
    if isinstance(place, JournalPlace) and place.received_indexes is not None:
        return [place.received_indexes[index] for index in indexes]
    return indexes
