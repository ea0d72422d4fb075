"""Which rows of a long list have changed, and the parts of each that are kept until it does.

A `Watch` looks at all sources of a list, once a second at most (snapshots.py): a quick look that
compares the state of each with that of the look before. A change renews that row, and nothing else:
`Texts` have its JSON, with all columns or some of them, `Places` the list's order by a column. All
of it is done in short steps (pace.py), and looks go on between them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from .pace import Keyed, keyed_in_order
from .rows import Row
from .text import encoded

Source = TypeVar("Source")

# Rows whose JSON is one part of a body: a part is made in a small share of a slice.
ROWS_IN_PART: Final = 64
# Rows that one step looks at: some microseconds.
_ROWS_IN_STEP: Final = 4
# If more places than one in so many have changed, all are sorted anew.
_MOVED_PART: Final = 16


@dataclass(frozen=True, slots=True)
class LongList(Generic[Source]):
    """What a list is made of.

    `key` says which list it is; `version` is another one whenever sources have come or gone.
    `sources` gives them in their order, in short steps. `row` makes a source's row; `state` is
    another one whenever that row would be (by `==`), and is quick to make; None: rows never change.
    `name` is what a request may filter by.
    """

    key: Hashable
    version: Hashable
    sources: Callable[[], Generator[None, None, list[Source]]]
    row: Callable[[Source], Row]
    state: Callable[[Source], object] | None
    name: Callable[[Source], str] = attrgetter("name")


class Watched(Generic[Source]):
    """A source, the state that it had when it was looked at, and the look that found it changed."""

    __slots__ = ("changed_at", "source", "state")

    def __init__(self, source: Source, changed_at: int) -> None:
        self.source = source
        self.state: object = _NO_STATE
        self.changed_at = changed_at


class Order(Generic[Source]):
    """The rows of a list, in some order. As long as that does not change, it is the same object."""

    __slots__ = ("rows",)

    def __init__(self, rows: Sequence[Watched[Source]]) -> None:
        self.rows = rows


class Seen(Generic[Source]):
    """What a look has found: the rows in the list's own order, and the number of the look.

    If nothing has changed since, the next look finds the same object.
    """

    __slots__ = ("number", "order")

    def __init__(self, number: int, order: Order[Source]) -> None:
        self.number = number
        self.order = order


class Watch(Generic[Source]):
    """The states of a list's sources."""

    def __init__(self) -> None:
        self._sources: Sequence[Source] = ()
        self._seen = Seen[Source](0, Order(()))
        # Rows were found changed between two looks.
        self._has_noted = False

    def look(
        self, wanted: LongList[Source], sources: Sequence[Source]
    ) -> Generator[None, None, Seen[Source]]:
        """Find the rows that have changed since the last look, of these sources."""
        number, order = self._seen.number + 1, self._seen.order
        has_found, self._has_noted = self._has_noted, False
        if sources is not self._sources:
            order = yield from self._rearranged(sources, number)
            has_found = True
        state = wanted.state
        if state is not None:
            for at, row in enumerate(order.rows):
                now = state(row.source)
                if now != row.state:
                    row.state = now
                    row.changed_at = number
                    has_found = True
                if not at % _ROWS_IN_STEP:
                    yield
        if has_found:
            self._sources, self._seen = sources, Seen(number, order)
        return self._seen

    def _rearranged(
        self, sources: Sequence[Source], number: int
    ) -> Generator[None, None, Order[Source]]:
        before: dict[int, Watched[Source]] = {}
        for row in self._seen.order.rows:
            before[id(row.source)] = row
            yield
        rows: list[Watched[Source]] = []
        for source in sources:
            found = before.get(id(source))
            rows.append(Watched(source, number) if found is None else found)
            yield
        return Order(rows)

    def note(self, wanted: LongList[Source], row: Watched[Source]) -> None:
        """Look at one row: its JSON, if made now, is that of the kept state."""
        if wanted.state is None:
            return
        now = wanted.state(row.source)
        if now != row.state:
            row.state = now
            # So that the others renew it at the next look.
            row.changed_at = self._seen.number + 1
            self._has_noted = True


# Differs from all states.
_NO_STATE: Final = object()


