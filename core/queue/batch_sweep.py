"""Releases reads of which a queue uses little, so that it keeps little more than its messages.

A span keeps its batch, and a batch its whole read, of which the queue's share may be small: the
rest went to other queues, or to other channels, or has been acked. So the queue counts bytes of
wire, not messages: of each read of which it takes a part, and of each part that leaves while
others may stay. When as many have come together as a sweep is worth, everything that it holds is
looked through, and of each read that is used for less than half its messages are copied into
a batch of their own (amqp_frames/messages/copies.py), and the read is let go.

A read of which each of ten queues has a tenth is kept: ten copies would take as much. So the
use of a read is the use by rows of this queue, times the rows everywhere, times the batches of the
read, one for each channel; how many there are is asked of the interpreter. If each queue finds at
least a half to be used in this way, then so it is: of N rows each queue's use W / 2N or more on the
average. A reference that is no row's only delays the copy; so do rows of others that go later: a
queue that is not used meanwhile is not looked at anew.

Messages that came in since the last sweep but three are left alone: most are gone before the next
one, so nothing of a queue that is consumed is copied, or even looked at. What queues keep is at
most: their messages' bytes eight times, `SMALL_BYTES` for each batch, and `interval_bytes` five
times. (Let L be the bytes of the
messages, and K what the last sweep left. Of that a half was in use at least, and less than a
quarter has gone since: K / 2 <= L + K / 4, so K <= 4 L; and no more than K again has come.)

A queue that takes whole reads, and gives them away whole, counts nothing and is never swept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from sys import getrefcount
from typing import Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.messages.copies import excerpt
from .in_flight import Delivery
from .span import Span, held_bytes

# So many bytes are counted between two sweeps, or more.
SWEEP_INTERVAL_BYTES: Final = 1 << 20
# A read of so many bytes, or as much of one, is not worth a copy.
SMALL_BYTES: Final = 4096
# A read is let go if the queue uses less than one part in so many of it.
USED_PART: Final = 2
# A sweep is worth its time when one part in so many of what the last one left is gone.
GONE_PART: Final = 4
# Sweeps that a message outlives before it is old.
YOUNG_SWEEPS: Final = 4
# One for all queues: most are never swept.
_NO_SWEEPS: Final = (0,) * YOUNG_SWEEPS
# To look at a row of messages costs as much as to take in so many bytes, or less.
ROW_BYTES: Final = 1024

# A span, and which of its positions the queue still has.
_Held = tuple[Span, Sequence[tuple[int, int]]]


class BatchSweep:
    """Counts for one queue, and sweeps it: at least `interval_bytes` are counted in between.

    No sweep is due before `arrived_bytes` and `departed_bytes` together exceed that. Messages of a
    read of up to `small_bytes` need not be counted.
    """

    __slots__ = (
        "_kept_bytes",
        "_next_entry_ids",
        "_row_count",
        "_used_part",
        "arrived_bytes",
        "departed_bytes",
        "freed_bytes",
        "interval_bytes",
        "small_bytes",
    )

    def __init__(
        self,
        interval_bytes: int = SWEEP_INTERVAL_BYTES,
        small_bytes: int = SMALL_BYTES,
        used_part: int = USED_PART,
    ) -> None:
        self.interval_bytes = interval_bytes
        self.small_bytes = small_bytes
        self._used_part = used_part
        self.arrived_bytes = 0
        self.departed_bytes = 0
        # By how much less memory the messages hold since the last sweep, as `held_bytes` counts.
        self.freed_bytes = 0
        # Of the last sweep: how many rows there were, and what it left of the reads it looked at.
        self._row_count = 0
        self._kept_bytes = 0
        # What the next entry was at each of the last sweeps: those below the first are old.
        self._next_entry_ids = _NO_SWEEPS

    def count_arrival(self, batch: Batch, count: int) -> None:
        """The queue has taken that many messages of the batch."""
        if self._may_waste(batch, count):
            self.arrived_bytes += len(batch.wire)

    def count_departure(self, span: Span, low: int, high: int) -> None:
        """The messages at positions low to high - 1 have left the queue."""
        batch = span.batch
        if high - low != len(batch.starts) and len(batch.wire) > self.small_bytes:
            # No less than they take up.
            indexes = span.indexes
            self.departed_bytes += batch.ends[indexes[high - 1]] - batch.starts[indexes[low]]

    def is_due(self, message_count: int) -> bool:
        """Has enough been counted for a sweep of a queue with so many messages?

        As much as it will cost: so sweeps cost no more than to take in what they look through.
        """
        rows_bytes = ROW_BYTES * min(self._row_count, message_count)
        if self.arrived_bytes + self.departed_bytes <= rows_bytes:
            return False
        counted_bytes = self.arrived_bytes + GONE_PART * self.departed_bytes
        return counted_bytes > self._kept_bytes + rows_bytes

    def run(self, rows: Iterable[Span], deliveries: Iterable[Delivery], next_entry_id: int) -> None:
        """Look through all rows of the queue, and through its deliveries in flight."""
        row_count = self.freed_bytes = 0
        old_below = self._next_entry_ids[0]
        shares: dict[Batch, list[_Held]] = {}
        for span in rows:
            row_count += 1
            if span.first_entry_id < old_below:
                count = len(span.indexes)
                if self._may_waste(span.batch, count):
                    shares.setdefault(span.batch, []).append((span, ((0, count),)))
        for delivery in deliveries:
            row_count += 1
            span, remaining = delivery.span, delivery.remaining
            if span.first_entry_id < old_below:
                count = sum(high - low for low, high in remaining)
                if self._may_waste(span.batch, count):
                    shares.setdefault(span.batch, []).append((span, remaining))
        self._kept_bytes = sum(self._release_read(batch, held) for batch, held in shares.items())
        self._row_count = row_count
        self._next_entry_ids = (*self._next_entry_ids[1:], next_entry_id)
        self.arrived_bytes = self.departed_bytes = 0

    def run_over_all(
        self, rows: Iterable[Span], deliveries: Iterable[Delivery], next_entry_id: int
    ) -> None:
        """As `run`, and nothing is too new: for what the journal gave back."""
        self._next_entry_ids = (next_entry_id, *self._next_entry_ids[1:])
        self.run(rows, deliveries, next_entry_id)

    def _may_waste(self, batch: Batch, count: int) -> bool:
        """Can it be that so many messages of the batch use little of its read? Most cannot."""
        return len(batch.wire) > self.small_bytes and (
            count != len(batch.starts) or self._is_wasteful(batch, batch.wire_bytes)
        )

    def _is_wasteful(self, batch: Batch, used_bytes: int) -> bool:
        return used_bytes * self._used_part + self.small_bytes < len(batch.wire)

    def _release_read(self, batch: Batch, held: Sequence[_Held]) -> int:
        """Copy the used messages of the batch, if they are few; how many bytes are kept then?"""
        used_bytes = sum(_used_bytes(span, parts) for span, parts in held)
        row_count = len(held) + self._count_others(batch, len(held))
        # Each channel that the read was of has a batch of its own.
        batch_count = max(1, getrefcount(batch.wire) - 1)
        if not self._is_wasteful(batch, used_bytes * row_count * batch_count // len(held)):
            return len(batch.wire)
        rows = (span.indexes[low:high] for span, parts in held for low, high in parts)
        chosen = _numbers(sorted(set(chain.from_iterable(rows))))
        made = excerpt(batch, chosen)
        place_of = {index: place for place, index in enumerate(chosen)}
        for span, parts in held:
            count = sum(high - low for low, high in parts)
            self.freed_bytes += held_bytes(batch, count) - held_bytes(made, count)
            span.indexes = _renumbered(span.indexes, parts, place_of)
            span.batch = made
        return used_bytes

    def _count_others(self, batch: Batch, own_count: int) -> int:
        """How many rows of other queues hold the batch, too; little else does for long."""
        return max(0, getrefcount(batch) - own_count - _OWN_REFERENCES)


def _own_references() -> int:
    """References to a batch that come from looking at it: the dictionary's and the callers'.

    How many they are is the interpreter's affair, so it is asked of an object that nobody else has.
    """
    counts: list[int] = []

    def count_others(batch: object) -> None:
        counts.append(getrefcount(batch))

    def release_read(batch: object, _held: object) -> int:
        count_others(batch)
        return 0

    # As `run` does it.
    shares: dict[object, object] = {object(): ()}
    sum(release_read(batch, held) for batch, held in shares.items())
    return counts[0]


_OWN_REFERENCES: Final = _own_references()


def _used_bytes(span: Span, parts: Sequence[tuple[int, int]]) -> int:
    """The bytes of these positions; for a whole row they are kept, because most rows stay whole."""
    batch, indexes = span.batch, span.indexes
    if parts[0] != (0, len(indexes)):
        return sum(_bytes_of(batch, indexes[low:high]) for low, high in parts)
    if span.bytes_known < 0:
        span.bytes_known = _bytes_of(batch, indexes)
    return span.bytes_known


def _bytes_of(batch: Batch, indexes: Indexes) -> int:
    starts, ends = batch.starts, batch.ends
    first: int = indexes[0]
    last: int = indexes[-1]
    if first == last or (batch.contiguous and last - first == len(indexes) - 1):
        return ends[last] - starts[first]
    chosen: Callable[[Sequence[int]], Sequence[int]] = itemgetter(*indexes)
    return sum(chosen(ends)) - sum(chosen(starts))


def _renumbered(
    indexes: Indexes, parts: Sequence[tuple[int, int]], place_of: dict[int, int]
) -> Indexes:
    """The new numbers at the same positions; any other's where the queue has no message now."""
    first = parts[0][0]
    end = parts[-1][1]
    places = [place_of.get(index, 0) for index in indexes[first:end]]
    start = places[0] - first
    are_others = 0 <= start <= len(place_of) - len(indexes)
    if places[-1] - places[0] == len(places) - 1 and len(parts) == 1 and are_others:
        # Positions in front of it and behind it are there, too: parts are named by position.
        return range(start, start + len(indexes))
    return (
        array("I", bytes(4 * first))
        + array("I", places)
        + array("I", bytes(4 * (len(indexes) - end)))
    )


def _numbers(ascending: list[int]) -> Indexes:
    first, last = ascending[0], ascending[-1]
    if last - first == len(ascending) - 1:
        return range(first, last + 1)
    return array("I", ascending)
