"""The rules of one queue: which messages are ready, who gets them, which leave and which come back.

A plain class without clock, socket or thread: each method changes the state and returns, in
`Effects`, what the queue's actor must then do, in this order: append to the journal, confirm,
deliver, settle in the journal.

Every queue is of this class. Its arguments choose its parts (`construction.py`), and the rules
call these in one order, which is written here and nowhere else:
1. a publish: duplicates are put aside (`dedup.py`), expired messages leave the head, gates say how
   many may enter, these get entry ids and deadlines, become ready, and are offered to consumers;
2. whenever messages may be delivered or may have come back (`_dispatch`): expired messages leave
   the head, bounds drop the oldest, and consumers get the rest in the order of `ready`, unless
   the queue is paused;
3. messages that come back: withdrawn ones vanish, judges send some away, some are deferred, the
   others return to their old place;
4. when time has passed (`expire`): deliveries time out, deferred messages expire or become ready.

`parts.py` has the interfaces. A part that a queue lacks costs it a test for None or for an empty
tuple, per batch and not per message.

Rows may be paged: their bytes are on the disk only (`span.py`, `paging.py`). The rules go on until
they need such bytes, for a consumer or for a dead letter, and then stop there (`wants_head`,
`dying`); `wanted` says which entries to read, and `read` goes on with them. Sizes for a limit by
bytes that has come later are wanted last (`sizing.py`), and `count_sizes` has them. Nothing waits:
messages that expire, are dropped, purged or settled without dead letters are never read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.indexes import split
from ..connection.reading_time import ReadingTime
from .batch_sweep import SWEEP_INTERVAL_BYTES, BatchSweep
from .consumers import Consumer, Consumers
from .dedup import Deduplicated, Deduplication
from .deferral import Deferral, Delays, ReadyAndDeferred, delays_of, divided, due_times
from .dying import DyingRows
from .expiry import (
    EXPIRED_ROWS_MAX,
    DeadlineRun,
    Deadlines,
    aligned,
    deadline_of,
    spans_in_runs,
)
from .in_flight import Delivery, InFlight
from .in_flight_timeouts import InFlightTimeouts
from .pager import Pager
from .paging import ReadRow, Wanted
from .parts import EXPIRED, REJECTED, Bound, Contents, Gate, Judge, Part, Tally
from .ready import Ready
from .sizing import SizedRow, is_unsized, wanted_sizes
from .span import (
    EntryRange,
    PagedSpan,
    RefusedSpan,
    Span,
    held_bytes,
    positions_in,
    ranges_of,
)
from .wholes import next_row
from .withdrawn import Withdrawn

# Messages that are read together at most.
READ_COUNT_MAX: Final = 8_192
# Deliveries that may time out before others get their turn.
TIMED_OUT_MAX: Final = 2_000


class Effects:
    """The effects of a call, which the queue's actor carries out in the order of the fields."""

    __slots__ = (
        "_last_runs",
        "appended",
        "confirmed",
        "dead",
        "deadlines",
        "deduplicated",
        "deferred",
        "deferred_entries",
        "delivered",
        "delivered_entries",
        "due",
        "due_times",
        "late",
        "rejected",
        "resident",
        "settled_entries",
        "timed_out",
        "unspilled_entries",
    )

    def __init__(self) -> None:
        # Persistent messages for the journal: their indexes and entry ids, aligned.
        self.appended: tuple[Indexes, range | array[int]] | None = None
        # When these expire, in milliseconds since the epoch: one time for all, 0 for never, or
        # aligned with them.
        self.deadlines: int | array[int] = 0
        # When appended messages are due, in milliseconds since the epoch: one time for all, 0 for
        # at once, or aligned with them.
        self.due_times: int | array[int] = 0
        # Messages that left the queue for its dead-letter exchange, and why: "rejected", "expired",
        # "maxlen" or "delivery_limit". Not settled until the dead letters are safe. Those of a
        # queue without one are settled, and only told of in the trace.
        self.dead: list[tuple[Span, str]] = []
        # Indexes that are confirmed at once.
        self.confirmed: Indexes | None = None
        # Indexes that the queue does not take: their publisher gets a nack.
        self.rejected: Indexes | None = None
        # What the queue's window for duplicates found, if it has one.
        self.deduplicated: Deduplicated | None = None
        # What consumers get. To those of one channel in this order: it is the queue's.
        self.delivered: list[tuple[Consumer, list[Delivery]]] = []
        # The last of them of each channel, which its credit stands for.
        self._last_runs: dict[object, tuple[Consumer, list[Delivery]]] = {}
        # Entry ids, first and last, for the journal's Deliver and Settle records.
        self.delivered_entries: list[EntryRange] = []
        self.settled_entries: list[EntryRange] = []
        # Parts of deliveries whose in-flight time-out has passed, with the channels that hold them:
        # they are back in the queue. None if there are none, as of the next.
        self.timed_out: list[tuple[object, Delivery, int, int]] | None = None
        # Parts that a channel has answered too late.
        self.late: list[tuple[Delivery, int, int]] | None = None
        # First and last entry id and due time, for the journal's Deferred record, of messages that
        # came back.
        self.deferred_entries: list[tuple[int, int, int]] | None = None
        # Rows that are deferred from now on, and when they are due, in milliseconds since the
        # epoch; and rows that are due.
        self.deferred: list[tuple[Span, int]] | None = None
        self.due: list[Span] | None = None
        # Rows that were read, and are resident now.
        self.resident: list[Span] | None = None
        # Entries that the spill need not have any more.
        self.unspilled_entries: list[EntryRange] | None = None

    def forget_spilled(self, span: PagedSpan) -> None:
        """A row that the spill has leaves the queue, or is resident again."""
        last = span.first_entry_id + len(span) - 1
        self.unspilled_entries = self.unspilled_entries or []
        self.unspilled_entries.append((span.first_entry_id, last))

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """The consumer gets this, too."""
        run = self._last_runs.get(consumer.channel_credit)
        if run is None or run[0] is not consumer:
            run = self._last_runs[consumer.channel_credit] = (consumer, [])
            self.delivered.append(run)
        run[1].append(delivery)


