"""Lists of numbers as records hold them: packed, little-endian."""

from __future__ import annotations

import sys
from array import array

_LISTED_INDEX = array("I").itemsize
assert _LISTED_INDEX == 4, "array('I') is 32 bits wide wherever CPython runs today"


def little_endian(numbers: array[int]) -> bytes:
    """The bytes of a record; the array may be swapped in place."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def read_array(typecode: str, data: bytes, start: int, count: int) -> array[int]:
    """So many numbers from `start` on; ValueError if they are not all there."""
    numbers = array(typecode)
    numbers.frombytes(data[start : start + count * numbers.itemsize])
    if len(numbers) != count:
        msg = f"{count} numbers announced, {len(numbers)} there"
        raise ValueError(msg)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
