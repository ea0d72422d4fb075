"""Ready messages whose bytes are on the disk only, in as few bytes as possible.

`PagedRows` has rows in packed columns: neighbours that differ in nothing but their entry ids are
one run, so a queue that was filled in order costs one run at any length. There is a column for
attempts, deadlines or sizes only once a row has needed it.

`Backlog` is the middle and the end of a queue: paged rows, and behind them the new rows that are
still resident. The rows at the head of the queue are resident, in `ready.py`: they are read ahead
of delivery.

A row is paged when its bytes are on the disk already: those of a persistent message that the
journal has synced, or of any message that was written to the spill. Rows are paged in the order of
the queue, so a row that is not on the disk yet keeps those behind it resident.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ...amqp_frames.messages.batch import Batch, Indexes
from .expiry import deadline_of
from .span import EntryRange, ExpiringSpan, PagedSpan, Span, positions_in

# Flags of a run.
_STORED: Final = 1
_SPILLED: Final = 2
# Sizes are kept, and nobody knows those of this run.
_UNSIZED: Final = 4
_UNSIZED_FLAGS: Final = tuple(_UNSIZED | others for others in range(4))
_TO_UNSIZED: Final = bytes(flags | _UNSIZED for flags in range(256))
_TO_SIZED: Final = bytes(flags & ~_UNSIZED for flags in range(256))
# A run's count is a 32-bit number.
_RUN_COUNT_MAX: Final = 1 << 31
# Runs in front of the first that are worth to be let go.
_GONE_RUNS_MIN: Final = 1024
# The same of sizes.
_GONE_SIZES_MIN: Final = 16_384
# Sizes are copied, and a run may be long.
_HEAD_SIZES_MAX: Final = 256
# Transient messages of one queue that go to the spill together.
SPILLED_BYTES_MAX: Final = 4 * 1024 * 1024


class OnDisk(Enum):
    """Where the bytes of a resident row are besides."""

    JOURNAL = "journal"
    SPILL = "spill"
    # The journal has not answered yet.
    UNSYNCED = "unsynced"
    # In memory only.
    NOWHERE = "nowhere"


class ReadRow(Protocol):
    """Messages that were read; their entry ids are consecutive."""

    @property
    def batch(self) -> Batch:
        """The batch that has them."""

    @property
    def indexes(self) -> Indexes:
        """Their numbers in the batch."""

    @property
    def first_entry_id(self) -> int:
        """The entry id of the first."""


class Wanted(NamedTuple):
    """Entries to be read, which ascend; from the spill or from the journal."""

    ranges: list[EntryRange]
    is_spilled: bool
    # They have left for the dead-letter exchange.
    is_dying: bool = False
    # Only the sizes of their bodies are wanted.
    is_sizing: bool = False

    def read_through(self, entry_id: int) -> list[EntryRange]:
        """The ranges that are read when all up to this id have been."""
        return [(first, min(last, entry_id)) for first, last in self.ranges if first <= entry_id]


class PagedRows:
    """Paged rows of one priority that ascend by entry id; they leave in this order.

    `keeps_sizes`: sizes of bodies are kept, at 4 bytes a message.
    """

    __slots__ = (
        "_at",
        "_attempts",
        "_counts",
        "_deadlines",
        "_firsts",
        "_flags",
        "_priority",
        "_sizes",
        "_sizes_at",
        "message_count",
    )

    def __init__(self, priority: int = 0, keeps_sizes: bool = False) -> None:
        self._priority = priority
        # The first run that is here.
        self._at = 0
        self._firsts = array("Q")
        self._counts = array("I")
        self._flags = bytearray()
        self._attempts: array[int] | None = None
        self._deadlines: array[int] | None = None
        self._sizes = array("I") if keeps_sizes else None
        self._sizes_at = 0
        self.message_count = 0

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._firsts) - self._at

    def append(self, span: PagedSpan) -> None:
        """Add a row above all others."""
        first, count = span.first_entry_id, len(span.indexes)
        flags = _STORED * span.stored | _SPILLED * span.is_spilled
        attempts, deadline = span.attempts, span.deadline_ms
        self.message_count += count
        if self._sizes is not None:
            if span.sizes is None:
                flags |= _UNSIZED
                self._sizes.frombytes(bytes(count * self._sizes.itemsize))
            else:
                self._sizes.extend(span.sizes)
        last = len(self._firsts) - 1
        if (
            last >= self._at
            and self._firsts[last] + self._counts[last] == first
            and self._flags[last] == flags
            and (0 if self._attempts is None else self._attempts[last]) == attempts
            and (0 if self._deadlines is None else self._deadlines[last]) == deadline
            and self._counts[last] + count < _RUN_COUNT_MAX
        ):
            self._counts[last] += count
            return
        self._firsts.append(first)
        self._counts.append(count)
        self._flags.append(flags)
        self._attempts = _with(self._attempts, last + 1, attempts, "I")
        self._deadlines = _with(self._deadlines, last + 1, deadline, "Q")

    def _span(self, run: int, sizes_at: int, count_max: int = _RUN_COUNT_MAX) -> PagedSpan:
        flags, count = self._flags[run], min(self._counts[run], count_max)
        sizes = self._sizes
        return PagedSpan(
            self._firsts[run],
            count,
            0 if self._attempts is None else self._attempts[run],
            bool(flags & _STORED),
            0 if self._deadlines is None else self._deadlines[run],
            bool(flags & _SPILLED),
            self._priority,
            None if sizes is None or flags & _UNSIZED else sizes[sizes_at : sizes_at + count],
        )

    def head(self) -> PagedSpan:
        """The first row, not removed; there is one. Its first messages, if sizes are kept."""
        count_max = _RUN_COUNT_MAX if self._sizes is None else _HEAD_SIZES_MAX
        return self._span(self._at, self._sizes_at, count_max)

    @property
    def first_entry_id(self) -> int:
        """The entry id of the first message; there is one."""
        return self._firsts[self._at]

    def dequeue(self, count: int) -> PagedSpan:
        """Remove up to `count` messages (at least 1) that lie together at the front."""
        run = self._at
        span = self._span(run, self._sizes_at, count)
        if self._counts[run] > count:
            self._firsts[run] += count
            self._counts[run] -= count
        else:
            count = len(span)
            self._at += 1
        self.message_count -= count
        if self._sizes is not None:
            self._sizes_at += count
            if self._sizes_at > _GONE_SIZES_MIN and 2 * self._sizes_at > len(self._sizes):
                # Of a run that grows while its front leaves, too.
                del self._sizes[: self._sizes_at]
                self._sizes_at = 0
        if self._at > _GONE_RUNS_MIN and 2 * self._at > len(self._firsts):
            self._forget_gone()
        return span

    def _forget_gone(self) -> None:
        at = self._at
        del self._firsts[:at], self._counts[:at], self._flags[:at]
        if self._attempts is not None:
            del self._attempts[:at]
        if self._deadlines is not None:
            del self._deadlines[:at]
        self._at = 0

    def front(self, count_max: int) -> tuple[list[EntryRange], bool]:
        """Entries at the front, up to so many, that lie in the same place; there is one.

        Gives their ranges, and whether the spill has them.
        """
        ranges: list[EntryRange] = []
        is_spilled = self._flags[self._at] & _SPILLED
        for run in range(self._at, len(self._firsts)):
            if count_max <= 0 or self._flags[run] & _SPILLED != is_spilled:
                break
            first, count = self._firsts[run], min(self._counts[run], count_max)
            count_max -= count
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = ranges[-1][0], first + count - 1
            else:
                ranges.append((first, first + count - 1))
        return ranges, bool(is_spilled)

    def withdraw(self, ranges: Sequence[EntryRange], withdrawn: list[Span]) -> None:
        """Remove those of these entries, which ascend, that are here."""
        if not self.message_count or ranges[-1][1] < self.first_entry_id:
            return
        rows = list(self)
        kept = PagedRows(self._priority, self._sizes is not None)
        for span in rows:
            for low, high, is_within in positions_in(span, 0, len(span), ranges):
                if is_within:
                    withdrawn.append(span.part(low, high))
                else:
                    kept.append(span.part(low, high))
        for name in PagedRows.__slots__:
            setattr(self, name, getattr(kept, name))

    # --- Sizes

    def keep_sizes(self) -> None:
        """Keep the sizes of bodies from now on: those of rows that are here are not known."""
        if self._sizes is None:
            self._sizes = array("I", bytes(4 * self.message_count))
            self._sizes_at = 0
            self._flags = self._flags.translate(_TO_UNSIZED)

    def forget_sizes(self) -> None:
        """Keep no sizes any more."""
        self._sizes = None
        self._sizes_at = 0
        self._flags = self._flags.translate(_TO_SIZED)

    def unsized(self, count_max: int) -> Iterator[PagedSpan]:
        """The first rows without sizes that lie behind each other, up to so many messages, about.

        None if sizes are not kept.
        """
        found = [self._flags.find(flags, self._at) for flags in _UNSIZED_FLAGS]
        run = min((each for each in found if each >= 0), default=len(self._flags))
        while run < len(self._flags) and self._flags[run] & _UNSIZED and count_max > 0:
            yield self._span(run, 0)
            count_max -= self._counts[run]
            run += 1

    def set_sizes(
        self,
        first_entry_id: int,
        last_entry_id: int,
        parts_of: Callable[[PagedSpan], list[PagedSpan]],
    ) -> list[PagedSpan]:
        """Replace unsized rows with entries from the first id to the last by their parts.

        Returns the parts that have sizes.
        """
        if self._sizes is None or not self.message_count:
            return []
        low = max(bisect_right(self._firsts, first_entry_id, lo=self._at) - 1, self._at)
        high = bisect_right(self._firsts, last_entry_id, lo=low)
        sizes_at = self._sizes_at + sum(self._counts[self._at : low])
        here = PagedRows(self._priority, keeps_sizes=True)
        assert here._sizes is not None
        sized: list[PagedSpan] = []
        at = sizes_at
        for run in range(low, high):
            span = self._span(run, at)
            at += self._counts[run]
            parts = parts_of(span) if span.sizes is None else [span]
            for part in parts:
                here.append(part)
            if span.sizes is None:
                sized += [part for part in parts if part.sizes is not None]
        runs = len(here._firsts)
        self._firsts[low:high] = here._firsts
        self._counts[low:high] = here._counts
        self._flags[low:high] = here._flags
        self._sizes[sizes_at:at] = here._sizes
        if self._attempts is not None:
            self._attempts[low:high] = here._attempts or array("I", bytes(4 * runs))
        if self._deadlines is not None:
            self._deadlines[low:high] = here._deadlines or array("Q", bytes(8 * runs))
        return sized

    def __iter__(self) -> Iterator[PagedSpan]:
        sizes_at = self._sizes_at
        for run in range(self._at, len(self._firsts)):
            yield self._span(run, sizes_at)
            sizes_at += self._counts[run]


def _with(column: array[int] | None, runs: int, value: int, typecode: str) -> array[int] | None:
    """The column with one more value; it comes to be with the first that is not 0."""
    if column is None:
        if not value:
            return None
        column = array(typecode, bytes(array(typecode).itemsize * runs))
    column.append(value)
    return column


class Backlog:
    """Paged rows, and behind them resident ones: all behind the resident rows at the head."""

    __slots__ = ("paged", "recent")

    def __init__(self, paged: PagedRows, recent: deque[Span]) -> None:
        self.paged = paged
        self.recent = recent

    def page_out(
        self, on_disk: Callable[[Span], OnDisk], paged: Callable[[Span, bool], PagedSpan]
    ) -> list[Span]:
        """Page the resident rows, in order, as far as their bytes are on the disk.

        `paged` makes the paged row of a resident one, and is told whether the spill has it. Returns
        rows to be spilled, so that this gets further.
        """
        recent = self.recent
        while recent:
            place = on_disk(recent[0])
            if place not in (OnDisk.JOURNAL, OnDisk.SPILL):
                break
            self.paged.append(paged(recent.popleft(), place is OnDisk.SPILL))
        unspilled: list[Span] = []
        size = 0
        for span in recent:
            place = on_disk(span)
            if place is OnDisk.UNSYNCED or size > SPILLED_BYTES_MAX:
                break
            if place is OnDisk.NOWHERE:
                unspilled.append(span)
                size += span.wire_bytes()
        return unspilled

    def __iter__(self) -> Iterator[Span]:
        yield from self.paged
        yield from self.recent


class Filled(NamedTuple):
    """Rows that were read, and are resident now; and paged rows that were not found.

    Both ascend by entry id. `unsized` are those of the found ones whose sizes nobody knew before.
    """

    found: list[Span]
    missing: list[PagedSpan]
    unsized: list[Span]


def matched(pieces: Iterable[PagedSpan], rows: Iterable[ReadRow]) -> Filled:
    """The resident rows of paged ones, made of the rows read.

    Rows that were read for nobody are dropped: their messages have left the queue meanwhile.
    """
    found: list[Span] = []
    missing: list[PagedSpan] = []
    unsized: list[Span] = []
    remaining = iter(rows)
    row = next(remaining, None)
    for piece in pieces:
        at, end = 0, len(piece)
        first_id = piece.first_entry_id
        while at < end:
            while row is not None and row.first_entry_id + len(row.indexes) <= first_id + at:
                row = next(remaining, None)
            start = end if row is None else min(max(row.first_entry_id - first_id, at), end)
            if at < start:
                missing.append(piece.part(at, start))
                at = start
                continue
            assert row is not None
            low = first_id + at - row.first_entry_id
            count = min(len(row.indexes) - low, end - at)
            indexes = row.indexes[low : low + count]
            found.append(_resident(piece, row.batch, indexes, first_id + at))
            if piece.sizes is None:
                unsized.append(found[-1])
            at += count
    return Filled(found, missing, unsized)


def _resident(piece: PagedSpan, batch: Batch, indexes: Indexes, first_entry_id: int) -> Span:
    row = (batch, indexes, first_entry_id, piece.attempts, piece.stored)
    deadline_ms = deadline_of(piece)
    return Span(*row) if deadline_ms is None else ExpiringSpan(*row, deadline_ms)
