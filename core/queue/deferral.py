"""The part of a queue that holds deferred messages, which are not ready before they are due.

Messages are deferred
- when they come back, if the queue has `x-requeue-delay`: after a nack or reject with requeue, and
  after an in-flight time-out. The delay doubles with each delivery that a message has had, up to
  `x-requeue-delay-max`. Messages of a channel that closes and of basic.recover are not deferred,
  because nobody has said that they failed;
- by a caller that names the delay, for messages that enter or come back. A queue without the
  argument gets this part with the first such message.

Due times are on a clock that only goes forward, in milliseconds, so a step of the wall clock
neither delays a message nor hurries it. The journal keeps the time of the wall clock instead,
because only that goes on while no broker runs.

A deferred message counts for the queue's limits as a ready one does, and expires on time. When it
is due it goes to the place in the queue that its entry id has.

The rows lie in heaps by due time and by deadline, so that a queue that is woken pays for due
rows, and not for all deferred ones. A row that has left stays in a heap until it comes
to the top, or until half of the heap is of this kind.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar, Final

from ...amqp_frames.messages.batch import Indexes
from ...amqp_frames.values.field_table import Table
from .expiry import deadline_of
from .parts import Part
from .ready import Ready
from .sizing import SizedRow, is_unsized, sized_parts
from .span import PAGED_ROWS_SEEN_MAX, EntryRange, PagedSpan, Span, positions_in

# Rows that may become due before others get their turn.
DUE_ROWS_MAX: Final = 2_000
# The longest delay of a queue whose arguments name none, as nsqd's `max-req-timeout`: an hour.
REQUEUE_DELAY_MAX_MS: Final = 3_600_000
# A smaller heap is not worth a look for rows that have left.
_HEAP_ROWS_MIN: Final = 64

# Delays of new messages in milliseconds, 0 for none: one for all, or by their index in the batch.
Delays = int | Sequence[int]


class _Row:
    """Messages that are due at one time."""

    __slots__ = ("due_ms", "span")

    def __init__(self, span: Span, due_ms: int) -> None:
        self.span = span
        self.due_ms = due_ms


class Deferral(Part):
    """Deferred messages in rows; `message_count` counts the messages.

    delay_ms: of messages that come back after their first delivery; 0: they are ready at once
    delay_max_ms: the delay does not grow beyond this
    """

    __slots__ = (
        "_by_deadline",
        "_by_due",
        "_by_last",
        "_delay_max_ms",
        "_delay_ms",
        "_number",
        "_rows",
        "message_count",
    )

    name: ClassVar[str] = "deferral"

    def __init__(self, delay_ms: int = 0, delay_max_ms: int = REQUEUE_DELAY_MAX_MS) -> None:
        self._delay_ms = delay_ms
        self._delay_max_ms = max(delay_ms, delay_max_ms)
        self.message_count = 0
        self._number = 0
        # By number. The heaps have numbers, some of rows that are not here any more.
        self._rows: dict[int, _Row] = {}
        self._by_due: list[tuple[int, int]] = []
        self._by_deadline: list[tuple[int, int]] = []
        # The one due last first, and of those due together the oldest. None until a bound has to
        # drop a deferred message, which is rare.
        self._by_last: list[tuple[int, int, int]] | None = None

    # --- As a part

    def succeed(self, before: Part, _now_ms: int) -> None:
        """Deferred messages keep their due times."""
        assert isinstance(before, Deferral)
        self.message_count, self._number = before.message_count, before._number
        self._rows, self._by_due = before._rows, before._by_due
        self._by_deadline, self._by_last = before._by_deadline, before._by_last

    def remainder(self, _rows: object) -> Part | None:
        """Messages that are deferred stay so; those that come back are ready at once."""
        if not self.message_count:
            return None
        rest = Deferral()
        rest.succeed(self, 0)
        return rest

    def delay_ms(self, attempts: int) -> int:
        """For how long a message that was delivered so often is deferred when it comes back."""
        delay_ms = self._delay_ms
        if attempts <= 1 or not delay_ms:
            return delay_ms
        # More than 64 doublings exceed any maximum.
        return min(delay_ms << min(attempts - 1, 64), self._delay_max_ms)

    # --- Coming in

    def add(self, span: Span, due_ms: int) -> None:
        """Defer a row; `due_ms` is on the clock that only goes forward."""
        self._number += 1
        number = self._number
        self._rows[number] = _Row(span, due_ms)
        self.message_count += len(span)
        heappush(self._by_due, (due_ms, number))
        deadline_ms = deadline_of(span)
        if deadline_ms is not None:
            heappush(self._by_deadline, (deadline_ms, number))
        if self._by_last is not None:
            heappush(self._by_last, (-due_ms, span.first_entry_id, number))
        rows_max = 2 * len(self._rows) + _HEAP_ROWS_MIN
        # A row that is due leaves its deadline behind, one that expires its due time.
        if len(self._by_due) > rows_max or len(self._by_deadline) > rows_max:
            self._forget_left()
        elif self._by_last is not None and len(self._by_last) > rows_max:
            self._by_last = None

    def _forget_left(self) -> None:
        rows = self._rows
        for heap in (self._by_due, self._by_deadline):
            heap[:] = [entry for entry in heap if entry[1] in rows]
            heapify(heap)
        self._by_last = None

    # --- Going out

    def next_due_ms(self) -> int | None:
        """When the first row is due; None if there is none."""
        return self._first(self._by_due)

    def next_deadline_ms(self) -> int | None:
        """When the first row expires, in milliseconds since the epoch; None for never."""
        return self._first(self._by_deadline)

    def due(self, uptime_ms: int) -> list[Span]:
        """Remove rows that are due, up to `DUE_ROWS_MAX`; the others get their turn after that."""
        return self._remove_until(self._by_due, uptime_ms)

    def expired(self, now_ms: int) -> list[Span]:
        """Remove rows that have expired, up to `DUE_ROWS_MAX`."""
        return self._remove_until(self._by_deadline, now_ms)

    def _first(self, heap: list[tuple[int, int]]) -> int | None:
        rows = self._rows
        while heap and heap[0][1] not in rows:
            heappop(heap)
        return heap[0][0] if heap else None

    def _remove_until(self, heap: list[tuple[int, int]], until_ms: int) -> list[Span]:
        removed: list[Span] = []
        rows = self._rows
        while heap and heap[0][0] <= until_ms and len(removed) < DUE_ROWS_MAX:
            row = rows.pop(heappop(heap)[1], None)
            if row is not None:
                self.message_count -= len(row.span)
                removed.append(row.span)
        return removed

    def head(self) -> Span | None:
        """The row that a bound drops first: the one due last; None if there is none."""
        number = self._last()
        return None if number is None else self._rows[number].span

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages (at least 1) of the row due last.

        IndexError if there is none.
        """
        number = self._last()
        if number is None:
            raise IndexError("no message is deferred")
        row = self._rows[number]
        span = row.span
        if len(span) > count:
            row.span = span.part(count, len(span))
            span = span.part(0, count)
        else:
            del self._rows[number]
        self.message_count -= len(span)
        return span

    def _last(self) -> int | None:
        rows, heap = self._rows, self._by_last
        if heap is None:
            heap = self._by_last = [
                (-row.due_ms, row.span.first_entry_id, number) for number, row in rows.items()
            ]
            heapify(heap)
        while heap and heap[0][2] not in rows:
            heappop(heap)
        return heap[0][2] if heap else None

    def withdraw(self, ranges: Sequence[EntryRange]) -> list[Span]:
        """Remove those of these entries that are here; `ranges` ascend."""
        withdrawn: list[Span] = []
        lowest, highest = ranges[0][0], ranges[-1][1]
        for number, row in list(self._rows.items()):
            span = row.span
            first = span.first_entry_id
            if first > highest or first + len(span) <= lowest:
                continue
            parts = list(positions_in(span, 0, len(span), ranges))
            if not any(is_within for _, _, is_within in parts):
                continue
            del self._rows[number]
            self.message_count -= len(span)
            for low, high, is_within in parts:
                if is_within:
                    withdrawn.append(span.part(low, high))
                else:
                    self.add(span.part(low, high), row.due_ms)
        return withdrawn

    def page_out(self, paged: Callable[[Span], PagedSpan | None]) -> None:
        """Page rows, except those for which `paged` is None.

        From the newest on, because older ones are paged as a rule.
        """
        paged_count = 0
        for row in reversed(self._rows.values()):
            if row.span.is_paged:
                paged_count += 1
                if paged_count > PAGED_ROWS_SEEN_MAX:
                    return
                continue
            span = paged(row.span)
            if span is not None:
                row.span = span

    def set_sizes(self, rows: Sequence[SizedRow]) -> list[PagedSpan]:
        """The disk has said the sizes of these, which ascend; returns the paged rows that got them.

        There is a row at least.
        """
        sized: list[PagedSpan] = []
        lowest, highest = rows[0].first_entry_id, rows[-1].first_entry_id + len(rows[-1].sizes)
        for number, row in list(self._rows.items()):
            span = row.span
            first = span.first_entry_id
            if first >= highest or first + len(span) <= lowest or not is_unsized(span):
                continue
            parts = sized_parts(span, rows)
            sized += [part for part in parts if part.sizes is not None]
            if len(parts) == 1:
                row.span = parts[0]
                continue
            del self._rows[number]
            self.message_count -= len(span)
            for part in parts:
                self.add(part, row.due_ms)
        return sized

    def clear(self) -> None:
        """Drop everything."""
        self.message_count = 0
        self._rows.clear()
        self._forget_left()

    @property
    def noted_rows(self) -> int:
        """How many rows the largest heap has, with rows that have left."""
        return max(len(self._by_due), len(self._by_deadline), len(self._by_last or ()))

    def rows(self) -> Iterator[tuple[Span, int]]:
        """All rows, and when each is due."""
        for row in self._rows.values():
            yield row.span, row.due_ms

    def __iter__(self) -> Iterator[Span]:
        for row in self._rows.values():
            yield row.span


