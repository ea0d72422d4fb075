"""Which messages of a batch are traced, and which of those a queue has: ranges, not a message each.

One of `every` is chosen by runs of neighbours of one batch: messages of one read of the socket make
all their hops together, so a run tells what one of them would, and costs the same: the other reads
hold no traced message at all. A run is chosen by its number and its batch's, and by nothing else:
every hop, and every later boot, finds the same ones. A message that comes alone is a run.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

# Ascending numbers of messages; a range of them has no gaps.
Places = range | array  # type: ignore[type-arg]
# The fewer, the more reads hold a traced message; the more, the coarser the sample.
RUN_MESSAGES = 128
# 2**64 over the golden ratio: multiples of it are spread evenly, whichever batches are looked at.
_SPREAD = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def sampled(batch_number: int, count: int, every: int) -> Places | None:
    """The traced places of a batch of `count` messages; None if there are none."""
    if every == 1:
        return range(count) if count else None
    first = ((batch_number * _SPREAD & _MASK) * every >> 64) * RUN_MESSAGES
    if first >= count:
        return None
    step = every * RUN_MESSAGES
    if first + step >= count:
        return range(first, min(first + RUN_MESSAGES, count))
    places = array("I")
    for begin in range(first, count, step):
        places.extend(range(begin, min(begin + RUN_MESSAGES, count)))
    return places


def positions(chosen: Places, indexes: Places) -> Sequence[int]:
    """Where in `indexes` the chosen ones stand."""
    if isinstance(chosen, range):
        low = bisect_left(indexes, chosen.start)
        return range(low, bisect_left(indexes, chosen.stop, low))
    found = []
    low = 0
    for place in chosen:
        low = bisect_left(indexes, place, low)
        if low == len(indexes):
            break
        if indexes[low] == place:
            found.append(low)
    return found


def among(chosen: Places, indexes: Places) -> Places:
    """Those of `indexes` that are chosen."""
    if isinstance(chosen, range):
        if isinstance(indexes, range):
            low, high = max(chosen.start, indexes.start), min(chosen.stop, indexes.stop)
            return range(low, max(low, high))
        low = bisect_left(indexes, chosen.start)
        high = bisect_left(indexes, chosen.stop, low)
        return indexes if high - low == len(indexes) else indexes[low:high]
    return array("I", [indexes[position] for position in positions(chosen, indexes)])


def ranges(places: Sequence[int]) -> list[list[int]]:
    """Ascending numbers as [first, last] pairs."""
    if not places:
        return []
    if places[-1] - places[0] == len(places) - 1:
        return [[places[0], places[-1]]]
    found = []
    first = before = places[0]
    for place in places:
        if place > before + 1:
            found.append([first, before])
            first = place
        before = place
    found.append([first, before])
    return found
