"""A few messages of a batch in a batch of their own.

A Batch keeps its whole read. Who keeps few messages of it for long keeps an excerpt instead, which
has their bytes and no others; everything that can be asked of a message has the same answer there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from .batch import Batch, Indexes
from .contents import column


def excerpt(batch: Batch, chosen: Indexes) -> Batch:
    """The messages with these numbers, which ascend, numbered from 0 on.

    `excerpted` of the new batch has the numbers that they had in the batch as it was routed, or
    read back. Not for the journal: who appends to it names the batch that was routed.
    """
    made = Batch(b"", batch.channel_number)
    starts, headers, ends = (
        column(each, chosen) for each in (batch.starts, batch.headers, batch.ends)
    )
    _copy_wire(made, batch, starts, headers, ends)
    numbers = column(batch.keys, chosen)
    used = sorted(set(numbers))
    made.distinct = [batch.distinct[number] for number in used]
    if len(used) == 1:
        made.keys = array("I", bytes(4 * len(numbers)))
    else:
        renumbered = {number: place for place, number in enumerate(used)}
        made.keys = array("I", [renumbered[number] for number in numbers])
    made.persistent = bytearray(column(batch.persistent, chosen))
    made.frame_bytes_max = batch.frame_bytes_max
    if batch.flagged is not None:
        made.flagged = _places(chosen, batch.flagged)
    if batch.ttls_ms is not None:
        made.ttls_ms = array("Q", column(batch.ttls_ms, chosen))
    made.number = batch.number
    if batch.durable is not None:
        made.durable = array("I", _places(chosen, batch.durable))
    made.journal_place = batch.journal_place
    if batch.traced is not None:
        made.traced = array("I", _places(chosen, batch.traced)) or None
    made.received_ns = batch.received_ns
    if batch.excerpted is None:
        made.excerpted = chosen
    else:
        made.excerpted = array("I", column(batch.excerpted, chosen))
    return made


def _places(chosen: Indexes, wanted: Indexes | list[int]) -> list[int]:
    """Where in `chosen`, which ascends, those of the wanted are that are in it."""
    if len(wanted) > len(chosen):
        among = wanted if isinstance(wanted, range) else frozenset(wanted)
        return [place for place, index in enumerate(chosen) if index in among]
    count = len(chosen)
    places = ((bisect_left(chosen, index), index) for index in wanted)
    return [place for place, index in places if place < count and chosen[place] == index]


def _copy_wire(
    made: Batch, batch: Batch, starts: Sequence[int], headers: Sequence[int], ends: Sequence[int]
) -> None:
    """The bytes of these messages, one behind the other, and where they are now."""
    wire, first = batch.wire, starts[0]
    if ends[-1] - first == sum(ends) - sum(starts):
        made.wire = wire[first : ends[-1]]
        made.starts = array("I", [start - first for start in starts])
        made.headers = array("I", [header - first for header in headers])
        made.ends = array("I", [end - first for end in ends])
        return
    pieces: list[bytes] = []
    position = 0
    for start, header, end in zip(starts, headers, ends, strict=True):
        pieces.append(wire[start:end])
        made.starts.append(position)
        made.headers.append(position + header - start)
        position += end - start
        made.ends.append(position)
    made.wire = b"".join(pieces)