class MessageQueue:
    """One queue's messages, consumers and deliveries.

    `identity` stands for the queue in its deliveries; `durable` queues have their persistent
    messages journalled. If the queue `needs_clock`, the caller sets before each call `now_ms`, the
    time in milliseconds since the epoch, and `uptime_ms`, of a clock that only goes forward.
    """

    __slots__ = (
        "bounds",
        "consumers",
        "consumers_max",
        "dead_letters",
        "deadlines",
        "deduplication",
        "deferral",
        "durable",
        "dying",
        "gates",
        "held_bytes",
        "identity",
        "in_flight",
        "in_flight_timeouts",
        "is_paused",
        "judges",
        "needs_clock",
        "next_entry_id",
        "now_ms",
        "parts",
        "reading",
        "ready",
        "spent",
        "sweep",
        "tallies",
        "uptime_ms",
        "wants_head",
        "wants_sizes",
        "was_dying_read",
        "withdrawn",
    )

    def __init__(
        self,
        identity: object,
        durable: bool,
        delivery_window_bytes_max: int,
        sweep_interval_bytes: int = SWEEP_INTERVAL_BYTES,
    ) -> None:
        self.identity = identity
        self.durable = durable
        self.now_ms = 0
        self.uptime_ms = 0
        self.next_entry_id = 1
        # Has it a dead-letter exchange?
        self.dead_letters = False
        # The parts that every queue has.
        self.ready = Ready()
        self.in_flight = InFlight()
        self.consumers = Consumers(delivery_window_bytes_max, identity)
        # 0: as many as come.
        self.consumers_max = 0
        # Nothing is delivered; all else goes on.
        self.is_paused = False
        self.sweep = BatchSweep(sweep_interval_bytes)
        # The parts that its arguments ask for, and the places where these are called.
        self.parts: tuple[Part, ...] = ()
        self.deduplication: Deduplication | None = None
        self.gates: tuple[Gate, ...] = ()
        self.tallies: tuple[Tally, ...] = ()
        self.deadlines: Deadlines | None = None
        self.bounds: tuple[Bound, ...] = ()
        self.judges: tuple[Judge, ...] = ()
        self.in_flight_timeouts: InFlightTimeouts | None = None
        self.deferral: Deferral | None = None
        self.needs_clock = False
        # Rows that a judge sent away without a call that has effects, and why: they leave with the
        # next dispatch. None, as `withdrawn`, while there are none.
        self.spent: list[tuple[Span, str]] | None = None
        self.withdrawn: Withdrawn | None = None
        # About how much memory its resident messages hold, those in flight included.
        self.held_bytes = 0
        # The head is paged, and somebody waits for it.
        self.wants_head = False
        # Entries that are being read; None, as of the next, if there are none. Paged rows that left
        # for the dead-letter exchange.
        self.reading: Wanted | None = None
        self.dying: DyingRows | None = None
        # Was the last read one of those? Then the head is next, if somebody waits for it.
        self.was_dying_read = False
        # May there be paged rows whose sizes a limit asks for, and nobody knows?
        self.wants_sizes = False

    # --- Parts

    def compose(self, parts: Sequence[Part]) -> None:
        """Make these the queue's parts, in the order in which each place calls them.

        A part that is in the queue already goes on; one of the same name that replaces another
        adopts its state; a part that is not named leaves, but for its remainder. The
        caller then calls `dispatch`, because the new parts may send messages away.
        """
        before = {part.name: part for part in self.parts}
        kept_sizes = self._keeps_sizes()
        kept = {part.name: part for part in parts}
        for name, part in before.items():
            rest = None if name in kept else part.remainder(self._all_rows())
            if rest is not None:
                kept[name] = rest
        self.parts = tuple(kept.values())
        self.deduplication = next((p for p in self.parts if isinstance(p, Deduplication)), None)
        self.gates = tuple(part for part in self.parts if isinstance(part, Gate))
        self.tallies = tuple(part for part in self.parts if isinstance(part, Tally))
        self.deadlines = next((part for part in self.parts if isinstance(part, Deadlines)), None)
        self.bounds = tuple(part for part in self.parts if isinstance(part, Bound))
        self.judges = tuple(part for part in self.parts if isinstance(part, Judge))
        self.in_flight_timeouts = next(
            (part for part in self.parts if isinstance(part, InFlightTimeouts)), None
        )
        self.deferral = next((part for part in self.parts if isinstance(part, Deferral)), None)
        clocked = (self.deadlines, self.deduplication, self.in_flight_timeouts, self.deferral)
        self.needs_clock = any(part is not None for part in clocked)
        fresh = [part for name, part in kept.items() if before.get(name) is not part]
        for part in fresh:
            replaced = before.get(part.name)
            if replaced is not None:
                part.succeed(replaced, self.now_ms)
        if self._keeps_sizes() is not kept_sizes:
            self.ready.keep_sizes(keeps=not kept_sizes)
            self.wants_sizes = not kept_sizes
        for part in fresh:
            if isinstance(part, Tally):
                for span in self.waiting():
                    part.joined(span)
            if isinstance(part, Judge):
                self._send_away(part)
        if self.in_flight_timeouts is None:
            for consumer in self.consumers.all():
                self._meet(consumer)

    def refusal(self, consumer: Consumer) -> str | None:
        """Why the queue cannot have this consumer, behind its name; None if it can."""
        if self.consumers.is_refused(consumer):
            return "in exclusive use"
        if 0 < self.consumers_max <= len(self.consumers):
            return f"in use by its maximum of {self.consumers_max} consumers"
        return None

    def add_consumer(self, consumer: Consumer) -> None:
        """Let a consumer that was not refused take part."""
        self._meet(consumer)
        self.consumers.add(consumer)

    def _meet(self, consumer: Consumer) -> None:
        """Have the part that a consumer's own in-flight time-out needs."""
        if consumer.in_flight_timeout_ms is not None and self.in_flight_timeouts is None:
            self.compose((*self.parts, InFlightTimeouts()))

    def _send_away(self, judge: Judge) -> None:
        """Have messages that a new judge refuses leave, as if they came back now."""
        rows = [span for span in self.waiting() if span.attempts and judge.refuses(span.attempts)]
        if rows:
            ranges = sorted(
                (span.first_entry_id, span.first_entry_id + len(span) - 1) for span in rows
            )
            spent = self.spent = self.spent or []
            for span in self._withdraw_rows(ranges):
                self._left(span)
                spent.append((span, judge.reason))

    def order_by(self, ready: Ready) -> None:
        """Have ready messages leave in the order of `ready`, which is empty.

        Of a queue without paged rows: of these a priority is known only if it counted before.
        """
        # As if all had come back: messages in flight may have their old places before or between.
        for span in self.ready:
            ready.put_back(span)
        self.ready = ready

    def serve(self, consumers: Consumers) -> None:
        """Have `consumers`, which are none so far, choose from now on among those of the queue."""
        there = self.consumers.all()
        self.consumers.clear()
        self.consumers = consumers
        for consumer in there:
            consumers.add(consumer)

    # --- Coming in

    def restore(self, span: Span, due_ms: int = 0) -> None:
        """Take back what the journal kept; in the order of entry ids.

        `due_ms`: before that it is deferred, in milliseconds since the epoch.
        """
        self.held_bytes += span.held_bytes
        reason = self._judge(span.attempts)
        if reason is None:
            if due_ms > self.now_ms:
                self._add_deferred(span, self.uptime_ms + due_ms - self.now_ms)
            elif isinstance(span, PagedSpan):
                self.ready.append_paged(span, self._keeps_sizes())
            else:
                self.ready.append(span)
            self._joined(span)
        else:
            self.spent = self.spent or []
            self.spent.append((span, reason))
        self.next_entry_id = max(self.next_entry_id, span.first_entry_id + len(span))

    def counts(self) -> tuple[int, int, int]:
        """How many messages are ready, consumers there are, and messages are in flight."""
        return self.ready.message_count, len(self.consumers), self.in_flight.message_count

    @property
    def deferred_count(self) -> int:
        """How many messages are deferred."""
        return 0 if self.deferral is None else self.deferral.message_count

    def waiting(self) -> Iterator[Span]:
        """The rows that are ready or deferred."""
        yield from self.ready
        if self.deferral is not None:
            yield from self.deferral

    def _deferring(self) -> Deferral:
        """The part that deferred messages need."""
        if self.deferral is None:
            self.compose((*self.parts, Deferral()))
        assert self.deferral is not None
        return self.deferral

    def _add_deferred(self, span: Span, due_ms: int) -> None:
        deferral = self._deferring()
        for part in self.ready.parts_of(span):
            deferral.add(part, due_ms)

    def rows_of(self, batch: Batch, indexes: Indexes) -> Sequence[Indexes]:
        """The rows in which a publish enters: the caller publishes one by one, in this order.

        Messages of mixed priorities enter by priority, the highest first, so that each priority has
        its entry ids in a row. Within limits they enter as they came, because the first
        message gets the room.
        """
        if self.gates or self.bounds:
            return (indexes,)
        return self.ready.divide(batch, indexes)

    def publish(
        self,
        batch: Batch,
        indexes: Indexes,
        effects: Effects,
        is_letter: bool = False,
        delays_ms: Delays = 0,
    ) -> None:
        """Enqueue messages: transient ones are confirmed at once, persistent ones appended.

        A message that a consumer gets at once is appended all the same: fsync before confirm.
        `is_letter`: the broker moves them, so they are nobody's duplicates.
        `delays_ms`: for how long messages are deferred, 0 for not at all: one time for all, or by
        their index in the batch. With delays the caller has set the time.
        """
        deduplication = self.deduplication
        if deduplication is None or is_letter:
            self._enter(batch, indexes, effects, delays_ms)
            return
        division = deduplication.divide(batch, indexes, self.durable, self.now_ms)
        if division.fresh:
            self._enter(batch, division.fresh, effects, delays_ms)
        appended = None if effects.appended is None else effects.appended[0]
        effects.deduplicated, effects.rejected = deduplication.remember(
            division, self.next_entry_id, self.now_ms, appended, effects.rejected
        )

    def _enter(self, batch: Batch, indexes: Indexes, effects: Effects, delays_ms: Delays) -> None:
        """Let messages in as far as the gates allow, and offer them to consumers."""
        if self.deadlines is None and batch.ttls_ms is not None:
            self.compose((*self.parts, Deadlines()))
        first = self.next_entry_id
        runs: list[DeadlineRun] = []
        is_new = False
        if self.deadlines is not None:
            self._drop_expired(effects)
            # Messages behind older ones may not pass these. As a rule consumers have no room then;
            # but there may be room that is not known here yet, on a channel or a connection.
            is_new = not self.ready.message_count
        if self.gates:
            self._enter_by_gates(batch, indexes, is_new, runs, effects, delays_ms)
        else:
            stored = self._assign_entry_ids(batch, indexes, effects)
            self._join(batch, indexes, first, stored, runs, effects, delays_ms)
            # Before anything is too much or too old: a consumer with room may have it.
            self._deliver(effects, is_new)
            self._drop_excess(effects)
        if runs and effects.appended is not None:
            effects.deadlines = aligned(runs, effects.appended[1], first)
        if delays_ms and effects.appended is not None:
            effects.due_times = due_times(effects.appended[0], delays_ms, self.now_ms)

    def _assign_entry_ids(self, batch: Batch, indexes: Indexes, effects: Effects) -> bool:
        """Give new messages entry ids, have them appended or confirmed. Is any appended?"""
        first = self.next_entry_id
        count = len(indexes)
        self.next_entry_id = first + count
        if len(batch.wire) > self.sweep.small_bytes:
            self.sweep.count_arrival(batch, count)
        stored = False
        if self.durable:
            if batch.durable is None:
                effects.appended = (indexes, range(first, first + count))
                stored = True
            elif len(batch.durable):
                flagged, entry_ids, others = split(indexes, batch.persistent, first)
                if not others:
                    effects.appended = (indexes, range(first, first + count))
                    stored = True
                elif flagged:
                    effects.appended = (flagged, entry_ids)
                    effects.confirmed = others
                    stored = True
        if not stored:
            effects.confirmed = indexes
        return stored

    def _join(
        self,
        batch: Batch,
        indexes: Indexes,
        first_entry_id: int,
        stored: bool,
        runs: list[DeadlineRun],
        effects: Effects,
        delays_ms: Delays,
    ) -> None:
        """Append new messages to the ready ones, or defer them.

        Adds their deadlines, if any, to `runs`.
        """
        deadlines = self.deadlines
        span = Span(batch, indexes, first_entry_id, 0, stored)
        self.held_bytes += held_bytes(batch, len(indexes))
        # Before the row is divided.
        for tally in self.tallies:
            tally.joined(span)
        if deadlines is None:
            if delays_ms:
                self._place(span, effects, delays_ms)
            else:
                self.ready.append(span)
        else:
            row_runs = deadlines.runs(batch, indexes, self.now_ms)
            for span in spans_in_runs(batch, indexes, first_entry_id, 0, stored, row_runs):
                self._place(span, effects, delays_ms)
            runs += row_runs

    def _place(self, span: Span, effects: Effects, delays_ms: Delays) -> None:
        """New messages become ready, or with a delay deferred."""
        if not delays_ms:
            self.ready.append(span)
            return
        for part, delay_ms in divided(span, delays_of(span.indexes, delays_ms)):
            if delay_ms:
                self._defer(part, delay_ms, effects)
            else:
                self.ready.append(part)

    def _enter_by_gates(
        self,
        batch: Batch,
        indexes: Indexes,
        is_new: bool,
        runs: list[DeadlineRun],
        effects: Effects,
        delays_ms: Delays,
    ) -> None:
        """Message by message in effect: each that is delivered at once makes room for another.

        In rows in fact: as many as fit, then as many as consumers have made room for, and so on.
        Messages that are one whole enter together, if all of them have room before, or not at all.
        """
        first = self.next_entry_id
        # The journal will not know transient ones; to settle them writes nothing.
        stored = self.durable and (batch.durable is None or len(batch.durable) > 0)
        accepted, rejected = array("I"), array("I")
        letters: dict[str, array[int]] = {}
        position = 0
        while position < len(indexes):
            asked, is_whole = next_row(batch.wholes, indexes, position)
            count, refusing = self._ask_gates(batch, indexes, position, asked)
            if is_whole and count < asked:
                count, refusing = asked, refusing or self.gates[0]
            row = indexes[position : position + count]
            position += count
            if refusing is None:
                first_id = first + len(accepted)
                self._join(batch, row, first_id, stored, runs, effects, delays_ms)
                accepted.extend(row)
                self._deliver(effects, is_new)
                self._drop_excess(effects)
            else:
                rejected.extend(row)
                if refusing.letter_reason is not None and self.dead_letters:
                    letters.setdefault(refusing.letter_reason, array("I")).extend(row)
        if accepted:
            self._assign_entry_ids(batch, accepted if rejected else indexes, effects)
        if rejected:
            effects.rejected = rejected
        for reason, refused in letters.items():
            # They never had an entry, so there is nothing to settle.
            effects.dead.append((RefusedSpan(batch, refused), reason))

    def _ask_gates(
        self, batch: Batch, indexes: Indexes, position: int, count: int
    ) -> tuple[int, Gate | None]:
        """How many of these messages from this position on may enter, or which gate refuses how
        many."""
        message_count = self.ready.message_count + self.deferred_count
        for gate in self.gates:
            admitted = gate.admit(batch, indexes, position, count, message_count)
            if admitted < 0:
                return -admitted, gate
            count = admitted
        return count, None

    # --- Going out

    def dispatch(self, effects: Effects, channel: object | None = None) -> None:
        """Offer messages to all consumers, or to those of the channel whose credit has changed."""
        if self.spent:
            spent, self.spent = self.spent, None
            for span, reason in spent:
                self._leave(span, reason, effects)
        if channel is None:
            self.consumers.all_changed()
        else:
            self.consumers.channel_changed(channel)
        self._dispatch(effects)

    def pause(self) -> None:
        """Deliver nothing from now on, to no consumer and no basic.get."""
        self.is_paused = True

    def resume(self, effects: Effects) -> None:
        """Deliver again, first of all to the consumers that have room now."""
        self.is_paused = False
        self.dispatch(effects)

    def expire(self, effects: Effects) -> None:
        """Time has passed. Nobody has more room by that, so nobody is asked for it."""
        if self.deduplication is not None:
            self.deduplication.window.expire(self.now_ms)
        if self.in_flight_timeouts is not None:
            self._return_timed_out(self.in_flight_timeouts, effects)
        # Behind that: a delivery that timed out may have expired.
        if self.deferral is not None:
            self._end_deferrals(self.deferral, effects)
        self._dispatch(effects)

    def _end_deferrals(self, deferral: Deferral, effects: Effects) -> None:
        """Have deferred messages expire, and due ones return to their old place."""
        for span in deferral.expired(self.now_ms):
            self._left(span)
            self._leave(span, EXPIRED, effects)
        if self._is_head_awaited():
            return
        due = deferral.due(self.uptime_ms)
        if due:
            effects.due = due
            for span in due:
                self.ready.put_back(span)

    def _is_head_awaited(self) -> bool:
        """Do consumers, or a basic.get, wait for the head to be read?

        Then due messages wait until the read ones have been delivered. Most of them would go before
        these, and have to be read first: some become due in the time of each read, so the messages
        behind them would stay for as long as that goes on.
        """
        reading = self.reading
        return (
            reading is not None and self.wants_head and not (reading.is_dying or reading.is_sizing)
        )

    def _return_timed_out(self, timeouts: InFlightTimeouts, effects: Effects) -> None:
        """Have messages come back that were not answered in time. Their credit does not come back.

        The consumer gets it with the late answer, or its channel ends.
        """
        for channel, delivery, low, high in timeouts.due(self.uptime_ms, TIMED_OUT_MAX):
            part = (delivery, low, high)
            if not self.in_flight.remove(channel, *part):
                continue
            effects.timed_out = effects.timed_out or []
            effects.timed_out.append((channel, *part))
            delivery.unanswered += high - low
            for _, first, end in self._without_withdrawn([part]) if self.withdrawn else [part]:
                self._return(delivery, first, end, effects, self._own_delay_ms(delivery))

    def wait_ms(self) -> int | None:
        """In how many milliseconds `expire` has something to do, 0 for now; None for never."""
        due_ms = self.next_due_ms()
        wait_ms = None if due_ms is None else due_ms - self.now_ms
        deferral = None if self._is_head_awaited() else self.deferral
        for part in (self.in_flight_timeouts, deferral):
            due_ms = None if part is None else part.next_due_ms()
            if due_ms is not None and (wait_ms is None or due_ms - self.uptime_ms < wait_ms):
                wait_ms = due_ms - self.uptime_ms
        return None if wait_ms is None else max(wait_ms, 0)

    def next_due_ms(self) -> int | None:
        """When something passes by the wall clock, in milliseconds since the epoch; None: never."""
        due = deadline_of(self.ready.head())
        if self.deduplication is not None:
            forgets = self.deduplication.window.next_expiry_ms()
            if forgets is not None and (due is None or forgets < due):
                due = forgets
        if self.deferral is not None:
            expires = self.deferral.next_deadline_ms()
            if expires is not None and (due is None or expires < due):
                due = expires
        return due

    def _dispatch(self, effects: Effects) -> None:
        """Hand ready messages to consumers with room.

        Messages may have been requeued: those that exceed a bound are not delivered again.
        """
        if self.deadlines is not None or self.bounds:
            self._drop_excess(effects)
        self._deliver(effects)

    def _drop_excess(self, effects: Effects) -> None:
        """Drop from the head until nothing there has expired and no bound is exceeded."""
        if self.deadlines is None:
            if self.bounds:
                self._keep_bounds(effects)
        elif self._drop_expired(effects) and self.bounds:
            # Expired messages do not count.
            self._keep_bounds(effects)
            self._drop_expired(effects)

    def _keep_bounds(self, effects: Effects) -> None:
        contents: Contents = self.ready
        if self.deferral is not None:
            contents = ReadyAndDeferred(self.ready, self.deferral)
        for bound in self.bounds:
            while count := bound.excess(contents):
                span = contents.dequeue(count)
                self._left(span)
                self._leave(span, bound.reason, effects)

    def _drop_expired(self, effects: Effects) -> bool:
        """Drop expired messages at the head; False if others must get their turn before the end."""
        deadlines, ready, now_ms = self.deadlines, self.ready, self.now_ms
        assert deadlines is not None
        for _ in range(EXPIRED_ROWS_MAX):
            head = ready.head()
            deadline = deadline_of(head)
            if head is None or deadline is None or deadline > now_ms:
                deadlines.is_behind = False
                return True
            self.drop(len(head), EXPIRED, effects)
        deadlines.is_behind = True
        return False

    def drop(self, count: int, reason: str, effects: Effects) -> None:
        """Have up to `count` messages of the head row leave."""
        self._leave(self._dequeue(count), reason, effects)

    def _deliver(self, effects: Effects, is_new: bool = False) -> None:
        """Hand ready messages to consumers with room, the least busy first.

        `is_new`: nothing was ready before them, so they are not looked at for their age.
        """
        ready, consumers = self.ready, self.consumers
        if self.is_paused or not consumers.members:
            return
        is_fresh = is_new or self.deadlines is None
        shared: Batch | None = None
        share = 0
        while ready.message_count and (is_fresh or self._is_head_fresh(effects)):
            choice = consumers.next()
            if choice is None:
                return
            consumer, room, eligible = choice
            if ready.may_be_paged and self._is_head_paged():
                self.wants_head = True
                return
            if eligible > 1:
                # Fair among equals: a row is shared out in even parts, not given to one.
                head = ready.head()
                assert head is not None
                even = -(-len(head) // eligible)
                share = max(share, even) if head.batch is shared else even
                shared = head.batch
                room = min(room, share)
            span = self._dequeue(room)
            delivery = Delivery(span, self.identity, consumer)
            consumer.hand_over(len(span.indexes), delivery.wire_bytes)
            effects.deliver(consumer, delivery)
            if consumer.no_ack:
                self._settle(span, 0, len(span), effects)
                continue
            reading = consumer.channel_credit.reading
            self._note_delivery(consumer.channel, delivery, reading, effects)
            if consumer.is_full():
                consumers.filled(consumer)

    def _is_head_paged(self) -> bool:
        head = self.ready.head()
        return head is not None and head.is_paged

    def _is_head_fresh(self, effects: Effects) -> bool:
        """Is there a message to be delivered, and not expired?"""
        deadlines = self.deadlines
        if deadlines is not None and (deadlines.is_behind or not self._drop_expired(effects)):
            return False
        return self.ready.message_count > 0

    def _dequeue(self, count: int) -> Span:
        """Remove up to `count` messages from the head."""
        span = self.ready.dequeue(count)
        if self.tallies:
            self._left(span)
        return span

    def _left(self, span: Span) -> None:
        """These are neither ready nor deferred any more."""
        for tally in self.tallies:
            tally.left(span)

    def get(
        self, channel: object, no_ack: bool, effects: Effects, reading: ReadingTime | None = None
    ) -> Delivery | None:
        """Deliver one message by basic.get; it needs no credit. None if there is none, or a pause.

        None, too, if the message must be read first, which `wants_head` says.

        `reading` belongs to its connection; None: the connection is always read.
        """
        if self.deadlines is not None:
            while not self._drop_expired(effects):
                pass
        if not self.ready.message_count:
            # A head that somebody waited for may have expired meanwhile.
            self.wants_head = False
            return None
        if self.is_paused:
            return None
        if self.ready.may_be_paged and self._is_head_paged():
            self.wants_head = True
            return None
        span = self._dequeue(1)
        delivery = Delivery(span, self.identity, None)
        if no_ack:
            self._settle(span, 0, 1, effects)
        else:
            self._note_delivery(channel, delivery, reading or ReadingTime(), effects)
        if self.deadlines is not None:
            # The message behind it may have expired, and does not count as left.
            self._drop_expired(effects)
        return delivery

    def _note_delivery(
        self, channel: object, delivery: Delivery, reading: ReadingTime, effects: Effects
    ) -> None:
        """The channel holds these now; the journal learns it."""
        self.in_flight.add(channel, delivery)
        if self.in_flight_timeouts is not None:
            self.in_flight_timeouts.note(channel, delivery, reading, self.uptime_ms)
        span = delivery.span
        if span.stored:
            first = span.first_entry_id
            effects.delivered_entries.append((first, first + len(span.indexes) - 1))

    def _settle(self, span: Span, low: int, high: int, effects: Effects) -> None:
        """Messages are done: the journal learns it."""
        if len(span.batch.wire) > self.sweep.small_bytes:
            self.sweep.count_departure(span, low, high)
        self.held_bytes -= held_bytes(span.batch, high - low)
        if isinstance(span, PagedSpan) and span.is_spilled:
            effects.forget_spilled(span.part(low, high))
        if span.stored:
            first = span.first_entry_id
            effects.settled_entries.append((first + low, first + high - 1))

    def _leave(self, span: Span, reason: str, effects: Effects) -> None:
        """Messages leave the queue for this reason, other than by an ack.

        A paged row that is to be a dead letter is read first.
        """
        if self.dead_letters and isinstance(span, PagedSpan):
            self.dying = self.dying or DyingRows()
            self.dying.append(span, reason)
            return
        effects.dead.append((span, reason))
        if self.dead_letters:
            self.held_bytes -= span.held_bytes
            self.sweep.count_departure(span, 0, len(span))
        else:
            self._settle(span, 0, len(span), effects)

    # --- Coming back

    def settle(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> list[tuple[Delivery, int, int]]:
        """A channel acked these parts of deliveries: they are done, and their credit is back.

        Gives the parts that came in time.
        """
        held = self._remove_held(channel, parts, effects)
        for delivery, low, high in held:
            self._settle(delivery.span, low, high, effects)
        self._dispatch(effects)
        return held

    def discard(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> None:
        """A channel rejected these parts for good."""
        for delivery, low, high in self._remove_held(channel, parts, effects):
            self._leave(delivery.span.part(low, high), REJECTED, effects)
        self._dispatch(effects)

    def requeue(
        self,
        channel: object,
        parts: Iterable[tuple[Delivery, int, int]],
        effects: Effects,
        delay_ms: int | None = None,
    ) -> list[tuple[Delivery, int, int]]:
        """A channel gave these parts back undone: each returns to its old place.

        Before that they are deferred for `delay_ms`; None: for as long as the queue's arguments
        say; 0: not at all. With a delay the caller has set the time.
        Gives the parts that came in time.
        """
        held = self._remove_held(channel, parts, effects)
        for delivery, low, high in held:
            own_ms = self._own_delay_ms(delivery) if delay_ms is None else delay_ms
            self._return(delivery, low, high, effects, own_ms)
        self._dispatch(effects)
        return held

    def touch(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], touched_ms_max: int
    ) -> list[tuple[Delivery, int, int, int]]:
        """A channel works on these parts still: their time in flight begins anew.

        No further than `touched_ms_max` behind the delivery. Gives the parts that are in flight
        and have a deadline, with the time, by `uptime_ms`, when that passes.
        """
        touched: list[tuple[Delivery, int, int, int]] = []
        timeouts = self.in_flight_timeouts
        if timeouts is not None:
            for delivery, low, high in self.in_flight.current(parts):
                for first, end in self.in_flight.held_of(channel, delivery, low, high):
                    due_ms = timeouts.touch(delivery, first, end, self.uptime_ms, touched_ms_max)
                    if due_ms is not None:
                        touched.append((delivery, first, end, due_ms))
        return touched

    def withdraw(self, entry_ids: range | array[int], identities: Iterable[bytes] = ()) -> None:
        """The journal has no room for these messages: their publisher is told that they are lost.

        They go as if they had never come, so that one which is published again is there once: nor
        are their `identities` remembered. A consumer may ack the messages that it holds of them,
        but these are not given back to the queue.
        """
        ranges = ranges_of(entry_ids)
        count = 0
        for span in self._withdraw_rows(ranges):
            self._left(span)
            self.held_bytes -= span.held_bytes
            self.sweep.count_departure(span, 0, len(span))
            count += len(span)
        if count < len(entry_ids):
            self.withdrawn = self.withdrawn or Withdrawn()
            self.withdrawn.add(self.in_flight.parts(), ranges)
        if self.deduplication is not None:
            self.deduplication.window.withdraw(identities)

    def _withdraw_rows(self, ranges: Sequence[EntryRange]) -> list[Span]:
        """Remove those of these entries that are ready or deferred."""
        rows = self.ready.withdraw(ranges)
        return rows if self.deferral is None else rows + self.deferral.withdraw(ranges)

    def _without_withdrawn(
        self, parts: Iterable[tuple[Delivery, int, int]]
    ) -> list[tuple[Delivery, int, int]]:
        """Those of these parts, which are in flight no more, that were not withdrawn meanwhile."""
        assert self.withdrawn is not None
        kept = []
        for delivery, low, high in parts:
            for start, end, is_withdrawn in self.withdrawn.divide(delivery, low, high):
                if is_withdrawn:
                    self.held_bytes -= held_bytes(delivery.span.batch, end - start)
                    self.sweep.count_departure(delivery.span, start, end)
                else:
                    kept.append((delivery, start, end))
        return kept

    def _without_late(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> list[tuple[Delivery, int, int]]:
        """The parts of an answer that come before their time-out.

        Those behind it are noted, and their credit is given back.
        """
        in_time: list[tuple[Delivery, int, int]] = []
        for delivery, low, high in parts:
            if not delivery.unanswered:
                in_time.append((delivery, low, high))
                continue
            held = self.in_flight.held_of(channel, delivery, low, high)
            in_time += [(delivery, *each) for each in held]
            late_count = high - low - sum(end - first for first, end in held)
            late_count = min(late_count, delivery.unanswered)
            if not late_count:
                continue
            delivery.unanswered -= late_count
            if delivery.consumer is not None:
                delivery.consumer.get_back(late_count)
                self.consumers.changed(delivery.consumer)
            effects.late = effects.late or []
            at = low
            for first, end in (*held, (high, high)):
                if at < first:
                    effects.late.append((delivery, at, first))
                at = end
        return in_time

    def _remove_held(
        self, channel: object, parts: Iterable[tuple[Delivery, int, int]], effects: Effects
    ) -> list[tuple[Delivery, int, int]]:
        """Those parts that the channel did hold: no longer in flight, their credit given back.

        Without messages that were withdrawn meanwhile. The credit of late answers is given back,
        too, and that is all that they change.
        """
        if self.in_flight.has_joined:
            parts = self.in_flight.current(parts)
        if self.in_flight_timeouts is not None:
            parts = self._without_late(channel, parts, effects)
        held = [part for part in parts if self.in_flight.remove(channel, *part)]
        consumers: dict[Consumer, None] = {}
        for delivery, low, high in held:
            consumer = delivery.consumer
            if consumer is not None:
                consumer.get_back(high - low)
                consumers[consumer] = None
        for consumer in consumers:
            self.consumers.changed(consumer)
        return self._without_withdrawn(held) if self.withdrawn else held

    def _judge(self, attempts: int) -> str | None:
        """Why messages that were delivered so often must leave; None if they may stay."""
        if attempts:
            for judge in self.judges:
                if judge.refuses(attempts):
                    return judge.reason
        return None

    def _own_delay_ms(self, delivery: Delivery) -> int:
        """For how long the queue's arguments have these deferred when they come back."""
        return 0 if self.deferral is None else self.deferral.delay_ms(delivery.attempts)

    def _return(
        self, delivery: Delivery, low: int, high: int, effects: Effects, delay_ms: int = 0
    ) -> None:
        """Messages come back undone: to their old place, unless a judge sends them away.

        If there is a delay, they are deferred first.
        """
        span = delivery.span.part(low, high)
        reason = self._judge(delivery.attempts)
        if reason is not None:
            self._leave(span, reason, effects)
            return
        span.attempts = delivery.attempts
        if delay_ms:
            self._defer(span, delay_ms, effects)
            if span.stored:
                last = span.first_entry_id + high - low - 1
                effects.deferred_entries = effects.deferred_entries or []
                due_ms = self.now_ms + delay_ms
                effects.deferred_entries.append((span.first_entry_id, last, due_ms))
        else:
            self.ready.put_back(span)
        self._joined(span)

    def _joined(self, span: Span) -> None:
        """These, which may be paged, are ready or deferred now."""
        for tally in self.tallies:
            tally.joined(span)
            if tally.counts_bytes and is_unsized(span):
                self.wants_sizes = True

    def _defer(self, span: Span, delay_ms: int, effects: Effects) -> None:
        self._add_deferred(span, self.uptime_ms + delay_ms)
        effects.deferred = effects.deferred or []
        effects.deferred.append((span, self.now_ms + delay_ms))

    # --- Endings

    def cancel(self, channel: object, consumer_tag: bytes, effects: Effects) -> Consumer | None:
        """Remove a consumer, if it is there; another may be active now.

        Its channel keeps the messages that the consumer holds.
        """
        consumer = self.consumers.remove(channel, consumer_tag)
        self._dispatch(effects)
        return consumer

    def channel_down(self, channel: object, effects: Effects) -> list[Consumer]:
        """A channel is gone: its consumers go, and its messages return to their old place."""
        gone = self.consumers.remove_channel(channel)
        held = self.in_flight.remove_channel(channel)
        parts = [(delivery, *part) for delivery in held for part in delivery.remaining]
        for delivery in held:
            delivery.remaining = []
        for delivery, low, high in self._without_withdrawn(parts) if self.withdrawn else parts:
            self._return(delivery, low, high, effects)
        self._dispatch(effects)
        return gone

    def set_ready_count(self, consumer: Consumer, count: int, effects: Effects) -> None:
        """So many messages may be in flight to the consumer; it may have room now."""
        consumer.prefetch = count
        self.consumers.changed(consumer)
        self._dispatch(effects)

    def sent(self, consumer: Consumer, effects: Effects) -> None:
        """The socket took what the consumer was handed, and `Consumer.sent` said: it waits."""
        self.consumers.changed(consumer)
        self._dispatch(effects)

    def purge(self, effects: Effects) -> int:
        """Drop all ready and deferred messages; gives how many they were."""
        count = self.ready.message_count + self.deferred_count
        for span in self.waiting():
            self._settle(span, 0, len(span), effects)
        self.ready.clear()
        self.wants_head = False
        if self.deferral is not None:
            self.deferral.clear()
        for tally in self.tallies:
            tally.cleared()
        return count

    def empty(self, effects: Effects) -> list[tuple[object, Delivery, int, int]]:
        """Drop all messages, of those in flight the ones that have an in-flight time-out.

        Gives these, with their channels: it is as if their time had passed, so their credit comes
        back with the answer. Others in flight stay so, because a late answer gives no credit back.
        """
        self.purge(effects)
        timed = [part for part in self.in_flight.parts_by_channel() if part[1].deadline is not None]
        for channel, delivery, low, high in timed:
            self.in_flight.remove(channel, delivery, low, high)
            delivery.unanswered += high - low
            part = [(delivery, low, high)]
            for _, first, end in self._without_withdrawn(part) if self.withdrawn else part:
                self._settle(delivery.span, first, end, effects)
        return timed

    def sweep_if_due(self) -> None:
        """Let go of reads of which little is used. Not before the call's effects are traced."""
        sweep = self.sweep
        if sweep.arrived_bytes + sweep.departed_bytes <= sweep.interval_bytes:
            return
        here = self.ready.message_count + self.deferred_count
        if sweep.is_due(here + self.in_flight.message_count):
            sweep.run(self._rows(), self.in_flight.deliveries(), self.next_entry_id)
            self.held_bytes -= sweep.freed_bytes

    def sweep_all(self) -> None:
        """Let go of all of them now: of a read the journal may have given back few messages."""
        self.sweep.run_over_all(self._rows(), self.in_flight.deliveries(), self.next_entry_id)
        self.held_bytes -= self.sweep.freed_bytes

    def _rows(self) -> Iterable[Span]:
        return chain(self.waiting(), (span for span, _ in self.spent or ()))

    def _all_rows(self) -> Iterable[Span]:
        return chain(self._rows(), (delivery.span for delivery in self.in_flight.deliveries()))

    # --- Paging

    @property
    def needs_columns(self) -> bool:
        """Must it know something of each message that only the message itself says?"""
        return self.ready.priority_max > 0 or self._keeps_sizes()

    def _keeps_sizes(self) -> bool:
        return any(tally.counts_bytes for tally in self.tallies)

    def page_out(
        self,
        kept_bytes: int,
        synced_below: int,
        spilled: Sequence[EntryRange] = (),
        note_traced: Callable[[Span], None] | None = None,
    ) -> tuple[list[Span], list[EntryRange]]:
        """Page rows that nobody needs soon, but for so many bytes at the head of the queue.

        The journal has synced all stored entries with ids below `synced_below`. The spill has the
        entries in `spilled`, which ascend. `note_traced` is called with rows that have traced
        messages. Returns rows to be spilled, in the order of their entry ids: new ones of one
        priority, up to `SPILLED_BYTES_MAX`, which keep rows behind them resident until they are,
        and as many that came back, are deferred or in flight. And the entries in `spilled` that
        were paged: the others have left, or are wanted soon.
        """
        keeps_sizes = self._keeps_sizes()
        pager = Pager(synced_below, spilled, keeps_sizes, self.ready.priority_max, note_traced)
        unspilled = self.ready.page_out(kept_bytes, pager.on_disk, pager.page, keeps_sizes)
        self.ready.page_returned(pager.page_if_on_disk)
        if self.deferral is not None:
            self.deferral.page_out(pager.page_if_on_disk)
        self.in_flight.page_out(pager.page_in_flight)
        self.held_bytes -= pager.freed_bytes
        unspilled = [*unspilled, *pager.unspilled()]
        unspilled.sort(key=attrgetter("first_entry_id"))
        return unspilled, pager.used

    def lose(self, ranges: Sequence[EntryRange], effects: Effects) -> None:
        """The journal does not have these entries any more, whose ranges ascend.

        Paged ones leave: ready and deferred ones now, those in flight and dead letters when they
        are to be read.
        """
        gone = [
            (span.first_entry_id + low, span.first_entry_id + high - 1)
            for span in self.waiting()
            if isinstance(span, PagedSpan) and not span.is_spilled
            for low, high, is_within in positions_in(span, 0, len(span), ranges)
            if is_within
        ]
        if gone:
            self._vanish(gone, effects)
            self._dispatch(effects)

    def _vanish(self, ranges: Sequence[EntryRange], effects: Effects) -> None:
        """Have entries leave that are on no disk any more."""
        for span in self._withdraw_rows(sorted(ranges)):
            self._left(span)
            self._settle(span, 0, len(span), effects)

    def wanted(self, ahead_bytes: int) -> Wanted | None:
        """Entries to be read now; they are being read from then on. None if there are none.

        Also such as nobody waits for yet, while consumers have less than `ahead_bytes` of messages
        at the head before them.
        """
        if self.reading is not None:
            return None
        if self.wants_head and (self.was_dying_read or not self.dying):
            self.reading = self.ready.wanted(1, READ_COUNT_MAX)
            # None if it has left, or if a message that came back lies before it.
            self.wants_head = self.reading is not None
        if self.reading is None and self.dying:
            self.reading = self.dying.wanted(READ_COUNT_MAX)
        elif self.reading is None and (
            ahead_bytes and self.consumers.members and not self.is_paused
        ):
            self.reading = self.ready.wanted(ahead_bytes, READ_COUNT_MAX)
        if self.reading is None and self.wants_sizes:
            self.reading = wanted_sizes(self.ready.unsized()) or wanted_sizes(self.deferral or ())
            self.wants_sizes = self.reading is not None
        return self.reading

    def count_sizes(
        self, rows: Sequence[SizedRow], through: int, effects: Effects
    ) -> list[EntryRange]:
        """Sizes that were wanted are known, of entries up to the id `through`.

        Returns those entries that could not be read, as of `read`; `dispatch` is to be called.
        """
        reading, self.reading = self.reading, None
        assert reading is not None
        if not self._keeps_sizes():
            return []
        if rows:
            sized = self.ready.set_sizes(rows)
            if self.deferral is not None:
                sized += self.deferral.set_sizes(rows)
            for span in sized:
                for tally in self.tallies:
                    tally.sized(span)
        asked = reading.read_through(through)
        asked_count = sum(last + 1 - first for first, last in asked)
        if asked_count == sum(len(row.sizes) for row in rows):
            return []
        # Some have left the queue meanwhile, or the disk does not have them.
        missing = [
            (span.first_entry_id + low, span.first_entry_id + high - 1)
            for span in self.waiting()
            if is_unsized(span) and span.is_spilled is reading.is_spilled
            for low, high, is_within in positions_in(span, 0, len(span), asked)
            if is_within
        ]
        if missing:
            self._vanish(missing, effects)
        return missing

    def read(self, rows: Sequence[ReadRow], through: int, effects: Effects) -> list[EntryRange]:
        """Entries that were wanted have been read, up to the id `through`.

        Returns those that could not be read, which are lost: they leave the queue. The caller then
        calls `dispatch`, behind those who wait with basic.get, and then, with the time, `expire`.
        """
        reading, self.reading = self.reading, None
        assert reading is not None
        self.wants_head = False
        self.was_dying_read = reading.is_dying
        asked = reading.read_through(through)
        found: list[Span] = []
        missing: list[PagedSpan] = []
        if asked and reading.is_dying:
            assert self.dying is not None
            letters, missing = self.dying.fill(asked, rows)
            found = [span for span, _ in letters]
            for span, reason in letters:
                self.held_bytes += span.held_bytes
                self._leave(span, reason, effects)
        elif asked:
            found, missing, unsized = self.ready.fill(asked, rows)
            self.held_bytes += sum(span.held_bytes for span in found)
            effects.resident = found
            if self._keeps_sizes():
                for span in unsized:
                    for tally in self.tallies:
                        tally.sized(span)
            for span in missing:
                self._left(span)
        for span in missing:
            self._settle(span, 0, len(span), effects)
        if reading.is_spilled and found:
            # Rows that were asked for, and expired meanwhile, are to be read again.
            resident = [
                (span.first_entry_id, span.first_entry_id + len(span) - 1) for span in found
            ]
            effects.unspilled_entries = [*(effects.unspilled_entries or ()), *resident]
        return [(span.first_entry_id, span.first_entry_id + len(span) - 1) for span in missing]
