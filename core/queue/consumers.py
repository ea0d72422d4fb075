"""The consumers of a queue: which may receive, how much, and which is next.

Credit is AMQP's prefetch: per consumer, and per channel when basic.qos was global
(core/connection/channel_credit.py). Of the consumers with credit those of the highest priority go
first; of these the least busy, and of equally busy ones the consumer served longest ago. A
consumer whose connection does not drain its deliveries gets nothing more until it has
(`window_bytes`), whatever its credit and priority, and there is a window of the whole connection,
too (core/connection/outlet.py).

The consumers of a queue with `x-single-active-consumer`: one receives, the others stand by.

As in RabbitMQ 3.10: the first to come is active, and stays so whatever priority comes after it.
When it goes, by cancel or with its channel, the next is that of the highest `x-priority`, and of
those the oldest. What the old one holds stays with its channel until that gives it back or ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from ..connection.channel_credit import UNLIMITED, ChannelCredit

# A prefetch that allows no message at all, where 0 allows any number.
NOTHING: Final = -1

# How busy, when served last, and a number that no other place has; then whose place it is.
Place = tuple[int, int, int, "Consumer"]


class Consumer:
    """One basic.consume: its channel, its credit and how busy it is.

    `prefetch` 0 means no limit, NOTHING that it gets no message. `priority` is its `x-priority`:
    above others, before others.
    `in_flight` counts the messages that it got and has not answered; those whose time-out has
    passed are among them, so a consumer that has stalled holds at most its prefetch.
    `window_bytes` have been handed to its channel and not yet been taken by the socket. Its queue
    owns it, and counts `in_flight` and `window_bytes` up; the writer of its connection counts
    `window_bytes` down, and tells the queue if that `waits_for_socket`. All run on one thread.
    """

    __slots__ = (
        "channel",
        "channel_credit",
        "consumer_tag",
        "exclusive",
        "in_flight",
        "in_flight_timeout_ms",
        "line",
        "no_ack",
        "place",
        "prefetch",
        "priority",
        "queue",
        "turn",
        "waits_for_socket",
        "window_bytes",
    )

    def __init__(
        self,
        channel: object,
        consumer_tag: bytes,
        prefetch: int,
        channel_credit: ChannelCredit,
        no_ack: bool,
        exclusive: bool,
        priority: int = 0,
        in_flight_timeout_ms: int | None = None,
    ) -> None:
        self.channel = channel
        self.consumer_tag = consumer_tag
        self.prefetch = prefetch
        self.channel_credit = channel_credit
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        # Its own; None for its queue's.
        self.in_flight_timeout_ms = in_flight_timeout_ms
        self.in_flight = 0
        self.window_bytes = 0
        # Has its queue nothing for it because of these?
        self.waits_for_socket = False
        # What stands for the queue that it is added to.
        self.queue: object = None
        # When it was served last.
        self.turn = 0
        # The line of the queue that it belongs to, and its place there; None while it has no room.
        self.line: Line | None = None
        self.place: Place | None = None

    def room(self) -> int:
        """How many messages its credit allows now.

        Without acks it takes up none; but as in RabbitMQ it, too, gets nothing while the client
        holds the limit of the channel.
        """
        credit = self.channel_credit
        if self.no_ack:
            return 0 if credit.is_used_up() else UNLIMITED
        own = self.prefetch - self.in_flight if self.prefetch else UNLIMITED
        if own <= 0:
            return 0
        return min(own, credit.room(self.queue)) if credit.limit else own

    def ask_room(self, window_bytes_max: int) -> int:
        """How many messages its queue may hand to it now, for the queue that has one.

        If only its channel's credit or its connection's outlet has no room, the queue waits there
        and hears when there is some.
        """
        if self.window_bytes >= window_bytes_max:
            self.waits_for_socket = True
            return 0
        room = self.room()
        if room <= 0:
            if self.no_ack or not self.prefetch or self.in_flight < self.prefetch:
                self.channel_credit.wait(self.queue)
            return 0
        return 0 if self.channel_credit.outlet.outlet.is_closed(self.queue) else room

    def hand_over(self, count: int, wire_bytes: int) -> None:
        """Count messages that its queue hands to its channel, everywhere where they count."""
        self.window_bytes += wire_bytes
        self.channel_credit.outlet.add(wire_bytes)
        if not self.no_ack:
            self.in_flight += count
            self.channel_credit.reserve(self.queue, count)

    def is_full(self) -> bool:
        """Does it hold its prefetch? Then it gets nothing before it answers."""
        return 0 < self.prefetch <= self.in_flight

    def get_back(self, count: int) -> None:
        """Count messages that its channel has settled or returned; the channel frees its credit."""
        self.in_flight -= count

    def sent(self, window_bytes: int) -> bool:
        """Count bytes that the socket took; true, once, if the queue waits for that."""
        self.window_bytes -= window_bytes
        waits, self.waits_for_socket = self.waits_for_socket, False
        return waits


class Line:
    """Consumers of one priority that may have room, in a heap.

    A consumer that gets busier is moved when its turn comes; a consumer that gets less busy takes
    a new place and leaves the old one to be passed over; a consumer without room leaves the line
    until something has changed.
    """

    __slots__ = (
        "_heap",
        "_places",
        "_window_bytes_max",
        "member_count",
        "priority",
        "standing_count",
    )

    def __init__(self, priority: int, window_bytes_max: int) -> None:
        self.priority = priority
        self._window_bytes_max = window_bytes_max
        # How many belong to it, standing or not.
        self.member_count = 0
        self.standing_count = 0
        self._heap: list[Place] = []
        # Counts the places given out.
        self._places = 0

    def next(self) -> tuple[Consumer, int, int] | None:
        """The next consumer, how many messages it has room for, out of how many it was chosen."""
        heap = self._heap
        while heap:
            place = heap[0]
            in_flight, turn, _, consumer = place
            if place is not consumer.place:
                heappop(heap)
                continue
            room = consumer.ask_room(self._window_bytes_max)
            if room <= 0:
                heappop(heap)
                self.leave(consumer)
            elif in_flight != consumer.in_flight or turn != consumer.turn:
                heappop(heap)
                self.stand(consumer)
            else:
                return consumer, room, self.standing_count
        return None

    def stand(self, consumer: Consumer) -> None:
        """Give it the place that is its due."""
        if consumer.place is None:
            self.standing_count += 1
        self._places += 1
        consumer.place = (consumer.in_flight, consumer.turn, self._places, consumer)
        heappush(self._heap, consumer.place)
        if len(self._heap) > 2 * self.member_count + 16:
            # In place: `next` may be going through it.
            self._heap[:] = [place for place in self._heap if place is place[3].place]
            heapify(self._heap)

    def leave(self, consumer: Consumer) -> None:
        """It has no room, or goes."""
        if consumer.place is not None:
            consumer.place = None
            self.standing_count -= 1

    def fill(self, consumer: Consumer) -> None:
        """It has got all that it may hold: it leaves without being asked for its room once more."""
        heap = self._heap
        if heap and heap[0] is consumer.place:
            heappop(heap)
        self.leave(consumer)


class Consumers:
    """The consumers of one queue, in a line for each priority among them."""

    __slots__ = ("_by_channel", "_lines", "_queue", "_turn", "_window_bytes_max", "members")

    def __init__(self, window_bytes_max: int, queue: object = None) -> None:
        """`queue` stands for their queue where it waits for credit or for an outlet."""
        self._queue = queue
        # By channel and consumer tag, oldest first.
        self.members: dict[tuple[object, bytes], Consumer] = {}
        # Those that stand in lines.
        self._by_channel: dict[object, dict[Consumer, None]] = {}
        # The highest priority first; as a rule there is one line.
        self._lines: list[Line] = []
        # Counts the times that one was served.
        self._turn = 0
        self._window_bytes_max = window_bytes_max

    def __len__(self) -> int:
        return len(self.members)

    def add(self, consumer: Consumer) -> None:
        """Let it take part."""
        self.members[consumer.channel, consumer.consumer_tag] = consumer
        consumer.queue = self._queue
        self._by_channel.setdefault(consumer.channel, {})[consumer] = None
        line = consumer.line = self._line_of(consumer.priority)
        line.member_count += 1
        line.stand(consumer)

    def _line_of(self, priority: int) -> Line:
        lines = self._lines
        at = bisect_left(lines, -priority, key=_highest_first)
        if at == len(lines) or lines[at].priority != priority:
            lines.insert(at, Line(priority, self._window_bytes_max))
        return lines[at]

    def remove(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """Take one out, if it is there."""
        consumer = self.members.pop((channel, consumer_tag), None)
        if consumer is not None:
            own = self._by_channel[channel]
            del own[consumer]
            if not own:
                del self._by_channel[channel]
            line = consumer.line
            assert line is not None
            line.leave(consumer)
            line.member_count -= 1
            # Stale places must not keep channels that have gone, nor the two each other.
            consumer.line = None
            if not line.member_count:
                self._lines.remove(line)
        return consumer

    def remove_channel(self, channel: object) -> list[Consumer]:
        """Take all of a channel's out."""
        removed = [consumer for consumer in self.members.values() if consumer.channel is channel]
        for consumer in removed:
            self.remove(channel, consumer.consumer_tag)
        return removed

    def clear(self) -> None:
        """Take all out: their queue is no more."""
        for consumer in self.members.values():
            consumer.line = consumer.place = None
        self.members.clear()
        self._by_channel.clear()
        self._lines.clear()

    def get(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """The consumer of that channel and tag."""
        return self.members.get((channel, consumer_tag))

    def all(self) -> list[Consumer]:
        """Every consumer, oldest first."""
        return list(self.members.values())

    @property
    def exclusive(self) -> Consumer | None:
        """The exclusive consumer, which has no other beside it; None if there is none."""
        if len(self.members) != 1:
            return None
        [only] = self.members.values()
        return only if only.exclusive else None

    @property
    def single_active(self) -> Consumer | None:
        """The one that gets all messages while others wait; None if they share."""
        return None

    def is_refused(self, consumer: Consumer) -> bool:
        """Must the queue refuse it: is another one exclusive, or is it, and another one there?"""
        others = self.members.values()
        return bool(others) and (consumer.exclusive or any(each.exclusive for each in others))

    def changed(self, consumer: Consumer) -> None:
        """It has got less busy, or may have room again."""
        if consumer.channel_credit.limit:
            # The room is its whole channel's: a consumer of a higher priority, or a less busy one,
            # goes before it.
            self.channel_changed(consumer.channel)
        place = consumer.place
        if place is not None and place[0] <= consumer.in_flight:
            # Not behind its due, and if before it, that is found when its turn comes.
            return
        line = consumer.line
        # It may have been removed.
        if line is not None:
            line.stand(consumer)

    def filled(self, consumer: Consumer) -> None:
        """The consumer that was next has been handed messages, and holds its prefetch now."""
        line = consumer.line
        if line is not None:
            line.fill(consumer)

    def channel_changed(self, channel: object) -> None:
        """Any of the channel's may have room again: its credit is no single consumer's.

        Only these: a thousand others, each with its channel's credit used up, would all be asked.
        """
        self._stand_again(self._by_channel.get(channel, ()))

    def all_changed(self) -> None:
        """Any may have room again."""
        self._stand_again(self.members.values())

    def _stand_again(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            if consumer.place is None:
                line = consumer.line
                assert line is not None
                line.stand(consumer)

    def next(self) -> tuple[Consumer, int, int] | None:
        """The next consumer, how many messages it has room for, out of how many it was chosen.

        Consumers of a lower priority wait until no consumer above them has room.
        """
        for line in self._lines:
            choice = line.next()
            if choice is not None:
                consumer = choice[0]
                self._turn = consumer.turn = self._turn + 1
                if consumer.channel_credit.limit and not consumer.no_ack:
                    return consumer, self._even_share(consumer, choice[1]), choice[2]
                return choice
        return None

    def _even_share(self, consumer: Consumer, room: int) -> int:
        """A part of the room that its siblings, the channel's other consumers, have as well.

        Their queue asks again until the room is used up, each time for the least busy of them.
        """
        sibling_count = len(self._by_channel[consumer.channel])
        return min(room, -(-consumer.channel_credit.room(self._queue) // sibling_count))


def _highest_first(line: Line) -> int:
    return -line.priority


class SingleActiveConsumers(Consumers):
    """Consumers of which only `active` is ever next; None if there is none."""

    __slots__ = ("active",)

    def __init__(self, window_bytes_max: int, queue: object = None) -> None:
        super().__init__(window_bytes_max, queue)
        self.active: Consumer | None = None

    @property
    def single_active(self) -> Consumer | None:
        """The active one; None if there is no consumer."""
        return self.active

    def is_refused(self, consumer: Consumer) -> bool:
        """Exclusive consumers are refused, even the first."""
        return consumer.exclusive

    def add(self, consumer: Consumer) -> None:
        """It is active if it is the first, else it waits."""
        self.members[consumer.channel, consumer.consumer_tag] = consumer
        consumer.queue = self._queue
        if self.active is None:
            self.active = consumer

    def remove(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """Take one out, if it is there; the active one hands over."""
        consumer = self.members.pop((channel, consumer_tag), None)
        if consumer is not None and consumer is self.active:
            # The first of the highest: max() keeps the order of registration among equals.
            self.active = max(self.members.values(), key=_priority, default=None)
        return consumer

    def clear(self) -> None:
        """Take all out: their queue is no more."""
        super().clear()
        self.active = None

    def changed(self, consumer: Consumer) -> None:
        """Nothing to note: the active one is looked at anew each time."""

    def channel_changed(self, channel: object) -> None:
        """Nothing to note, either."""

    def all_changed(self) -> None:
        """Nor here."""

    def next(self) -> tuple[Consumer, int, int] | None:
        """The active one, if it has room, chosen among itself."""
        active = self.active
        if active is None:
            return None
        room = active.ask_room(self._window_bytes_max)
        return (active, room, 1) if room > 0 else None


def _priority(consumer: Consumer) -> int:
    return consumer.priority
