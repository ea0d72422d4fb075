"""Long lists: made in slices (pace.py), once for all clients, and kept until they change.

A look finds the changed rows (watching.py), once a second at most: of ten thousand queues, few have
changed within a second. What nobody has asked for in a while is forgotten. A short list is made
anew for each request (listing.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Sequence,
)
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from .about import ListLimits
from .pace import Pace
from .rows import Row, chosen, place
from .text import encoded
from .watching import ROWS_IN_PART, LongList, Order, Places, Seen, Texts, Watch, Watched

Source = TypeVar("Source")
Result = TypeVar("Result")

# Shorter lists are made anew for each request.
SNAPSHOT_ROWS_MIN: Final = 1000
# A list that nobody requested within this time is forgotten.
UNUSED_SECONDS_MAX: Final = 10.0


class Body:
    """A long answer, in parts that are written one by one; they are never joined."""

    __slots__ = ("compressed", "parts", "size_bytes", "texts")

    def __init__(
        self, parts: Sequence[bytes | memoryview], texts: Texts[Any] | None = None
    ) -> None:
        """`texts` keep the parts as well, if anything does."""
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        self.texts = texts
        # The same by gzip, once somebody has wanted that.
        self.compressed: asyncio.Task[Body] | None = None

    def kept_bytes(self, texts: Collection[object]) -> int:
        """What it keeps, compressed and not, beside these texts."""
        compressed = _body_made_by(self.compressed)
        own_bytes = 0 if self.texts in texts else self.size_bytes
        return own_bytes + (0 if compressed is None else compressed.size_bytes)


class Sort(NamedTuple):
    """How a request sorts: by a column, or, without one, in the list's own order."""

    column: str = ""
    is_reverse: bool = False


class _Kept(NamedTuple):
    """Something that is made once for all who ask for it, and when."""

    made_at: float
    version: Hashable
    task: asyncio.Task[Any]


