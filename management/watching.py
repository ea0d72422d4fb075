"""Which rows of a long list have changed, and the parts of each that are kept until it does.

A `Watch` looks at all sources of a list, once a second at most (snapshots.py): a quick look that
compares the state of each with that of the look before. A change renews that row, and nothing else:
`Texts` have its JSON, with all columns or some of them, `Places` the list's order by a column. All
of it is done in short steps (pace.py), and looks go on between them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from .pace import Keyed, sorted_keyed
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
    """A source, the state that it had when it was looked at, and the look that found it changed.

    `at` is its place in the list's own order, as the latest look found it.
    """

    __slots__ = ("at", "changed_at", "source", "state")

    def __init__(self, source: Source, changed_at: int) -> None:
        self.source = source
        self.state: object = _NO_STATE
        self.changed_at = changed_at
        self.at = 0


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
            before: object = _NO_STATE
            for at, row in enumerate(order.rows):
                now = state(row.source)
                if now != row.state:
                    # Neighbours are alike as a rule, since most queues are idle.
                    row.state = before if now == before else now
                    row.changed_at = number
                    has_found = True
                before = row.state
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
        for at, source in enumerate(sources):
            row = before.get(id(source)) or Watched(source, number)
            row.at = at
            rows.append(row)
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


class _Part(Generic[Source]):
    """Neighbours of the list's own order: their JSON as it is written, made once for all bodies.

    Their rows' own texts are cut from it, so that no second copy is kept. `number` is the look that
    it is of.
    """

    __slots__ = ("_ends", "number", "rows", "text")

    def __init__(
        self, number: int, rows: Sequence[Watched[Source]], texts: Sequence[bytes], text: bytes
    ) -> None:
        """`text` is the texts of the rows, `_joined`."""
        self.number = number
        self.rows = rows
        self.text = text
        self._ends = array("I", accumulate([len(text) + 1 for text in texts]))

    def text_of(self, at: int) -> bytes:
        """The JSON of one of its rows."""
        # Each row has a bracket or a comma before it.
        begin = self._ends[at - 1] if at else 0
        return self.text[begin + 1 : self._ends[at]]


def _joined(texts: Sequence[bytes], begin: int, count: int) -> bytes:
    """Some rows of an array of `count`, from `begin` on."""
    opening = b"," if begin else b"["
    closing = b"]" if begin + len(texts) == count else b""
    return opening + b",".join(texts) + closing


class Texts(Generic[Source]):
    """The JSON of a list's rows, as `shown` shows them; `kept_bytes` is its length."""

    def __init__(self, watch: Watch[Source], shown: Callable[[Row], Row]) -> None:
        self.kept_bytes = 0
        self._watch = watch
        self._shown = shown
        self._order: Order[Source] | None = None
        # Until all texts are where that order has them.
        self._moves: Iterator[None] | None = None
        # Of the first rows in that order; of all, once somebody has wanted that.
        self._parts: list[_Part[Source]] = []
        # Of rows that no part has, or has as they were before; each with the number of its look.
        self._single: dict[Watched[Source], tuple[int, bytes]] = {}

    def parts(
        self, wanted: LongList[Source], seen: Seen[Source], order: Order[Source]
    ) -> Generator[None, None, list[bytes]]:
        """All rows as an array, in this order, in short steps.

        In the list's own order, parts whose rows have not changed are the same objects as before.
        """
        yield from self._rearrange(seen.order)
        is_own = order is seen.order
        found: list[bytes] = []
        count = len(order.rows)
        for begin in range(0, count, ROWS_IN_PART):
            rows = order.rows[begin : begin + ROWS_IN_PART]
            part = self._part_at(begin, seen.order) if is_own else None
            if part is not None and max([each.changed_at for each in rows]) <= part.number:
                found.append(part.text)
                yield
                continue
            texts: list[bytes] = []
            for row in rows:
                texts.append(self._text(row) or self._make(wanted, seen, row))
                yield
            found.append(_joined(texts, begin, count))
            if is_own:
                self._keep(begin, _Part(seen.number, rows, texts, found[-1]), seen.order)
            yield
        return found or [b"[]"]

    def page(
        self, wanted: LongList[Source], seen: Seen[Source], rows: Sequence[Watched[Source]]
    ) -> Generator[None, None, bytes]:
        """Some rows as an array, as they are at this moment, in short steps."""
        yield from self._rearrange(seen.order)
        texts: list[bytes] = []
        for row in rows:
            self._watch.note(wanted, row)
            texts.append(self._text(row) or self._make(wanted, seen, row))
            yield
        return b"[" + b",".join(texts) + b"]"

    def _text(self, row: Watched[Source]) -> bytes | None:
        """The row's, if one is kept that is not older than its last change."""
        single = self._single.get(row)
        if single is not None:
            return single[1] if single[0] >= row.changed_at else None
        number, at = divmod(row.at, ROWS_IN_PART)
        if number >= len(self._parts):
            return None
        part = self._parts[number]
        # A later look may have found it at another place.
        is_there = at < len(part.rows) and part.rows[at] is row
        return part.text_of(at) if is_there and part.number >= row.changed_at else None

    def _make(self, wanted: LongList[Source], seen: Seen[Source], row: Watched[Source]) -> bytes:
        self._watch.note(wanted, row)
        # A copy: the encoder's own bytes keep the memory of a longer text.
        text = bytes(memoryview(encoded(self._shown(wanted.row(row.source)))))
        self._forget_single(row)
        self._single[row] = seen.number, text
        self.kept_bytes += len(text)
        return text

    def _forget_single(self, row: Watched[Source]) -> None:
        found = self._single.pop(row, None)
        if found is not None:
            self.kept_bytes -= len(found[1])

    def _part_at(self, begin: int, order: Order[Source]) -> _Part[Source] | None:
        number = begin // ROWS_IN_PART
        is_there = order is self._order and number < len(self._parts)
        return self._parts[number] if is_there else None

    def _keep(self, begin: int, part: _Part[Source], order: Order[Source]) -> None:
        number = begin // ROWS_IN_PART
        # The order has changed while the part was being made, or another body goes before.
        if order is not self._order or number > len(self._parts):
            return
        for before in self._parts[number : number + 1]:
            self.kept_bytes -= len(before.text)
        self._parts[number : number + 1] = [part]
        self.kept_bytes += len(part.text)
        for row in part.rows:
            single = self._single.get(row)
            if single is not None and single[0] <= part.number:
                self._forget_single(row)

    def _rearrange(self, order: Order[Source]) -> Generator[None, None, None]:
        """Have the texts where this order has them, if others wait for that, together with them."""
        if order is not self._order:
            self._order = order
            self._moves = self._moving(order, self._moves or iter(()))
        while (moves := self._moves) is not None:
            if next(moves, _ENDED) is _ENDED and self._moves is moves:
                self._moves = None
            yield

    def _moving(self, order: Order[Source], moves: Iterator[None]) -> Generator[None, None, None]:
        """Keep the texts of the rows that are still there, behind other such moves."""
        yield from moves
        parts, self._parts = self._parts, []
        for part in parts:
            self.kept_bytes -= len(part.text)
            for at, row in enumerate(part.rows):
                if row not in self._single:
                    text = part.text_of(at)
                    self._single[row] = part.number, text
                    self.kept_bytes += len(text)
            yield
        there = set[Watched[Source]]()
        for row in order.rows:
            there.add(row)
            yield
        for row in tuple(self._single):
            if row not in there:
                self._forget_single(row)
            yield


_ENDED: Final = object()


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
        neighbour: Any = None
        for at, row in enumerate(rows):
            before = self._keyed.get(row)
            place = None if before is None else before[0]
            if before is None or row.changed_at > self._number:
                self._watch.note(wanted, row)
                place = self._place(wanted.row(row.source))
                if before is None or before[0] != place:
                    moved.append(row)
            if before is None or before[0] != place or before[1] != at:
                # Neighbours share a place, as a rule.
                before = neighbour if place == neighbour else place, at, row
            keyed[row] = before
            neighbour = before[0]
            yield
        if is_new or len(moved) * _MOVED_PART > len(rows):
            self._sorted = yield from sorted_keyed(keyed.values())
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
