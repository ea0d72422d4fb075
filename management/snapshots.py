"""Long lists: made in slices, and kept for a moment.

The event loop has other work between two slices, so that publishers feel no listing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

from .text import encoded

Row = dict[str, Any]
Source = TypeVar("Source")

SLICE_SECONDS: Final = 0.001
ROWS_BETWEEN_LOOKS: Final = 16
# RabbitMQ's statistics are up to five seconds old.
SNAPSHOT_SECONDS: Final = 1.0
SNAPSHOT_ROWS_MIN: Final = 1000


async def rows_of(sources: Iterable[Source], row: Callable[[Source], Row]) -> list[Row]:
    """A row for each, in slices. Sources that come or go meanwhile may be missed."""
    rows: list[Row] = []
    ends_at = time.perf_counter() + SLICE_SECONDS
    for each in tuple(sources):
        rows.append(row(each))
        if not len(rows) % ROWS_BETWEEN_LOOKS and time.perf_counter() > ends_at:
            await asyncio.sleep(0)
            ends_at = time.perf_counter() + SLICE_SECONDS
    return rows


class Snapshots:
    """Long lists, each kept for a moment, so that one serves all clients that ask meanwhile.

    Its rows are in the order of the sources, and are not changed. A short list is made anew for
    each request.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, Hashable, asyncio.Task[list[Row]]]] = {}
        self._bodies: dict[Hashable, tuple[asyncio.Task[list[Row]], asyncio.Task[bytes]]] = {}

    async def rows(
        self,
        key: Hashable,
        version: Hashable,
        sources: Sequence[Source],
        row: Callable[[Source], Row],
    ) -> list[Row]:
        """A row for each source, made at most SNAPSHOT_SECONDS ago and at this `version`."""
        if len(sources) < SNAPSHOT_ROWS_MIN:
            return await rows_of(sources, row)
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is None or kept[0] < now - SNAPSHOT_SECONDS or kept[1] != version:
            self._forget(now)
            kept = self._kept[key] = now, version, asyncio.create_task(rows_of(sources, row))
        # A client that goes away takes the list from nobody.
        return await asyncio.shield(kept[2])

    async def body(self, key: Hashable, rows: list[Row]) -> bytes:
        """All columns of these rows, in this order, as JSON."""
        kept = self._kept.get(key)
        if kept is None or not kept[2].done() or kept[2].result() is not rows:
            return await encoded_slices(rows)
        made = self._bodies.get(key)
        if made is None or made[0] is not kept[2]:
            made = self._bodies[key] = kept[2], asyncio.create_task(encoded_slices(rows))
        return await asyncio.shield(made[1])

    def _forget(self, now: float) -> None:
        for key, (made_at, *_) in tuple(self._kept.items()):
            if made_at < now - SNAPSHOT_SECONDS:
                del self._kept[key]
                self._bodies.pop(key, None)


async def encoded_slices(rows: list[Row]) -> bytes:
    """The rows as JSON, with other work of the event loop in between."""
    pieces = []
    for at in range(0, len(rows), ROWS_BETWEEN_LOOKS):
        piece = encoded(rows[at : at + ROWS_BETWEEN_LOOKS])
        pieces.append(piece[1:-1])
        if len(rows) > ROWS_BETWEEN_LOOKS:
            await asyncio.sleep(0)
    return b"[" + b",".join(pieces) + b"]"
