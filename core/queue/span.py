"""A row of messages in a queue: indexes into one batch, with consecutive entry ids.

A row is resident or paged. The batch of a resident row has its bytes. A paged row has none: they
are in the journal or in the spill, which find them by the queue and the entry ids, and the queue
asks for them when it needs them (`paging.py`). A paged row keeps what the queue's parts must know
of messages without reading them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from ...amqp_frames.messages.batch import Batch, Indexes

# The batch of every paged row: of no message and no bytes.
PAGED: Final = Batch(b"", -1)

# Where rows are paged from the newest on: behind so many that are paged, all others are.
PAGED_ROWS_SEEN_MAX: Final = 64

# What a batch and its row take up in memory besides its bytes, about.
ROW_BYTES: Final = 1024

# First and last entry id, both inclusive.
EntryRange = tuple[int, int]


class Span:
    """Messages of one batch that a queue holds, all delivered equally often so far.

    The message at position p of `indexes` has the entry id `first_entry_id + p`. `attempts` counts
    deliveries so far; any makes the next one `redelivered`. `stored`: the journal knows some of
    them, so settling them must be journalled.
    """

    __slots__ = ("attempts", "batch", "bytes_known", "first_entry_id", "indexes", "stored")

    def __init__(
        self, batch: Batch, indexes: Indexes, first_entry_id: int, attempts: int, stored: bool
    ) -> None:
        self.batch = batch
        self.indexes = indexes
        self.first_entry_id = first_entry_id
        self.attempts = attempts
        self.stored = stored
        # What the messages take up, when it has been asked for (batch_sweep.py).
        self.bytes_known = -1

    def __len__(self) -> int:
        return len(self.indexes)

    def part(self, low: int, high: int) -> Span:
        """The messages at positions low to high - 1."""
        return Span(
            self.batch,
            self.indexes[low:high],
            self.first_entry_id + low,
            self.attempts,
            self.stored,
        )

    def cut(self, count: int) -> Span:
        """Remove the first `count` messages, fewer than there are, and give them as a row.

        For a resident row that nobody else refers to.
        """
        span = self.part(0, count)
        self.indexes = self.indexes[count:]
        self.first_entry_id += count
        self.bytes_known = -1
        return span

    @property
    def is_paged(self) -> bool:
        """Are its bytes on the disk only?"""
        return self.batch is PAGED

    @property
    def held_bytes(self) -> int:
        """About how much memory its messages hold; of the parts of a row it is the sum."""
        return held_bytes(self.batch, len(self.indexes))

    def wire_bytes(self) -> int:
        """About how many bytes of wire the messages take up: exact when they are neighbours."""
        batch = self.batch
        count, whole = len(self.indexes), len(batch.starts)
        return batch.wire_bytes if count == whole else batch.wire_bytes * count // whole


class RefusedSpan(Span):
    """Messages that a queue did not take, on their way to its dead-letter exchange: no entries."""

    __slots__ = ()

    def __init__(self, batch: Batch, indexes: Indexes) -> None:
        super().__init__(batch, indexes, 0, 0, stored=False)

    def part(self, low: int, high: int) -> Span:
        """As of any row, but for the entry ids."""
        return RefusedSpan(self.batch, self.indexes[low:high])


class ExpiringSpan(Span):
    """A row whose messages all expire at `deadline_ms`, in milliseconds since the epoch."""

    __slots__ = ("deadline_ms",)

    def __init__(
        self,
        batch: Batch,
        indexes: Indexes,
        first_entry_id: int,
        attempts: int,
        stored: bool,
        deadline_ms: int,
    ) -> None:
        super().__init__(batch, indexes, first_entry_id, attempts, stored)
        self.deadline_ms = deadline_ms

    def part(self, low: int, high: int) -> Span:
        """As of any row; requeued messages keep their deadline."""
        return ExpiringSpan(
            self.batch,
            self.indexes[low:high],
            self.first_entry_id + low,
            self.attempts,
            self.stored,
            self.deadline_ms,
        )


class PagedSpan(ExpiringSpan):
    """A paged row; `deadline_ms` is 0 if its messages do not expire.

    All have this priority. `sizes` are those of the bodies in bytes; None if nobody asks for them.
    `is_spilled`: the spill has the bytes, not the journal.
    """

    __slots__ = ("is_spilled", "priority", "sizes")

    def __init__(
        self,
        first_entry_id: int,
        count: int,
        attempts: int,
        stored: bool,
        deadline_ms: int = 0,
        is_spilled: bool = False,
        priority: int = 0,
        sizes: array[int] | None = None,
    ) -> None:
        super().__init__(PAGED, range(count), first_entry_id, attempts, stored, deadline_ms)
        self.is_spilled = is_spilled
        self.priority = priority
        self.sizes = sizes

    def part(self, low: int, high: int) -> PagedSpan:
        """As of any row."""
        return PagedSpan(
            self.first_entry_id + low,
            high - low,
            self.attempts,
            self.stored,
            self.deadline_ms,
            self.is_spilled,
            self.priority,
            None if self.sizes is None else self.sizes[low:high],
        )

    def wire_bytes(self) -> int:
        """Nothing in memory."""
        return 0

    def is_continued_by(self, span: PagedSpan) -> bool:
        """Does the row differ from this in nothing but its entry ids, which are the next ones?"""
        return (
            span.first_entry_id == self.first_entry_id + len(self.indexes)
            and span.attempts == self.attempts
            and span.stored == self.stored
            and span.deadline_ms == self.deadline_ms
            and span.is_spilled == self.is_spilled
            and span.priority == self.priority
            and (span.sizes is None) == (self.sizes is None)
        )


def joined_rows(rows: Sequence[PagedSpan]) -> PagedSpan:
    """Rows of which each is continued by the next, as one."""
    first = rows[0]
    sizes = None
    if first.sizes is not None:
        sizes = array("I")
        for row in rows:
            sizes.extend(row.sizes or ())
    return PagedSpan(
        first.first_entry_id,
        sum(map(len, rows)),
        first.attempts,
        first.stored,
        first.deadline_ms,
        first.is_spilled,
        first.priority,
        sizes,
    )


def held_bytes(batch: Batch, count: int) -> int:
    """About how much memory so many messages of the batch hold: each as much as the others.

    A batch of one is mostly its objects.
    """
    whole = len(batch.starts)
    return (batch.wire_bytes + ROW_BYTES) // whole * count if whole else 0


def positions_in(
    span: Span, low: int, high: int, ranges: Sequence[EntryRange]
) -> Iterator[tuple[int, int, bool]]:
    """Divide the positions low to high - 1 of a row by whether their ids lie in the ranges.

    The ranges ascend. Gives first position, end, and whether these lie in one; all in order.
    """
    first_id = span.first_entry_id
    at = low
    # Rows may be many, and so may ranges: only those that may lie within are looked at.
    for place in range(bisect_left(ranges, first_id + low, key=itemgetter(1)), len(ranges)):
        first, last = ranges[place]
        if first >= first_id + high:
            break
        start = min(max(first - first_id, at), high)
        end = min(max(last + 1 - first_id, at), high)
        if at < start:
            yield at, start, False
        if start < end:
            yield start, end, True
        at = end
    if at < high:
        yield at, high, False


def ranges_of(entry_ids: Sequence[int]) -> list[EntryRange]:
    """Entry ids, in any order, as ascending ranges."""
    if isinstance(entry_ids, range):
        return [(entry_ids[0], entry_ids[-1])] if entry_ids else []
    ranges: list[EntryRange] = []
    for entry_id in sorted(entry_ids):
        if ranges and ranges[-1][1] == entry_id - 1:
            ranges[-1] = ranges[-1][0], entry_id
        else:
            ranges.append((entry_id, entry_id))
    return ranges
