"""A row of basic.ack frames of one channel, taken without making a method of each."""

from __future__ import annotations

from struct import Struct
from typing import Final

from .batch import Acks
from .constants import FRAME_END
from .methods import BasicAck

_tag_and_multiple = Struct(">QB").unpack_from
# A basic.ack frame from its size on.
ACK_SIZE_AND_IDS: Final = b"\x00\x00\x00\x0d" + BasicAck.prefix
_ACK_FRAME_BYTES: Final = 21


def is_whole_ack(data: bytes, position: int) -> bool:
    """Is the frame whole and well ended that begins at `position` as a basic.ack does?"""
    end = position + _ACK_FRAME_BYTES
    return end <= len(data) and data[end - 1] == FRAME_END


def take_acks(acks: Acks, data: bytes, position: int) -> int:
    """Take the whole basic.ack at `position` and those of its channel behind it; return the end."""
    size = len(data)
    prefix = data[position : position + 11]
    end = position + _ACK_FRAME_BYTES
    tags, multiples = acks.tags, acks.multiples
    while True:
        tag, multiple = _tag_and_multiple(data, position + 11)
        tags.append(tag)
        multiples.append(multiple & 1)
        position = end
        end += _ACK_FRAME_BYTES
        if end > size or data[end - 1] != FRAME_END or not data.startswith(prefix, position):
            return position
