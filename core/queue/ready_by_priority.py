"""The deliverable messages of a queue with `x-max-priority`: highest priority first.

Within a priority they are in the order of entry ids, as in any queue (ready.py), and returned
messages go to their old place there. To find the highest that there is costs the same however many
there are; only new messages are looked at one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

from ...amqp_frames.messages.batch import Batch, Indexes
from .columns import priorities_of, read_priorities
from .paging import Filled, OnDisk, ReadRow, Wanted
from .ready import Ready
from .sizing import SizedRow
from .span import EntryRange, PagedSpan, Span


class ReadyByPriority(Ready):
    """A Ready for each priority from 0 to `priority_max` that has had messages."""

    __slots__ = ("_asked", "_levels", "_occupied", "priority_max")

    def __init__(self, priority_max: int) -> None:
        super().__init__()
        self.priority_max = priority_max
        self._levels: dict[int, Ready] = {}
        # Bit p is set while messages of priority p are here.
        self._occupied = 0
        # The priority of the entries that were last wanted.
        self._asked = 0

    def divide(self, batch: Batch, indexes: Indexes) -> Sequence[Indexes]:
        """New messages by priority, highest first: rows that can be appended one by one.

        Enqueued in this way, a batch of mixed priorities has its entry ids in long rows, and does
        not fall into single messages.
        """
        priorities = read_priorities(batch, indexes, self.priority_max)
        if _are_equal(priorities):
            return (indexes,)
        rows: dict[int, array[int]] = {}
        for index, priority in zip(indexes, priorities, strict=True):
            rows.setdefault(priority, array("I")).append(index)
        return [rows[priority] for priority in sorted(rows, reverse=True)]

    def append(self, span: Span) -> None:
        """Add new messages, of any priorities; their entry ids are above all others."""
        for level, row in self._rows_by_level(span):
            level.append(row)

    def put_back(self, span: Span) -> None:
        """Return messages to their place; of any priorities, if the queue's order has changed."""
        for level, row in self._rows_by_level(span):
            level.put_back(row)
        if span.is_paged:
            self.may_be_paged = True

    def parts_of(self, span: Span) -> Iterable[Span]:
        """The parts of a row that have a priority each."""
        return [part for _, part in self._by_priority(span)]

    def _rows_by_level(self, span: Span) -> Iterator[tuple[Ready, Span]]:
        """Rows of messages that are added now, each of one priority."""
        self.message_count += len(span)
        for priority, part in self._by_priority(span):
            yield self._level(priority), part

    def _by_priority(self, span: Span) -> Iterator[tuple[int, Span]]:
        priorities = priorities_of(span, self.priority_max)
        if _are_equal(priorities):
            yield priorities[0], span
            return
        start, count = 0, len(priorities)
        while start < count:
            priority = priorities[start]
            end = start + 1
            while end < count and priorities[end] == priority:
                end += 1
            yield priority, span.part(start, end)
            start = end

    def head(self) -> Span | None:
        """The row of messages that is next, not removed."""
        return self._highest().head() if self._occupied else None

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) that lie together at the head.

        IndexError if there is none.
        """
        if not self._occupied:
            raise IndexError("no message is ready")
        highest = self._highest()
        span = highest.dequeue(count)
        if not highest.message_count:
            self._occupied &= ~(1 << (self._occupied.bit_length() - 1))
        self.message_count -= len(span)
        return span

    def withdraw(self, ranges: Sequence[EntryRange]) -> list[Span]:
        """Remove those of these entries that are here, of whatever priorities; `ranges` ascend."""
        withdrawn = []
        for priority, level in self._levels.items():
            withdrawn += level.withdraw(ranges)
            if not level.message_count:
                self._occupied &= ~(1 << priority)
        self.message_count -= sum(map(len, withdrawn))
        return withdrawn

    def clear(self) -> None:
        """Drop everything."""
        self._levels.clear()
        self._occupied = 0
        self.message_count = 0

    def __iter__(self) -> Iterator[Span]:
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority]

    # --- Paging

    def append_paged(self, span: PagedSpan, keeps_sizes: bool) -> None:
        """Add a row that the journal has kept; its entry ids are above all others."""
        self._level(min(span.priority, self.priority_max)).append_paged(span, keeps_sizes)
        self.may_be_paged = True
        self.message_count += len(span)

    def page_out(
        self,
        kept_bytes: int,
        on_disk: Callable[[Span], OnDisk],
        paged: Callable[[Span, bool], PagedSpan],
        keeps_sizes: bool,
    ) -> list[Span]:
        """Page rows, but for so many bytes of the highest priority that there is.

        Rows to be spilled are of one priority.
        """
        self.may_be_paged = True
        unspilled: list[Span] = []
        for priority, level in self._levels.items():
            is_highest = priority == self._occupied.bit_length() - 1
            kept = kept_bytes if is_highest else 0
            unspilled = level.page_out(kept, on_disk, paged, keeps_sizes) or unspilled
        return unspilled

    def page_returned(self, paged: Callable[[Span], PagedSpan | None]) -> None:
        """Page returned rows, except those for which `paged` is None."""
        self.may_be_paged = True
        for level in self._levels.values():
            level.page_returned(paged)

    def wanted(self, ahead_bytes: int, count_max: int) -> Wanted | None:
        """Entries of the highest priority to be read next."""
        if not self._occupied:
            return None
        self._asked = self._occupied.bit_length() - 1
        return self._highest().wanted(ahead_bytes, count_max)

    def fill(self, asked: Sequence[EntryRange], rows: Sequence[ReadRow]) -> Filled:
        """Have rows that were read be resident; returns them, and paged rows not found."""
        level = self._levels.get(self._asked)
        if level is None:
            return Filled([], [], [])
        filled = level.fill(asked, rows)
        if not level.message_count:
            self._occupied &= ~(1 << self._asked)
        self.message_count -= sum(map(len, filled.missing))
        return filled

    def keep_sizes(self, *, keeps: bool) -> None:
        """Keep the sizes of paged rows from now on, or no longer."""
        for level in self._levels.values():
            level.keep_sizes(keeps=keeps)

    def unsized(self) -> Iterator[Span]:
        """Some of the paged rows without sizes; none if all have them."""
        for level in self._levels.values():
            yield from level.unsized()

    def set_sizes(self, rows: Sequence[SizedRow]) -> list[PagedSpan]:
        """The disk has said the sizes of these; returns the paged rows that got them."""
        return [span for level in self._levels.values() for span in level.set_sizes(rows)]

    def _highest(self) -> Ready:
        return self._levels[self._occupied.bit_length() - 1]

    def _level(self, priority: int) -> Ready:
        """The messages of that priority, of which there will be some now."""
        self._occupied |= 1 << priority
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = Ready(priority)
        return level


def _are_equal(priorities: Sequence[int]) -> bool:
    return priorities.count(priorities[0]) == len(priorities)
