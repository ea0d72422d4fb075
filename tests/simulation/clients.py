"""Clients of a simulation, their connections and their channels.

A client draws what it sends, and keeps what it may answer. Its connection may stop reading it for a
while; then deadlines of its deliveries stand still. A channel is the product's: numbers and routes
of publishes, owed confirms, tags and credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from broker_parts import Answered, Stage, Touched, offer_credit
from client_frames import publish
from judge import ChannelBook, Held, ReadClock, demand
from kit import Kit
from leveret.actors.messages import (
    AddConsumer,
    ChannelDown,
    Confirm,
    ConsumerRemoved,
    CreditOffered,
    Deliver,
    Get,
    GetAnswer,
    Publish,
    Reject,
    RemoveConsumer,
    Sent,
    TimedOut,
)
from leveret.amqp_frames.decoder import Acks
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.methods import BasicAck, BasicNack, decode_method
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.channel.delivery_commands import DeliveryCommands
from leveret.core.channel.outstanding import Settled
from leveret.core.channel.transaction import Outcome
from leveret.core.connection.reading_time import Pause, ReadingTime
from leveret.core.definitions import DELIVERY_EXCHANGE, QueueDefinition
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Publisher
from leveret.core.publishing.routes import RouteMemory, Routes
from leveret.core.queue.consumers import Consumer

FRAME_BYTES = 131_072
# In place of the number of a message, of a publish that is none.
NO_MESSAGE = 0


class Send(NamedTuple):
    """Client -> Channel: publishes, of which the first is to be confirmed as this."""

    batch: Batch
    first_seq_no: int


class Consume(NamedTuple):
    queue: QueueDefinition
    tag: bytes
    prefetch: int
    no_ack: bool
    priority: int
    timeout_ms: int | None


class Cancel(NamedTuple):
    queue: QueueDefinition
    tag: bytes


class Ask(NamedTuple):
    """A basic.get."""

    queue: QueueDefinition
    no_ack: bool


class Answer(NamedTuple):
    """An ack, nack or reject. `tags` are all that it names; it is sent as the last of them."""

    tags: Sequence[int]
    multiple: bool
    outcome: Outcome


class AnswerRow(NamedTuple):
    """Acks of one delivery each, in one read."""

    tags: Sequence[int]


class Command(NamedTuple):
    """A publish to `amq.leveret.delivery` about the message with this tag."""

    send: Send
    tag: int
    is_touch: bool
    delay_ms: int


class Recover(NamedTuple):
    """All that the channel holds goes back."""


class Qos(NamedTuple):
    """A global prefetch."""

    limit: int


class Close(NamedTuple):
    pass


class Delivered(NamedTuple):
    """Channel -> Client: messages, and what their queue hears when they are taken."""

    tags: range
    no_ack: bool
    queue: QueueDefinition
    consumer: Consumer | None
    window_bytes: int


class Recovered(NamedTuple):
    """Channel -> Client: nothing that came before this may be answered any more."""


class Frames(NamedTuple):
    """Channel -> Client: confirms, as on the wire."""

    octets: bytes


def may_write(_exchange: str) -> None:
    """Everybody may."""


class Connection:
    """Hands a client's commands to its channels; stopped, it is not read."""

    def __init__(self, stage: Stage) -> None:
        self.is_stopped = False
        self._stage = stage
        self.reading = ReadingTime()
        self.clock = ReadClock()

    def receive(self, message: object) -> None:
        channel, command = message  # type: ignore[misc]
        self._stage.loop.tell(channel, command)

    def on_idle(self) -> None:
        pass

    def pause_or_resume(self) -> None:
        """Read it no more, or again."""
        loop = self._stage.loop
        if self.is_stopped:
            self.reading.resume(loop.uptime_ms)
            self.clock.resume(loop.uptime_ms)
            loop.go_on(self)
        else:
            self.reading.pause(loop.uptime_ms, Pause.ALARM)
            self.clock.pause(loop.uptime_ms)
            loop.stop(self)


