"""Runs of FIN: what a consumer sends for each message that it is done with."""

from __future__ import annotations

import re
from array import array
from operator import lt
from sys import byteorder
from typing import Final

from ..amqp_frames.compiled import codec

# With the id as the broker writes it; any other FIN goes command by command.
_RUN: Final = re.compile(rb"(?:FIN [0-9a-f]{16}\n)+")

IdRange = tuple[int, int]


def decode_finishes(data: bytes, position: int) -> tuple[list[IdRange], int]:
    """The run of FINs there: the ids, as ranges in the order of the commands, and its end.

    No range, and the same position, if there is none. Ids that follow each other make one range,
    as those of a consumer that finishes in the order of its deliveries do.
    """
    if codec is not None:
        return codec.nsq_finishes(data, position)
    found = _RUN.match(data, position)
    if found is None:
        return [], position
    end = found.end()
    # Blanks and line ends count for nothing among hexadecimal digits.
    octets = bytes.fromhex(data[position:end].replace(b"FIN", b"").decode())
    ids = array("Q", octets)
    if byteorder == "little":
        ids.byteswap()
    return id_ranges(ids), end


def id_ranges(ids: array[int]) -> list[IdRange]:
    """Ids as ranges, first and last, in their order; there is one at least."""
    first, last = ids[0], ids[-1]
    if last - first == len(ids) - 1 and all(map(lt, ids, ids[1:])):
        return [(first, last)]
    ranges: list[IdRange] = []
    low = high = first
    for each in ids[1:]:
        if each != high + 1:
            ranges.append((low, high))
            low = each
        high = each
    ranges.append((low, high))
    return ranges
