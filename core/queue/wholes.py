"""Messages that are one whole, as those of an MPUB: a queue takes all of them, or none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ...amqp_frames.messages.batch import Indexes


def next_row(
    wholes: Sequence[tuple[int, int]] | None, indexes: Indexes, position: int
) -> tuple[int, bool]:
    """How many messages from this position on are one whole, or else come before the next one.

    `wholes` are those of the batch whose indexes these are. The second value says which it is.
    """
    if not wholes:
        return len(indexes) - position, False
    place = bisect_right(wholes, indexes[position], key=_first)
    if place and indexes[position] < wholes[place - 1][1]:
        return bisect_left(indexes, wholes[place - 1][1], position) - position, True
    if place == len(wholes):
        return len(indexes) - position, False
    return bisect_left(indexes, wholes[place][0], position) - position, False


def _first(whole: tuple[int, int]) -> int:
    return whole[0]