class Texts(Generic[Source]):
    """The JSON of a list's rows, as `shown` shows them."""

    def __init__(self, watch: Watch[Source], shown: Callable[[Row], Row]) -> None:
        self._watch = watch
        self._shown = shown
        # Each with the number of the look that it is of.
        self._made: dict[Watched[Source], tuple[int, bytes]] = {}
        self._order: Order[Source] | None = None
        # Of all rows in that order, and the number of the look that they are of.
        self._parts: list[bytes] = []
        self._number = 0

    def parts(
        self, wanted: LongList[Source], seen: Seen[Source], order: Order[Source]
    ) -> Generator[None, None, list[bytes]]:
        """All rows as an array, in this order, in short steps."""
        if seen.order is not self._order:
            yield from self._forget_gone(seen.order)
        kept, number = (self._parts, self._number) if order is seen.order else ([], 0)
        parts: list[bytes] = []
        count = len(order.rows)
        for begin in range(0, count, ROWS_IN_PART):
            rows = order.rows[begin : begin + ROWS_IN_PART]
            if len(parts) < len(kept) and max([each.changed_at for each in rows]) <= number:
                parts.append(kept[len(parts)])
                yield
                continue
            texts: list[bytes] = []
            for row in rows:
                made = self._made.get(row)
                if made is None or made[0] < row.changed_at:
                    texts.append(self._make(wanted, seen, row))
                    yield
                else:
                    texts.append(made[1])
            opening = b"," if begin else b"["
            closing = b"]" if begin + len(rows) == count else b""
            parts.append(opening + b",".join(texts) + closing)
            yield
        if order is self._order:
            self._parts, self._number = parts, seen.number
        return parts or [b"[]"]

    def page(
        self, wanted: LongList[Source], seen: Seen[Source], rows: Sequence[Watched[Source]]
    ) -> Generator[None, None, bytes]:
        """Some rows as an array, as they are at this moment, in short steps."""
        if seen.order is not self._order:
            yield from self._forget_gone(seen.order)
        texts: list[bytes] = []
        for row in rows:
            self._watch.note(wanted, row)
            made = self._made.get(row)
            if made is None or made[0] < row.changed_at:
                texts.append(self._make(wanted, seen, row))
            else:
                texts.append(made[1])
            yield
        return b"[" + b",".join(texts) + b"]"

    def _make(self, wanted: LongList[Source], seen: Seen[Source], row: Watched[Source]) -> bytes:
        self._watch.note(wanted, row)
        # A copy: the encoder's own bytes keep the memory of a longer text.
        text = bytes(memoryview(encoded(self._shown(wanted.row(row.source)))))
        self._made[row] = seen.number, text
        return text

    def _forget_gone(self, order: Order[Source]) -> Generator[None, None, None]:
        made: dict[Watched[Source], tuple[int, bytes]] = {}
        for row in order.rows:
            found = self._made.get(row)
            if found is not None:
                made[row] = found
            yield
        self._made, self._order, self._parts = made, order, []


class Places(Generic[Source]):
    """The order of a list's rows by `place`, which is made of a row."""

    def __init__(self, watch: Watch[Source], place: Callable[[Row], Any]) -> None:
        self._watch = watch
        self._place = place
        # The list's own order, and the number of the look, of which the places are.
        self._own_order: Order[Source] | None = None
        self._number = 0
        # Each with its place, and its number in the list's own order.
        self._keyed: dict[Watched[Source], Keyed[Watched[Source]]] = {}
        self._sorted: list[Keyed[Watched[Source]]] = []
        self._order = Order[Source](())

    def order(
        self, wanted: LongList[Source], seen: Seen[Source]
    ) -> Generator[None, None, Order[Source]]:
        """The rows by their places, in short steps; the same object if none has moved."""
        keyed: dict[Watched[Source], Keyed[Watched[Source]]] = {}
        moved: list[Watched[Source]] = []
        rows, is_new = seen.order.rows, seen.order is not self._own_order
        for at, row in enumerate(rows):
            before = self._keyed.get(row)
            place = None if before is None else before[0]
            if before is None or row.changed_at > self._number:
                self._watch.note(wanted, row)
                place = self._place(wanted.row(row.source))
                if before is None or before[0] != place:
                    moved.append(row)
            if before is None or before[0] != place or before[1] != at:
                before = place, at, row
            keyed[row] = before
            yield
        if is_new or len(moved) * _MOVED_PART > len(rows):
            self._sorted = yield from keyed_in_order(rows, lambda row: keyed[row][0])
        else:
            for row in moved:
                del self._sorted[bisect_left(self._sorted, self._keyed[row])]
                insort(self._sorted, keyed[row])
                # Both agree after each step.
                self._keyed[row] = keyed[row]
                yield
        if moved or is_new:
            found: list[Watched[Source]] = []
            for at in range(0, len(self._sorted), ROWS_IN_PART):
                found += [row for _, _, row in self._sorted[at : at + ROWS_IN_PART]]
                yield
            self._order = Order(found)
        self._own_order, self._number, self._keyed = seen.order, seen.number, keyed
        return self._order