class SimulatedChannel:
    """One channel: the product's rules of it, and the judge's book."""

    is_stopped = False

    def __init__(
        self,
        stage: Stage,
        kit: Kit,
        connection: Connection,
        client: Client,
        next_batch_number: Callable[[], int],
    ) -> None:
        self._stage = stage
        self._kit = kit
        self._client = client
        self._reading = connection.reading
        self._credit = kit.credit(reading=connection.reading)
        self._outstanding = kit.outstanding(1, self._credit)
        routes = Routes(stage.table, may_write, RouteMemory())
        self._publisher = Publisher(
            routes, next_batch_number, 1, FRAME_BYTES, "guest", False, lambda: False
        )
        self._publisher.confirm_mode = True
        self._publisher.delivery_holder = self._commands = DeliveryCommands(self._outstanding)
        self._used: dict[QueueDefinition, None] = {}
        # The basic.get that is not answered; until then the client's commands wait.
        self._asked: Ask | None = None
        self._held_back: deque[object] = deque()
        self._has_ended = False
        self.book = stage.judge.channels[self] = ChannelBook(connection.clock)

    def receive(self, message: object) -> None:
        if self._has_ended:
            return
        if isinstance(message, (Confirm, Reject)):
            unconfirmed = self._publisher.unconfirmed
            count = unconfirmed.confirm if isinstance(message, Confirm) else unconfirmed.reject
            for batch, indexes in message.items:
                count(message.queue, batch, indexes)
        elif isinstance(message, Deliver):
            self._deliver(message)
        elif isinstance(message, TimedOut):
            self._tell_queues(self._outstanding.time_out(message.parts), Outcome.ACKED, {})
        elif isinstance(message, GetAnswer):
            self._got(message)
        elif isinstance(message, (ConsumerRemoved, CreditOffered)):
            pass
        elif self._asked is not None:
            self._held_back.append(message)
        else:
            self._command(message)

    @property
    def credit_in_use(self) -> int:
        """How many messages its consumers hold, as the product counts them."""
        return self._credit.in_use

    def _publish(self, message: Send) -> None:
        routed = carry_out(self._publisher.route(message.batch))
        assert routed.error is None
        demand(routed.first_seq_no == message.first_seq_no, "numbered from", routed.first_seq_no)
        for queue, indexes in routed.by_queue.items():
            delays_ms = routed.delays.get(queue, 0)
            told = Publish(self, routed.batch, indexes, delays_ms)  # type: ignore[arg-type]
            self._tell(queue, told)

    def _carry_out_commands(self, message: Command) -> None:
        judge = self._stage.judge
        if message.is_touch:
            judged = judge.touched(self, message.tag)
        else:
            judged = judge.answered(self, [message.tag])
        self._publish(message.send)
        touched, returned = self._commands.drain()
        for part in touched:
            queue: QueueDefinition = part[0].queue  # type: ignore[assignment]
            self._tell(queue, Touched(self, [part], judged[queue.name]))
        for delay_ms, parts in returned.items():
            settled = self._outstanding.settle_removed(Outcome.RETURNED, parts, delay_ms)
            self._tell_queues(settled, Outcome.RETURNED, judged, message.delay_ms)

    def _deliver(self, message: Deliver) -> None:
        consumer = message.consumer
        window_bytes = 0
        for delivery in message.deliveries:
            window_bytes += delivery.wire_bytes
            queue: QueueDefinition = delivery.queue  # type: ignore[assignment]
            self._hand_over(queue, delivery, consumer, consumer.no_ack)
        queue = message.deliveries[0].queue  # type: ignore[assignment]
        written = Delivered(range(0), False, queue, consumer, window_bytes)
        self._stage.loop.tell(self._client, (self, written))

    def _got(self, message: GetAnswer) -> None:
        asked, self._asked = self._asked, None
        assert asked is not None
        if message.delivery is not None:
            self._hand_over(asked.queue, message.delivery, None, asked.no_ack)
        while self._held_back and self._asked is None and not self._has_ended:
            self._command(self._held_back.popleft())

    def _hand_over(self, queue, delivery, consumer, no_ack: bool) -> None:  # type: ignore[no-untyped-def]
        count = len(delivery.span)
        if no_ack:
            first_tag = self._outstanding.number(count)
        else:
            first_tag = self._outstanding.hold(delivery)
            book = self._stage.books[queue]
            self._stage.judge.numbered(book, self, first_tag, delivery, consumer)
        tags = range(first_tag, first_tag + count)
        self._stage.loop.tell(self._client, (self, Delivered(tags, no_ack, queue, None, 0)))

    def _answer(self, message: Answer | AnswerRow | Recover) -> None:
        outstanding = self._outstanding
        tags = list(self.book.open) if isinstance(message, Recover) else message.tags
        judged = self._stage.judge.answered(self, tags)
        if isinstance(message, Recover):
            self._stage.loop.tell(self._client, (self, Recovered()))
            self._tell_queues(outstanding.return_all(), Outcome.RETURNED, judged, 0)
        elif isinstance(message, AnswerRow):
            acks = Acks()
            acks.tags.extend(message.tags)
            acks.multiples.extend(bytes(len(message.tags)))
            self._tell_queues(outstanding.acknowledge(acks), Outcome.ACKED, judged)
        else:
            settled = outstanding.settle(message.tags[-1], message.multiple, message.outcome)
            self._tell_queues(settled, message.outcome, judged)

    def _tell_queues(
        self,
        settled: Settled,
        outcome: Outcome,
        judged: dict[str, list[Held]],
        judged_delay_ms: int | None = None,
    ) -> None:
        assert settled.error is None, settled.error
        for queue, parts in settled.returned.by_queue.items():
            assert isinstance(queue, QueueDefinition)
            named = judged.pop(queue.name, ())
            delay_ms = settled.returned.delay_ms
            self._tell(queue, Answered(self, parts, outcome, named, delay_ms, judged_delay_ms))
        demand(not judged, "queues do not hear of answers:", *judged)
        offer_credit(self._stage, self, self._credit, settled.returned.offered)

    def _command(self, message: object) -> None:
        if isinstance(message, Send):
            self._publish(message)
        elif isinstance(message, (Answer, AnswerRow, Recover)):
            self._answer(message)
        elif isinstance(message, Command):
            self._carry_out_commands(message)
        elif isinstance(message, Consume):
            consumer = self._kit.consumer(
                self,
                message.tag,
                message.prefetch,
                self._credit,
                message.no_ack,
                False,
                message.priority,
                message.timeout_ms,
            )
            self._tell(message.queue, AddConsumer(consumer, self))  # type: ignore[arg-type]
        elif isinstance(message, Cancel):
            self._tell(message.queue, RemoveConsumer(self, message.tag))  # type: ignore[arg-type]
        elif isinstance(message, Ask):
            self._asked = message
            self._tell(message.queue, Get(self, message.no_ack, self._reading))  # type: ignore[arg-type]
        elif isinstance(message, Qos):
            self.book.limit = message.limit
            offer_credit(self._stage, self, self._credit, self._credit.set_limit(message.limit))
        else:
            assert isinstance(message, Close), message
            self._has_ended = True
            for queue in self._used:
                self._stage.loop.tell(queue.handle, ChannelDown(self))  # type: ignore[arg-type]

    def _tell(self, queue: QueueDefinition, message: object) -> None:
        self._used[queue] = None
        self._stage.loop.tell(queue.handle, message)

    def on_idle(self) -> None:
        unconfirmed = self._publisher.unconfirmed
        if not self._has_ended and (unconfirmed.confirmed or unconfirmed.rejected):
            frames = self._publisher.answers()
            self._stage.loop.tell(self._client, (self, Frames(frames)))


