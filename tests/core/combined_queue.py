"""A naive queue with any arguments, message by message, and histories that try the real one on it.

The model is a list of messages. It knows nothing of spans, heaps, lines or tallies, and asks every
message every time. A `History` draws what happens from one seed, lets the queue and the model do
it, and compares all that can be seen: answers, deliveries, what leaves and why, what the journal is
told. In mid-history arguments are added, changed and removed, messages are withdrawn, and the
broker restarts with what the journal would have kept.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from batches import batch_of, message_of
from leveret.amqp_frames.messages.batch import TTL_NONE, Batch
from leveret.amqp_frames.messages.dedup_headers import IdentityReader
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Table, table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import equip, make_queue, refill
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.dedup import STORED_KIND, TRANSIENT_KIND, RememberedRow
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects
from leveret.core.queue.span import RefusedSpan
from sweeping import EagerSweep
from wire import publish

WINDOW: Final = 1 << 40
START_MS: Final = 1_000_000
CHANNELS: Final = ("a", "b")
NO_LIMIT: Final = 1 << 60

Arguments = dict[str, object]

# Arguments by what they ask for. Ages are so small that the window does not round them.
GROUPS: Final[dict[str, tuple[Arguments, ...]]] = {
    "deduplication": ({"x-dedup-window": 3}, {"x-dedup-window": 5, "x-dedup-age-ms": 20}),
    "length": ({"x-max-length": 3}, {"x-max-length": 0}),
    "bytes": ({"x-max-length-bytes": 20},),
    "overflow": (
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
    ),
    "time to live": ({"x-message-ttl": 0}, {"x-message-ttl": 5}, {"x-message-ttl": 30}),
    "priority": ({"x-max-priority": 2}, {"x-max-priority": 5}),
    "single active": ({"x-single-active-consumer": True},),
    "attempts": (
        {"x-queue-type": "quorum", "x-delivery-limit": 0},
        {"x-queue-type": "quorum", "x-delivery-limit": 2},
    ),
    "dead letters": ({"x-dead-letter-exchange": "dlx"},),
}


@dataclass(eq=False)
class Message:
    """One message as it was published."""

    batch: Batch
    index: int
    size: int
    priority: int
    is_persistent: bool
    ttl_ms: int
    # b"" without a producer or an id.
    digest: bytes
    entry: int = 0
    deadline: int = 0
    attempts: int = 0
    is_withdrawn: bool = False

    @property
    def identity(self) -> bytes:
        kind = STORED_KIND if self.is_persistent else TRANSIENT_KIND
        return self.digest + kind if self.digest else b""


@dataclass
class Outcome:
    """All that a call must lead to."""

    appended: dict[int, tuple[int, int]] = field(default_factory=dict)
    confirmed: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    repeats_stored: list[int] = field(default_factory=list)
    repeats_transient: list[int] = field(default_factory=list)
    left: Counter[tuple[int, str]] = field(default_factory=Counter)
    refused_letters: list[int] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    delivered: list[Message] = field(default_factory=list)


class NaiveQueue:
    """A queue as its arguments' documentation has it."""

    def __init__(self, arguments: Arguments, now_ms: int) -> None:
        self.arguments = arguments
        self.now_ms = now_ms
        self.ready: list[Message] = []
        self.held: dict[int, Message] = {}
        # Who got what is held: None by basic.get.
        self.holders: dict[int, Consumer | None] = {}
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.next_entry = 1
        # Identities, oldest first: entry, time until which it is remembered, identity.
        self.window: list[tuple[int, int, bytes]] = []
        self.outcome = Outcome()

    def number(self, name: str, otherwise: int) -> int:
        value = self.arguments.get(name, otherwise)
        assert isinstance(value, int)
        return value

    @property
    def rejects(self) -> bool:
        has_limit = {"x-max-length", "x-max-length-bytes"} & self.arguments.keys()
        return bool(has_limit) and self.arguments.get("x-overflow", "drop-head") != "drop-head"

    def is_over(self, count: int, size: int) -> bool:
        return count > self.number("x-max-length", NO_LIMIT) or size > self.number(
            "x-max-length-bytes", NO_LIMIT
        )

    def order(self) -> None:
        priority_max = self.number("x-max-priority", 0)
        self.ready.sort(key=lambda each: (-min(each.priority, priority_max), each.entry))

    # --- Leaving

    def leave(self, message: Message, reason: str) -> None:
        self.outcome.left[message.entry, reason] += 1
        if "x-dead-letter-exchange" not in self.arguments:
            self.outcome.settled.add(message.entry)

    def drop_expired(self) -> None:
        while self.ready and 0 < self.ready[0].deadline <= self.now_ms:
            self.leave(self.ready.pop(0), "expired")

    def drop_excess(self) -> None:
        self.drop_expired()
        while not self.rejects and self.is_over(
            len(self.ready), sum(each.size for each in self.ready)
        ):
            self.leave(self.ready.pop(0), "maxlen")
        self.drop_expired()

    # --- Delivering

    def room(self) -> int:
        """How many more messages all consumers together may get in this call."""
        chosen = self.consumers
        if self.arguments.get("x-single-active-consumer"):
            chosen = [] if self.active is None else [self.active]
        if any(each.no_ack for each in chosen):
            return NO_LIMIT
        held = Counter(self.holders.values())
        return sum(each.prefetch - held[each] for each in chosen) - len(self.outcome.delivered)

    def deliver(self, is_new: bool = False) -> None:
        while True:
            if not is_new:
                self.drop_expired()
            if not self.ready or self.room() <= 0:
                return
            self.outcome.delivered.append(self.ready.pop(0))

    def dispatch(self) -> None:
        self.drop_excess()
        self.deliver()

    def elect(self) -> None:
        if self.active not in self.consumers:
            highest = max((each.priority for each in self.consumers), default=0)
            first = [each for each in self.consumers if each.priority == highest]
            self.active = first[0] if first else None

    # --- Coming in

    def rows_of(self, messages: list[Message]) -> list[list[Message]]:
        """By priority, unless a limit goes by who came first."""
        if {"x-max-length", "x-max-length-bytes"} & self.arguments.keys():
            return [messages]
        priority_max = self.number("x-max-priority", 0)
        rows: dict[int, list[Message]] = {}
        for each in messages:
            rows.setdefault(-min(each.priority, priority_max), []).append(each)
        return [rows[priority] for priority in sorted(rows)]

    def publish(self, messages: list[Message], is_letter: bool) -> None:
        if is_letter or "x-dedup-window" not in self.arguments:
            self.enter(messages)
            return
        self.forget()
        known = {identity for _, _, identity in self.window}
        fresh: list[Message] = []
        again: list[tuple[Message, Message]] = []
        for each in messages:
            stored = each.digest + STORED_KIND
            standing = [one for one in fresh if one.digest and one.identity == stored]
            if not each.is_persistent:
                standing += [one for one in fresh if one.digest and one.identity == each.identity]
            if each.digest and stored in known:
                self.outcome.repeats_stored.append(each.index)
            elif each.digest and each.identity in known:
                self.outcome.repeats_transient.append(each.index)
            elif each.digest and standing:
                again.append((each, standing[0]))
            else:
                fresh.append(each)
        if fresh:
            self.enter(fresh)
        for each, original in again:
            if not original.entry:
                self.outcome.rejected.append(each.index)
            elif original.is_persistent:
                self.outcome.repeats_stored.append(each.index)
            else:
                self.outcome.repeats_transient.append(each.index)
        self.remember([each for each in fresh if each.entry and each.digest])

    def remember(self, messages: list[Message]) -> None:
        until = self.until_ms()
        self.window += [(each.entry, until, each.identity) for each in messages]
        self.shorten_window()

    def shorten_window(self) -> None:
        excess = len(self.window) - self.number("x-dedup-window", 0)
        del self.window[: max(0, excess)]

    def until_ms(self) -> int:
        if "x-dedup-age-ms" not in self.arguments:
            return 0
        until = self.now_ms + self.number("x-dedup-age-ms", 0)
        return max(until, self.window[-1][1]) if self.window else until

    def forget(self) -> None:
        while self.window and 0 < self.window[0][1] <= self.now_ms:
            self.window.pop(0)

    def enter(self, messages: list[Message]) -> None:
        self.drop_expired()
        is_new = not self.ready
        pending = list(messages)
        if not self.rejects:
            for each in pending:
                self.accept(each)
            self.deliver(is_new)
            self.drop_excess()
            return
        while pending:
            row: list[Message] = []
            while pending and not self.is_over(
                len(self.ready) + 1, sum(each.size for each in (*self.ready, pending[0]))
            ):
                row.append(pending.pop(0))
                self.accept(row[-1])
            if row:
                self.deliver(is_new)
                self.drop_excess()
            else:
                refused = pending.pop(0)
                self.outcome.rejected.append(refused.index)
                if self.arguments["x-overflow"] == "reject-publish-dlx" and (
                    "x-dead-letter-exchange" in self.arguments
                ):
                    self.outcome.refused_letters.append(refused.index)

    def accept(self, message: Message) -> None:
        message.entry = self.next_entry
        self.next_entry += 1
        ttl_ms = min(message.ttl_ms, self.number("x-message-ttl", TTL_NONE))
        message.deadline = 0 if ttl_ms == TTL_NONE else self.now_ms + ttl_ms
        self.ready.append(message)
        self.order()
        if message.is_persistent:
            self.outcome.appended[message.index] = (message.entry, message.deadline)
        else:
            self.outcome.confirmed.append(message.index)

    # --- Coming back

    def give_back(self, entries: Iterable[int]) -> list[Message]:
        """These are held no more; without those that were withdrawn."""
        back = [self.held.pop(entry) for entry in entries]
        for each in back:
            del self.holders[each.entry]
        return [each for each in back if not each.is_withdrawn]

    def come_back(self, messages: list[Message]) -> None:
        for each in messages:
            if each.attempts > self.number("x-delivery-limit", NO_LIMIT):
                self.leave(each, "delivery_limit")
            else:
                self.ready.append(each)
        self.order()

    # --- Arguments

    def change(self, arguments: Arguments) -> None:
        before, self.arguments = self.arguments, arguments
        bounds = ("x-dedup-window", "x-dedup-age-ms")
        if "x-dedup-window" not in arguments:
            self.window = []
        elif [before.get(name) for name in bounds] != [arguments.get(name) for name in bounds]:
            window, self.window = self.window, []
            until = self.until_ms()
            self.window = [(entry, until, identity) for entry, _, identity in window]
            self.shorten_window()
        if not (before.keys() & arguments.keys() & {"x-single-active-consumer"}):
            self.active = self.consumers[0] if self.consumers else None
        ready, self.ready = self.ready, []
        self.come_back(ready)
        self.dispatch()


