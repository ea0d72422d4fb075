"""Who may receive from a queue, how much, and who is next.

Credit is AMQP's prefetch: per consumer, and per channel when basic.qos was global. Of the
consumers with credit those of the highest priority go first; of these the least busy, and of those
equally busy the one that was served longest ago. A consumer whose connection does not drain what
it was sent gets nothing more until it has (`window_bytes`), whatever its credit and priority, and
there is a window of the whole connection, too (outlet.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from .outlet import Outlet, OutletShare

UNLIMITED = 1 << 62


class ChannelCredit:
    """The global prefetch of one channel, shared by its consumers on every queue.

    The queues that deliver count up, the channel that settles counts down; all run on one thread.
    `outlet` is the channel's part of what its connection may be handed.
    """

    __slots__ = ("in_use", "limit", "outlet")

    def __init__(self, outlet: OutletShare | None = None) -> None:
        self.outlet = Outlet(UNLIMITED).share() if outlet is None else outlet
        self.limit = 0
        self.in_use = 0

    def room(self) -> int:
        """How many more messages the channel may hold; 0 as the limit means no limit."""
        return self.limit - self.in_use if self.limit else UNLIMITED


# How busy, when served last, and a number that no other place has; then whose place it is.
Place = tuple[int, int, int, "Consumer"]


class Consumer:
    """One basic.consume: its channel, its credit and how busy it is.

    `prefetch` 0 means no limit. `priority` is its `x-priority`: above others, before others.
    `window_bytes` have been handed to its channel and not yet been taken by the socket.
    """

    __slots__ = (
        "channel",
        "channel_credit",
        "consumer_tag",
        "exclusive",
        "in_flight",
        "line",
        "no_ack",
        "place",
        "prefetch",
        "priority",
        "turn",
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
    ) -> None:
        self.channel = channel
        self.consumer_tag = consumer_tag
        self.prefetch = prefetch
        self.channel_credit = channel_credit
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.in_flight = 0
        self.window_bytes = 0
        # When it was served last.
        self.turn = 0
        # The line of the queue that it belongs to, and its place there; None while it has no room.
        self.line: Line | None = None
        self.place: Place | None = None

    def room(self) -> int:
        """How many messages it may receive now; credit does not count without acks."""
        if self.no_ack:
            return UNLIMITED
        own = self.prefetch - self.in_flight if self.prefetch else UNLIMITED
        return min(own, self.channel_credit.room())


class Line:
    """Consumers of one priority that may have room, in a heap.

    Who gets busier is moved when its turn comes; who gets less busy takes a new place and leaves
    the old one to be passed over; who has no room leaves the line until something has changed.
    """

    __slots__ = (
        "_heap",
        "_places",
        "_queue",
        "_window_bytes_max",
        "member_count",
        "priority",
        "standing_count",
    )

    def __init__(self, priority: int, window_bytes_max: int, queue: object) -> None:
        self.priority = priority
        self._window_bytes_max = window_bytes_max
        self._queue = queue
        # How many belong to it, standing or not.
        self.member_count = 0
        self.standing_count = 0
        self._heap: list[Place] = []
        # Counts the places given out.
        self._places = 0

    def next(self) -> tuple[Consumer, int, int] | None:
        """Who is next, how many messages it has room for, and among how many it was chosen."""
        heap = self._heap
        while heap:
            place = heap[0]
            in_flight, turn, _, consumer = place
            if place is not consumer.place:
                heappop(heap)
                continue
            room = consumer.room() if consumer.window_bytes < self._window_bytes_max else 0
            if room <= 0 or consumer.channel_credit.outlet.outlet.is_closed(self._queue):
                heappop(heap)
                self.leave(consumer)
            elif (in_flight, turn) != (consumer.in_flight, consumer.turn):
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


class Consumers:
    """The consumers of one queue, in a line for each priority among them."""

    __slots__ = ("_by_channel", "_by_key", "_lines", "_queue", "_turn", "_window_bytes_max")

    def __init__(self, window_bytes_max: int, queue: object = None) -> None:
        """`queue` stands for their queue where it must wait for a connection's outlet."""
        self._queue = queue
        self._by_key: dict[tuple[object, bytes], Consumer] = {}
        # Those that stand in lines.
        self._by_channel: dict[object, dict[Consumer, None]] = {}
        # The highest priority first; as a rule there is one line.
        self._lines: list[Line] = []
        # Counts the times that one was served.
        self._turn = 0
        self._window_bytes_max = window_bytes_max

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, consumer: Consumer) -> None:
        """Let it take part."""
        self._by_key[consumer.channel, consumer.consumer_tag] = consumer
        self._by_channel.setdefault(consumer.channel, {})[consumer] = None
        line = consumer.line = self._line_of(consumer.priority)
        line.member_count += 1
        line.stand(consumer)

    def _line_of(self, priority: int) -> Line:
        lines = self._lines
        at = bisect_left(lines, -priority, key=_highest_first)
        if at == len(lines) or lines[at].priority != priority:
            lines.insert(at, Line(priority, self._window_bytes_max, self._queue))
        return lines[at]

    def remove(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """Take one out, if it is there."""
        consumer = self._by_key.pop((channel, consumer_tag), None)
        if consumer is not None:
            own = self._by_channel[channel]
            del own[consumer]
            if not own:
                del self._by_channel[channel]
            line = consumer.line
            assert line is not None
            line.leave(consumer)
            line.member_count -= 1
            if not line.member_count:
                # Stale places must not keep channels that have gone.
                self._lines.remove(line)
        return consumer

    def remove_channel(self, channel: object) -> list[Consumer]:
        """Take all of a channel's out."""
        gone = [consumer for consumer in self._by_key.values() if consumer.channel is channel]
        for consumer in gone:
            self.remove(channel, consumer.consumer_tag)
        return gone

    def get(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """The consumer of that channel and tag."""
        return self._by_key.get((channel, consumer_tag))

    def all(self) -> list[Consumer]:
        """Every consumer, oldest first."""
        return list(self._by_key.values())

    def is_refused(self, consumer: Consumer) -> bool:
        """Is the queue in exclusive use: by one that is there, or by others than the new one?"""
        others = self._by_key.values()
        return bool(others) and (consumer.exclusive or any(each.exclusive for each in others))

    def changed(self, consumer: Consumer) -> None:
        """It has got less busy, or may have room again."""
        if len(self._lines) > 1 and consumer.channel_credit.limit:
            # The room is its whole channel's, and one of a higher priority goes before it.
            self.channel_changed(consumer.channel)
        place = consumer.place
        if place is not None and place[0] <= consumer.in_flight:
            # Not behind its due, and if before it, that is found when its turn comes.
            return
        if self._by_key.get((consumer.channel, consumer.consumer_tag)) is consumer:
            line = consumer.line
            assert line is not None
            line.stand(consumer)

    def channel_changed(self, channel: object) -> None:
        """Any of the channel's may have room again: its credit is no single consumer's.

        Only these: a thousand others, each with its channel's credit used up, would all be asked.
        """
        self._stand_again(self._by_channel.get(channel, ()))

    def all_changed(self) -> None:
        """Any may have room again."""
        self._stand_again(self._by_key.values())

    def _stand_again(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            if consumer.place is None:
                line = consumer.line
                assert line is not None
                line.stand(consumer)

    def next(self) -> tuple[Consumer, int, int] | None:
        """Who is next, how many messages it has room for, and among how many it was chosen.

        Those of a lower priority wait until nobody above them has room.
        """
        for line in self._lines:
            choice = line.next()
            if choice is not None:
                self._turn += 1
                choice[0].turn = self._turn
                return choice
        return None


def _highest_first(line: Line) -> int:
    return -line.priority
