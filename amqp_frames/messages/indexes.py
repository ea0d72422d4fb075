"""Rows of indexes into a batch: its messages divided by what a column says of them.

Work for each message, and so in two forms (amqp_frames/compiled/); the Python one specifies it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ..compiled import codec


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
    for index, key in enumerate(keys[:count]):
        rows[row_of_key[key]].append(index)
    return rows


def _column(numbers: Sequence[int]) -> array[int]:
    return numbers if isinstance(numbers, array) else array("I", numbers)
