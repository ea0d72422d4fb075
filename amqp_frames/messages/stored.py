"""Reading back publishes whose bytes were checked when they came in, and have a checksum since.

The decoder (`publishes.py`) checks every octet of a publish, which is most of what it costs. Here
the frames' sizes alone are followed: a sixth of the time for messages with properties of their own.
The compiled decoder checks all in a tenth of that, so it reads publishes of one channel.
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from struct import Struct
from typing import Final

from ..compiled import codec
from ..constants import EMPTY_FRAME_BYTES
from ..properties import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_DELIVERY_MODE,
    FLAG_HEADERS,
    PERSISTENT,
)
from .batch import Batch
from .publishes import CompiledRun

_frame_header = Struct(">BHI").unpack_from
# Of a content header's frame: its payload's size and the body's.
_content_header = Struct(">3xI4xQ").unpack_from
_payload_bytes = Struct(">3xI").unpack_from

# The flags of properties up to the delivery mode, in their first octet.
_CONTENT_TYPE: Final = FLAG_CONTENT_TYPE >> 8
_CONTENT_ENCODING: Final = FLAG_CONTENT_ENCODING >> 8
_HEADERS: Final = FLAG_HEADERS >> 8
_DELIVERY_MODE: Final = FLAG_DELIVERY_MODE >> 8

_ANY_SIZE: Final = 0xFFFFFFFF


def read_stored(wire: bytes, are_persistent: bool = True) -> Batch:
    """The publishes that these bytes are, one behind the other; are all of them persistent?

    Their channels may differ: the batch's is -1 then. `flagged` is not found out, for only who
    routes a message asks for it. ValueError if the frames do not end where the bytes do.
    """
    if codec is not None:
        batch = CompiledRun(_ANY_SIZE, _ANY_SIZE).decode_alone(wire)
        if batch is not None:
            batch.flagged = None
            return batch
    size = len(wire)
    first_channel = int.from_bytes(wire[1:3], "big")
    batch = Batch(wire, first_channel)
    starts: list[int] = []
    headers: list[int] = []
    numbers: dict[bytes, int] = {}
    # The method frame of the message before, which is mostly that of the next, too.
    method, method_bytes = b"", 0
    # From which message on the key has which number.
    key_runs: list[tuple[int, int]] = []
    is_mixed = False
    largest = position = 0
    try:
        while position < size:
            if not method or not wire.startswith(method, position):
                _, channel, payload_bytes = _frame_header(wire, position)
                if channel != first_channel:
                    is_mixed = True
                method_bytes = EMPTY_FRAME_BYTES + payload_bytes
                method = wire[position : position + method_bytes]
                # Behind class, method and a reserved short; before the octet that ends the frame.
                number = numbers.setdefault(method[13:-1], len(numbers))
                key_runs.append((len(starts), number))
            header = position + method_bytes
            header_bytes, body_bytes = _content_header(wire, header)
            end = header + EMPTY_FRAME_BYTES + header_bytes
            if header_bytes > largest:
                largest = header_bytes
            while body_bytes > 0:
                (frame_bytes,) = _payload_bytes(wire, end)
                if not frame_bytes:
                    raise _not_publishes(wire, position)
                end += EMPTY_FRAME_BYTES + frame_bytes
                body_bytes -= frame_bytes
                if frame_bytes > largest:
                    largest = frame_bytes
            starts.append(position)
            headers.append(header)
            position = end
    except struct.error:
        raise _not_publishes(wire, position) from None
    if position != size:
        raise _not_publishes(wire, starts[-1])
    batch.starts = array("I", starts)
    batch.headers = array("I", headers)
    batch.ends = batch.starts[1:]
    batch.ends.append(size)
    for (first, number), (end, _) in pairwise([*key_runs, (len(starts), 0)]):
        batch.keys.extend(array("I", (number,)) * (end - first))
    batch.distinct = list(numbers)
    if are_persistent:
        batch.persistent = bytearray(b"\1") * len(starts)
    else:
        batch.persistent = bytearray(_is_persistent(wire, header) for header in headers)
    batch.frame_bytes_max = largest + EMPTY_FRAME_BYTES
    batch.wire_bytes = size
    if is_mixed:
        batch.channel_number = -1
    return batch


def _is_persistent(wire: bytes, header: int) -> bool:
    """Of the message with this content header."""
    flags = wire[header + 19]
    position = header + 21
    if flags & _CONTENT_TYPE:
        position += 1 + wire[position]
    if flags & _CONTENT_ENCODING:
        position += 1 + wire[position]
    if flags & _HEADERS:
        position += 4 + int.from_bytes(wire[position : position + 4], "big")
    return bool(flags & _DELIVERY_MODE) and wire[position] == PERSISTENT


def stored_starts(wire: memoryview) -> array[int]:
    """Where each of these publishes begins, and where the last ends; ValueError as above."""
    size = len(wire)
    starts = array("I", (0,))
    position = 0
    try:
        while position < size:
            position += EMPTY_FRAME_BYTES + _payload_bytes(wire, position)[0]
            header_bytes, body_bytes = _content_header(wire, position)
            position += EMPTY_FRAME_BYTES + header_bytes
            while body_bytes > 0:
                (frame_bytes,) = _payload_bytes(wire, position)
                if not frame_bytes:
                    raise _not_publishes(wire, starts[-1])
                position += EMPTY_FRAME_BYTES + frame_bytes
                body_bytes -= frame_bytes
            starts.append(position)
    except struct.error:
        raise _not_publishes(wire, starts[-1]) from None
    if position != size:
        raise _not_publishes(wire, starts[-2])
    return starts


def _not_publishes(wire: bytes | memoryview, position: int) -> ValueError:
    return ValueError(f"not a row of publishes: {bytes(wire[position : position + 64])!r}")
