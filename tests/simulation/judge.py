"""What must be true of a run, message by message, whatever the broker's rules look like inside.

The judge hears what clients sent and got, and what queues answered to each call. It knows a message
by the number in its body, and a copy of it in a queue by the entry id, which is no more than a
label here. It keeps its own books of who holds what, since when and how often, and raises
`ViolationError` at the first contradiction:
- a confirmed message is found by every later start, until a client has acked it or it has left for
  a reason that the arguments allow;
- a copy is in one place: nobody gets it while somebody holds it, or when it is done with;
- a delivery comes back at its time-out, not before and, when nothing else is left to do, not later;
- a deferred message is not delivered before it is due, also over a start, and is ready when it is;
- each delivery has the attempts that there were; over a start at least those that were written;
- a delivery limit is kept;
- nobody holds more than its prefetch, and credit that is free is used while messages wait;
- a queue counts what it must hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leveret.amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects
from leveret.storage.journal.recovery import Recovered
from model_entry import BUFFERED, SYNCED, Entry, Found, check_queue
from numbered import number_of

NEVER: Final = 0
ACKED: Final = "acked"
REJECTED: Final = "rejected"


class ViolationError(AssertionError):
    """A promise is broken."""


def demand(is_kept: object, *why: object) -> None:
    if not is_kept:
        raise ViolationError(" ".join(map(str, why)))


def each_of(several: int | Sequence[int], indexes: Indexes) -> Sequence[int]:
    """One time for all of these, or one for each, as one for each."""
    return [several] * len(indexes) if isinstance(several, int) else several


class ReadClock:
    """How long one connection has been read."""

    def __init__(self) -> None:
        self._paused_ms = 0
        self._paused_at_ms: int | None = None

    def pause(self, uptime_ms: int) -> None:
        if self._paused_at_ms is None:
            self._paused_at_ms = uptime_ms

    def resume(self, uptime_ms: int) -> None:
        if self._paused_at_ms is not None:
            self._paused_ms += uptime_ms - self._paused_at_ms
            self._paused_at_ms = None

    def at(self, uptime_ms: int) -> int:
        until_ms = uptime_ms if self._paused_at_ms is None else self._paused_at_ms
        return until_ms - self._paused_ms


class ChannelBook:
    """What one channel's client has, by delivery tag."""

    def __init__(self, clock: ReadClock) -> None:
        self.clock = clock
        self.limit = 0
        # Messages of its consumers that have been handed over and not been answered.
        self.used = 0
        self.open: dict[int, Held] = {}
        # Does its client take what is written to it?
        self.is_reading = True


@dataclass(eq=False, slots=True)
class Copy:
    """One message in one queue. `holder` is None while it is ready."""

    number: int
    is_persistent: bool
    expires_ms: int
    attempts: int = 0
    holder: Delivery | None = None
    channel: object = None
    clock: ReadClock | None = None
    # On that clock: since when, and its last moment; None for never.
    since_ms: int = 0
    over_ms: int | None = None
    # Deferred until then, on the clock that only goes forward; 0 for not at all.
    due_ms: int = 0


@dataclass(eq=False, slots=True)
class DueState:
    """What the journal was told last about until when an entry is deferred, 0 for not at all."""

    due_ms: int
    level: int = BUFFERED

    def reach(self, level: int) -> None:
        self.level = max(self.level, level)


@dataclass(eq=False, slots=True)
class Held:
    """A delivery's message, under its tag."""

    queue: QueueBook
    entry: int
    delivery: Delivery
    consumer: Consumer | None


