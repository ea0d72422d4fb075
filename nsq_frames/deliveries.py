"""From batches to message frames: the one loop over messages on the way out."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from ..amqp_frames.compiled import codec
from ..amqp_frames.constants import EMPTY_FRAME_BYTES, FRAME_HEADER_BYTES
from ..amqp_frames.messages.contents import column
from .responses import FRAME_MESSAGE

ATTEMPTS_MAX: Final = 0xFFFF
ID_BYTES: Final = 16
# Kind, timestamp, attempts and id, which the size counts with the body.
_HEAD_BYTES: Final = 4 + 8 + 2 + ID_BYTES

_size = Struct(">I").unpack_from
_head = Struct(">IIqH").pack


def message_id(entry_id: int) -> bytes:
    """An entry's id as clients see it: 16 hexadecimal digits."""
    return b"%016x" % entry_id


def encode_messages(
    wire: bytes,
    headers: Sequence[int],
    ends: Sequence[int],
    indexes: Sequence[int],
    first_entry_id: int,
    attempts: int,
    timestamp_ns: int,
) -> bytes:
    """The frames of these messages of a batch, whose entry ids ascend by one.

    `attempts` counts this delivery; above 65,535 it stays there. The timestamp is in nanoseconds
    since the epoch.
    """
    attempts = min(attempts, ATTEMPTS_MAX)
    if codec is not None:
        return codec.nsq_messages(
            wire, headers, ends, indexes, first_entry_id, attempts, timestamp_ns
        )
    pieces: list[bytes] = []
    entry_id = first_entry_id
    for header, end in zip(column(headers, indexes), column(ends, indexes), strict=True):
        # Behind the content header's frame.
        at = header + EMPTY_FRAME_BYTES + _size(wire, header + 3)[0]
        body_at = at + FRAME_HEADER_BYTES
        if at < end and body_at + _size(wire, at + 3)[0] + 1 == end:
            body = wire[body_at : end - 1]
        else:
            body = _body(wire, at, end)
        head = _head(_HEAD_BYTES + len(body), FRAME_MESSAGE, timestamp_ns, attempts)
        pieces += (head, b"%016x" % entry_id, body)
        entry_id += 1
    return b"".join(pieces)


def _body(wire: bytes, at: int, end: int) -> bytes:
    """A body of several frames, or of none."""
    chunks = []
    while at < end:
        chunk_end = at + FRAME_HEADER_BYTES + _size(wire, at + 3)[0]
        chunks.append(wire[at + FRAME_HEADER_BYTES : chunk_end])
        at = chunk_end + 1
    return b"".join(chunks)
