"""A naive queue with any arguments, message by message, for histories of the real one.

The model is a list of messages. It knows nothing of spans, heaps, lines or tallies, and asks every
message and every consumer each time. It predicts all that a queue does but one thing: which of the
consumers that may receive a message gets it. There it follows the queue, and checks that the one
that got the message was allowed to, and that the queue stopped only when nobody was.

`queue_history.py` has what happens to both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leveret.amqp_frames.messages.batch import TTL_NONE, Batch
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.dedup import STORED_KIND, TRANSIENT_KIND
from leveret.core.queue.in_flight import Delivery

NO_LIMIT: Final = 1 << 60

Arguments = dict[str, object]


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
    # For how long its publisher wants it deferred; until when it is, by the journal, 0 for not at
    # all; and for how long still, by the clock that only goes forward.
    delay_ms: int = 0
    due: int = 0
    left_ms: int = 0

    @property
    def identity(self) -> bytes:
        kind = STORED_KIND if self.is_persistent else TRANSIENT_KIND
        return self.digest + kind if self.digest else b""


@dataclass(eq=False)
class Held:
    """A delivery, and what of it its client has not answered."""

    channel: str
    # None: by basic.get.
    consumer: Consumer | None
    delivery: Delivery
    count: int
    # By position.
    messages: list[Message] = field(default_factory=list)
    # In flight; and back in the queue because their time was over, so that an answer would be late.
    positions: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    # Its in-flight time-out, None for never; for how long it is out, and how long each position may
    # be so still, while its connection is read.
    timeout_ms: int | None = None
    age_ms: int = 0
    left_ms: dict[int, int] = field(default_factory=dict)

    @property
    def unanswered(self) -> int:
        return len(self.positions) + len(self.late)


@dataclass
class Channel:
    """A channel on a connection of its own."""

    # Of basic.qos with global; 0 for none.
    limit: int = 0
    is_read: bool = True
    # Has there been a time when it was not read?
    was_unread: bool = False


@dataclass
class Outcome:
    """All that a call must lead to."""

    # Entry, deadline and due time by index.
    appended: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    confirmed: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    repeats_stored: list[int] = field(default_factory=list)
    repeats_transient: list[int] = field(default_factory=list)
    left: Counter[tuple[int, str]] = field(default_factory=Counter)
    refused_letters: list[int] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    # In the order of the queue: to consumers, and all that the journal is told of.
    delivered: list[Held] = field(default_factory=list)
    delivered_entries: set[int] = field(default_factory=set)
    timed_out: set[tuple[Held, int]] = field(default_factory=set)
    # Entries that came back and are deferred, with their due times.
    deferred_entries: set[tuple[int, int]] = field(default_factory=set)
    # All that are deferred from now on, with their due times, and those that are due.
    deferred: set[tuple[int, int]] = field(default_factory=set)
    due: set[int] = field(default_factory=set)


class NaiveQueue:
    """A queue as its arguments' documentation has it."""

    def __init__(
        self, arguments: Arguments, now_ms: int, window_bytes_max: int, channels: Iterable[str]
    ) -> None:
        self.arguments = arguments
        self.now_ms = now_ms
        self.window_bytes_max = window_bytes_max
        self.channels = {name: Channel() for name in channels}
        self.ready: list[Message] = []
        self.deferred: list[Message] = []
        self.held: list[Held] = []
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.is_paused = False
        # Handed to a channel and not yet taken by its socket.
        self.window_bytes: Counter[Consumer] = Counter()
        self.next_entry = 1
        # Identities, oldest first: entry, time until which it is remembered, identity.
        self.window: list[tuple[int, int, bytes]] = []
        self.outcome = Outcome()
        # What the real queue has handed to consumers in this call, by first entry.
        self.handed: dict[int, Held] = {}

    def number(self, name: str, otherwise: int) -> int:
        value = self.arguments.get(name, otherwise)
        assert isinstance(value, int)
        return value

    @property
    def rejects(self) -> bool:
        has_limit = {"x-max-length", "x-max-length-bytes"} & self.arguments.keys()
        return bool(has_limit) and self.arguments.get("x-overflow", "drop-head") != "drop-head"

    def is_full(self, *more: Message) -> bool:
        """Would the queue be too long with these besides what is ready or deferred?"""
        counted = (*self.ready, *self.deferred, *more)
        count, size = len(counted), sum(each.size for each in counted)
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
        while not self.rejects and self.is_full():
            if self.ready:
                self.leave(self.ready.pop(0), "maxlen")
            else:
                last = min(self.deferred, key=lambda each: (-each.left_ms, each.entry))
                self.deferred.remove(last)
                self.leave(last, "maxlen")
        self.drop_expired()

    # --- Delivering

    def busy(self, consumer: Consumer) -> int:
        """How many messages a consumer has not answered."""
        return sum(each.unanswered for each in self.held if each.consumer is consumer)

    def in_use(self, channel: str) -> int:
        """How many messages a channel's consumers have not answered."""
        return sum(
            each.unanswered
            for each in self.held
            if each.channel == channel and each.consumer is not None
        )

    def room(self, consumer: Consumer) -> int:
        """How many messages a consumer may get now."""
        if self.window_bytes[consumer] >= self.window_bytes_max:
            return 0
        name = str(consumer.channel)
        limit = self.channels[name].limit
        free = limit - self.in_use(name) if limit else NO_LIMIT
        if consumer.no_ack:
            return NO_LIMIT if free > 0 else 0
        own = consumer.prefetch - self.busy(consumer) if consumer.prefetch else NO_LIMIT
        return max(0, min(own, free))

    def receivers(self) -> list[Consumer]:
        """Those that may receive, if they have room."""
        if self.arguments.get("x-single-active-consumer"):
            return [] if self.active is None else [self.active]
        return self.consumers

    def deliver(self, is_new: bool = False) -> None:
        while not self.is_paused:
            if not is_new:
                self.drop_expired()
            if not self.ready:
                return
            held = self.handed.pop(self.ready[0].entry, None)
            if held is None:
                self.check_nothing_waits()
                return
            self.hand_over(held)

    def check_nothing_waits(self) -> None:
        """No message is ready while somebody has room for it, unless the queue is paused."""
        if self.ready and not self.is_paused:
            assert not [each for each in self.receivers() if self.room(each)]

    def hand_over(self, held: Held) -> None:
        """A consumer gets these from the head, and was the one whose turn it was."""
        consumer = held.consumer
        assert consumer is not None
        receivers = self.receivers()
        assert consumer in receivers
        assert held.count <= self.room(consumer)
        rivals = [each for each in receivers if each is not consumer and self.room(each)]
        assert all(each.priority <= consumer.priority for each in rivals)
        busy = self.busy(consumer)
        assert all(busy <= self.busy(each) for each in rivals if each.priority == consumer.priority)
        held.messages = self.ready[: held.count]
        del self.ready[: held.count]
        self.window_bytes[consumer] += held.delivery.wire_bytes
        self.outcome.delivered.append(held)
        self.hold(held, consumer.no_ack)

    def hold(self, held: Held, no_ack: bool) -> None:
        """A client has these, and answers them if it is to."""
        entries = [each.entry for each in held.messages]
        for each in held.messages:
            each.attempts += 1
        if no_ack:
            self.outcome.settled.update(entries)
            return
        self.outcome.delivered_entries.update(entries)
        held.positions = set(range(held.count))
        timeout_ms = self.number("x-in-flight-timeout", NO_LIMIT)
        if held.consumer is not None and held.consumer.in_flight_timeout_ms is not None:
            timeout_ms = held.consumer.in_flight_timeout_ms
        if timeout_ms != NO_LIMIT:
            held.timeout_ms = timeout_ms
            held.left_ms = dict.fromkeys(held.positions, timeout_ms)
        self.held.append(held)

    def get(self, held: Held, no_ack: bool) -> None:
        """Somebody gets the first message by basic.get."""
        held.messages = [self.ready.pop(0)]
        self.hold(held, no_ack)
        self.drop_expired()

    def dispatch(self) -> None:
        self.drop_excess()
        self.deliver()

    def elect(self) -> None:
        if self.active not in self.consumers:
            highest = max((each.priority for each in self.consumers), default=0)
            first = [each for each in self.consumers if each.priority == highest]
            self.active = first[0] if first else None

    def refusal(self, consumer: Consumer) -> str | None:
        """Why this consumer cannot have the queue."""
        if self.arguments.get("x-single-active-consumer"):
            if consumer.exclusive:
                return "in exclusive use"
        elif self.consumers and any(each.exclusive for each in (*self.consumers, consumer)):
            return "in exclusive use"
        maximum = self.number("x-max-consumers", NO_LIMIT)
        if len(self.consumers) >= maximum:
            return f"in use by its maximum of {maximum} consumers"
        return None

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
            while pending and not self.is_full(pending[0]):
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
        self.wait_or_be_ready(message, message.delay_ms)
        if message.is_persistent:
            about = (message.entry, message.deadline, message.due)
            self.outcome.appended[message.index] = about
        else:
            self.outcome.confirmed.append(message.index)

    def wait_or_be_ready(self, message: Message, delay_ms: int) -> None:
        message.left_ms = delay_ms
        message.due = self.now_ms + delay_ms if delay_ms else 0
        (self.deferred if delay_ms else self.ready).append(message)
        if delay_ms:
            self.outcome.deferred.add((message.entry, message.due))
        self.order()

    # --- Coming back

    def own_delay_ms(self, message: Message) -> int:
        delay_ms = self.number("x-requeue-delay", 0)
        longest_ms = max(delay_ms, self.number("x-requeue-delay-max", 3_600_000))
        return int(min(delay_ms * 2 ** (message.attempts - 1), longest_ms))

    def answer(self, held: Held, positions: set[int]) -> list[Message]:
        """A client answers these; those that came in time and were not withdrawn."""
        back = [held.messages[each] for each in sorted(positions & held.positions)]
        held.positions -= positions
        held.late -= positions
        if not held.unanswered:
            self.held.remove(held)
        return [each for each in back if not each.is_withdrawn]

    def come_back(self, messages: Iterable[Message], delay_ms: int | None = 0) -> None:
        """Messages return; None: after the delay that the queue has for them."""
        for each in messages:
            if self.stays(each):
                own_ms = self.own_delay_ms(each) if delay_ms is None else delay_ms
                self.wait_or_be_ready(each, own_ms)
                if own_ms:
                    self.outcome.deferred_entries.add((each.entry, each.due))

    def stays(self, message: Message) -> bool:
        """Was the message not delivered too often? Else it leaves."""
        if message.attempts <= self.number("x-delivery-limit", NO_LIMIT):
            return True
        self.leave(message, "delivery_limit")
        return False

    def channel_down(self, channel: str) -> None:
        """The channel's consumers go, and what it holds comes back."""
        self.channels[channel] = Channel()
        self.consumers = [each for each in self.consumers if each.channel != channel]
        self.elect()
        for held in [each for each in self.held if each.channel == channel]:
            self.come_back(self.answer(held, set(range(held.count))))
        self.dispatch()

    # --- Time

    def pass_time(self, uptime_ms: int, wall_ms: int) -> None:
        """So much of either clock passes; a deadline in flight waits for a connection not read."""
        self.now_ms += wall_ms
        for held in self.held:
            if held.timeout_ms is not None and self.channels[held.channel].is_read:
                held.age_ms += uptime_ms
                held.left_ms = {at: left - uptime_ms for at, left in held.left_ms.items()}
        for message in self.deferred:
            message.left_ms -= uptime_ms

    def expire(self) -> None:
        """The ticker wakes the queue."""
        if "x-dedup-window" in self.arguments:
            self.forget()
        for held in self.held:
            over = {at for at in held.positions if held.left_ms.get(at, 1) <= 0}
            self.outcome.timed_out |= {(held, each) for each in over}
            back = [held.messages[each] for each in sorted(over)]
            held.late |= over
            held.positions -= over
            self.come_back([each for each in back if not each.is_withdrawn], None)
        for each in [each for each in self.deferred if 0 < each.deadline <= self.now_ms]:
            self.deferred.remove(each)
            self.leave(each, "expired")
        due = [each for each in self.deferred if each.left_ms <= 0]
        self.deferred = [each for each in self.deferred if each.left_ms > 0]
        self.ready += due
        self.outcome.due = {each.entry for each in due}
        self.order()
        self.dispatch()

    def waits_ms(self) -> list[int]:
        """How long messages in flight that have a deadline may stay so while they are read, and how
        long messages are deferred.
        """
        in_flight = [
            each.left_ms[at] for each in self.held for at in each.positions if each.left_ms
        ]
        return in_flight + [each.left_ms for each in self.deferred]

    def touch(self, held: Held, positions: set[int], touched_ms_max: int) -> dict[int, int]:
        """Its client works on these still; those in flight, and how long they may stay so."""
        if held.timeout_ms is None:
            return {}
        last_ms = max(touched_ms_max, held.timeout_ms) - held.age_ms
        touched = dict.fromkeys(positions & held.positions, min(held.timeout_ms, last_ms))
        held.left_ms |= touched
        return touched

    # --- Arguments, and the end

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
        self.ready = [each for each in self.ready if self.stays(each)]
        self.deferred = [each for each in self.deferred if self.stays(each)]
        self.order()
        self.dispatch()

    def restart(
        self, journal: dict[int, Message], attempts: Counter[int], due_times: dict[int, int]
    ) -> None:
        """The broker starts anew, with what the journal has."""
        for name in self.channels:
            self.channels[name] = Channel()
        self.window = [each for each in self.window if each[2].endswith(STORED_KIND)]
        if "x-dedup-window" in self.arguments:
            self.window = [each for each in self.window if not 0 < each[1] <= self.now_ms]
        self.held, self.consumers, self.active = [], [], None
        self.window_bytes.clear()
        self.ready, self.deferred, self.outcome = [], [], Outcome()
        for entry, each in sorted(journal.items()):
            each.attempts, each.is_withdrawn = attempts[entry], False
            if self.stays(each):
                self.wait_or_be_ready(each, max(0, due_times.get(entry, 0) - self.now_ms))
        # It is known of them.
        self.outcome.deferred.clear()
