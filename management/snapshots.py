"""Long lists: made in slices (pace.py), and kept for a moment, so that one serves all clients.

The JSON of each row is kept for longer, and made anew only when the row has changed: of ten
thousand queues, few have changed within a second. What nobody has asked for in a while is
forgotten. A short list is made anew for each request (listing.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .pace import Pace
from .text import encoded

Row = dict[str, Any]
Source = TypeVar("Source")
Result = TypeVar("Result")

# RabbitMQ's statistics are up to five seconds old.
SNAPSHOT_SECONDS: Final = 1.0
# Shorter lists are made anew for each request.
SNAPSHOT_ROWS_MIN: Final = 1000
# A list that nobody requested within this time is forgotten.
UNUSED_SECONDS_MAX: Final = 10.0
# Lists, orders and choices of columns that are kept at most: each has some bytes for every row.
KEPT_MAX: Final = 100
# Rows whose JSON is one part of a body: a part takes a small share of a slice.
_ROWS_IN_PART: Final = 64


class Body:
    """A long answer, in parts that are written one by one; they are never joined."""

    __slots__ = ("compressed", "parts", "size_bytes")

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        # The same by gzip, once somebody has wanted that.
        self.compressed: asyncio.Task[Body] | None = None


@dataclass(frozen=True, slots=True)
class LongList(Generic[Source]):
    """What a list is made of.

    `key` says which list it is; `version` is another one whenever sources have come or gone.
    `sources` gives them in their order, in short steps. `row` makes a source's row; `state` is
    another one whenever that row would be (by `==`), and is quick to make. `name` is what a request
    may filter by.
    """

    key: Hashable
    version: Hashable
    sources: Callable[[], Generator[None, None, list[Source]]]
    row: Callable[[Source], Row]
    state: Callable[[Source], object]
    name: Callable[[Source], str] = attrgetter("name")


class Texts(Generic[Source]):
    """The JSON of a list's rows, with the states in which they were made."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._states: list[object] = []
        self._texts: list[bytes] = []
        self._parts: list[bytes] = []

    def renewed(
        self, wanted: LongList[Source], sources: list[Source]
    ) -> Generator[None, None, Body]:
        """All rows as they are now, in short steps."""
        if sources is not self._sources:
            yield from self._rearranged(sources)
        parts: list[bytes] = []
        state, row, states, texts = wanted.state, wanted.row, self._states, self._texts
        for begin in range(0, len(sources), _ROWS_IN_PART):
            end = min(begin + _ROWS_IN_PART, len(sources))
            has_changed = False
            for at in range(begin, end):
                now = state(sources[at])
                if now != states[at]:
                    states[at] = now
                    # A copy: the encoder's own bytes keep the memory of a longer text.
                    texts[at] = bytes(memoryview(encoded(row(sources[at]))))
                    has_changed = True
                    yield
            number = len(parts)
            if has_changed or number >= len(self._parts):
                opening = b"," if begin else b"["
                closing = b"]" if end == len(sources) else b""
                parts.append(opening + b",".join(texts[begin:end]) + closing)
            else:
                parts.append(self._parts[number])
            yield
        self._parts = parts
        return Body(parts or [b"[]"])

    def _rearranged(self, sources: list[Source]) -> Generator[None, None, None]:
        """Have the texts in the order of other sources; new ones have none yet."""
        before: dict[int, int] = {}
        for at, source in enumerate(self._sources):
            before[id(source)] = at
            yield
        states: list[object] = []
        texts: list[bytes] = []
        for source in sources:
            found = before.get(id(source))
            states.append(_NO_STATE if found is None else self._states[found])
            texts.append(b"" if found is None else self._texts[found])
            yield
        self._sources, self._states, self._texts, self._parts = sources, states, texts, []


# Differs from all states.
_NO_STATE: Final = object()


class _Kept(NamedTuple):
    """Something that is made once for all who ask for it, and when."""

    made_at: float
    version: Hashable
    task: asyncio.Task[Any]


class Snapshots:
    """What long lists are answered from. Only the event loop calls it."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._kept: dict[Hashable, _Kept] = {}
        self._used: dict[Hashable, float] = {}
        # By the key of their list.
        self._texts: dict[Hashable, Texts[Any]] = {}
        self._is_forgetting = False

    async def sources(self, wanted: LongList[Source]) -> list[Source]:
        """The list's sources, in their order, at its version."""
        key = "sources", wanted.key

        def make() -> Awaitable[list[Source]]:
            return self.pace.carry_out(wanted.sources())

        return await self._made(key, wanted.version, None, make)

    async def body(self, wanted: LongList[Source], sources: list[Source]) -> Body:
        """All rows as JSON, made at most SNAPSHOT_SECONDS ago."""
        self._use(wanted.key)
        texts: Texts[Source] = self._texts.setdefault(wanted.key, Texts())

        def make() -> Awaitable[Body]:
            return self.pace.carry_out(texts.renewed(wanted, sources))

        return await self.kept(("body", wanted.key), wanted.version, make)

    async def kept(
        self, key: Hashable, version: Hashable, make: Callable[[], Awaitable[Result]]
    ) -> Result:
        """What `make` gives, or gave at most SNAPSHOT_SECONDS ago for this key and version."""
        return await self._made(key, version, SNAPSHOT_SECONDS, make)

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
        if len(self._kept) > KEPT_MAX:
            done = [key for key, kept in self._kept.items() if kept.task.done()]
            for key in sorted(done, key=self._used.__getitem__)[: len(self._kept) - KEPT_MAX]:
                del self._kept[key], self._used[key]

    def _forget(self) -> None:
        before = time.monotonic() - UNUSED_SECONDS_MAX
        for key in [key for key, used_at in self._used.items() if used_at < before]:
            kept = self._kept.get(key)
            if kept is None or kept.task.done():
                del self._used[key]
                self._kept.pop(key, None)
                self._texts.pop(key, None)
        self._is_forgetting = bool(self._used)
        if self._is_forgetting:
            asyncio.get_running_loop().call_later(UNUSED_SECONDS_MAX, self._forget)


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
        for begin in range(0, len(rows), _ROWS_IN_PART):
            opening = b"," if begin else b"["
            parts.append(opening + encoded(rows[begin : begin + _ROWS_IN_PART])[1:-1])
            yield
        parts.append(b"]" if rows else b"[]")

    await pace.carry_out(steps())
    return Body(parts)