class ReadyAndDeferred:
    """The messages that a queue's bounds count: ready ones, and behind them deferred ones."""

    __slots__ = ("_deferral", "_ready")

    def __init__(self, ready: Ready, deferral: Deferral) -> None:
        self._ready = ready
        self._deferral = deferral

    @property
    def message_count(self) -> int:
        """How many messages are ready or deferred."""
        return self._ready.message_count + self._deferral.message_count

    def head(self) -> Span | None:
        """The row that leaves first: ready ones first, then the one due last."""
        return self._ready.head() or self._deferral.head()

    def dequeue(self, count: int) -> Span:
        """Remove up to `count` messages of that row; IndexError if there is none."""
        source = self._ready if self._ready.message_count else self._deferral
        return source.dequeue(count)


def divided(span: Span, times_ms: int | Sequence[int]) -> Iterator[tuple[Span, int]]:
    """The parts of a row that have a time in common, and this: one for all, or aligned with it."""
    if isinstance(times_ms, int):
        yield span, times_ms
        return
    start, count = 0, len(span)
    while start < count:
        time_ms = times_ms[start]
        end = start + 1
        while end < count and times_ms[end] == time_ms:
            end += 1
        yield span.part(start, end), time_ms
        start = end


def delays_of(indexes: Indexes, delays_ms: Delays) -> int | list[int]:
    """The delays of these messages: one for all, or aligned with them."""
    if isinstance(delays_ms, int):
        return delays_ms
    each = [delays_ms[index] for index in indexes]
    return each[0] if each.count(each[0]) == len(each) else each


def due_times(indexes: Indexes, delays_ms: Delays, now_ms: int) -> int | array[int]:
    """When new messages are due, as the journal takes it: one time for all, or aligned with them.

    In milliseconds since the epoch; 0: at once.
    """
    each = delays_of(indexes, delays_ms)
    if isinstance(each, int):
        return now_ms + each if each else 0
    return array("Q", [now_ms + delay_ms if delay_ms else 0 for delay_ms in each])


def deferral_part(arguments: Table) -> Deferral:
    """The part that `x-requeue-delay` asks for."""
    delay_ms = arguments["x-requeue-delay"].value
    assert isinstance(delay_ms, int)
    delay_max = arguments.get("x-requeue-delay-max")
    if delay_max is None:
        return Deferral(delay_ms)
    assert isinstance(delay_max.value, int)
    return Deferral(delay_ms, delay_max.value)
