"""The unacked deliveries of a stream, and the ranges cut of them.

Spark asks for an end offset, processes the range up to it, and shows by the next start that it has
been committed; only then may its deliveries be acked. An offset is a count of messages since the
query's first start, not a place in a queue: messages that come back after a crash get new numbers.

    hold    a delivery came in                    held
    cut     Spark wants the next range            held -> range
    rows    Spark plans or retries the range      the same rows as often as it is asked
    passed  Spark's start is at or behind its end range -> ack up to its last tag, per channel
    close   a channel is gone                     its deliveries come back on another: duplicates

What holds, and is tested with a model of queue and Spark (tests/spark/test_held_ranges.py):
- a delivery is acked only after the range that holds it was passed, and everything acked by a
  `multiple` ack was in such a range: rows are cut of a channel in the order of their tags;
- offsets only grow, also over a restart, where they go on from the start that Spark hands in;
- a range that another process cut is unknown here and has no rows: filling it with other messages
  would lose them in sinks that skip the batch ids they have seen.

No clock, thread or socket; `consumers.py` holds a lock around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

Channel = TypeVar("Channel", bound=Hashable)
Message = TypeVar("Message")


class Held(NamedTuple, Generic[Message]):
    """A delivery that waits for its range."""

    tag: int
    size_bytes: int
    held_bytes: int
    message: Message


@dataclass
class _Channel(Generic[Message]):
    """Where tags are counted, and how many messages may still be cut of it; None: any number."""

    remaining: int | None
    # What its unacked messages take here, those in ranges included.
    held_bytes: int = 0
    held: deque[Held[Message]] = field(default_factory=deque)

    def available(self) -> int:
        count = len(self.held)
        return count if self.remaining is None else min(count, self.remaining)


@dataclass(frozen=True)
class _Range(Generic[Channel, Message]):
    """Messages `start` to `end`, and per channel the last tag and how many are of it."""

    start: int
    end: int
    messages: list[Message]
    last_tags: dict[Channel, int]
    counts: dict[Channel, int]
    held_bytes: dict[Channel, int]


class HeldRanges(Generic[Channel, Message]):
    """The deliveries of one query run."""

    def __init__(self) -> None:
        self._channels: dict[Channel, _Channel[Message]] = {}
        self._ranges: deque[_Range[Channel, Message]] = deque()
        self._end = 0
        # The size of all messages that are not in a range yet.
        self._size_bytes = 0

    def open(self, channel: Channel, remaining: int | None = None) -> None:
        """Take deliveries of this channel, of which `remaining` are to be cut; None: all."""
        assert channel not in self._channels
        self._channels[channel] = _Channel(remaining)

    def hold(
        self, channel: Channel, tag: int, size_bytes: int, message: Message, held_bytes: int = 0
    ) -> None:
        """Keep a delivery until it is cut; tags of one channel come in their order.

        `size_bytes`: what counts for a range; `held_bytes`: what the message takes here.
        """
        where = self._channels[channel]
        where.held.append(Held(tag, size_bytes, held_bytes, message))
        where.held_bytes += held_bytes
        self._size_bytes += size_bytes

    def close(self, channel: Channel) -> tuple[int, int | None]:
        """Forget a channel that is gone; what it held comes back by itself.

        Gives how many of its messages are in ranges that can no longer be acked, which will be
        seen twice, and how many a channel in its place may cut.
        """
        gone = self._channels.pop(channel)
        self._size_bytes -= sum(each.size_bytes for each in gone.held)
        twice = sum(each.counts.get(channel, 0) for each in self._ranges)
        return twice, None if gone.remaining is None else gone.remaining + twice

    def unacked(self, channel: Channel) -> int:
        """How many deliveries of this channel are held or in ranges: its part of the prefetch."""
        held = len(self._channels[channel].held)
        return held + sum(each.counts.get(channel, 0) for each in self._ranges)

    def held_bytes(self, channel: Channel) -> int:
        """The bytes of this channel's unacked deliveries."""
        return self._channels[channel].held_bytes

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The open channels."""
        return tuple(self._channels)

    @property
    def available(self) -> int:
        """How many messages could be cut now."""
        return sum(each.available() for each in self._channels.values())

    @property
    def remaining(self) -> int | None:
        """How many may still be cut of all channels; None: any number."""
        known = [each.remaining for each in self._channels.values() if each.remaining is not None]
        return sum(known) if len(known) == len(self._channels) else None

    def has(self, records: int, size_bytes: int) -> bool:
        """Is there enough for a whole batch of this size?"""
        available = self.available
        return available > 0 and (available >= records or self._size_bytes >= size_bytes)

    def passed(self, start: int) -> dict[Channel, int]:
        """Drop the ranges that end at `start` or before; gives the tag to ack up to per channel."""
        tags: dict[Channel, int] = {}
        while self._ranges and self._ranges[0].end <= start:
            passed = self._ranges.popleft()
            tags.update(passed.last_tags)
            for channel, held_bytes in passed.held_bytes.items():
                if channel in self._channels:
                    self._channels[channel].held_bytes -= held_bytes
        # A channel that is gone cannot ack; its deliveries are the queue's again.
        return {channel: tag for channel, tag in tags.items() if channel in self._channels}

    def cut(self, start: int, records_max: int, size_bytes_max: int) -> int:
        """Make the next range behind `start` and give its end; `start` itself if there is nothing.

        A range holds at least one message, however large. A range that was cut and not passed is
        returned again: Spark decides when it is done with it.
        """
        if self._ranges and self._ranges[-1].end > start:
            return self._ranges[-1].end
        self._end = max(self._end, start)
        taken = self._pop_in_turn(records_max, size_bytes_max)
        if not taken:
            return start
        last_tags: dict[Channel, int] = {}
        counts: dict[Channel, int] = {}
        held_bytes: dict[Channel, int] = {}
        for channel, each in taken:
            last_tags[channel] = each.tag
            counts[channel] = counts.get(channel, 0) + 1
            held_bytes[channel] = held_bytes.get(channel, 0) + each.held_bytes
        # From _end, not from start: no number is given twice.
        end = self._end + len(taken)
        messages = [each.message for _, each in taken]
        self._ranges.append(_Range(self._end, end, messages, last_tags, counts, held_bytes))
        self._end = end
        return end

    def _pop_in_turn(
        self, records_max: int, size_bytes_max: int
    ) -> list[tuple[Channel, Held[Message]]]:
        """Take from every channel in turn, so that none waits for another to be empty."""
        taken: list[tuple[Channel, Held[Message]]] = []
        size_bytes = 0
        turn = deque(name for name, each in self._channels.items() if each.available())
        while turn and len(taken) < records_max:
            name = turn.popleft()
            channel = self._channels[name]
            if taken and size_bytes + channel.held[0].size_bytes > size_bytes_max:
                break
            each = channel.held.popleft()
            if channel.remaining is not None:
                channel.remaining -= 1
            size_bytes += each.size_bytes
            taken.append((name, each))
            if channel.available():
                turn.append(name)
        self._size_bytes -= size_bytes
        return taken

    def rows(self, start: int, end: int) -> tuple[int, list[Message]] | None:
        """Give the number of the first message and the messages; None if the range is not known."""
        self._end = max(self._end, end)
        for each in self._ranges:
            if each.end == end and each.start >= start:
                return each.start, each.messages
        return None