class Snapshots:
    """What long lists are answered from. Only the event loop calls it."""

    def __init__(self, pace: Pace, limits: ListLimits) -> None:
        self.pace = pace
        self._limits = limits
        self._kept: dict[Hashable, _Kept] = {}
        # Objects that find changes, or are renewed by them: Watch, Texts and Places.
        self._renewed: dict[Hashable, Any] = {}
        # When a key of either was last asked for.
        self._used: dict[Hashable, float] = {}
        self._is_forgetting = False

    async def sources(self, wanted: LongList[Source]) -> list[Source]:
        """The list's sources, in their order, at its version."""

        def make() -> Awaitable[list[Source]]:
            return self.pace.carry_out(wanted.sources())

        return await self.kept(("sources", wanted.key), wanted.version, make)

    async def seen(self, wanted: LongList[Source], sources: list[Source]) -> Seen[Source]:
        """The rows as they were at most `age_seconds` ago."""
        watch = self._watch(wanted)

        def make() -> Awaitable[Seen[Source]]:
            return self.pace.carry_out(watch.look(wanted, sources))

        return await self.recent(("seen", wanted.key), wanted.version, make)

    async def order(
        self, wanted: LongList[Source], seen: Seen[Source], sort: Sort
    ) -> Order[Source]:
        """The rows in this order."""
        order, column = seen.order, sort.column
        if column:
            places = self._places(wanted, column)

            def make() -> Awaitable[Order[Source]]:
                return self.pace.carry_out(places.order(wanted, seen))

            order = await self.kept(("order", wanted.key, column), seen, make)
        if sort.is_reverse:
            key = "reverse", wanted.key, column
            order = await self.kept(key, order, partial(_reversed, order))
        return order

    async def body(
        self, wanted: LongList[Source], seen: Seen[Source], sort: Sort, columns: str
    ) -> Body:
        """All rows in this order, with these columns."""
        order = await self.order(wanted, seen, sort)
        texts = self._texts(wanted, columns)

        async def make() -> Body:
            parts = await self.pace.carry_out(texts.parts(wanted, seen, order))
            return Body(parts, texts if order is seen.order else None)

        return await self.kept(("body", wanted.key, columns, sort), seen, make)

    async def page(
        self,
        wanted: LongList[Source],
        seen: Seen[Source],
        rows: Sequence[Watched[Source]],
        columns: str,
    ) -> bytes:
        """Some rows as they are at this moment, as an array."""
        texts = self._texts(wanted, columns)
        return await self.pace.carry_out(texts.page(wanted, seen, rows))

    def _watch(self, wanted: LongList[Source]) -> Watch[Source]:
        watch: Watch[Source] = self._renewable(("watch", wanted.key), Watch)
        return watch

    def _texts(self, wanted: LongList[Source], columns: str) -> Texts[Source]:
        make = partial(Texts, self._watch(wanted), partial(chosen, columns))
        texts: Texts[Source] = self._renewable(("texts", wanted.key, columns), make)
        return texts

    def _places(self, wanted: LongList[Source], column: str) -> Places[Source]:
        make = partial(Places, self._watch(wanted), partial(place, (column,)))
        places: Places[Source] = self._renewable(("places", wanted.key, column), make)
        return places

    def _renewable(self, key: Hashable, make: Callable[[], Any]) -> Any:
        self._use(key)
        found = self._renewed.get(key)
        if found is None:
            found = self._renewed[key] = make()
            self._bound()
        return found

    async def kept(
        self, key: Hashable, version: Hashable, make: Callable[[], Awaitable[Result]]
    ) -> Result:
        """What `make` gives, or gave for this key and version."""
        return await self._made(key, version, None, make)

    async def recent(
        self, key: Hashable, version: Hashable, make: Callable[[], Awaitable[Result]]
    ) -> Result:
        """As `kept`, at most `age_seconds` ago."""
        return await self._made(key, version, self._limits.age_seconds, make)

    async def _made(
        self,
        key: Hashable,
        version: Hashable,
        seconds: float | None,
        make: Callable[[], Awaitable[Result]],
    ) -> Result:
        now = self._use(key)
        kept = self._kept.get(key)
        is_old = kept is None or kept.version != version
        if kept is not None and not is_old and kept.task.done():
            is_late = seconds is not None and kept.made_at < now - seconds
            is_old = is_late or kept.task.cancelled() or kept.task.exception() is not None
        if kept is None or is_old:
            before = None if kept is None else kept.task
            task = asyncio.create_task(_after(before, make))
            kept = self._kept[key] = _Kept(now, version, task)
            self._bound()
            task.add_done_callback(self._bound_bytes)
        # A client that goes away takes the list from nobody.
        result: Result = await asyncio.shield(kept.task)
        return result

    def _use(self, key: Hashable) -> float:
        now = time.monotonic()
        self._used[key] = now
        if not self._is_forgetting:
            self._is_forgetting = True
            asyncio.get_running_loop().call_later(UNUSED_SECONDS_MAX, self._forget)
        return now

    def _bound(self) -> None:
        """The longest unused goes first."""
        surplus = len(self._used) - self._limits.kept_max
        if surplus > 0:
            for key in self._longest_unused()[:surplus]:
                self._drop(key)

    def kept_bytes(self) -> int:
        """Of all texts that are kept."""
        return sum(self._kept_bytes().values())

    def _kept_bytes(self) -> dict[Hashable, int]:
        """Of each key that keeps any."""
        texts = {key: each for key, each in self._renewed.items() if isinstance(each, Texts)}
        found: dict[Hashable, int] = {key: each.kept_bytes for key, each in texts.items()}
        shared = set(texts.values())
        for key, kept in self._kept.items():
            body = _body_made_by(kept.task)
            if body is not None:
                found[key] = body.kept_bytes(shared)
        return found

    def _bound_bytes(self, _made: object = None) -> None:
        """As `_bound`, by the length of the texts, now that something is made."""
        while sum((sizes := self._kept_bytes()).values()) > self._limits.bytes_max:
            found = [key for key in self._longest_unused() if sizes.get(key)]
            if not any(self._drop(key) for key in found[:-1]):
                return

    def _longest_unused(self) -> list[Hashable]:
        return sorted(self._used, key=self._used.__getitem__)

    def _forget(self) -> None:
        before = time.monotonic() - UNUSED_SECONDS_MAX
        for key in [key for key, used_at in self._used.items() if used_at < before]:
            self._drop(key)
        self._is_forgetting = bool(self._used)
        if self._is_forgetting:
            asyncio.get_running_loop().call_later(UNUSED_SECONDS_MAX, self._forget)

    def _drop(self, key: Hashable) -> bool:
        """Forget it, unless it is being made."""
        kept = self._kept.get(key)
        if kept is not None and not kept.task.done():
            return False
        del self._used[key]
        self._kept.pop(key, None)
        self._renewed.pop(key, None)
        return True


def _body_made_by(task: asyncio.Task[Any] | None) -> Body | None:
    """If there is one, and it has ended with a body."""
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    made = task.result()
    return made if isinstance(made, Body) else None


async def _reversed(order: Order[Source]) -> Order[Source]:
    return Order(order.rows[::-1])


async def _after(before: asyncio.Task[Any] | None, make: Callable[[], Awaitable[Result]]) -> Result:
    """One is made behind the other: they share the kept rows."""
    if before is not None and not before.done():
        await asyncio.wait([before])
    return await make()


async def rows_of(pace: Pace, sources: Iterable[Source], row: Callable[[Source], Row]) -> list[Row]:
    """A row for each, in slices. Sources that come or go meanwhile may be missed."""
    rows: list[Row] = []

    def steps() -> Generator[None, None, None]:
        for each in tuple(sources):
            rows.append(row(each))
            yield

    await pace.carry_out(steps())
    return rows


async def encoded_rows(pace: Pace, rows: Sequence[Row]) -> Body:
    """The rows as JSON, in slices."""
    parts: list[bytes] = []

    def steps() -> Generator[None, None, None]:
        for begin in range(0, len(rows), ROWS_IN_PART):
            opening = b"," if begin else b"["
            parts.append(opening + encoded(rows[begin : begin + ROWS_IN_PART])[1:-1])
            yield
        parts.append(b"]" if rows else b"[]")

    await pace.carry_out(steps())
    return Body(parts)
