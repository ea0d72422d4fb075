"""Where the records of live entries are to be looked for: the plan of a read.

Queues know no places. The ledger does, about: a row for each stretch of a segment (`ledger.py`).
`locate` turns ranges of a queue's entry ids into such stretches, on the journal's thread, and
reads nothing; `reading.py` does, on another thread, while the segments are pinned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from .ledger import PLACES_STRIDE_BYTES, PLACES_WIDTH, Block, EntryRange, LiveEntries, ranges_in
from .log import Position

# A plan has no more places, so that making it does not hold up the journal: no setting, because a
# read of few places is followed by the next one.
PLACES_MAX: Final = 64
# A place with one entry costs about so much to read; of many, the bytes before the next.
ENTRY_READ_BYTES: Final = 64 * 1024


class Sought(NamedTuple):
    """Live entries whose body records begin in one stretch, and whose entries records in one.

    Each stretch begins here and has PLACES_STRIDE_BYTES.
    """

    ranges: list[EntryRange]
    body: Position
    entries: Position


class ReadPlan(NamedTuple):
    """Where to read entries of a queue, ascending."""

    queue_id: int
    sought: list[Sought]
    # All live entries that were asked for, up to this id, are sought.
    through: int
    # About so many bytes of messages are wanted, one message at least.
    bytes_max: int
    # How many rewritten segments had taken their places by then.
    replaced_count: int = 0

    def segments(self) -> frozenset[int]:
        """The segments that it reads."""
        return frozenset(
            place.segment for each in self.sought for place in (each.body, each.entries)
        )


def locate(
    queue_id: int,
    live_entries: LiveEntries[Block] | None,
    ranges: Sequence[EntryRange],
    bytes_max: int,
    places_max: int = PLACES_MAX,
) -> ReadPlan:
    """The plan for those of the entries, whose ranges ascend and are not empty, that are live.

    It goes on until about twice as much lies in its places as is wanted, for others' messages lie
    there, too, and the read ends when it has enough.
    """
    sought: list[Sought] = []
    if live_entries is None:
        return ReadPlan(queue_id, sought, ranges[-1][1], bytes_max)
    left_bytes = 2 * bytes_max + PLACES_STRIDE_BYTES
    for first, last in ranges:
        for block in live_entries.within(first, last):
            for found, body_offset, entries_offset, size_bytes in _places_within(
                block, first, last
            ):
                body = Position(block.body_segment, body_offset)
                entries = Position(block.entries_segment, entries_offset)
                if sought and sought[-1][1:] == (body, entries):
                    sought[-1].ranges.extend(found)
                    continue
                if len(sought) == places_max or left_bytes <= 0:
                    return ReadPlan(queue_id, sought, sought[-1].ranges[-1][1], bytes_max)
                sought.append(Sought(found, body, entries))
                left_bytes -= size_bytes
    return ReadPlan(queue_id, sought, ranges[-1][1], bytes_max)


def _places_within(
    block: Block, first: int, last: int
) -> Iterator[tuple[list[EntryRange], int, int, int]]:
    """The block's entries within first and last by place: as ranges, where to look, how far."""
    ids, places = block.entry_ids, block.places
    low, high = bisect_left(ids, first), bisect_right(ids, last)
    rows = range(len(places) // PLACES_WIDTH)
    # The last row that does not begin behind the first entry.
    row = bisect_right(rows, ids[low], key=lambda row: places[PLACES_WIDTH * row]) - 1
    while low < high:
        at = PLACES_WIDTH * row
        row += 1
        row_end, distance = high, PLACES_STRIDE_BYTES
        if row < len(rows):
            next_id, _, next_offset = places[at + PLACES_WIDTH : at + 2 * PLACES_WIDTH]
            row_end = min(high, bisect_left(ids, next_id))
            distance = next_offset - places[at + 2]
        if low < row_end:
            size_bytes = min(distance, PLACES_STRIDE_BYTES, ENTRY_READ_BYTES * (row_end - low))
            yield ranges_in(ids[low:row_end]), places[at + 1], places[at + 2], size_bytes
        low = row_end
