"""Sizes of bodies that are on the disk only, for a limit by bytes that comes to a queue later.

A queue without such a limit keeps no sizes of paged rows. When one comes, its paged rows count as
empty until the disk has said how large they are: the queue asks for their sizes behind all else
that it wants to read, and no body comes into memory for that. The rows at the head are the oldest,
so drop-head drops no message meanwhile that it would not drop with all sizes known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeGuard

from .paging import Wanted
from .span import EntryRange, PagedSpan, Span

# Messages whose sizes are asked for together at most.
SIZED_COUNT_MAX: Final = 65_536

_first = itemgetter(0)


class SizedRow(NamedTuple):
    """The sizes of the bodies of messages whose entry ids are consecutive, in bytes."""

    first_entry_id: int
    sizes: array[int]


def is_unsized(span: Span) -> TypeGuard[PagedSpan]:
    """Does nobody know the sizes of these?"""
    return isinstance(span, PagedSpan) and span.sizes is None


def sized_parts(span: PagedSpan, rows: Sequence[SizedRow]) -> list[PagedSpan]:
    """The parts of an unsized row, in order: those that lie in the rows, which ascend, have sizes.

    The row itself if none does.
    """
    first_id, count = span.first_entry_id, len(span)
    parts: list[PagedSpan] = []
    at = 0
    for place in range(max(0, bisect_right(rows, first_id, key=_first) - 1), len(rows)):
        first, sizes = rows[place]
        low = max(first - first_id, at)
        if low >= count:
            break
        high = min(first + len(sizes) - first_id, count)
        if high <= low:
            continue
        if at < low:
            parts.append(span.part(at, low))
        part = span.part(low, high)
        part.sizes = sizes[first_id + low - first : first_id + high - first]
        parts.append(part)
        at = high
    if not parts:
        return [span]
    if at < count:
        parts.append(span.part(at, count))
    return parts


def wanted_sizes(rows: Iterable[Span]) -> Wanted | None:
    """The entries of unsized rows that are to be asked for next, of rows in any order.

    None if all have sizes.
    """
    unsized = sorted(
        (span.first_entry_id, len(span), span.is_spilled) for span in rows if is_unsized(span)
    )
    if not unsized:
        return None
    is_spilled = unsized[0][2]
    ranges: list[EntryRange] = []
    count_max = SIZED_COUNT_MAX
    for first, count, spilled in unsized:
        if spilled is not is_spilled:
            continue
        if count_max <= 0:
            break
        last = first + min(count, count_max) - 1
        count_max -= count
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((first, last))
    return Wanted(ranges, is_spilled, is_sizing=True)