@dataclass(eq=False)
class QueueBook:
    """What is known of one queue. The first lines are of its arguments."""

    name: str
    timeout_ms: int | None
    limit: int | None
    length_max: int | None
    ttl_ms: int
    has_dead_letters: bool
    is_single_active: bool
    # Of messages that come back.
    delay_ms: int
    delay_max_ms: int
    is_paused: bool = False
    # Copies by entry id; those without a known id yet, by number; ids of those that have gone.
    copies: dict[int, Copy] = field(default_factory=dict)
    nameless: dict[int, list[Copy]] = field(default_factory=dict)
    nameless_count: int = 0
    gone: set[int] = field(default_factory=set)
    held_count: int = 0
    # Left for the dead-letter exchange, and not safe there as far as the queue knows.
    dying: dict[int, Copy] = field(default_factory=dict)
    # Rejected in this call.
    rejected: set[int] = field(default_factory=set)
    # Deferred in this call, and how many the queue counts.
    deferring: set[int] = field(default_factory=set)
    deferred_count: int = 0
    # Consumers, and how many messages each has not answered.
    unanswered: dict[Consumer, int] = field(default_factory=dict)
    # As the journal was told, with how far that has come.
    kept: dict[int, Entry] = field(default_factory=dict)
    kept_dues: dict[int, list[DueState]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def own_delay_ms(self, attempts: int) -> int:
        """As long as its arguments say: twice as long with each delivery, up to a maximum."""
        if attempts <= 1 or not self.delay_ms:
            return self.delay_ms
        return min(self.delay_ms * 2 ** (attempts - 1), max(self.delay_ms, self.delay_max_ms))


class Judge:
    """The books of all queues and channels of one run."""

    def __init__(self, queues: Sequence[QueueBook]) -> None:
        self.queues = queues
        self.channels: dict[object, ChannelBook] = {}
        self.uptime_ms = 0
        self.wall_ms = 0
        # By number: copies that queues owe, confirmed ones, and how many are on the way to
        # where dead letters go.
        self.owed: Counter[int] = Counter()
        self.confirmed: set[int] = set()
        self.letters: Counter[int] = Counter()
        self.persistent: set[int] = set()
        # For how long publishers want messages to be deferred.
        self.delays_ms: dict[int, int] = {}
        # How often what happened.
        self.seen: Counter[str] = Counter()
        # Of the journal: changed since it was synced.
        self._unsynced: list[Entry | DueState] = []

    def set_clock(self, uptime_ms: int, wall_ms: int) -> None:
        self.uptime_ms, self.wall_ms = uptime_ms, wall_ms

    # --- Publishing

    def confirm(self, number: int) -> None:
        """A client was told that the broker has it."""
        self.confirmed.add(number)

    def arrive(self, book: QueueBook, batch: Batch, row: Indexes, is_letter: bool) -> None:
        """The queue is told these."""
        for index in row:
            number = number_of(batch, index)
            if is_letter:
                demand(self.letters[number] > 0, book.name, "gets letter", number, "twice")
                self.letters[number] -= 1
            else:
                self.owed[number] += 1
            ttl_ms = book.ttl_ms
            if batch.ttls_ms is not None:
                ttl_ms = min(ttl_ms, batch.ttls_ms[index])
            expires_ms = NEVER if ttl_ms == TTL_NONE else self.wall_ms + ttl_ms
            is_persistent = bool(batch.persistent[index])
            if is_persistent:
                self.persistent.add(number)
            copy = Copy(number, is_persistent, expires_ms)
            delay_ms = 0 if is_letter else self.delays_ms.get(number, 0)
            if delay_ms:
                copy.due_ms = self.uptime_ms + delay_ms
                self.seen["delayed publishes"] += 1
            book.nameless.setdefault(number, []).append(copy)
            book.nameless_count += 1

    def enqueued(self, book: QueueBook, batch: Batch, effects: Effects) -> None:
        """What the queue made of these."""
        if effects.appended is not None:
            indexes, entries = effects.appended
            due_times = each_of(effects.due_times, indexes)
            for index, entry, due_ms in zip(indexes, entries, due_times, strict=True):
                copy = self._copy(book, entry, batch, index)
                expected_ms = self.wall_ms + copy.due_ms - self.uptime_ms if copy.due_ms else 0
                demand(due_ms == expected_ms, book.name, "entry", entry, "is due", due_ms)
        for index in effects.rejected or ():
            number = number_of(batch, index)
            demand(book.length_max is not None, book.name, "refuses", number)
            self._nameless(book, number)
            self._finish(number)

    def _nameless(self, book: QueueBook, number: int) -> Copy:
        copies = book.nameless.get(number)
        if not copies:
            raise ViolationError(f"{book.name} has a copy of {number} too many")
        book.nameless_count -= 1
        copy = copies.pop()
        if not copies:
            del book.nameless[number]
        return copy

    def _copy(self, book: QueueBook, entry: int, batch: Batch, index: int) -> Copy:
        copy = book.copies.get(entry)
        number = number_of(batch, index)
        if copy is None:
            demand(entry not in book.gone, book.name, "has entry", entry, "again:", number)
            copy = book.copies[entry] = self._nameless(book, number)
        demand(copy.number == number, book.name, "entry", entry, "is", number, "not", copy.number)
        return copy

    def _finish(self, number: int) -> None:
        self.owed[number] -= 1

    # --- The calls of a queue

    def answer(
        self, book: QueueBook, items: Iterable[Held], outcome: str, delay_ms: int | None
    ) -> None:
        """The queue is told a client's answer to these.

        `delay_ms`: what the client wants of those that come back; None: what the queue's arguments
        want.
        """
        for held in items:
            if held.consumer in book.unanswered:
                book.unanswered[held.consumer] -= 1
            copy = book.copies.get(held.entry)
            if copy is None or copy.holder is not held.delivery:
                # Late, which changes nothing else.
                self.seen["late answers"] += 1
                continue
            self._come_back(book, copy)
            if outcome == ACKED:
                self._leave(book, held.entry)
                self._finish(copy.number)
            elif outcome == REJECTED:
                book.rejected.add(held.entry)
            else:
                own_ms = book.own_delay_ms(copy.attempts)
                self._defer(book, held.entry, own_ms if delay_ms is None else delay_ms)

    def touch(self, book: QueueBook, items: Iterable[Held], touched_ms_max: int) -> None:
        """The queue is told that a client works on these still."""
        for held in items:
            copy = book.copies.get(held.entry)
            if copy is None or copy.holder is not held.delivery or copy.clock is None:
                continue
            timeout_ms = book.timeout_ms
            if held.consumer is not None and held.consumer.in_flight_timeout_ms is not None:
                timeout_ms = held.consumer.in_flight_timeout_ms
            if timeout_ms is not None:
                last_ms = copy.since_ms + max(touched_ms_max, timeout_ms)
                copy.over_ms = min(copy.clock.at(self.uptime_ms) + timeout_ms, last_ms)
                self.seen["touches"] += 1

    def channel_down(self, book: QueueBook, channel: object, consumers: Iterable[Consumer]) -> None:
        """The queue is told that the channel is no more."""
        for consumer in consumers:
            book.unanswered.pop(consumer, None)
        for copy in book.copies.values():
            if copy.holder is not None and copy.channel is channel:
                self._come_back(book, copy)

    def _come_back(self, book: QueueBook, copy: Copy) -> None:
        copy.holder = copy.channel = copy.clock = copy.over_ms = None
        book.held_count -= 1

    def _defer(self, book: QueueBook, entry: int, delay_ms: int) -> None:
        copy = book.copies[entry]
        # It leaves instead, which the queue must say.
        if delay_ms and (book.limit is None or copy.attempts <= book.limit):
            copy.due_ms = self.uptime_ms + delay_ms
            self.seen["deferrals"] += 1
            if copy.is_persistent:
                book.deferring.add(entry)

    def _leave(self, book: QueueBook, entry: int) -> Copy:
        book.gone.add(entry)
        return book.copies.pop(entry)

    def check_call(self, book: QueueBook, effects: Effects, counts: tuple[int, int, int]) -> None:
        """The queue has handled a message with these effects.

        It counts so many ready, deferred and in flight.
        """
        for channel, delivery, low, high in effects.timed_out or ():
            self._time_out(book, channel, delivery, low, high)
        for first, last, due_ms in effects.deferred_entries or ():
            for entry in range(first, last + 1):
                copy = book.copies[entry]
                # Of a transient one that came with others the journal knows nothing.
                is_meant = entry in book.deferring or (copy.due_ms and not copy.is_persistent)
                demand(is_meant, book.name, "defers entry", entry, "by itself")
                book.deferring.discard(entry)
                late_ms = due_ms - self.wall_ms - (copy.due_ms - self.uptime_ms)
                demand(not late_ms, book.name, "has entry", entry, "written as due at", due_ms)
        demand(not book.deferring, book.name, "does not write as deferred:", book.deferring)
        for span, reason in effects.dead:
            for position, index in enumerate(span.indexes):
                self._die(book, span.first_entry_id + position, span.batch, index, reason)
        demand(not book.rejected, book.name, "still has rejected entries", book.rejected)
        for consumer, deliveries in effects.delivered:
            for delivery in deliveries:
                self._deliver(book, consumer.channel, consumer, delivery, consumer.no_ack)
            self._check_credit(book, consumer)
        ready, book.deferred_count, in_flight = counts
        here = ready + book.deferred_count
        live = len(book.copies) + book.nameless_count
        demand(
            (here, in_flight) == (live - book.held_count, book.held_count),
            f"{book.name} counts {here} here and {in_flight} in flight, and has {live} "
            f"of which {book.held_count} are held",
        )

    def _time_out(
        self, book: QueueBook, channel: object, delivery: Delivery, low: int, high: int
    ) -> None:
        first = delivery.span.first_entry_id
        for entry in range(first + low, first + high):
            copy = book.copies.get(entry)
            if copy is None or copy.holder is not delivery or copy.clock is None:
                raise ViolationError(f"{book.name}: entry {entry} times out and is not held")
            demand(copy.channel is channel, book.name, "times out entry", entry, "of another")
            read_ms = copy.clock.at(self.uptime_ms)
            if copy.over_ms is None or read_ms < copy.over_ms:
                raise ViolationError(
                    f"{book.name}: entry {entry} is early: {read_ms} {copy.over_ms}"
                )
            self._come_back(book, copy)
            self._defer(book, entry, book.own_delay_ms(copy.attempts))
            self.seen["time-outs"] += 1

    def _die(self, book: QueueBook, entry: int, batch: Batch, index: int, reason: str) -> None:
        copy = self._copy(book, entry, batch, index)
        demand(copy.holder is None, book.name, "drops entry", entry, "which is held")
        if reason == "rejected":
            demand(entry in book.rejected, book.name, "rejects entry", entry, "by itself")
            book.rejected.discard(entry)
        elif reason == "expired":
            is_over = NEVER < copy.expires_ms <= self.wall_ms
            demand(is_over, book.name, "expires entry", entry, copy.expires_ms, self.wall_ms)
        elif reason == "delivery_limit":
            is_over = book.limit is not None and copy.attempts > book.limit
            demand(is_over, book.name, "gives up entry", entry, "after", copy.attempts)
        else:
            demand(reason == "maxlen" and book.length_max is not None, book.name, reason, entry)
        self._leave(book, entry)
        self.seen[reason] += 1
        if book.has_dead_letters:
            book.dying[entry] = copy
            self.letters[copy.number] += 1
        else:
            self._finish(copy.number)

    def deliver_got(self, book: QueueBook, channel: object, got: Delivery, no_ack: bool) -> None:
        """The queue answers a basic.get."""
        self._deliver(book, channel, None, got, no_ack)

    def _deliver(
        self,
        book: QueueBook,
        channel: object,
        consumer: Consumer | None,
        delivery: Delivery,
        no_ack: bool,
    ) -> None:
        span = delivery.span
        demand(not book.is_paused, book.name, "delivers while it is paused")
        clock = self.channels[channel].clock
        timeout_ms = book.timeout_ms
        if consumer is not None and consumer.in_flight_timeout_ms is not None:
            timeout_ms = consumer.in_flight_timeout_ms
        for position, index in enumerate(span.indexes):
            entry = span.first_entry_id + position
            copy = self._copy(book, entry, span.batch, index)
            demand(copy.holder is None, book.name, "delivers entry", entry, "which is held")
            demand(
                span.attempts == copy.attempts,
                f"{book.name}: entry {entry} had {copy.attempts} attempts, not {span.attempts}",
            )
            demand(
                book.limit is None or copy.attempts <= book.limit,
                f"{book.name}: entry {entry} is delivered beyond its limit: {copy.attempts}",
            )
            demand(
                self.uptime_ms >= copy.due_ms,
                f"{book.name}: entry {entry} is delivered {copy.due_ms - self.uptime_ms} ms early",
            )
            copy.due_ms = 0
            self.seen["redeliveries" if copy.attempts else "first deliveries"] += 1
            copy.attempts += 1
            if no_ack:
                self._leave(book, entry)
                self._finish(copy.number)
                continue
            copy.holder, copy.channel, copy.clock = delivery, channel, clock
            if timeout_ms is not None:
                copy.since_ms = clock.at(self.uptime_ms)
                copy.over_ms = copy.since_ms + timeout_ms
            book.held_count += 1
        if consumer is not None and not no_ack:
            book.unanswered[consumer] += len(span)
            self.channels[channel].used += len(span)

    def _check_credit(self, book: QueueBook, consumer: Consumer) -> None:
        channel = self.channels[consumer.channel]
        if consumer.no_ack:
            return
        count = book.unanswered[consumer]
        demand(
            not consumer.prefetch or count <= consumer.prefetch,
            f"{book.name}: a consumer holds {count} with prefetch {consumer.prefetch}",
        )
        demand(
            not channel.limit or channel.used <= channel.limit,
            f"{book.name}: a channel holds {channel.used} with a limit of {channel.limit}",
        )

    def letters_safe(self, book: QueueBook, ranges: Iterable[tuple[int, int]]) -> None:
        """The queue may settle these."""
        for first, last in ranges:
            for entry in range(first, last + 1):
                demand(entry in book.dying, book.name, "settles entry", entry, "as a letter")
                del book.dying[entry]

    # --- The calls of a channel

    def numbered(
        self,
        book: QueueBook,
        channel: object,
        first_tag: int,
        delivery: Delivery,
        consumer: Consumer | None,
    ) -> None:
        """The client is sent these, and is to answer them."""
        open_tags = self.channels[channel].open
        first = delivery.span.first_entry_id
        for position in range(len(delivery.span)):
            tag = first_tag + position
            demand(tag not in open_tags, "tag", tag, "is used twice")
            open_tags[tag] = Held(book, first + position, delivery, consumer)

    def answered(self, channel: object, tags: Iterable[int]) -> dict[str, list[Held]]:
        """The channel handles a client's answer; what each queue must hear of it."""
        book = self.channels[channel]
        by_queue: dict[str, list[Held]] = {}
        for tag in tags:
            held = book.open.pop(tag)
            book.used -= held.consumer is not None
            by_queue.setdefault(held.queue.name, []).append(held)
        return by_queue

    def touched(self, channel: object, tag: int) -> dict[str, list[Held]]:
        """The channel handles a touch, after which the client still has the message."""
        held = self.channels[channel].open[tag]
        return {held.queue.name: [held]}

    # --- When nothing is left to do

    def check_idle(self) -> None:
        """Every message is handled, and everybody whose time has come is awake."""
        for book in self.queues:
            if book.held_count:
                for entry, copy in book.copies.items():
                    if copy.over_ms is not None and copy.clock is not None:
                        read_ms = copy.clock.at(self.uptime_ms)
                        demand(
                            read_ms < copy.over_ms,
                            f"{book.name}: entry {entry} is held beyond its time-out: "
                            f"{read_ms} {copy.over_ms}",
                        )
            nameless = [copy for copies in book.nameless.values() for copy in copies]
            deferred = sum(copy.due_ms > self.uptime_ms for copy in nameless)
            deferred += sum(copy.due_ms > self.uptime_ms for copy in book.copies.values())
            demand(
                book.deferred_count == deferred,
                f"{book.name} defers {book.deferred_count} messages, not {deferred}",
            )
            ready = len(book.copies) + book.nameless_count - book.held_count - deferred
            if ready and book.unanswered and not book.is_paused:
                room = [self._has_room(*each) for each in book.unanswered.items()]
                is_stuck = all(room) if book.is_single_active else any(room)
                demand(not is_stuck, book.name, "has", ready, "messages and a consumer with room")

    def _has_room(self, consumer: Consumer, unanswered: int) -> bool:
        channel = self.channels[consumer.channel]
        if not channel.is_reading or (channel.limit and channel.used >= channel.limit):
            return False
        return consumer.no_ack or not consumer.prefetch or unanswered < consumer.prefetch

    def check_drained(self) -> None:
        """Every message was consumed."""
        for book in self.queues:
            live = len(book.copies) + book.nameless_count
            # The journal has no settle of a transient message.
            dying = sum(each.is_persistent for each in book.dying.values())
            demand(not live and not dying, book.name, "is left with", live, "and", dying, "dying")
        left = [number for number in self.confirmed if self.owed[number] > 0]
        demand(not left, "confirmed and lost:", left)

    # --- The journal, and a start

    def append(
        self, book: QueueBook, batch: Batch, rows: Iterable[tuple[int, int, int, int]]
    ) -> None:
        """The journal is handed these: index, entry id, deadline and due time."""
        for index, entry, deadline, due_ms in rows:
            wire = bytes(batch.wire[batch.starts[index] : batch.ends[index]])
            kept = book.kept[entry] = Entry(wire, deadline)
            self._unsynced.append(kept)
            book.numbers[entry] = number_of(batch, index)
            book.kept_dues[entry] = []
            self._note_due(book, entry, due_ms)

    def _note_due(self, book: QueueBook, entry: int, due_ms: int) -> None:
        state = DueState(due_ms)
        book.kept_dues[entry].append(state)
        self._unsynced.append(state)

    def record(
        self,
        book: QueueBook,
        delivered: Iterable[tuple[int, int]],
        settled: Iterable[tuple[int, int]],
        deferred: Iterable[tuple[int, int, int]],
    ) -> None:
        """The journal is handed deliveries, deferrals and settles, in this order."""
        kept = book.kept
        for first, last in delivered:
            for entry in range(first, last + 1):
                if entry in kept and kept[entry].settled is None:
                    kept[entry].delivered.append(BUFFERED)
                    self._unsynced.append(kept[entry])
                    # In flight it is not deferred, and a start has it ready at once.
                    self._note_due(book, entry, 0)
        for first, last, due_ms in deferred:
            for entry in range(first, last + 1):
                if entry in kept and kept[entry].settled is None:
                    self._note_due(book, entry, due_ms)
        for first, last in settled:
            for entry in range(first, last + 1):
                if entry in kept and kept[entry].settled is None:
                    kept[entry].settled = BUFFERED
                    self._unsynced.append(kept[entry])

    def committed(self, level: int) -> None:
        """All that the journal was handed has come so far."""
        for entry in self._unsynced:
            entry.reach(level)
        if level == SYNCED:
            self._unsynced.clear()

    def restart(self, recovered: Recovered, ids: dict[int, QueueBook], certain: int) -> None:
        """A start has found this. `certain`: what has come so far must be there."""
        self.seen["starts"] += 1
        self.channels.clear()
        self.letters.clear()
        self._unsynced.clear()
        found_count: Counter[int] = Counter()
        for queue_id, book in ids.items():
            found: dict[int, Found] = {}
            expiries = {
                entry: copy.expires_ms
                for entries in (book.copies, book.dying)
                for entry, copy in entries.items()
            }
            copies: dict[int, Copy] = {}
            for run in recovered.messages(queue_id):
                for position, index in enumerate(run.indexes):
                    entry = run.first_entry_id + position
                    deadline = each_of(run.deadlines, run.indexes)[position]
                    due_ms = each_of(run.due_times, run.indexes)[position]
                    batch = run.batch
                    wire = bytes(batch.wire[batch.starts[index] : batch.ends[index]])
                    found[entry] = wire, run.attempts, deadline
                    number = number_of(batch, index)
                    demand(book.numbers.get(entry) == number, book.name, "entry", entry, number)
                    expires_ms = expiries.get(entry, deadline)
                    demand(expires_ms == deadline, book.name, "entry", entry, "expires", deadline)
                    self._check_due(book, entry, due_ms, certain)
                    copy = copies[entry] = Copy(number, True, deadline, run.attempts)
                    if due_ms > self.wall_ms:
                        copy.due_ms = self.uptime_ms + due_ms - self.wall_ms
                        self.seen["deferred over a start"] += 1
                    book.kept_dues[entry] = [DueState(due_ms, SYNCED)]
                    found_count[number] += 1
            try:
                check_queue(book.kept, found, certain)
            except (AssertionError, KeyError) as error:
                raise ViolationError(f"{book.name}: the start found other than was kept") from error
            book.copies = copies
            book.kept = {
                entry: Entry(wire, deadline, SYNCED, None, [SYNCED] * attempts)
                for entry, (wire, attempts, deadline) in found.items()
            }
            book.numbers = {entry: copy.number for entry, copy in copies.items()}
            book.nameless, book.nameless_count = {}, 0
            book.gone, book.held_count, book.dying = set(), 0, {}
            book.unanswered, book.rejected, book.deferring = {}, set(), set()
            book.kept_dues = {entry: book.kept_dues[entry] for entry in found}
            book.is_paused, book.deferred_count = False, 0
        for number in self.confirmed & self.persistent:
            count = found_count[number]
            demand(count >= self.owed[number], number, "was confirmed and is lost:", count)
        # Whatever was there and is not: nobody was promised it.
        self.owed = Counter({number: count for number, count in found_count.items() if count})

    def _check_due(self, book: QueueBook, entry: int, due_ms: int, certain: int) -> None:
        """It is the last that is certain, or one that was written behind that."""
        states = book.kept_dues[entry]
        sure = max((at for at, each in enumerate(states) if each.level >= certain), default=0)
        possible = [each.due_ms for each in states[sure:]]
        demand(due_ms in possible, f"{book.name}: entry {entry} is due at {due_ms}, not {possible}")
