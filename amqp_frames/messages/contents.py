"""The content of a message, header and body, for another channel or another frame_max."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from ..constants import EMPTY_FRAME_BYTES, FRAME_BODY, FRAME_END, FRAME_HEADER
from .batch import Batch

_frame_header = Struct(">BHI").pack
_size = Struct(">I").unpack_from
_FRAME_END: Final = bytes((FRAME_END,))

Buffer = bytes | memoryview


def fits(batch: Batch, frame_max_bytes: int) -> bool:
    """Is no frame of the batch larger than this? 0 means no limit."""
    return frame_max_bytes == 0 or batch.frame_bytes_max <= frame_max_bytes


def encode_contents(
    batch: Batch, indexes: Sequence[int], channel_number: int, frame_max_bytes: int
) -> list[bytes]:
    """Content header and body of each of these messages, for that channel and frame_max."""
    wire = batch.wire
    places = zip(column(batch.headers, indexes), column(batch.ends, indexes), strict=True)
    if not fits(batch, frame_max_bytes):
        cut = cut_contents(batch, indexes, channel_number, frame_max_bytes)
        return [b"".join(pieces) for pieces in cut]
    if batch.channel_number == channel_number:
        # As they came in.
        return [wire[header:end] for header, end in places]
    number = channel_number.to_bytes(2, "big")
    begin = bytes((FRAME_HEADER,)) + number
    contents: list[bytes] = []
    for header, end in places:
        body = header + 8 + _size(wire, header + 3)[0]
        if body != end and _size(wire, body + 3)[0] == end - body - 8:
            # A body of one frame: nothing but the channel number changes, in two places.
            contents.append(
                b"".join((begin, wire[header + 3 : body + 1], number, wire[body + 3 : end]))
            )
        else:
            contents.append(reframe_content(wire, header, end, channel_number, frame_max_bytes))
    return contents


def cut_contents(
    batch: Batch, indexes: Sequence[int], channel_number: int, frame_max_bytes: int
) -> Iterator[list[Buffer]]:
    """The same for a smaller frame_max, each in pieces that lie in the batch."""
    wire = batch.wire
    view = memoryview(wire)
    begin = bytes((FRAME_HEADER,)) + channel_number.to_bytes(2, "big")
    chunk_bytes_max = frame_max_bytes - EMPTY_FRAME_BYTES
    # Behind one frame that is full, before the next that is.
    next_full = _FRAME_END + _frame_header(FRAME_BODY, channel_number, chunk_bytes_max)
    for header, end in zip(
        column(batch.headers, indexes), column(batch.ends, indexes), strict=True
    ):
        body = header + 8 + _size(wire, header + 3)[0]
        if body == end or _size(wire, body + 3)[0] != end - body - 8:
            yield [reframe_content(wire, header, end, channel_number, frame_max_bytes)]
            continue
        # A body of one frame.
        pieces: list[Buffer] = [begin, view[header + 3 : body - 1]]
        at, last = body + 7, end - 1 - chunk_bytes_max
        while at < last:
            pieces += (next_full, view[at : at + chunk_bytes_max])
            at += chunk_bytes_max
        header_of_last = _frame_header(FRAME_BODY, channel_number, end - 1 - at)
        pieces += (_FRAME_END, header_of_last, view[at:end])
        yield pieces


def column(column: Sequence[int], indexes: Sequence[int]) -> Sequence[int]:
    """The column's values at these indexes."""
    if isinstance(indexes, range) and indexes.step == 1:
        return column[indexes.start : indexes.stop]
    return [column[index] for index in indexes]


def reframe_content(
    wire: bytes,
    header: int,
    end: int,
    channel_number: int,
    frame_max_bytes: int,
    properties: bytes | None = None,
) -> bytes:
    """The content in wire[header:end] with another channel number, split for another frame_max.

    `properties` (flags and values), if given, replace those of the content header, which cannot
    be split.
    """
    body = header + 8 + _size(wire, header + 3)[0]
    head = wire[header + 7 : body - 1]
    if properties is not None:
        head = head[:12] + properties
    view = memoryview(wire)
    chunks: list[memoryview] = []
    while body < end:
        chunk_end = body + 7 + _size(wire, body + 3)[0]
        chunks.append(view[body + 7 : chunk_end])
        body = chunk_end + 1
    chunk_bytes_max = (frame_max_bytes or 0xFFFFFFFF) - EMPTY_FRAME_BYTES
    if any(len(chunk) > chunk_bytes_max for chunk in chunks):
        whole = chunks[0] if len(chunks) == 1 else memoryview(b"".join(chunks))
        chunks = [
            whole[start : start + chunk_bytes_max]
            for start in range(0, len(whole), chunk_bytes_max)
        ]
    pieces: list[Buffer] = [frame(FRAME_HEADER, channel_number, head)]
    for chunk in chunks:
        pieces += (_frame_header(FRAME_BODY, channel_number, len(chunk)), chunk, _FRAME_END)
    return b"".join(pieces)


def frame(kind: int, channel_number: int, payload: bytes) -> bytes:
    """One whole frame."""
    return _frame_header(kind, channel_number, len(payload)) + payload + _FRAME_END
