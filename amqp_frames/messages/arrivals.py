"""When the messages of a batch arrived, where the journal or the spill has kept it.

Of a batch that came in as one it is one time. Messages that are read back together may be of many
batches: then it is a row of runs, because a row of times would be eight bytes for each message.
Times are nanoseconds since the epoch, by the wall clock; 0 is not known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

NOT_KNOWN: Final = 0
# NSQ's messages have it as a number with a sign.
ARRIVED_NS_MAX: Final = 2**63 - 1


class ArrivalRuns(NamedTuple):
    """Messages from the end of the run before up to `ends[k]` arrived at `times_ns[k]`."""

    ends: array[int]
    times_ns: array[int]


# Of all messages of a batch.
Arrived: TypeAlias = int | ArrivalRuns


def joined_arrivals(parts: Iterable[tuple[Arrived, int]]) -> Arrived:
    """Those of so many messages each, one part behind the other."""
    ends, times_ns = array("I"), array("Q")
    end = 0
    for arrived, count in parts:
        if isinstance(arrived, int):
            runs: Sequence[tuple[int, int]] = ((count, arrived),)
        else:
            runs = tuple(zip(*arrived, strict=True))
        for run_end, time_ns in runs:
            if times_ns and times_ns[-1] == time_ns:
                ends[-1] = end + run_end
            else:
                ends.append(end + run_end)
                times_ns.append(time_ns)
        end += count
    return times_ns[0] if len(times_ns) == 1 else ArrivalRuns(ends, times_ns)


def arrivals_of(arrived: Arrived, indexes: Sequence[int]) -> Arrived:
    """Those of the messages with these indexes, which ascend."""
    if isinstance(arrived, int):
        return arrived
    return joined_arrivals(
        (time_ns, high - low) for low, high, time_ns in runs_of(arrived, indexes)
    )


def runs_of(arrived: Arrived, indexes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The indexes, which ascend, divided by arrival: from and to which position, and the time."""
    count = len(indexes)
    if isinstance(arrived, int):
        yield 0, count, arrived
        return
    ends, times_ns = arrived
    low = 0
    while low < count:
        run = bisect_right(ends, indexes[low])
        high = bisect_left(indexes, ends[run], low + 1)
        yield low, high, times_ns[run]
        low = high
