"""Thin actors around the product's rules: a queue, the journal and the publisher of dead letters.

They do in one thread, and with the product's own messages, what those of `actors/` do: the queue
carries out the effects of its rules in their order, the journal gathers what it was told and
commits it, dead letters are safe before their originals go. The judge hears of every call.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from event_loop import WOKEN, Actor, EventLoop
from judge import SYNCED, Held, Judge, QueueBook, each_of
from leveret.actors.messages import (
    AddConsumer,
    Append,
    ChannelDown,
    Confirm,
    ConsumerRemoved,
    CreditOffered,
    DeadLettersSafe,
    Deliver,
    Get,
    GetAnswer,
    Persisted,
    Publish,
    PublishDead,
    RecordDeliveries,
    Reject,
    RemoveConsumer,
    Sent,
    SetPaused,
    TimedOut,
)
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.core.channel.transaction import Outcome, Part
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.dead_letters.letters import DeadLetters
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import ExchangeTable, carry_out
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import ranges_of
from leveret.storage.journal.journal import Journal
from model_entry import WRITTEN


class Answered(NamedTuple):
    """Channel -> Queue: what its client did with these; and what the judge says that these are."""

    channel: Actor
    parts: Sequence[Part]
    outcome: Outcome
    judged: Sequence[Held]
    # For how long those that come back are deferred: as the product has it, and as its client has.
    delay_ms: int | None
    judged_delay_ms: int | None


class Touched(NamedTuple):
    """Channel -> Queue: its client works on these still."""

    channel: Actor
    parts: Sequence[Part]
    judged: Sequence[Held]


class Stage:
    """What all actors of one life share."""

    def __init__(
        self, loop: EventLoop, judge: Judge, table: ExchangeTable, touched_ms_max: int
    ) -> None:
        self.touched_ms_max = touched_ms_max
        self.loop = loop
        self.judge = judge
        self.table = table
        self.journal: Actor
        self.letters: Actor
        # By the definitions that stand for queues in the rules.
        self.books: dict[QueueDefinition, QueueBook] = {}


def offer_credit(
    stage: Stage, channel: Actor, credit: ChannelCredit, queues: Sequence[object]
) -> None:
    """Tell these queues what they are offered."""
    for queue in queues:
        assert isinstance(queue, QueueDefinition)
        stage.loop.tell(queue.handle, CreditOffered(channel, credit))  # type: ignore[arg-type]


class SimulatedQueue:
    """One queue of one life."""

    is_stopped = False

    def __init__(self, stage: Stage, definition: QueueDefinition, rules: MessageQueue) -> None:
        self._stage = stage
        self._definition = definition
        self._rules = rules
        self._book = stage.books[definition]
        self._confirms: dict[Actor, list[tuple[Batch, Indexes]]] = {}
        self._rejects: dict[Actor, list[tuple[Batch, Indexes]]] = {}
        # When the loop will wake it, at the latest.
        self._wakes_ms: int | None = None

    def start(self) -> None:
        """What the journal has kept may be too old, or was delivered too often."""
        if self._rules.next_entry_id > 1:
            self._read_clock()
            effects = Effects()
            self._rules.dispatch(effects)
            self._carry_out(effects)
        self.on_idle()

    def receive(self, message: object) -> None:
        self._read_clock()
        if isinstance(message, Publish):
            for row in self._rules.rows_of(message.batch, message.indexes):
                self._publish(message._replace(indexes=row))
        elif isinstance(message, Persisted):
            for append in message.appends:
                for channel, batch, indexes in append.publishes:
                    self._confirm(channel, batch, indexes)  # type: ignore[arg-type]
        elif isinstance(message, Get):
            effects = Effects()
            channel, no_ack = message.channel, message.no_ack
            got = self._rules.get(channel, no_ack, effects, message.reading)
            if got is not None:
                self._stage.judge.deliver_got(self._book, channel, got, no_ack)
            self._carry_out(effects)
            answer = GetAnswer(got, self._rules.ready.message_count)
            self._stage.loop.tell(channel, answer)  # type: ignore[arg-type]
        else:
            effects = Effects()
            self._apply(message, effects)
            self._carry_out(effects)

    def _read_clock(self) -> None:
        loop, rules = self._stage.loop, self._rules
        rules.now_ms, rules.uptime_ms = loop.wall_ms, loop.uptime_ms
        self._stage.judge.set_clock(loop.uptime_ms, loop.wall_ms)

    def _publish(self, row: Publish) -> None:
        judge, book = self._stage.judge, self._book
        is_letter = row.channel is self._stage.letters
        judge.arrive(book, row.batch, row.indexes, is_letter)
        effects = Effects()
        self._rules.publish(row.batch, row.indexes, effects, is_letter, row.delays_ms)
        judge.enqueued(book, row.batch, effects)
        channel: Actor = row.channel  # type: ignore[assignment]
        if effects.appended is not None:
            append = Append(
                self,  # type: ignore[arg-type]
                self._definition.queue_id,
                ((row.channel, row.batch, effects.appended[0]),),
                row.batch,
                *effects.appended,
                effects.deadlines,
                due_times=effects.due_times,
            )
            self._stage.loop.tell(self._stage.journal, append)
        if effects.confirmed is not None:
            self._confirm(channel, row.batch, effects.confirmed)
        if effects.rejected is not None:
            self._rejects.setdefault(channel, []).append((row.batch, effects.rejected))
        self._carry_out(effects)

    def _confirm(self, channel: Actor, batch: Batch, indexes: Indexes) -> None:
        self._confirms.setdefault(channel, []).append((batch, indexes))

    def _apply(self, message: object, effects: Effects) -> None:
        rules, judge, book, loop = self._rules, self._stage.judge, self._book, self._stage.loop
        if isinstance(message, Answered):
            judge.answer(book, message.judged, message.outcome.value, message.judged_delay_ms)
            if message.outcome is Outcome.ACKED:
                rules.settle(message.channel, message.parts, effects)
            elif message.outcome is Outcome.REJECTED:
                rules.discard(message.channel, message.parts, effects)
            else:
                rules.requeue(message.channel, message.parts, effects, message.delay_ms)
        elif isinstance(message, Touched):
            judge.touch(book, message.judged, self._stage.touched_ms_max)
            rules.touch(message.channel, message.parts, self._stage.touched_ms_max)
        elif isinstance(message, SetPaused):
            book.is_paused = message.is_paused
            if message.is_paused:
                rules.pause()
            else:
                rules.resume(effects)
        elif isinstance(message, Sent):
            rules.sent(message.consumer, effects)
        elif isinstance(message, CreditOffered):
            rules.dispatch(effects, message.channel)
            returned = message.credit.return_unused(self._definition)
            channel: Actor = message.channel  # type: ignore[assignment]
            offer_credit(self._stage, channel, message.credit, returned)
        elif isinstance(message, DeadLettersSafe):
            judge.letters_safe(book, message.ranges)
            effects.settled_entries.extend(message.ranges)
        elif isinstance(message, AddConsumer):
            rules.add_consumer(message.consumer)
            book.unanswered[message.consumer] = 0
            rules.dispatch(effects, message.consumer.channel)
        elif isinstance(message, RemoveConsumer):
            removed = rules.cancel(message.channel, message.consumer_tag, effects)
            if removed is not None:
                book.unanswered.pop(removed)
            loop.tell(message.channel, ConsumerRemoved(message.consumer_tag))  # type: ignore[arg-type]
        elif isinstance(message, ChannelDown):
            consumers = [each for each in book.unanswered if each.channel is message.channel]
            judge.channel_down(book, message.channel, consumers)
            self._confirms.pop(message.channel, None)  # type: ignore[call-overload]
            self._rejects.pop(message.channel, None)  # type: ignore[call-overload]
            rules.channel_down(message.channel, effects)
        else:
            assert message is WOKEN
            self._wakes_ms = None
            rules.expire(effects)

    def _carry_out(self, effects: Effects) -> None:
        stage = self._stage
        ready, _, in_flight = self._rules.counts()
        counts = ready, self._rules.deferred_count, in_flight
        stage.judge.check_call(self._book, effects, counts)
        deferred = effects.deferred_entries or ()
        if effects.delivered_entries or effects.settled_entries or deferred:
            record = RecordDeliveries(
                self._definition.queue_id,
                effects.delivered_entries,
                effects.settled_entries,
                deferred,
            )
            stage.loop.tell(stage.journal, record)
        by_channel: dict[object, list[Part]] = {}
        for channel, delivery, low, high in effects.timed_out or ():
            by_channel.setdefault(channel, []).append((delivery, low, high))
        for channel, parts in by_channel.items():
            stage.loop.tell(channel, TimedOut(parts))  # type: ignore[arg-type]
        if effects.dead and self._rules.dead_letters:
            stage.loop.tell(stage.letters, PublishDead(self._definition, effects.dead))
        for consumer, deliveries in effects.delivered:
            stage.loop.tell(consumer.channel, Deliver(consumer, deliveries))  # type: ignore[arg-type]

    def on_idle(self) -> None:
        """Tell every channel its confirms; arrange to be woken in time."""
        loop, queue = self._stage.loop, self._definition
        confirms, self._confirms = self._confirms, {}
        for channel, items in confirms.items():
            loop.tell(channel, Confirm(queue, items))
        rejects, self._rejects = self._rejects, {}
        for channel, items in rejects.items():
            loop.tell(channel, Reject(queue, items))
        if self._rules.needs_clock:
            self._read_clock()
            wait_ms = self._rules.wait_ms()
            if wait_ms is not None:
                when_ms = loop.uptime_ms + wait_ms
                if self._wakes_ms is None or when_ms < self._wakes_ms:
                    self._wakes_ms = when_ms
                    loop.wake_at(when_ms, self)


class SimulatedJournal:
    """Hands the journal what queues tell it, and commits."""

    is_stopped = False

    def __init__(
        self, stage: Stage, journal: Journal, books: dict[int, QueueBook], reclaims: bool
    ) -> None:
        self._stage = stage
        self.journal = journal
        self._books = books
        self._reclaims = reclaims

    def receive(self, message: object) -> None:
        """All that has come by now is one commit."""
        appends = self._hand_over([message, *self._stage.loop.gather(self)])
        commit = self.journal.begin_commit(self._reclaims)
        if commit is not None:
            self._stage.judge.committed(SYNCED if commit.run().synced else WRITTEN)
            for queue, persisted in appends.items():
                self._stage.loop.tell(queue, Persisted(persisted))
            commit.discard()

    def _hand_over(self, messages: Sequence[object]) -> dict[Actor, list[Append]]:
        judge, journal = self._stage.judge, self.journal
        appends: dict[Actor, list[Append]] = {}
        for each in messages:
            if isinstance(each, Append):
                self._append(each)
                appends.setdefault(each.queue, []).append(each)  # type: ignore[arg-type]
            else:
                assert isinstance(each, RecordDeliveries)
                book = self._books[each.queue_id]
                judge.record(book, each.delivered, each.settled, each.deferred)
                if each.delivered:
                    journal.delivered(each.queue_id, each.delivered)
                if each.deferred:
                    journal.deferred(each.queue_id, each.deferred)
                if each.settled:
                    journal.settle(each.queue_id, each.settled)
        return appends

    def _append(self, append: Append) -> None:
        indexes, ids = append.indexes, append.entry_ids
        deadlines, due_times = (
            each_of(append.deadlines, indexes),
            each_of(append.due_times, indexes),
        )
        rows = zip(indexes, ids, deadlines, due_times, strict=True)
        self._stage.judge.append(self._books[append.queue_id], append.batch, rows)
        self.journal.append(
            append.queue_id,
            append.batch,
            indexes,
            ids,
            append.deadlines,
            due_times=append.due_times,
        )

    def on_idle(self) -> None:
        pass

    def finish(self) -> None:
        """Write what has come by now, and close."""
        rest = self._stage.loop.gather(self)
        if rest:
            self._hand_over(rest)
            self._stage.judge.committed(WRITTEN)
        self.journal.close()
        # The close has synced what was written.
        self._stage.judge.committed(SYNCED)


class SimulatedLetters:
    """Publishes dead letters, and has their originals settled once they are safe."""

    is_stopped = False

    def __init__(self, stage: Stage, next_batch_number: Callable[[], int]) -> None:
        self._stage = stage
        self._letters = DeadLetters({"/": stage.table}.get, next_batch_number)

    def receive(self, message: object) -> None:
        letters, loop = self._letters, self._stage.loop
        if isinstance(message, PublishDead):
            made = carry_out(letters.publish(message.queue, message.dead, loop.wall_ms // 1000))
            assert made is not None
            for queue, indexes in made.by_queue.items():
                loop.tell(queue.handle, Publish(self, made.batch, indexes))  # type: ignore[arg-type]
        else:
            assert isinstance(message, Confirm)
            for batch, indexes in message.items:
                letters.confirm(message.queue, batch, indexes)

    def on_idle(self) -> None:
        settled, self._letters.settled = self._letters.settled, {}
        for source, entry_ids in settled.items():
            self._stage.loop.tell(
                source.handle, DeadLettersSafe(ranges_of(array("Q", entry_ids)), ())
            )
