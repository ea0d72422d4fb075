"""Messages that say who published them and as which, and show any octet that was altered.

A message is known by its key: publisher and number in one integer, which ascends with the number.
Its size and octets follow from the key, so a reader can tell what it must be.
"""

from __future__ import annotations

import random
import struct
from zlib import crc32

_HEAD = struct.Struct(">4sHI")
_MAGIC = b"LVRT"
_CRC = struct.Struct(">I")
_FILL = random.Random(1).randbytes(400_000)
_PER_PUBLISHER = 10**9


def key_of(publisher: int, number: int) -> int:
    """The key of a publisher's message; numbers begin with 1."""
    return publisher * _PER_PUBLISHER + number


def publisher_of(key: int) -> int:
    """Whose message it is."""
    return key // _PER_PUBLISHER


def body_of(key: int) -> bytes:
    """Small as a rule; some are of a few frames of 4 KB, a few larger than a socket read."""
    publisher, number = divmod(key, _PER_PUBLISHER)
    size = 60 + number * 37 % 300
    if number % 101 == 0:
        size = 9_000
    elif number % 2003 == 0:
        size = 300_000
    fill = _FILL[number % 1000 : number % 1000 + size]
    body = _HEAD.pack(_MAGIC, publisher, number) + fill
    return body + _CRC.pack(crc32(body))


def key_in(body: bytes) -> int:
    """Which message this is; AssertionError if it is none, or altered."""
    magic, publisher, number = _HEAD.unpack_from(body)
    assert magic == _MAGIC, f"altered: {body[:40]!r}"
    assert crc32(body[:-4]) == _CRC.unpack(body[-4:])[0], f"altered: {publisher}/{number}"
    key = key_of(publisher, number)
    assert body == body_of(key), f"altered: {publisher}/{number}"
    return key
