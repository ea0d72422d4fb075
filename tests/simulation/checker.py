"""Holds the frames that clients send and read against what the node has promised.

The checker knows each message by the number in its body, and what became of it in each queue: a
`Copy`. What it cannot know is left open: a publish without an answer may have arrived or not, an
ack that was on its way in a crash may have counted or not. It demands what must be all the same:

- each publish is answered once at most, and once if its channel lives and the node is at rest;
- an unroutable mandatory message is returned before its confirm, and no other message is;
- nothing is delivered that was not published to that queue, altered, early, while somebody else
  holds it, or again after it was settled;
- nothing is delivered twice without `redelivered`;
- a consumer gets a publisher's messages in their order, and what has come back before what is new;
- what was confirmed is delivered until it is settled, or it left the queue for a reason.

Settles and deliveries of the last moment before a crash may be lost: these are counted. A crash of
the process loses what the node had not written, one of the machine what it had not synced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amqp_client import ClientChannel

# How much of a settle, or of a delivery, is on the disk.
LOST: Final = -1
SAID: Final = 0
WRITTEN: Final = 1
SYNCED: Final = 2

NEVER: Final = 1 << 60


class ViolationError(Exception):
    """A promise is broken."""


def demand(is_so: bool, *what: object) -> None:
    """ViolationError unless it is so."""
    if not is_so:
        raise ViolationError(" ".join(map(str, what)))


class Message:
    """A publish. `due_ms` is when it may be delivered at the earliest, by the uptime."""

    __slots__ = (
        "body",
        "due_ms",
        "expires_ms",
        "is_certain",
        "is_command",
        "is_mandatory",
        "is_persistent",
        "is_refused",
        "is_repeated",
        "is_returned",
        "is_void",
        "number",
        "order",
        "priority",
        "properties",
        "publisher",
        "queues",
        "rests",
        "route",
        "sent_ms",
        "ttl_ms",
    )

    def __init__(self, number: int, body: bytes, properties: bytes = b"") -> None:
        self.number = number
        self.body = body
        # As they were sent; empty if a delivery has others.
        self.properties = properties
        self.publisher: object = None
        self.order = 0
        self.is_persistent = False
        # Nacked, or without an answer while the disk was full: its queues do not remember it,
        # though it may have been delivered before the journal found no room.
        self.is_refused = False
        self.is_mandatory = False
        self.priority = 0
        self.sent_ms = 0
        # How often the node had been at rest before.
        self.rests = 0
        self.due_ms = 0
        # Its own, in ms; None: it has none.
        self.ttl_ms: int | None = None
        self.expires_ms = NEVER
        # Exchange and routing key, and the queues that it goes to.
        self.route = "", ""
        self.queues: list[QueueBook] = []
        # Confirmed, or published without confirms and with nothing in its way since.
        self.is_certain = False
        # Never to be delivered: of a transaction that was rolled back.
        self.is_void = False
        self.is_repeated = False
        self.is_returned = False
        self.is_command = False


class Copy:
    """A message in one queue."""

    __slots__ = (
        "deliveries",
        "delivery_stage",
        "due_ms",
        "excuse",
        "hold",
        "is_gone",
        "is_of_deleted",
        "may_be_missing",
        "message",
        "requeuer",
        "settle_stage",
        "settler",
        "was_deferred",
        "was_returned",
    )

    def __init__(self, message: Message) -> None:
        # It was once, and may be so again after a crash.
        self.was_deferred = False
        self.message = message
        self.deliveries = 0
        self.delivery_stage = SAID
        # None: not settled, as far as anybody knows.
        self.settle_stage: int | None = None
        # Who settled it.
        self.settler: Any = None
        self.hold: Hold | None = None
        self.due_ms = message.due_ms
        # Who gave it back with a delay, as long as the node may not have read that.
        self.requeuer: Any = None
        # Why it need not be there; "" if it must.
        self.excuse = ""
        # It must not be there any more.
        self.is_gone = False
        # Since it entered, its queue has been deleted, or perhaps has.
        self.is_of_deleted = False
        # Perhaps it never entered, for its queue was coming or going, or damage has cost it.
        self.may_be_missing = False
        self.was_returned = False

    def may_be_in_another_queue(self) -> None:
        """It is published again: a queue of that name that came since remembers nothing of it."""
        if self.is_of_deleted:
            self.is_of_deleted = False
            self.is_gone = False
            self.delivery_stage = LOST
            if self.settle_stage is not None:
                self.settle_stage = LOST


class Hold:
    """A delivery that waits for its answer."""

    __slots__ = ("channel", "consumer", "copy", "is_answered", "queue", "tag", "until_ms")

    def __init__(self, channel: Any, consumer: Consumer, copy: Copy, tag: int, until: int) -> None:
        queue = consumer.queue
        self.channel = channel
        self.consumer = consumer
        self.queue = queue
        self.copy = copy
        self.tag = tag
        # From then on it may have timed out.
        self.until_ms = until
        self.is_answered = False


class Consumer:
    """Of a queue; also a basic.get, for one delivery."""

    __slots__ = (
        "is_get",
        "is_there",
        "last_orders",
        "no_ack",
        "prefetch",
        "queue",
        "timeout_ms",
    )

    def __init__(
        self,
        queue: QueueBook,
        no_ack: bool,
        timeout_ms: int | None,
        prefetch: int = 0,
        *,
        is_get: bool = False,
    ) -> None:
        self.queue = queue
        # 0: any number.
        self.prefetch = prefetch
        # Its consume-ok has come, and it has not been cancelled.
        self.is_there = False
        self.is_get = is_get
        self.no_ack = no_ack
        self.timeout_ms = timeout_ms
        # Of first deliveries, by publisher and priority.
        self.last_orders: dict[tuple[object, int], int] = {}


def _is_read(channel: ClientChannel) -> bool:
    """Does the node read its connection?"""
    link = channel.client.link
    return link is None or not link.is_reading_paused


class QueueBook:
    """One queue, from its declaration to its deletion: a name declared again is another one."""

    def __init__(self, name: str, durable: bool, arguments: dict[str, Any]) -> None:
        self.name = name
        self.durable = durable
        self.arguments = arguments
        self.copies: dict[int, Copy] = {}
        self.ttl_ms: int | None = arguments.get("x-message-ttl")
        self.priority_max: int = arguments.get("x-max-priority", 0)
        self.limit: int | None = arguments.get("x-delivery-limit")
        self.timeout_ms: int | None = arguments.get("x-in-flight-timeout")
        self.delay_ms: int = arguments.get("x-requeue-delay", 0)
        self.rejects = arguments.get("x-overflow") == "reject-publish"
        self.drops = arguments.get("x-overflow") == "drop-head"
        self.has_dead_letters = "x-dead-letter-exchange" in arguments
        # Its declaration, or its deletion, has no answer yet.
        self.is_uncertain = True
        self.is_deleted = False
        # Has anybody consumed from it, and may deliveries have been lost on their way?
        self.has_had_receivers = False
        # What was asked for last; and is it certain that it is paused?
        self.wants_pause = False
        self.is_paused = False
        self.is_pause_answered = True
        # Channels whose purge has no answer: it may come behind what others publish later.
        self.purgers: set[ClientChannel] = set()
        # Channels that declare it once more and have no answer: behind a deletion it comes back.
        self.redeclarers: set[ClientChannel] = set()
        self.may_come_back = False
        # A receiver without acks has gone, and the node may not know: it may send it more.
        self.has_lost_unacked = False
        self.is_single = "x-single-active-consumer" in arguments
        self.has_lost_deliveries = False
        # It gets dead letters: their number, and their order, are not known.
        self.is_for_dead_letters = False

    def copy_of(self, message: Message) -> Copy:
        copy = self.copies.get(message.number)
        if copy is None:
            copy = self.copies[message.number] = Copy(message)
        return copy

    def first_due_ms(self, copy: Copy) -> int:
        """From then on it may be delivered, if nobody defers it once more."""
        return 0 if self.is_for_dead_letters else copy.message.due_ms


class Checker:
    """All messages and queues of a run."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.messages: dict[int, Message] = {}
        self.queues: list[QueueBook] = []
        self.now_ms = 0
        # When the node was at rest the last time.
        self.rest_ms = 0
        self.damage_reported = False
        self.has_damage = False
        self._numbers = 0
        self._channels: dict[Any, None] = {}
        # Channels that the node must have closed, and their clients have not read that: why.
        self._to_be_closed: dict[Any, str] = {}
        # Settles and deliveries by how much of them is on the disk.
        self._said: list[Copy] = []
        self._written: list[Copy] = []
        # Published since the node was at rest.
        self._recent: list[Message] = []
        # Settles that come too late if time passes before the node has read them.
        self._in_time: list[Copy] = []
        # Given back with a delay, which the node may not have read.
        self._deferring: list[tuple[QueueBook, Copy]] = []
        # A persistent message was published and confirmed since the node was at rest.
        self._has_synced = False
        self._is_stopping = False
        self._rests = 0
        # Returned messages that were ready when the node was at rest, and who overtook them.
        self._waiting: dict[tuple[QueueBook, object, int], dict[int, Copy]] = {}
        self._overtaken: dict[Copy, tuple[Copy, Consumer]] = {}

    # --- Publishers

    def new_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def command_message(self) -> Message:
        message = Message(0, b"")
        message.is_command = True
        return message

    def published(self, channel: ClientChannel, message: Message) -> None:
        """It is sent; `queues` has where it goes."""
        self.messages[message.number] = message
        message.publisher = channel
        channel.published += 1
        message.order = channel.published
        message.sent_ms = self.now_ms
        message.rests = self._rests
        if channel.mode != "tx":
            self.entered(message)
        self.seen["publishes"] += 1
        self._channels[channel] = None

    def repeated(self, channel: ClientChannel, message: Message, queue: QueueBook) -> None:
        """A message is published again, and must not be in the queue a second time."""
        message.is_repeated = True
        self._channels[channel] = None
        copy = queue.copies.get(message.number)
        if copy is None or copy.excuse or not message.is_certain:
            # Whether the queue has had it is not known, so this one may be the first.
            copy = queue.copy_of(message)
            copy.may_be_in_another_queue()
            copy.excuse = "published again"
            # What a queue has refused, never had or lost to damage it does not remember.
            is_remembered = message.is_certain and not copy.may_be_missing
            copy.is_gone = copy.is_gone and is_remembered
            if copy.settle_stage is None:
                copy.delivery_stage = LOST
            elif message.is_refused:
                copy.settle_stage = copy.delivery_stage = LOST
            if queue not in message.queues:
                message.queues.append(queue)
        self.seen["repeats"] += 1

    def forget_unproven(self) -> None:
        """The disk was full: what was published without confirms may have found no room."""
        for channel in self._channels:
            for message in channel.unproven:
                message.is_refused = True
            channel.unproven.clear()

    def pause_answered(self, queue: QueueBook, is_paused: bool) -> None:
        queue.is_pause_answered = queue.wants_pause == is_paused
        self.seen["pauses"] += is_paused

    def entered(self, message: Message) -> None:
        """It is on its way to its queues: published, or committed."""
        self._recent.append(message)
        ttls = [each.ttl_ms for each in message.queues]
        known = [each for each in (message.ttl_ms, *ttls) if each is not None]
        if known:
            message.expires_ms = self.now_ms + min(known)
        for queue in message.queues:
            copy = queue.copy_of(message)
            # It is committed, and another channel has published it to the queue before.
            copy.may_be_in_another_queue()
            if queue.is_uncertain:
                copy.excuse = "its queue was coming or going"
                copy.may_be_missing = True
            else:
                self._is_ready(queue, copy)

    def declared(self, queue: QueueBook, routes: Callable[[Message], bool]) -> None:
        """A queue is about to be declared, for messages that are on their way, too."""
        if queue not in self.queues:
            self.queues.append(queue)
        for message in self._recent:
            if routes(message) and queue not in message.queues:
                message.queues.append(queue)
                copy = queue.copy_of(message)
                copy.excuse = "its queue came"
                copy.may_be_missing = True

    def returned(self, channel: ClientChannel, body: bytes) -> None:
        message = self._message_of(body)
        demand(message.is_mandatory, "returned and not mandatory:", message.number)
        is_own = message.publisher is channel or message.is_repeated
        demand(is_own, "returned to another:", message.number)
        is_again = message.is_returned and not message.is_repeated
        demand(not is_again, "returned twice:", message.number)
        # One of a transaction that was never committed, and is repeated, is in its new queue only.
        copies = (each.copies.get(message.number) for each in message.queues)
        sure = [each for each in copies if each is not None and not each.excuse]
        demand(not sure, "returned, and there is a queue for it:", message.number)
        message.is_returned = True
        self.seen["returns"] += 1

    def answered(self, channel: ClientChannel, tag: int, multiple: bool, is_ack: bool) -> None:
        unanswered = channel.unanswered
        if multiple:
            tags = [each for each in unanswered if each <= tag]
            demand(bool(tags), channel.name, "an answer to nothing:", tag)
        else:
            demand(tag in unanswered, channel.name, "answered twice, or never published:", tag)
            tags = [tag]
        for each in tags:
            message = unanswered.pop(each)
            if message.is_command:
                continue
            if not is_ack:
                message.is_refused = True
                self.seen["nacks"] += 1
                continue
            self.seen["confirms"] += 1
            self._accepted(message)

    def _accepted(self, message: Message) -> None:
        if message.is_mandatory and not message.queues:
            demand(message.is_returned, "confirmed before its return:", message.number)
        message.is_certain = True
        is_recent = message.rests == self._rests
        if is_recent and message.is_persistent and any(each.durable for each in message.queues):
            self._has_synced = True

    def committed(self, channel: ClientChannel, messages: Iterable[Message]) -> None:
        """tx.commit-ok."""
        for message in messages:
            self._accepted(message)
        self.seen["commits"] += 1

    def _message_of(self, body: bytes) -> Message:
        try:
            message = self.messages.get(int(body[:8]))
        except ValueError:
            message = None
        demand(message is not None, "a message that nobody has published:", body[:40])
        assert message is not None
        demand(body == message.body, "a body is altered:", message.number, body[:40])
        return message

    # --- Receivers

    def delivered(
        self,
        channel: ClientChannel,
        consumer: Consumer,
        tag: int,
        redelivered: bool,
        body: bytes,
        properties: bytes,
    ) -> None:
        queue = consumer.queue
        message = self._message_of(body)
        number = message.number
        where = f"message {number} of {queue.name} to {channel.name}"
        # Published again by another channel it is there, whatever became of the transaction.
        is_void = message.is_void and not message.is_repeated
        demand(not is_void, "delivered, and rolled back:", where)
        is_as_sent = not (redelivered or consumer.is_get or queue.is_for_dead_letters)
        if message.properties and is_as_sent:
            demand(properties == message.properties, "other properties than were sent:", where)
        copy = queue.copies.get(number)
        if queue.is_for_dead_letters and copy is None:
            may_die = any(each.has_dead_letters for each in message.queues)
            demand(may_die, "a dead letter of a queue that has none:", where)
            copy = queue.copy_of(message)
            copy.excuse = "a dead letter"
            copy.due_ms = 0
        demand(copy is not None, "in a queue that it was not published to:", where)
        assert copy is not None
        timeout_ms = queue.timeout_ms if consumer.timeout_ms is None else consumer.timeout_ms
        link = channel.client.link
        is_slow = link is None or link.clean_ms < self.now_ms
        until = NEVER if timeout_ms is None else self.rest_ms + timeout_ms
        is_slow = timeout_ms is not None and (is_slow or self.now_ms >= until)
        if channel.is_leaving or self._is_stopping or is_slow:
            # It may have come back meanwhile, and gone to another, who has read it before.
            self.seen["late deliveries"] += 1
            self._is_late(channel, queue, copy, consumer, tag)
            return
        # A message may have died in several queues: its dead letters cannot be told apart.
        is_due = self.now_ms >= copy.due_ms or queue.is_for_dead_letters
        demand(is_due, "delivered early:", where, copy.due_ms - self.now_ms)
        if not queue.is_for_dead_letters:
            self._check_state(copy, redelivered, queue, where)
            self._check_order(copy, redelivered, consumer, where)
        copy.deliveries += 1
        copy.delivery_stage = SAID
        copy.was_returned = False
        self._said.append(copy)
        self.seen["redeliveries" if redelivered else "first deliveries"] += 1
        if consumer.no_ack:
            copy.settle_stage = SAID
            copy.settler = channel
            return
        hold = Hold(channel, consumer, copy, tag, until)
        copy.hold = hold
        demand(tag not in channel.unacked, "a delivery tag twice:", where)
        channel.unacked[tag] = hold
        self._channels[channel] = None

    def _is_late(
        self, channel: ClientChannel, queue: QueueBook, copy: Copy, consumer: Consumer, tag: int
    ) -> None:
        copy.deliveries += 1
        copy.delivery_stage = LOST
        self._overtaken.pop(copy, None)
        self._waiting_of(queue, copy.message).pop(copy.message.order, None)
        queue.has_lost_deliveries = True
        if consumer.no_ack:
            copy.settle_stage = LOST
        else:
            hold = channel.unacked[tag] = Hold(channel, consumer, copy, tag, 0)
            self._channels[channel] = None
            if copy.hold is None:
                copy.hold = hold

    def _late_hold(self, copy: Copy) -> Hold | None:
        """Another delivery of it, read late: it may be the one that counts."""
        for channel in self._channels:
            for hold in channel.unacked.values():
                if hold.copy is copy and not hold.until_ms:
                    return hold
        return None

    def _check_state(self, copy: Copy, redelivered: bool, queue: QueueBook, where: str) -> None:
        hold = copy.hold
        if hold is not None and not hold.is_answered and self.now_ms < hold.until_ms:
            what = f"delivered, and {hold.channel.name} holds it: {where}"
            self._demand_close(hold.channel, what)
        demand(not queue.is_paused, "delivered, and its queue is paused:", where)
        demand(not copy.is_gone, "delivered, and it was purged or dropped:", where)
        if copy.settle_stage is not None:
            demand(copy.settle_stage == LOST, "delivered again, and it was settled:", where)
            self.seen["settles lost in a crash"] += 1
            copy.settle_stage = None
        if redelivered:
            may_be = copy.deliveries or queue.has_lost_deliveries
            demand(bool(may_be), "redelivered at the first delivery:", where)
        elif copy.deliveries:
            demand(copy.delivery_stage == LOST, "delivered twice without redelivered:", where)
            self.seen["deliveries forgotten in a crash"] += 1

    def _demand_close(self, channel: ClientChannel, what: str) -> None:
        """It is so only if the node closes the channel, because a queue has gone."""
        may_close = any(each.is_uncertain or each.is_deleted for each in self.queues)
        demand(may_close, what)
        self._to_be_closed.setdefault(channel, what)

    def _check_order(self, copy: Copy, redelivered: bool, consumer: Consumer, where: str) -> None:
        queue, message = consumer.queue, copy.message
        is_in_line = not (message.due_ms or message.is_repeated or queue.is_for_dead_letters)
        if redelivered or copy.deliveries or not is_in_line:
            overtaker = self._overtaken.pop(copy, None)
            if overtaker is not None:
                demand(
                    overtaker[1] is not consumer,
                    "delivered behind", overtaker[0].message.number, "which is newer:", where,
                )  # fmt: skip
            self._waiting_of(queue, message).pop(message.order, None)
            return
        priority = min(message.priority, queue.priority_max)
        line = message.publisher, priority
        last = consumer.last_orders.get(line, 0)
        demand(message.order > last, "not in the order of its publisher:", where)
        consumer.last_orders[line] = message.order
        for order, waiting in self._waiting_of(queue, message).items():
            if order < message.order:
                self._overtaken.setdefault(waiting, (copy, consumer))

    def _waiting_of(self, queue: QueueBook, message: Message) -> dict[int, Copy]:
        priority = min(message.priority, queue.priority_max)
        return self._waiting.setdefault((queue, message.publisher, priority), {})

    def settled(self, hold: Hold) -> None:
        """The client acks it."""
        copy = hold.copy
        self.seen["acks"] += 1
        if self._let_go(hold):
            copy.settle_stage = SAID
            copy.settler = hold.channel
            self._said.append(copy)
            if hold.until_ms != NEVER:
                self._in_time.append(copy)
        elif copy.hold is None:
            # It may count or not.
            copy.settle_stage = LOST

    def dropped(self, hold: Hold) -> None:
        """The client rejects it for good."""
        if self._let_go(hold):
            self._leaves(hold, "rejected")
            self.seen["rejected"] += 1

    def requeued(self, hold: Hold, delay_ms: int | None = None) -> None:
        """The client gives it back; `delay_ms` says for how long, None: as the queue has it."""
        if self._let_go(hold):
            copy = hold.copy
            queue = hold.queue
            if delay_ms is None:
                delay_ms = queue.delay_ms
            copy.was_deferred = copy.was_deferred or delay_ms > 0
            copy.due_ms = self.now_ms + delay_ms if delay_ms else queue.first_due_ms(copy)
            copy.requeuer = hold.channel if delay_ms else None
            if delay_ms:
                self._deferring.append((queue, copy))
            self._came_back(queue, copy)
            self.seen["requeued"] += 1

    def _is_ready(self, queue: QueueBook, copy: Copy) -> None:
        """It is, or is about to be, and may go at once."""
        if queue.purgers:
            copy.excuse = "purged"
        elif queue.has_lost_unacked:
            copy.excuse = "delivered without acks"

    def _came_back(self, queue: QueueBook, copy: Copy) -> None:
        copy.was_returned = True
        self._is_ready(queue, copy)
        if queue.limit is not None and not copy.excuse:
            copy.excuse = "delivery limit"

    def _leaves(self, hold: Hold, why: str) -> None:
        hold.copy.excuse = hold.copy.excuse or why

    def _let_go(self, hold: Hold) -> bool:
        """Does its answer count? Not if it has timed out."""
        hold.is_answered = True
        hold.channel.unacked.pop(hold.tag, None)
        copy = hold.copy
        if copy.hold is not hold:
            # It was delivered to another meanwhile.
            self.seen["late answers"] += 1
            if not hold.until_ms:
                # Or this delivery is the later one, and its answer counts: then it does not die.
                copy.excuse = "answered late"
            return False
        if self.now_ms >= hold.until_ms:
            self.seen["late answers"] += 1
            copy.excuse = copy.excuse or "answered late"
            copy.hold = None
            self._came_back(hold.queue, copy)
            return False
        copy.hold = None
        return True

    def touched(self, hold: Hold) -> None:
        """Its time begins anew."""
        if hold.until_ms != NEVER:
            self.seen["touches"] += 1

    # --- Ends

    def channel_ended(self, channel: ClientChannel) -> None:
        """What it held comes back; what it published and nobody answered is open."""
        self._channels.pop(channel, None)
        self._to_be_closed.pop(channel, None)
        for hold in list(channel.unacked.values()):
            hold.is_answered = True
            hold.queue.has_lost_deliveries = True
            copy = hold.copy
            if copy.hold is hold:
                copy.hold = self._late_hold(copy)
                self._came_back(hold.queue, copy)
        self._may_be_unread(channel)
        for queue in channel.asked_without_ack:
            queue.has_lost_unacked = True
            for copy in queue.copies.values():
                copy.excuse = "got without ack"
        for consumer in channel.consumers.values():
            consumer.queue.has_lost_deliveries = True
            if consumer.no_ack:
                consumer.queue.has_lost_unacked = True
                # Also of what others hold: it may come back and go the same way.
                for copy in consumer.queue.copies.values():
                    copy.excuse = "delivered without acks"
        for queue in self.queues:
            # A basic.get may be on its way.
            queue.has_lost_deliveries |= queue.has_had_receivers
        channel.unacked.clear()
        channel.unproven.clear()

    def _excuse_all(self, queue: QueueBook, why: str) -> None:
        for copy in queue.copies.values():
            is_held = copy.hold is not None and self.now_ms < copy.hold.until_ms
            if not is_held and copy.settle_stage is None:
                # One that may have gone before, as a dead letter for one, may come back: a purge
                # that finds nothing is not synced.
                is_there = copy.excuse in ("", why)
                copy.excuse = why if is_there else f"{why}, or had left"

    def channel_refused(self, channel: ClientChannel, code: int, text: str) -> None:
        """The node closes a channel: only where a queue is not there any more."""
        is_gone = code == 404 and any(each.is_uncertain or each.is_deleted for each in self.queues)
        if channel.mode == "tx" and "partial tx completion" in text:
            # A queue was full, or went, or the disk was full.
            is_gone = True
        demand(is_gone, "the node closes a channel:", channel.name, code, text)

    def stopping(self) -> None:
        """The node is about to close all channels: what they hold may come back at once.

        It goes on to deliver to those that it has not closed yet.
        """
        self._is_stopping = True
        for channel in self._channels:
            self.leaving(channel)
            # Who closes a connection reads no more of it than the answer (AMQP 0-9-1, 4.2.2).
            self._may_be_unread(channel)

    def _may_be_unread(self, channel: ClientChannel) -> None:
        """Answers of the client that were on their way may not have arrived."""
        for copy in self._said:
            if copy.settler is channel and copy.settle_stage == SAID:
                copy.settle_stage = LOST
        for queue, copy in self._deferring:
            if copy.requeuer is channel:
                copy.due_ms = queue.first_due_ms(copy)
                copy.requeuer = None

    def purging(self, queue: QueueBook, channel: ClientChannel) -> None:
        """A purge is on its way: what is ready may be gone."""
        queue.purgers.add(channel)
        self._excuse_all(queue, "purged")

    def purged(self, queue: QueueBook) -> None:
        """Purge-ok, of a node that was at rest and is so again: what was ready is gone."""
        for copy in queue.copies.values():
            if copy.excuse == "purged" and copy.hold is None and copy.settle_stage is None:
                copy.is_gone = True
        self.seen["purges"] += 1

    def deleting(self, queue: QueueBook) -> None:
        """A delete is on its way."""
        queue.is_uncertain = True
        # Declared again it is another one, which is not paused, unless the delete is lost.
        queue.wants_pause = queue.is_paused = queue.is_pause_answered = False
        queue.may_come_back = bool(queue.redeclarers)
        for copy in queue.copies.values():
            copy.excuse = "deleted"
            copy.is_of_deleted = True

    def deleted(self, queue: QueueBook) -> None:
        """Delete-ok."""
        self.seen["deletes"] += 1
        if queue.may_come_back:
            return
        queue.is_deleted = True
        queue.is_uncertain = False

    def leaving(self, channel: ClientChannel) -> None:
        """It is about to end: what it holds, and is being sent, may come back at once."""
        for queue in self.queues:
            queue.has_lost_deliveries |= queue.has_had_receivers
        for hold in channel.unacked.values():
            hold.until_ms = 0

    # --- Rest and crash

    def time_passes(self, now_ms: int, is_at_rest: bool) -> None:
        """`is_at_rest`: there was nothing to do before."""
        self.now_ms = now_ms
        if is_at_rest:
            self.rest_ms = now_ms
        for copy in self._in_time:
            if copy.settle_stage == SAID:
                copy.settle_stage = LOST
        if not is_at_rest:
            # A delivery may time out that its client has not read yet.
            timed = {
                consumer.queue
                for channel in self._channels
                for consumer in channel.consumers.values()
                if consumer.timeout_ms is not None
            }
            for queue in self.queues:
                if queue in timed or queue.timeout_ms is not None:
                    queue.has_lost_deliveries |= queue.has_had_receivers

    def at_rest(self, *, is_quiet: bool, is_full: bool) -> None:
        """The node has nothing to do. `is_quiet`: it has said all, and everything was read.

        `is_full`: what is to be written may wait for room on the disk.
        """
        self.rest_ms = self.now_ms
        self._rests += 1
        # Of a connection that is not read they are still on their way.
        self._in_time = [each for each in self._in_time if not _is_read(each.settler)]
        # What was written before the last rest has been synced with what was confirmed since.
        if self._has_synced:
            for copy in self._written:
                if copy.delivery_stage == WRITTEN:
                    copy.delivery_stage = SYNCED
                if copy.settle_stage == WRITTEN:
                    copy.settle_stage = SYNCED
            self._written = []
        self._has_synced = False
        deferring, self._deferring = self._deferring, []
        for queue in self.queues:
            # It was read before its channel ended, or never.
            queue.purgers = {each for each in queue.purgers if each.is_open}
            queue.redeclarers = {each for each in queue.redeclarers if each.is_open}
            queue.has_lost_unacked = False
        for queue, copy in deferring:
            if copy.requeuer is not None and not _is_read(copy.requeuer):
                self._deferring.append((queue, copy))
            else:
                copy.requeuer = None
        said, self._said = self._said, []
        for copy in said:
            is_unread = copy.settle_stage == SAID and copy.settler and not _is_read(copy.settler)
            if is_full or is_unread:
                # It is not written, or the ack has not arrived.
                self._said.append(copy)
                continue
            if copy.delivery_stage == SAID:
                copy.delivery_stage = WRITTEN
            if copy.settle_stage == SAID:
                copy.settle_stage = WRITTEN
            self._written.append(copy)
        if not is_quiet:
            self._overtaken.clear()
            self._waiting.clear()
            return
        self._recent.clear()
        for copy, (overtaker, _) in self._overtaken.items():
            is_there = not copy.excuse and copy.hold is None and copy.settle_stage is None
            if is_there and not self.has_damage:
                raise ViolationError(
                    f"message {copy.message.number} came back, and the newer "
                    f"{overtaker.message.number} was delivered before it"
                )
        self._overtaken.clear()
        self._waiting.clear()
        demand(not self._to_be_closed, *self._to_be_closed.values())
        for channel in self._channels:
            self._check_rest(channel)
        self._check_consumers()
        for queue in self.queues:
            is_left_by_all = queue.drops or queue.is_for_dead_letters or queue.is_deleted
            if queue.delay_ms or is_left_by_all:
                continue
            for copy in queue.copies.values():
                if copy.was_returned and not copy.excuse and copy.hold is None:
                    message = copy.message
                    is_ready = copy.due_ms <= message.due_ms and copy.settle_stage is None
                    # One that got a nack does not come back from whoever had it.
                    is_ready = is_ready and message.is_certain
                    if is_ready and message.expires_ms == NEVER and not copy.was_deferred:
                        self._waiting_of(queue, message)[message.order] = copy

    def _check_consumers(self) -> None:
        """Nothing may wait that somebody could have."""
        if self.has_damage:
            # What waits may be what was lost; the end says whether that was reported.
            return
        waiting: dict[QueueBook, str] = {}
        for queue in self.queues:
            if queue.wants_pause and queue.is_pause_answered:
                queue.is_paused = True
            may_deliver = not (queue.wants_pause or queue.is_deleted or queue.is_uncertain)
            # Deliveries that nobody has read count for the limit, too.
            may_deliver = may_deliver and not (queue.limit and queue.has_lost_deliveries)
            if may_deliver and queue.is_pause_answered and not queue.is_single:
                for copy in queue.copies.values():
                    message = copy.message
                    if (
                        message.is_certain
                        and not copy.excuse
                        and copy.hold is None
                        and copy.settle_stage is None
                        and not (copy.due_ms or copy.was_deferred or queue.delay_ms)
                        and message.expires_ms == NEVER
                        and not queue.drops
                    ):
                        waiting[queue] = f"message {message.number} of {queue.name}"
                        break
        if not waiting:
            return
        for channel in self._channels:
            held = Counter(hold.consumer for hold in channel.unacked.values())
            for consumer in channel.consumers.values():
                if consumer.queue not in waiting or not consumer.is_there or channel.is_leaving:
                    continue
                if consumer.prefetch == 0 or held[consumer] < consumer.prefetch:
                    raise ViolationError(
                        f"nobody is given what waits: {waiting[consumer.queue]}, to {channel.name}"
                    )

    def _check_rest(self, channel: ClientChannel) -> None:
        if not channel.is_open or channel.is_leaving:
            return
        numbers = [each.number for each in channel.unanswered.values()]
        demand(not numbers, channel.name, "publishes without an answer:", numbers)
        demand(not channel.pending, channel.name, "commands without an answer:", channel.pending)
        for message in channel.unproven:
            if not any(each.rejects for each in message.queues):
                self._accepted(message)
        channel.unproven.clear()

    def damaged(self) -> None:
        """A bit of the disk has flipped: what it cost must be reported."""
        self.has_damage = True
        for queue in self.queues:
            for copy in queue.copies.values():
                copy.delivery_stage = LOST
                copy.is_gone = False
                copy.may_be_missing = True
                if copy.settle_stage is not None:
                    copy.settle_stage = LOST

    def crashed(self, *, loses_written: bool, is_clean: bool = False) -> None:
        """All channels have ended. What was not on the disk is open."""
        lost = [] if is_clean else self._said + (self._written if loses_written else [])
        for copy in lost:
            limit = SYNCED if loses_written else WRITTEN
            if copy.delivery_stage < limit:
                copy.delivery_stage = LOST
            if copy.settle_stage is not None and copy.settle_stage < limit:
                copy.settle_stage = LOST
        self._written = [] if loses_written or is_clean else self._written
        if is_clean:
            for copy in self._said + self._written:
                copy.delivery_stage = SYNCED
                if copy.settle_stage not in (None, LOST):
                    copy.settle_stage = SYNCED
        self._said = []
        self._deferring = []
        self._has_synced = self._is_stopping = False
        self._overtaken.clear()
        self._waiting.clear()
        self._channels.clear()
        self._to_be_closed.clear()
        for queue in self.queues:
            queue.purgers.clear()
            queue.redeclarers.clear()
            queue.has_lost_unacked = False
            if not queue.is_pause_answered or not queue.durable:
                queue.wants_pause = queue.is_paused = False
            queue.has_lost_deliveries = queue.has_lost_deliveries or queue.has_had_receivers
            for copy in queue.copies.values():
                if copy.hold is not None:
                    copy.hold = None
                    copy.was_returned = True
                if not copy.message.is_persistent or not queue.durable:
                    copy.excuse = copy.excuse or "transient"
                elif not copy.message.is_certain:
                    copy.excuse = copy.excuse or "never confirmed"
                if copy.due_ms > copy.message.due_ms:
                    # A deferral of the last moment may be lost.
                    copy.due_ms = copy.message.due_ms

    # --- The end

    def check_end(self, graves: QueueBook) -> None:
        """All queues are empty: nothing may be missing."""
        missing = []
        for queue in self.queues:
            if queue.is_for_dead_letters or queue.is_deleted:
                continue
            for copy in queue.copies.values():
                if self._is_accounted_for(queue, copy, graves):
                    continue
                missing.append(f"{copy.message.number} of {queue.name} ({copy.excuse})")
        if missing and self.has_damage:
            demand(self.damage_reported, "damage in silence:", missing)
            self.seen["messages lost to reported damage"] += len(missing)
            return
        demand(not missing, "confirmed messages are missing:", missing)

    def _is_accounted_for(self, queue: QueueBook, copy: Copy, graves: QueueBook) -> bool:
        message = copy.message
        if not message.is_certain or copy.settle_stage is not None:
            return True
        excuse = copy.excuse
        if not excuse:
            if self.now_ms >= message.expires_ms or queue.ttl_ms is not None:
                excuse = "expired"
            elif queue.drops:
                excuse = "dropped"
            elif queue.limit is not None and queue.has_lost_deliveries:
                excuse = "delivery limit"
            else:
                return False
        if excuse in ("rejected", "delivery limit", "expired", "dropped"):
            # The dead letter of a transient message may have been lost in a crash.
            is_safe = message.is_persistent and queue.has_dead_letters
            return not is_safe or message.number in graves.copies
        return True
