"""Rows of indexes into a batch: its messages divided by what a column says of them.

Work for each message, and so in two forms (amqp_frames/compiled/); the Python one specifies it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ..compiled import codec
from .batch import Indexes


def rows_of(
    keys: Sequence[int], row_of_key: Sequence[int], row_count: int, count: int
) -> list[array[int]]:
    """Divide the first `count` messages into so many rows by their keys' numbers.

    Message k belongs to the row `row_of_key[keys[k]]`; the indexes of each row ascend. IndexError
    if a key or a row has no such number, ValueError if there are fewer than `count` keys.
    """
    if codec is not None:
        return codec.rows(_column(keys), _column(row_of_key), row_count, count)
    if count > len(keys):
        msg = "more messages than keys"
        raise ValueError(msg)
    rows = [array("I") for _ in range(row_count)]
    appends = [row.append for row in rows]
    for index, key in enumerate(keys[:count]):
        appends[row_of_key[key]](index)
    return rows


def split(
    indexes: Indexes, flags: bytes | bytearray, first_number: int
) -> tuple[array[int], array[int], array[int]]:
    """Split messages by a column of 0 and 1.

    Those flagged; the numbers of these, if all messages are numbered on from `first_number`, in
    64 bits; and the others. IndexError if a message has no flag.
    """
    if codec is not None:
        return codec.split(indexes, flags, first_number)
    flagged, numbers, others = array("I"), array("Q"), array("I")
    for number, index in enumerate(indexes, first_number):
        if flags[index]:
            flagged.append(index)
            numbers.append(number)
        else:
            others.append(index)
    return flagged, numbers, others


def divided(indexes: Indexes, chosen: Indexes) -> tuple[array[int], array[int]]:
    """Those indexes that are among the chosen ones, and the rest."""
    if codec is not None:
        return codec.divide(indexes, chosen)
    among = set(chosen)
    return (
        array("I", [index for index in indexes if index in among]),
        array("I", [index for index in indexes if index not in among]),
    )


def ranges_of(indexes: Indexes, first_number: int) -> list[tuple[int, int]]:
    """The numbers of ascending indexes as ranges: index 0 has `first_number`."""
    if codec is not None:
        return codec.ranges(indexes, first_number)
    if not indexes:
        return []
    ranges: list[tuple[int, int]] = []
    low = high = indexes[0]
    for index in indexes:
        if index > high + 1:
            ranges.append((first_number + low, first_number + high))
            low = index
        high = index
    ranges.append((first_number + low, first_number + high))
    return ranges


def _column(numbers: Sequence[int]) -> array[int]:
    return numbers if isinstance(numbers, array) else array("I", numbers)