class Opened:
    """A client's own knowledge of one of its channels."""

    def __init__(self, channel: SimulatedChannel) -> None:
        self.channel = channel
        self.consumers: list[tuple[QueueDefinition, bytes]] = []
        # Tags that may be answered, ascending, and the numbers of publishes that are not answered.
        self.tags: list[int] = []
        self.unanswered: dict[int, int] = {}
        self.next_seq_no = 1
        self.is_recovering = False
        self.is_closed = False


class Client:
    """One connection with its channels."""

    def __init__(
        self,
        stage: Stage,
        kit: Kit,
        random: Random,
        queues: Sequence[QueueDefinition],
        next_batch_number: Callable[[], int],
    ) -> None:
        self.is_stopped = False
        self._stage = stage
        self._kit = kit
        self._random = random
        self._queues = queues
        self._next_batch_number = next_batch_number
        self.connection = Connection(stage)
        self.channels: dict[SimulatedChannel, Opened] = {}
        self._tag_count = 0

    # --- What it is sent

    def receive(self, message: object) -> None:
        channel, told = message  # type: ignore[misc]
        opened = self.channels[channel]
        if isinstance(told, Delivered):
            if told.consumer is not None:
                if told.consumer.sent(told.window_bytes):
                    self._stage.loop.tell(told.queue.handle, Sent(told.consumer))
            elif not told.no_ack:
                opened.tags.extend(told.tags)
        elif isinstance(told, Recovered):
            opened.is_recovering = False
            opened.tags.clear()
        elif not opened.is_closed:
            assert isinstance(told, Frames)
            self._hear(opened, told.octets)

    def _hear(self, opened: Opened, octets: bytes) -> None:
        at = 0
        while at < len(octets):
            size = int.from_bytes(octets[at + 3 : at + 7], "big")
            method = decode_method(octets, at + 7, at + 7 + size)
            assert isinstance(method, (BasicAck, BasicNack)), method
            at += 8 + size
            tag = method.delivery_tag
            waiting = opened.unanswered
            seq_nos = [tag]
            if method.multiple:
                seq_nos = [seq_no for seq_no in waiting if seq_no <= tag]
            for seq_no in seq_nos:
                demand(seq_no in waiting, "publish", seq_no, "is answered a second time")
                number = waiting.pop(seq_no)
                if isinstance(method, BasicAck):
                    self._stage.judge.confirm(number)

    def on_idle(self) -> None:
        pass

    # --- What it does

    def open_channels(self) -> list[Opened]:
        """Those that it may use."""
        return [each for each in self.channels.values() if not each.is_closed]

    def act(self, publishes: Callable[[Random], tuple[bytes, list[int]]]) -> str:
        """Do one thing, drawn; returns what, in a few words. `publishes` makes messages."""
        chosen = self._random
        opened = self.open_channels()
        if not opened or (len(opened) < 2 and chosen.random() < 0.05):
            self._open()
            return "opens a channel"
        one = chosen.choice(opened)
        roll = chosen.random()
        if roll < 0.3:
            octets, numbers = publishes(chosen)
            return self.publish(one, octets, numbers)
        if roll < 0.72:
            if one.tags and not one.is_recovering:
                return self.answer(one)
            roll = 0.8 if one.consumers else 0.73
        if roll < 0.80 and len(one.consumers) < 3:
            return self.consume(one)
        if roll < 0.82:
            ask = Ask(chosen.choice(self._queues), chosen.random() < 0.2)
            self._send(one, ask)
            return f"asks {ask.queue.name} for a message"
        if roll < 0.85 and one.consumers:
            queue, tag = one.consumers.pop(chosen.randrange(len(one.consumers)))
            self._send(one, Cancel(queue, tag))
            return f"cancels {tag!r}"
        if roll < 0.89:
            limit = chosen.choice((0, 1, 2, 5, 20))
            self._send(one, Qos(limit))
            return f"sets its channel's prefetch to {limit}"
        if roll < 0.91 and not one.is_recovering:
            one.is_recovering = True
            self._send(one, Recover())
            return "recovers"
        if roll < 0.94:
            self.close(one)
            return "closes a channel"
        if roll < 0.98:
            self.connection.pause_or_resume()
            return "is read no more" if self.connection.is_stopped else "is read again"
        self.read_or_stall(not self.is_stopped)
        return "reads no more" if self.is_stopped else "reads again"

    def read_or_stall(self, stalls: bool) -> None:
        """Take what is written to it, or not."""
        if stalls:
            self._stage.loop.stop(self)
        else:
            self._stage.loop.go_on(self)
        for channel in self.channels:
            channel.book.is_reading = not stalls

    def _open(self) -> Opened:
        channel = SimulatedChannel(
            self._stage, self._kit, self.connection, self, self._next_batch_number
        )
        channel.book.is_reading = not self.is_stopped
        opened = self.channels[channel] = Opened(channel)
        return opened

    def _send(self, opened: Opened, command: object) -> None:
        self._stage.loop.tell(self.connection, (opened.channel, command))

    def close(self, opened: Opened) -> None:
        """Close a channel, whatever it holds."""
        opened.is_closed = True
        self._send(opened, Close())

    def publish(self, opened: Opened, octets: bytes, numbers: list[int]) -> str:
        first = opened.next_seq_no
        opened.next_seq_no += len(numbers)
        opened.unanswered.update(enumerate(numbers, first))
        self._send(opened, Send(decode_publishes(octets), first))
        return f"publishes {numbers}"

    def consume(self, opened: Opened) -> str:
        chosen = self._random
        queue = chosen.choice(self._queues)
        self._tag_count += 1
        tag = b"\1%d" % self._tag_count
        consume = Consume(
            queue,
            tag,
            chosen.choice((0, 1, 1, 2, 5)),
            chosen.random() < 0.05,
            chosen.choice((0, 0, 0, 3)),
            chosen.choice((None, None, None, 40, 300)),
        )
        opened.consumers.append((queue, tag))
        self._send(opened, consume)
        return f"consumes {queue.name} with prefetch {consume.prefetch}"

    def consume_all(self) -> None:
        """A sound consumer on every queue, on a channel of its own."""
        opened = self._open()
        for queue in self._queues:
            self._tag_count += 1
            self._send(opened, Consume(queue, b"\1%d" % self._tag_count, 3, False, 0, None))

    def answer(self, opened: Opened) -> str:
        """One message, several up to one, or a row of them."""
        chosen = self._random
        tags = opened.tags
        kind = chosen.random()
        if kind > 0.75:
            return self.command(opened, chosen.random() < 0.8)
        outcome = chosen.choices(list(Outcome), (5, 1, 3))[0]
        if kind < 0.25:
            count = chosen.randint(1, len(tags))
            named, opened.tags = tags[:count], tags[count:]
            self._send(opened, Answer(named, True, outcome))
        elif kind < 0.4:
            at = chosen.randrange(len(tags))
            end = chosen.randint(at + 1, len(tags))
            named, opened.tags = tags[at:end], tags[:at] + tags[end:]
            self._send(opened, AnswerRow(named))
            outcome = Outcome.ACKED
        else:
            named = [tags.pop(chosen.randrange(len(tags)))]
            self._send(opened, Answer(named, False, outcome))
        return f"{outcome.value}: {named}"

    def command(self, opened: Opened, is_touch: bool) -> str:
        """A touch of one message, or its return."""
        place = self._random.randrange(len(opened.tags))
        tag = opened.tags[place] if is_touch else opened.tags.pop(place)
        key = "touch" if is_touch else "requeue"
        headers = {"delivery-tag": tag}
        delay_ms = 0 if is_touch else self._random.choice((0, 30, 500))
        if delay_ms:
            headers["delay-ms"] = delay_ms
        properties = Properties(headers=table_of(headers))
        batch = decode_publishes(publish(key, b"", properties, exchange=DELIVERY_EXCHANGE))
        seq_no = opened.next_seq_no
        opened.next_seq_no += 1
        opened.unanswered[seq_no] = NO_MESSAGE
        self._send(opened, Command(Send(batch, seq_no), tag, is_touch, delay_ms))
        return f"{key}: {tag}, {delay_ms} ms"

    def ack_all(self) -> bool:
        """Ack all that it holds; false if that is nothing."""
        holding = [each for each in self.open_channels() if each.tags and not each.is_recovering]
        for opened in holding:
            named, opened.tags = opened.tags, []
            self._send(opened, Answer(named, True, Outcome.ACKED))
        return bool(holding)
