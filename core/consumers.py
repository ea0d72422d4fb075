"""Who may receive from a queue, how much, and who is next.

Credit is AMQP's prefetch: per consumer, and per channel when basic.qos was global. Of the
consumers with credit the least busy goes first, and of those equally busy the one that was served
longest ago. A consumer whose connection does not drain what it was sent gets nothing more until
it has (`window_bytes`), whatever its credit.
"""

from __future__ import annotations

UNLIMITED = 1 << 62


class ChannelCredit:
    """The global prefetch of one channel, shared by its consumers on every queue.

    The queues that deliver count up, the channel that settles counts down; all run on one thread.
    """

    __slots__ = ("in_use", "limit")

    def __init__(self) -> None:
        self.limit = 0
        self.in_use = 0

    def room(self) -> int:
        """How many more messages the channel may hold; 0 as the limit means no limit."""
        return self.limit - self.in_use if self.limit else UNLIMITED


class Consumer:
    """One basic.consume: its channel, its credit and how busy it is.

    `prefetch` 0 means no limit. `window_bytes` have been handed to its channel and not yet been
    taken by the socket.
    """

    __slots__ = (
        "channel",
        "channel_credit",
        "consumer_tag",
        "exclusive",
        "in_flight",
        "no_ack",
        "prefetch",
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
    ) -> None:
        self.channel = channel
        self.consumer_tag = consumer_tag
        self.prefetch = prefetch
        self.channel_credit = channel_credit
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.in_flight = 0
        self.window_bytes = 0
        self.turn = 0

    def room(self) -> int:
        """How many messages it may receive now; credit does not count without acks."""
        if self.no_ack:
            return UNLIMITED
        own = self.prefetch - self.in_flight if self.prefetch else UNLIMITED
        return min(own, self.channel_credit.room())


class Consumers:
    """The consumers of one queue."""

    __slots__ = ("_by_key", "_turn", "window_bytes_max")

    def __init__(self, window_bytes_max: int) -> None:
        self._by_key: dict[tuple[object, bytes], Consumer] = {}
        self._turn = 0
        self.window_bytes_max = window_bytes_max

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, consumer: Consumer) -> None:
        """Let it take part."""
        self._by_key[consumer.channel, consumer.consumer_tag] = consumer

    def remove(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """Take one out, if it is there."""
        return self._by_key.pop((channel, consumer_tag), None)

    def remove_channel(self, channel: object) -> list[Consumer]:
        """Take all of a channel's out."""
        gone = [consumer for consumer in self._by_key.values() if consumer.channel is channel]
        for consumer in gone:
            del self._by_key[consumer.channel, consumer.consumer_tag]
        return gone

    def get(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """The consumer of that channel and tag."""
        return self._by_key.get((channel, consumer_tag))

    def all(self) -> list[Consumer]:
        """Every consumer, oldest first."""
        return list(self._by_key.values())

    def has_exclusive(self) -> bool:
        """Does one of them claim the queue for itself?"""
        return any(consumer.exclusive for consumer in self._by_key.values())

    def next(self) -> tuple[Consumer, int, int] | None:
        """Who is next, how many messages it has room for, and among how many it was chosen."""
        best: Consumer | None = None
        best_room = eligible = 0
        for consumer in self._by_key.values():
            if consumer.window_bytes >= self.window_bytes_max:
                continue
            room = consumer.room()
            if room <= 0:
                continue
            eligible += 1
            if best is None or (consumer.in_flight, consumer.turn) < (best.in_flight, best.turn):
                best, best_room = consumer, room
        if best is None:
            return None
        self._turn += 1
        best.turn = self._turn
        return best, best_room, eligible
