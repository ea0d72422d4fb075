"""Histories of one queue: what happens is drawn, the queue and its model do it, all is compared.

What can be seen is compared after each step: answers, deliveries, what leaves and why, and what the
journal is told. In mid-history arguments are added, changed and removed, channels get a global
prefetch, sockets do not drain, connections are not read, clocks are set, messages are withdrawn,
and the broker restarts with what the journal would have kept.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from batches import batch_of, message_of
from leveret.amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from leveret.amqp_frames.messages.dedup_headers import IdentityReader
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.reading_time import Pause, ReadingTime
from leveret.core.queue.construction import equip, make_queue, refill
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.dedup import STORED_KIND, RememberedRow
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.paging import Wanted
from leveret.core.queue.rules import Effects
from leveret.core.queue.sizing import SizedRow, is_unsized
from leveret.core.queue.span import EntryRange, RefusedSpan, Span, held_bytes
from queue_model import Arguments, Held, Message, NaiveQueue, Outcome
from sweeping import EagerSweep
from wire import publish

# A window that is never full, and one that a few messages fill.
WIDE: Final = 1 << 40
NARROW: Final = 600
START_MS: Final = 1_000_000
CHANNELS: Final = ("a", "b", "c")
TAGS: Final = (b"\1x", b"\1y")

# Parts of deliveries, as channels name them, and what the model makes of them.
Part = tuple[Delivery, int, int]
Answered = list[tuple[Held, set[int]]]


def entries_of(span: Span) -> range:
    return range(span.first_entry_id, span.first_entry_id + len(span))


def entries_in(ranges: list[EntryRange]) -> set[int]:
    """The entries of ranges that do not overlap."""
    entries = [entry for first, last in ranges for entry in range(first, last + 1)]
    assert len(set(entries)) == len(entries)
    return set(entries)


class _Read:
    """A message that was read back."""

    def __init__(self, message: Message, entry: int) -> None:
        self.batch = message.batch
        self.indexes = range(message.index, message.index + 1)
        self.first_entry_id = entry


class History:
    """The history of one queue, drawn from one source of randomness."""

    def __init__(
        self, random: Random, choices: Sequence[Arguments], window_bytes_max: int = WIDE
    ) -> None:
        """`choices`: the arguments to begin with, and to change to.

        `window_bytes_max`: what a consumer may be handed that its socket has not taken.
        """
        self.random = random
        self.choices = choices
        self.window_bytes_max = window_bytes_max
        self.uptime_ms = 0
        self.model = NaiveQueue(choices[0], START_MS, window_bytes_max, CHANNELS)
        self.reader = IdentityReader()
        # What the journal has: entries that are not settled, and their attempts.
        self.journal: dict[int, Message] = {}
        self.attempts: Counter[int] = Counter()
        # Until when entries are deferred.
        self.due_times: dict[int, int] = {}
        self.messages: dict[int, Message] = {}
        # Handed to a channel and not yet taken by its socket.
        self.unsent: list[tuple[Consumer, int]] = []
        # The delivery tag that each channel gives next.
        self.next_tags: Counter[object] = Counter(dict.fromkeys(CHANNELS, 1))
        self.batch_count = 0
        self.is_swept = random.random() < 0.5
        # Half of the histories page rows; the journal has synced the entries below this. A paged
        # row has the priority that counted when it was paged.
        priorities = {each.get("x-max-priority") for each in choices}
        self.is_paged = random.random() >= 0.5 and len(priorities) == 1
        self.synced_below = 0
        self.start()

    def start(self) -> None:
        """A queue with what the journal has; what was transient is gone."""
        model = self.model
        # Any time: the clock that only goes forward begins anew.
        self.uptime_ms = self.random.choice((0, 5_000))
        self.credits = {name: self.new_channel() for name in CHANNELS}
        self.unsent.clear()
        # Entries that the spill has.
        self.spilled: set[int] = set()
        self.queue = make_queue("the queue", True, table_of(model.arguments), self.window_bytes_max)
        self.queue.sweep = EagerSweep()
        self.queue.is_paused = model.is_paused
        self.set_clocks()
        refill(
            self.queue,
            [
                (
                    each.batch,
                    range(each.index, each.index + 1),
                    each.entry,
                    self.attempts[each.entry],
                    each.deadline,
                    self.due_times.get(each.entry, 0),
                )
                for _, each in sorted(self.journal.items())
            ],
        )
        self.queue.next_entry_id = max(self.queue.next_entry_id, model.next_entry)
        if self.queue.deduplication is not None:
            rows = [RememberedRow(*each) for each in model.window if each[2].endswith(STORED_KIND)]
            self.queue.deduplication.window.restore(rows, model.now_ms)
        model.restart(self.journal, self.attempts, self.due_times)
        effects = self.perform(self.queue.dispatch)
        model.dispatch()
        self.check(effects)

    def new_channel(self) -> ChannelCredit:
        return ChannelCredit(reading=ReadingTime())

    # --- What the real queue does

    def set_clocks(self) -> None:
        self.queue.now_ms = self.model.now_ms
        self.queue.uptime_ms = self.uptime_ms

    def perform(self, call: Callable[..., object], *arguments: object) -> Effects:
        """Let the queue do it, and the model know who got what."""
        effects = Effects()
        self.set_clocks()
        if self.is_paged and self.random.random() >= 0.5:
            self.page_out()
        call(*arguments, effects)
        self.read_wanted(effects)
        for consumer, deliveries in effects.delivered:
            window_bytes = 0
            for delivery in deliveries:
                # The channel has encoded it.
                delivery.first_tag = self.random.choice((0, self.next_tags[consumer.channel]))
                self.next_tags[consumer.channel] += len(delivery.span)
                assert delivery.queue == "the queue"
                assert delivery.consumer is consumer
                first = delivery.span.first_entry_id
                assert first not in self.model.handed
                channel = str(consumer.channel)
                self.model.handed[first] = Held(channel, consumer, delivery, len(delivery.span))
                window_bytes += delivery.wire_bytes
            self.unsent.append((consumer, window_bytes))
        return effects

    def page_out(self) -> None:
        """The queue keeps few bytes in memory; the spill takes what the journal does not have."""
        chosen = self.random
        self.synced_below = max(self.synced_below, self.queue.next_entry_id - chosen.randint(0, 9))
        kept_bytes = chosen.choice((0, 0, 1_500))
        unspilled, _ = self.queue.page_out(kept_bytes, self.synced_below)
        chosen_rows = unspilled[: chosen.randint(0, len(unspilled))]
        ranges = [(entries_of(span)[0], entries_of(span)[-1]) for span in chosen_rows]
        _, paged = self.queue.page_out(kept_bytes, self.synced_below, ranges)
        assert entries_in(paged) <= entries_in(ranges)
        self.spilled |= entries_in(paged)

    def read_wanted(self, effects: Effects) -> None:
        """The disk answers at once, so that what the queue does is that of one in memory."""
        while (wanted := self.queue.wanted(1 << 20)) is not None:
            through = self.answer_read(wanted)
            assert not wanted.is_sizing, "sizes are asked for when the limit comes"
            rows = [
                _Read(self.messages[each], each)
                for each in sorted(entries_in(wanted.ranges))
                if each <= through
            ]
            lost = self.queue.read(rows, through, effects)
            assert not lost
            self.queue.dispatch(effects)
        gone = entries_in(effects.unspilled_entries or [])
        assert gone <= self.spilled
        self.spilled -= gone

    def answer_read(self, wanted: Wanted) -> int:
        """The disk has these; returns up to which of them it answers."""
        entries = sorted(entries_in(wanted.ranges))
        assert not wanted.is_spilled or self.spilled.issuperset(entries)
        assert wanted.is_spilled or self.journal.keys() >= set(entries)
        return self.random.choice((entries[0], entries[-1], entries[-1]))

    def read_sizes(self) -> None:
        """A limit by bytes has come, and the disk says at once how large paged messages are."""
        effects = Effects()
        while (wanted := self.queue.wanted(0)) is not None:
            assert wanted.is_sizing
            through = self.answer_read(wanted)
            rows = [
                SizedRow(each, array("I", [self.messages[each].size]))
                for each in sorted(entries_in(wanted.ranges))
                if each <= through
            ]
            assert not self.queue.count_sizes(rows, through, effects)
        assert not effects.dead
        assert not effects.settled_entries

    def check(self, effects: Effects) -> None:
        expected = self.model.outcome
        self.check_answers(effects, expected)
        self.check_deliveries(effects, expected)
        left = Counter[tuple[int, str]]()
        letters: list[int] = []
        for span, reason in effects.dead:
            if isinstance(span, RefusedSpan):
                assert reason == "maxlen"
                letters += span.indexes
            else:
                left.update((entry, reason) for entry in entries_of(span))
        assert left == expected.left
        assert letters == expected.refused_letters
        timed_out = [
            (channel, delivery, position)
            for channel, delivery, low, high in effects.timed_out or ()
            for position in range(low, high)
        ]
        assert len(timed_out) == len(expected.timed_out)
        assert set(timed_out) == {
            (held.channel, held.delivery, position) for held, position in expected.timed_out
        }
        deferred = [
            (entry, due_ms) for span, due_ms in effects.deferred or () for entry in entries_of(span)
        ]
        assert sorted(deferred) == sorted(expected.deferred)
        due = [entry for span in effects.due or () for entry in entries_of(span)]
        assert sorted(due) == sorted(expected.due)
        self.check_journal(effects, expected)
        self.model.outcome = Outcome()
        self.check_state()

    def check_answers(self, effects: Effects, expected: Outcome) -> None:
        appended = {}
        if effects.appended is not None:
            indexes, entries = effects.appended
            several = effects.deadlines
            deadlines = [several] * len(entries) if isinstance(several, int) else several
            several = effects.due_times
            due_times = [several] * len(entries) if isinstance(several, int) else several
            appended = {
                index: (entry, deadline, due)
                for index, entry, deadline, due in zip(
                    indexes, entries, deadlines, due_times, strict=True
                )
            }
        assert appended == expected.appended
        assert list(effects.confirmed or ()) == sorted(expected.confirmed)
        assert list(effects.rejected or ()) == sorted(expected.rejected)
        found = effects.deduplicated
        assert list(found.repeats_stored if found else ()) == sorted(expected.repeats_stored)
        assert list(found.repeats_transient if found else ()) == sorted(expected.repeats_transient)

    def check_deliveries(self, effects: Effects, expected: Outcome) -> None:
        assert not self.model.handed
        for held in expected.delivered:
            self.check_delivery(held.delivery, held.messages)
        for channel in CHANNELS:
            # Each channel gets the messages in the order of the queue.
            assert [
                delivery
                for consumer, deliveries in effects.delivered
                for delivery in deliveries
                if consumer.channel == channel
            ] == [held.delivery for held in expected.delivered if held.channel == channel]

    def check_delivery(self, delivery: Delivery, messages: list[Message]) -> None:
        """It has these messages, unaltered, with their attempts."""
        span = delivery.span
        assert list(entries_of(span)) == [each.entry for each in messages]
        for position, message in enumerate(messages):
            self.check_content(message, span.batch, span.indexes[position])
            # The model has counted this one.
            assert span.attempts + 1 == delivery.attempts == message.attempts

    def check_journal(self, effects: Effects, expected: Outcome) -> None:
        for entry, _, due in expected.appended.values():
            self.journal[entry] = self.messages[entry]
            self.due_times[entry] = due
        delivered = entries_in(effects.delivered_entries)
        settled = entries_in(effects.settled_entries)
        for found, all_of_them in (
            (delivered, expected.delivered_entries),
            (settled, expected.settled),
        ):
            # The journal may hear of entries that it does not know, never of others' fate.
            assert found <= all_of_them
            assert found & self.journal.keys() == all_of_them & self.journal.keys()
        self.attempts.update(delivered)
        deferred = {
            (entry, due)
            for first, last, due in effects.deferred_entries or ()
            for entry in range(first, last + 1)
        }
        assert deferred <= expected.deferred_entries
        assert {entry for entry, _ in expected.deferred_entries - deferred}.isdisjoint(self.journal)
        for entry in delivered:
            self.due_times.pop(entry, None)
        self.due_times.update(deferred)
        # Dead letters are safe at once here.
        for entry in (*settled, *(entry for entry, _ in expected.left)):
            self.journal.pop(entry, None)

    def check_content(self, message: Message, batch: Batch, index: int) -> None:
        assert message_of(batch, index) == message_of(message.batch, message.index)

    # --- What always holds

    def check_state(self) -> None:
        queue, model = self.queue, self.model
        if self.is_swept:
            queue.sweep_all()
        found = [
            (entry, span.attempts, getattr(span, "deadline_ms", 0))
            for span in queue.ready
            for entry in entries_of(span)
        ]
        assert found == [(each.entry, each.attempts, each.deadline) for each in model.ready]
        deferral = () if queue.deferral is None else queue.deferral.rows()
        deferred = [
            (entry, span.attempts, getattr(span, "deadline_ms", 0), due_ms - self.uptime_ms)
            for span, due_ms in deferral
            for entry in entries_of(span)
        ]
        assert sorted(deferred) == sorted(
            (each.entry, each.attempts, each.deadline, each.left_ms) for each in model.deferred
        )
        assert queue.deferred_count == len(deferred)
        in_flight = sum(len(each.positions) for each in model.held)
        assert queue.counts() == (len(model.ready), len(model.consumers), in_flight)
        self.check_kept()
        self.check_credit()
        model.check_nothing_waits()
        window = None if queue.deduplication is None else queue.deduplication.window
        remembered = [] if window is None else list(window.remembered())
        identities = [each for _, row in remembered for each in row]
        assert identities == [identity for _, _, identity in model.window]
        self.check_clock()

    def check_kept(self) -> None:
        """Messages are there unaltered; of reads that are swept nothing else is."""
        used: Counter[Batch] = Counter()
        rows = [(span, range(len(span))) for span in self.queue.waiting()]
        rows += [
            (held.delivery.span, sorted(held.positions))  # type: ignore[misc]
            for held in self.model.held
            if held.positions
        ]
        spent = [(span, range(len(span))) for span, _ in self.queue.spent or ()]
        assert self.queue.held_bytes == sum(
            held_bytes(span.batch, len(positions)) for span, positions in (*rows, *spent)
        )
        for span, positions in rows:
            if span.is_paged:
                continue
            for position in positions:
                index = span.indexes[position]
                message = self.messages[span.first_entry_id + position]
                self.check_content(message, span.batch, index)
                used[span.batch] += span.batch.ends[index] - span.batch.starts[index]
        if self.is_swept:
            assert used == {batch: len(batch.wire) for batch in used}
        is_withdrawn = any(
            held.messages[each].is_withdrawn for held in self.model.held for each in held.positions
        )
        assert bool(self.queue.withdrawn) == is_withdrawn

    def check_credit(self) -> None:
        """Credit is never exceeded and counts what is not answered."""
        model = self.model
        for consumer in model.consumers:
            busy = model.busy(consumer)
            assert consumer.in_flight == busy
            assert not consumer.prefetch or busy <= consumer.prefetch
            assert consumer.window_bytes == model.window_bytes[consumer]
        for name, credit in self.credits.items():
            assert credit.in_use == model.in_use(name)

    def check_clock(self) -> None:
        """The queue is woken when it has something to do, and not without need."""
        queue, model = self.queue, self.model
        due = [each.deadline for each in (*model.ready[:1], *model.deferred) if each.deadline]
        due += [until for _, until, _ in model.window[:1] if until]
        waits = model.waits_ms()
        if not queue.needs_clock:
            assert not due
            assert not waits
            return
        self.set_clocks()
        assert queue.next_due_ms() == min(due, default=None)
        by_wall = min((max(0, each - model.now_ms) for each in due), default=None)
        first = min(
            (max(0, each) for each in (*waits, *(() if by_wall is None else (by_wall,)))),
            default=None,
        )
        wait_ms = queue.wait_ms()
        if first is None or wait_ms is None:
            assert wait_ms is first
        elif any(each.was_unread for each in model.channels.values()):
            # It is woken when the time would have been over, and finds out that it is not.
            assert wait_ms <= first
        else:
            assert wait_ms == first

    # --- What happens

    def run(self, steps: int) -> None:
        happenings = (
            *[self.publish] * 5,
            *[self.settle, self.requeue, self.discard, self.touch] * 2,
            *[self.consume, self.set_limit] * 2,
            *[self.wait] * 4,
            self.send,
            self.send,
            self.get,
            self.cancel,
            self.channel_down,
            self.purge,
            self.withdraw,
            self.change,
            self.restart,
            self.read_or_not,
            self.set_wall_clock,
            self.pause,
        )
        for _ in range(steps):
            self.random.choice(happenings)()

    def publish(self) -> None:
        chosen = self.random
        count = chosen.randint(1, 6)
        flags = [chosen.random() < 0.7 for _ in range(count)]
        has_ttls, has_ids = chosen.random() < 0.3, chosen.random() < 0.7
        sizes = [chosen.randint(0, 12) for _ in range(count)]
        priorities = [chosen.choice((None, 0, 1, 2, 5, 9, 255)) for _ in range(count)]
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
                batch,
                each,
                sizes[each],
                priorities[each] or 0,
                flags[each],
                ttls[each],
                digests[each],
            )
            for each in indexes
        ]
        is_letter = chosen.random() < 0.1
        published: Indexes = range(count) if is_all else array("I", indexes)
        rows = self.queue.rows_of(batch, published)
        expected_rows = self.model.rows_of(messages)
        assert [list(row) for row in rows] == [
            [each.index for each in row] for row in expected_rows
        ]
        if chosen.random() < 0.2:
            # They need not be divided.
            rows, expected_rows = (published,), [messages]
        delays_ms: int | list[int] = 0
        if chosen.random() < 0.2:
            delays_ms = [chosen.choice((0, 2, 9)) for _ in range(len(batch))]
            if chosen.random() < 0.3:
                delays_ms = 6
        for each in messages:
            each.delay_ms = delays_ms if isinstance(delays_ms, int) else delays_ms[each.index]
        for row, those in zip(rows, expected_rows, strict=True):
            self.publish_row(batch, row, those, is_letter, delays_ms)

    def publish_row(
        self,
        batch: Batch,
        row: Indexes,
        messages: list[Message],
        is_letter: bool,
        delays_ms: int | list[int],
    ) -> None:
        effects = self.perform(
            lambda effects: self.queue.publish(batch, row, effects, is_letter, delays_ms)
        )
        self.model.publish(messages, is_letter)
        for each in messages:
            if each.entry:
                self.messages[each.entry] = each
        found = effects.deduplicated
        if found is not None and found.identities:
            assert effects.appended is not None
            appended = {each.index: each.identity for each in messages}
            assert list(found.identities) == [appended[each] for each in effects.appended[0]]
        self.check(effects)

    def consume(self) -> None:
        chosen = self.random
        channel, tag = chosen.choice(CHANNELS), chosen.choice(TAGS)
        if any(
            (each.channel, each.consumer_tag) == (channel, tag) for each in self.model.consumers
        ):
            return
        consumer = Consumer(
            channel,
            tag,
            chosen.choice((0, 1, 1, 2, 3, 4)),
            self.credits[channel],
            chosen.random() < 0.2,
            chosen.random() < 0.05,
            chosen.choice((0, 0, 1, 9)),
            chosen.choice((None, None, None, 5, 20)),
        )
        refusal = self.queue.refusal(consumer)
        assert refusal == self.model.refusal(consumer)
        if refusal is not None:
            return
        self.set_clocks()
        self.queue.add_consumer(consumer)
        effects = self.perform(self.queue.dispatch)
        self.model.consumers.append(consumer)
        self.model.elect()
        self.model.dispatch()
        self.check(effects)

    def cancel(self) -> None:
        model = self.model
        if not model.consumers:
            return
        consumer = self.random.choice(model.consumers)
        gone: list[object] = []
        effects = self.perform(
            lambda effects: gone.append(
                self.queue.cancel(consumer.channel, consumer.consumer_tag, effects)
            )
        )
        assert gone == [consumer]
        model.consumers.remove(consumer)
        model.elect()
        model.dispatch()
        self.check(effects)

    def set_limit(self) -> None:
        """basic.qos with global."""
        channel, limit = self.random.choice(CHANNELS), self.random.choice((0, 0, 1, 2, 3, 5))
        self.model.channels[channel].limit = limit
        self.offer_credit(channel, self.credits[channel].set_limit(limit))

    def offer_credit(self, channel: str, offered: Sequence[object]) -> None:
        """The channel tells the queue what it is offered; what is left of it comes back."""
        for _ in offered:
            effects = self.perform(lambda effects: self.queue.dispatch(effects, channel))
            self.model.dispatch()
            assert not self.credits[channel].return_unused("the queue")
            self.check(effects)

    def send(self) -> None:
        """A socket takes what a consumer was handed."""
        if self.unsent:
            number = self.random.randint(0, len(self.unsent) - 1)
            consumer, window_bytes = self.unsent.pop(number)
            self.model.window_bytes[consumer] -= window_bytes
            if consumer.sent(window_bytes):
                effects = self.perform(self.queue.sent, consumer)
                self.model.dispatch()
                self.check(effects)

    def get(self) -> None:
        model = self.model
        no_ack, channel = self.random.random() < 0.5, self.random.choice(CHANNELS)
        self.set_clocks()
        effects = Effects()
        reading = self.credits[channel].reading
        while True:
            delivery = self.queue.get(channel, no_ack, effects, reading)
            if delivery is not None or not self.queue.wants_head:
                break
            self.read_wanted(effects)
        model.drop_expired()
        assert (delivery is None) == (model.is_paused or not model.ready)
        if delivery is not None:
            assert delivery.consumer is None
            held = Held(channel, None, delivery, 1)
            model.get(held, no_ack)
            self.check_delivery(delivery, held.messages)
        assert not effects.delivered
        self.check(effects)

    def pause(self) -> None:
        """Pause the queue, or resume it; it may be so already."""
        model = self.model
        model.is_paused = self.random.random() < 0.4
        if model.is_paused:
            self.queue.pause()
        else:
            effects = self.perform(self.queue.resume)
            model.dispatch()
            self.check(effects)

    def draw_answer(self) -> tuple[str, list[Part], Answered]:
        """Parts of one channel's deliveries; some are named twice, or not held any more."""
        chosen = self.random
        channel = chosen.choice([each.channel for each in self.model.held])
        parts: list[Part] = []
        answered: Answered = []
        for held in self.model.held:
            if held.channel != channel or chosen.random() < 0.4:
                continue
            low = chosen.randint(0, held.count - 1)
            high = chosen.randint(low + 1, held.count)
            positions = set(range(low, high))
            if positions <= held.positions | held.late:
                answered.append((held, positions))
            elif held.late:
                # A channel answers nothing twice, and of late answers only a number is known.
                continue
            parts += [(held.delivery, low, high)] * (1 if held.late else chosen.choice((1, 1, 2)))
        return channel, parts, answered

    def answer(self, call: Callable[..., object], come: Callable[[list[Message]], object]) -> None:
        """A channel answers in one way; the model lets those come that came in time."""
        model = self.model
        if not model.held:
            return
        channel, parts, answered = self.draw_answer()
        freed = sum(len(each) for held, each in answered if held.consumer is not None)
        offered = self.credits[channel].release(freed)
        returned: list[object] = []
        effects = self.perform(lambda effects: returned.append(call(channel, parts, effects)))
        late = {
            (held.delivery, position) for held, each in answered for position in each & held.late
        }
        back = [
            message
            for held, positions in list(answered)
            for message in model.answer(held, positions)
        ]
        come(back)
        model.dispatch()
        found = [
            (delivery, at) for delivery, low, high in effects.late or () for at in range(low, high)
        ]
        assert len(found) == len(late)
        assert set(found) == late
        if returned != [None]:
            (in_time,) = returned
            assert (
                [
                    entry
                    for delivery, low, high in in_time  # type: ignore[attr-defined]
                    for entry in entries_of(delivery.span)[low:high]
                ]
                == [each.entry for each in back]
            )
        self.check(effects)
        self.offer_credit(channel, offered)

    def settle(self) -> None:
        self.answer(
            self.queue.settle,
            lambda back: self.model.outcome.settled.update(each.entry for each in back),
        )

    def discard(self) -> None:
        self.answer(
            self.queue.discard,
            lambda back: [self.model.leave(each, "rejected") for each in back],
        )

    def requeue(self) -> None:
        # None: as the queue's arguments say.
        delay_ms = self.random.choice((None, None, None, 0, 3, 9))
        self.answer(
            lambda channel, parts, effects: self.queue.requeue(channel, parts, effects, delay_ms),
            lambda back: self.model.come_back(back, delay_ms),
        )

    def touch(self) -> None:
        """A channel's client works on some of its messages still."""
        chosen, model = self.random, self.model
        if not model.held:
            return
        channel = chosen.choice([each.channel for each in model.held])
        touched_ms_max = chosen.choice((1, 15, 60))
        parts: list[Part] = []
        expected: dict[tuple[Delivery, int], int] = {}
        for held in model.held:
            if held.channel == channel and chosen.random() < 0.6:
                low = chosen.randint(0, held.count - 1)
                high = chosen.randint(low + 1, held.count)
                parts.append((held.delivery, low, high))
                touched = model.touch(held, set(range(low, high)), touched_ms_max)
                expected |= {(held.delivery, at): left for at, left in touched.items()}
        self.set_clocks()
        found = {
            (delivery, at): due_ms - self.uptime_ms
            for delivery, low, high, due_ms in self.queue.touch(channel, parts, touched_ms_max)
            for at in range(low, high)
        }
        assert found == expected
        self.check_state()

    def channel_down(self) -> None:
        channel = self.random.choice(CHANNELS)
        consumers = [each for each in self.model.consumers if each.channel == channel]
        gone: list[object] = []
        effects = self.perform(
            lambda effects: gone.append(self.queue.channel_down(channel, effects))
        )
        assert gone == [consumers]
        self.credits[channel] = self.new_channel()
        self.model.channel_down(channel)
        self.check(effects)

    def wait(self) -> None:
        """Time passes. The ticker wakes the queue when it is due, or other work comes before."""
        passed_ms = self.random.choice((1, 4, 15))
        self.uptime_ms += passed_ms
        self.model.pass_time(passed_ms, passed_ms)
        if self.random.random() < 0.7:
            self.wake()

    def wake(self) -> None:
        effects = self.perform(self.queue.expire)
        self.model.expire()
        self.check(effects)
        # Else the ticker would wake it for ever.
        assert self.queue.wait_ms() != 0

    def set_wall_clock(self) -> None:
        """Somebody sets the machine's clock, forwards or back."""
        self.model.pass_time(0, self.random.choice((-40, -7, 7, 40)))
        if self.random.random() < 0.5:
            self.wake()

    def read_or_not(self) -> None:
        """The broker stops reading a connection, or goes on."""
        name = self.random.choice(CHANNELS)
        channel, reading = self.model.channels[name], self.credits[name].reading
        if channel.is_read:
            reading.pause(self.uptime_ms, Pause.ALARM)
            channel.was_unread = True
        else:
            reading.resume(self.uptime_ms)
        channel.is_read = not channel.is_read

    def purge(self) -> None:
        effects = Effects()
        count = self.queue.purge(effects)
        ranges = effects.settled_entries
        self.spilled -= entries_in(effects.unspilled_entries or [])
        ready = [*self.model.ready, *self.model.deferred]
        self.model.ready, self.model.deferred = [], []
        assert count == len(ready)
        settled = entries_in(ranges)
        assert settled <= {each.entry for each in ready}
        for each in ready:
            assert each.entry in settled or each.entry not in self.journal
            self.journal.pop(each.entry, None)
        self.check_state()

    def withdraw(self) -> None:
        """The journal has no room for some that it was told, wherever these are by now."""
        chosen, model = self.random, self.model
        entries = [each for each in sorted(self.journal)[-8:] if chosen.random() < 0.4]
        entries = [each for each in entries if each >= self.synced_below]
        if not entries:
            return
        gone = [self.journal.pop(entry) for entry in entries]
        remembered = {entry for entry, _, _ in model.window}
        identities = [each.identity for each in gone if each.entry in remembered]
        model.window = [each for each in model.window if each[2] not in identities]
        model.ready = [each for each in model.ready if each not in gone]
        model.deferred = [each for each in model.deferred if each not in gone]
        for each in gone:
            each.is_withdrawn = True
        is_row = entries[-1] - entries[0] == len(entries) - 1
        if is_row and chosen.random() < 0.5:
            self.queue.withdraw(range(entries[0], entries[-1] + 1), identities)
        else:
            # Some may have been settled before the journal spoke.
            known = range(1, model.next_entry)
            there = {each.entry for each in (*model.ready, *model.deferred, *self.in_flight())}
            settled = [each for each in known if each not in there][-3:]
            self.queue.withdraw(array("Q", sorted({*entries, *settled})), identities)
        self.check_state()

    def in_flight(self) -> list[Message]:
        return [each.messages[at] for each in self.model.held for at in each.positions]

    def change(self) -> None:
        """A policy, say, asks for other parts."""
        arguments = self.random.choice(self.choices)
        if "x-max-length-bytes" in arguments and any(
            is_unsized(delivery.span) for delivery in self.queue.in_flight.deliveries()
        ):
            # Their sizes are asked for when they come back; until then others may be delivered.
            return
        self.set_clocks()
        equip(self.queue, table_of(arguments), self.window_bytes_max)
        self.read_sizes()
        effects = self.perform(self.queue.dispatch)
        self.model.change(arguments)
        self.check(effects)

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.start()