class History:
    """The history of one queue, drawn from one seed."""

    def __init__(self, seed: object, choices: list[Arguments]) -> None:
        """`choices`: the arguments to begin with, and to change to."""
        self.random = Random(f"{seed}")
        self.choices = choices
        self.now_ms = START_MS
        self.model = NaiveQueue(choices[0], START_MS)
        self.table_of_model()
        self.reader = IdentityReader()
        # What the journal has: entries that are not settled, and their attempts.
        self.journal: dict[int, Message] = {}
        self.attempts: Counter[int] = Counter()
        self.messages: dict[int, Message] = {}
        self.deliveries: list[tuple[str, Delivery]] = []
        self.batch_count = 0
        self.tag_count = 0
        self.is_swept = self.random.random() < 0.5
        self.start()

    def table_of_model(self) -> Table:
        return table_of(self.model.arguments)

    def start(self) -> None:
        """A queue with what the journal has; what was transient is gone."""
        model = self.model
        self.queue = make_queue("the queue", True, self.table_of_model(), WINDOW)
        self.queue.sweep = EagerSweep()
        refill(
            self.queue,
            [
                (
                    each.batch,
                    range(each.index, each.index + 1),
                    each.entry,
                    self.attempts[each.entry],
                    each.deadline,
                )
                for _, each in sorted(self.journal.items())
            ],
        )
        self.queue.next_entry_id = max(self.queue.next_entry_id, model.next_entry)
        model.window = [each for each in model.window if each[2].endswith(STORED_KIND)]
        if self.queue.deduplication is not None:
            model.forget()
            model.window = [each for each in model.window if not 0 < each[1] <= self.now_ms]
            rows = [RememberedRow(*each) for each in model.window]
            self.queue.deduplication.window.restore(rows, self.now_ms)
        self.deliveries.clear()
        model.held, model.holders, model.consumers, model.active = {}, {}, [], None
        model.ready, model.outcome = [], Outcome()
        for entry, each in self.journal.items():
            each.attempts, each.is_withdrawn = self.attempts[entry], False
        model.come_back([each for _, each in sorted(self.journal.items())])
        model.dispatch()
        self.perform(self.queue.dispatch)

    # --- What the real queue does

    def perform(self, call: object, *arguments: object) -> Effects:
        effects = Effects()
        self.queue.now_ms = self.now_ms
        call(*arguments, effects)  # type: ignore[operator]
        self.check(effects)
        return effects

    def check(self, effects: Effects) -> None:
        expected = self.model.outcome
        self.check_answers(effects, expected)
        for message in expected.delivered:
            self.messages[message.entry] = message
        delivered: list[int] = []
        for consumer, deliveries in effects.delivered:
            for delivery in deliveries:
                span = delivery.span
                entries = range(span.first_entry_id, span.first_entry_id + len(span))
                delivered += entries
                assert consumer in self.model.consumers
                if self.model.arguments.get("x-single-active-consumer"):
                    assert consumer is self.model.active
                if consumer.no_ack:
                    expected.settled.update(entries)
                else:
                    self.deliveries.append((str(consumer.channel), delivery))
                for position, entry in enumerate(entries):
                    message = self.messages[entry]
                    self.check_content(message, span.batch, span.indexes[position])
                    assert span.attempts == message.attempts
                    message.attempts += 1
                    if not consumer.no_ack:
                        self.model.held[entry] = message
                        self.model.holders[entry] = consumer
        assert sorted(delivered) == sorted(each.entry for each in expected.delivered)
        left = Counter[tuple[int, str]]()
        letters: list[int] = []
        for span, reason in effects.dead:
            if isinstance(span, RefusedSpan):
                assert reason == "maxlen"
                letters += span.indexes
            else:
                for position in range(len(span)):
                    left[span.first_entry_id + position, reason] += 1
        assert left == expected.left, (left, expected.left)
        assert letters == expected.refused_letters
        self.check_journal(effects, expected)
        self.model.outcome = Outcome()
        self.check_state()

    def check_answers(self, effects: Effects, expected: Outcome) -> None:
        appended = {}
        if effects.appended is not None:
            indexes, entries = effects.appended
            several = effects.deadlines
            deadlines = [several] * len(entries) if isinstance(several, int) else several
            appended = {
                index: (entry, deadline)
                for index, entry, deadline in zip(indexes, entries, deadlines, strict=True)
            }
        assert appended == expected.appended
        assert list(effects.confirmed or ()) == sorted(expected.confirmed)
        assert list(effects.rejected or ()) == sorted(expected.rejected)
        found = effects.deduplicated
        assert list(found.repeats_stored if found else ()) == sorted(expected.repeats_stored)
        assert list(found.repeats_transient if found else ()) == sorted(expected.repeats_transient)

    def check_journal(self, effects: Effects, expected: Outcome) -> None:
        for entry, _ in expected.appended.values():
            self.journal[entry] = self.messages[entry]
        for first, last in effects.delivered_entries:
            self.attempts.update(range(first, last + 1))
        settled = [
            entry for each in effects.settled_entries for entry in range(each[0], each[1] + 1)
        ]
        assert len(set(settled)) == len(settled)
        # The journal may hear of entries that it does not know, never of others' fate.
        assert set(settled) <= expected.settled
        assert set(settled) & self.journal.keys() == expected.settled & self.journal.keys()
        # Dead letters are safe at once here.
        for entry in (*settled, *(entry for entry, _ in expected.left)):
            self.journal.pop(entry, None)

    def check_content(self, message: Message, batch: Batch, index: int) -> None:
        assert message_of(batch, index) == message_of(message.batch, message.index)

    def check_state(self) -> None:
        queue, model = self.queue, self.model
        if self.is_swept:
            queue.sweep_all()
        found = []
        for span in queue.ready:
            for position, index in enumerate(span.indexes):
                entry = span.first_entry_id + position
                found.append((entry, span.attempts, getattr(span, "deadline_ms", 0)))
                self.check_content(self.messages[entry], span.batch, index)
        assert found == [(each.entry, each.attempts, each.deadline) for each in model.ready]
        assert queue.counts() == (len(model.ready), len(model.consumers), len(model.held))
        for channel, delivery in self.deliveries:
            span = delivery.span
            assert channel in CHANNELS
            for low, high in delivery.remaining:
                for position in range(low, high):
                    message = model.held[span.first_entry_id + position]
                    self.check_content(message, span.batch, span.indexes[position])
        held = Counter(model.holders.values())
        assert all(each.in_flight == held[each] for each in model.consumers)
        assert all(each.no_ack or held[each] <= each.prefetch for each in model.consumers)
        window = None if queue.deduplication is None else queue.deduplication.window
        remembered = [] if window is None else list(window.remembered())
        identities = [each for _, row in remembered for each in row]
        assert identities == [identity for _, _, identity in model.window]
        due = [each.deadline for each in model.ready[:1] if each.deadline]
        due += [until for _, until, _ in model.window[:1] if until]
        if queue.needs_clock:
            assert queue.next_due_ms() == min(due, default=None)
        else:
            assert not due

    # --- What happens

    def run(self, steps: int) -> None:
        happenings = (
            *[self.publish] * 5,
            *[self.settle, self.requeue, self.discard] * 2,
            *[self.consume, self.wait] * 2,
            self.get,
            self.cancel,
            self.channel_down,
            self.purge,
            self.withdraw,
            self.change,
            self.restart,
        )
        for _ in range(steps):
            self.random.choice(happenings)()

    def publish(self) -> None:
        chosen = self.random
        count = chosen.randint(1, 6)
        flags = [chosen.random() < 0.7 for _ in range(count)]
        has_ttls, has_ids = chosen.random() < 0.3, chosen.random() < 0.7
        sizes = [chosen.randint(0, 12) for _ in range(count)]
        priorities = [chosen.choice((0, 0, 1, 2, 5, 9)) for _ in range(count)]
        ids = [chosen.randint(1, 6) if has_ids and chosen.random() < 0.9 else 0 for _ in flags]
        batch = batch_of(
            *(
                publish(
                    "q",
                    bytes(size),
                    Properties(
                        headers=table_of({"x-dedup-producer": "p", "x-dedup-id": f"{number}"})
                        if number
                        else None,
                        delivery_mode=2 if flag else 1,
                        priority=priority,
                    ),
                )
                for flag, size, priority, number in zip(flags, sizes, priorities, ids, strict=True)
            )
        )
        self.batch_count += 1
        batch.number = self.batch_count
        if not all(flags):
            batch.durable = array("I", [index for index, flag in enumerate(flags) if flag])
        ttls = [chosen.choice((TTL_NONE, 0, 3, 10, 40)) if has_ttls else TTL_NONE for _ in flags]
        if has_ttls:
            batch.ttls_ms = array("Q", ttls)
        indexes = [index for index in range(count) if chosen.random() < 0.8] or [0]
        is_all = len(indexes) == count
        digests = self.reader.digests(batch, range(count))
        messages = [
            Message(
                batch, each, sizes[each], priorities[each], flags[each], ttls[each], digests[each]
            )
            for each in indexes
        ]
        is_letter = chosen.random() < 0.1
        rows = self.queue.rows_of(batch, range(count) if is_all else array("I", indexes))
        expected_rows = self.model.rows_of(messages)
        assert [list(row) for row in rows] == [
            [each.index for each in row] for row in expected_rows
        ]
        for row, those in zip(rows, expected_rows, strict=True):
            self.publish_row(batch, row, those, is_letter)

    def publish_row(
        self, batch: Batch, row: object, messages: list[Message], is_letter: bool
    ) -> None:
        self.model.publish(messages, is_letter)
        for each in messages:
            if each.entry:
                self.messages[each.entry] = each
        effects = Effects()
        self.queue.now_ms = self.now_ms
        self.queue.publish(batch, row, effects, is_letter)  # type: ignore[arg-type]
        found = effects.deduplicated
        if found is not None and found.identities:
            assert effects.appended is not None
            appended = {each.index: each.identity for each in messages}
            assert list(found.identities) == [appended[each] for each in effects.appended[0]]
        self.check(effects)

    def consume(self) -> None:
        if len(self.model.consumers) >= 3:
            return
        self.tag_count += 1
        chosen = self.random
        consumer = Consumer(
            chosen.choice(CHANNELS),
            b"\1%d" % self.tag_count,
            chosen.randint(1, 4),
            ChannelCredit(),
            chosen.random() < 0.1,
            False,
            chosen.choice((0, 0, 3)),
        )
        self.model.consumers.append(consumer)
        self.model.elect()
        self.model.dispatch()
        self.queue.consumers.add(consumer)
        self.perform(self.queue_dispatch)

    def queue_dispatch(self, effects: Effects) -> None:
        self.queue.dispatch(effects)

    def cancel(self) -> None:
        if self.model.consumers:
            consumer = self.random.choice(self.model.consumers)
            self.model.consumers.remove(consumer)
            self.model.elect()
            self.model.dispatch()
            self.perform(self.queue.cancel, consumer.channel, consumer.consumer_tag)

    def get(self) -> None:
        model = self.model
        no_ack, channel = self.random.random() < 0.5, self.random.choice(CHANNELS)
        model.drop_expired()
        message = model.ready.pop(0) if model.ready else None
        effects = Effects()
        self.queue.now_ms = self.now_ms
        delivery = self.queue.get(channel, no_ack, effects)
        if message is None:
            assert delivery is None
        else:
            assert delivery is not None
            assert (delivery.span.first_entry_id, len(delivery.span)) == (message.entry, 1)
            assert delivery.span.attempts == message.attempts
            message.attempts += 1
            if no_ack:
                model.outcome.settled.add(message.entry)
            else:
                model.held[message.entry], model.holders[message.entry] = message, None
                self.deliveries.append((channel, delivery))
            model.drop_expired()
        self.check(effects)

    def give_back(self) -> tuple[str, list[tuple[Delivery, int, int]], list[Message]]:
        """Parts of one channel's deliveries, some named twice; and what these hold."""
        channel, _ = self.random.choice(self.deliveries)
        parts: list[tuple[Delivery, int, int]] = []
        entries: list[int] = []
        for holder, delivery in self.deliveries:
            if holder != channel or self.random.random() < 0.4 or not delivery.remaining:
                continue
            low, high = self.random.choice(delivery.remaining)
            low = self.random.randint(low, high - 1)
            high = self.random.randint(low + 1, high)
            parts += [(delivery, low, high)] * self.random.choice((1, 1, 2))
            first = delivery.span.first_entry_id
            entries += range(first + low, first + high)
        return channel, parts, self.model.give_back(entries)

    def settle(self) -> None:
        if self.deliveries:
            channel, parts, back = self.give_back()
            self.model.outcome.settled.update(each.entry for each in back)
            self.model.dispatch()
            self.perform(self.queue.settle, channel, parts)

    def discard(self) -> None:
        if self.deliveries:
            channel, parts, back = self.give_back()
            for each in back:
                self.model.leave(each, "rejected")
            self.model.dispatch()
            self.perform(self.queue.discard, channel, parts)

    def requeue(self) -> None:
        if self.deliveries:
            channel, parts, back = self.give_back()
            self.model.come_back(back)
            self.model.dispatch()
            self.perform(self.queue.requeue, channel, parts)

    def channel_down(self) -> None:
        channel = self.random.choice(CHANNELS)
        model = self.model
        model.consumers = [each for each in model.consumers if each.channel != channel]
        model.elect()
        entries = [
            delivery.span.first_entry_id + position
            for holder, delivery in self.deliveries
            for low, high in delivery.remaining
            for position in range(low, high)
            if holder == channel
        ]
        self.deliveries = [each for each in self.deliveries if each[0] != channel]
        model.come_back(model.give_back(entries))
        model.dispatch()
        self.perform(self.queue.channel_down, channel)

    def wait(self) -> None:
        """Time passes. The ticker wakes the queue when it is due, or other work comes before."""
        self.now_ms += self.random.choice((1, 4, 15))
        self.model.now_ms = self.now_ms
        if self.random.random() < 0.7:
            if "x-dedup-window" in self.model.arguments:
                self.model.forget()
            self.model.dispatch()
            self.perform(self.queue.expire)

    def purge(self) -> None:
        count, ranges = self.queue.purge()
        ready, self.model.ready = self.model.ready, []
        assert count == len(ready)
        settled = {entry for first, last in ranges for entry in range(first, last + 1)}
        assert settled <= {each.entry for each in ready}
        for each in ready:
            assert each.entry in settled or each.entry not in self.journal
            self.journal.pop(each.entry, None)
        self.check_state()

    def withdraw(self) -> None:
        """The journal has no room for some of the newest that it was told."""
        newest = sorted(self.journal)[-3:]
        entries = [each for each in newest if not self.journal[each].attempts][-2:]
        entries = entries or newest[-1:]
        if not entries:
            return
        gone = [self.journal.pop(entry) for entry in entries]
        model = self.model
        identities = [each.identity for each in gone if each.digest]
        model.window = [each for each in model.window if each[2] not in identities]
        model.ready = [each for each in model.ready if each not in gone]
        for each in gone:
            each.is_withdrawn = True
        self.queue.withdraw(array("Q", entries), identities)
        self.check_state()

    def change(self) -> None:
        """A policy, say, asks for other parts."""
        self.queue.now_ms = self.now_ms
        self.model.change(self.random.choice(self.choices))
        equip(self.queue, self.table_of_model(), WINDOW)
        self.perform(self.queue.dispatch)

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.start()
