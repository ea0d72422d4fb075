"""From batches to the frames of deliveries and returns: the one loop over messages on the way out.

A message's content header and body are written as they came in when the receiving channel has the
number that is in them and every frame fits the receiver's frame_max; else the channel number is
patched, or the body split anew. What is stored does not depend on the receiver.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from .batch import Batch

_frame_header = Struct(">BHI").pack
_tag = Struct(">Q").pack
# A whole basic.ack or basic.nack frame: frame header, ids, tag, bits, frame end.
_answer = Struct(">BHIHHQBB").pack
BASIC_ACK = 80
BASIC_NACK = 120
_long = Struct(">I").unpack_from
_FRAME_OVERHEAD_BYTES = 8
_DELIVER = b"\x00\x3c\x00\x3c"
_GET_OK = b"\x00\x3c\x00\x47"
_RETURN = b"\x00\x3c\x00\x32"


def encode_deliveries(
    batch: Batch,
    indexes: Iterable[int],
    first_delivery_tag: int,
    consumer_tag: bytes,
    redelivered: bool,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.deliver for these messages, with ascending delivery tags.

    `consumer_tag` is a short string as on the wire; `frame_max_bytes` 0 means no limit.
    """
    wire, headers, ends, keys = batch.wire, batch.headers, batch.ends, batch.keys
    before_tag: list[bytes] = []
    after_tag: list[bytes] = []
    for key in batch.distinct:
        method_bytes = 4 + len(consumer_tag) + 8 + len(key)
        before_tag.append(_frame_header(1, channel_number, method_bytes) + _DELIVER + consumer_tag)
        # The key ends with the octet of bits, which gives its place to the frame end.
        after_tag.append((b"\x01" if redelivered else b"\x00") + key[:-1] + b"\xce")
    pieces: list[bytes] = []
    tag = first_delivery_tag
    if passes_through(batch, channel_number, frame_max_bytes):
        if len(before_tag) == 1:
            before, after = before_tag[0], after_tag[0]
            for index in indexes:
                pieces += (before, _tag(tag), after, wire[headers[index] : ends[index]])
                tag += 1
        else:
            for index in indexes:
                key_number = keys[index]
                pieces += (
                    before_tag[key_number],
                    _tag(tag),
                    after_tag[key_number],
                    wire[headers[index] : ends[index]],
                )
                tag += 1
        return b"".join(pieces)
    patches = frame_max_bytes == 0 or batch.frame_bytes_max <= frame_max_bytes
    number = channel_number.to_bytes(2, "big")
    for index in indexes:
        key_number = keys[index]
        header, end = headers[index], ends[index]
        pieces += (before_tag[key_number], _tag(tag), after_tag[key_number])
        tag += 1
        body = header + 8 + _long(wire, header + 3)[0]
        if patches and body != end and _long(wire, body + 3)[0] == end - body - 8:
            # A body of one frame.
            pieces += (b"\x02", number, wire[header + 3 : body + 1], number, wire[body + 3 : end])
        else:
            pieces.append(reframe_content(wire, header, end, channel_number, frame_max_bytes))
    return b"".join(pieces)


def passes_through(batch: Batch, channel_number: int, frame_max_bytes: int) -> bool:
    """May this batch's content frames be written as they came in?"""
    return batch.channel_number == channel_number and (
        frame_max_bytes == 0 or batch.frame_bytes_max <= frame_max_bytes
    )


def encode_get_ok(
    batch: Batch,
    index: int,
    delivery_tag: int,
    redelivered: bool,
    message_count: int,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.get-ok for one message; `message_count` is what is left in the queue."""
    key = batch.distinct[batch.keys[index]]
    method = b"".join(
        (
            _GET_OK,
            _tag(delivery_tag),
            b"\x01" if redelivered else b"\x00",
            key[:-1],
            message_count.to_bytes(4, "big"),
        )
    )
    return _with_content(method, batch, index, channel_number, frame_max_bytes)


def encode_returns(
    batch: Batch,
    indexes: Iterable[int],
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.return 312 NO_ROUTE for these messages, each behind it its own ack.

    Return before confirm: method, header and body of the return stand directly before the ack in
    the same write. `first_seq_no` is the number of the batch's first message, or 0 outside
    confirm mode: then no acks.
    """
    methods = []
    for key in batch.distinct:
        method = _RETURN + b"\x01\x38\x08NO_ROUTE" + key[:-1]
        methods.append(_frame_header(1, channel_number, len(method)) + method + b"\xce")
    wire, headers, ends, keys = batch.wire, batch.headers, batch.ends, batch.keys
    unchanged = passes_through(batch, channel_number, frame_max_bytes)
    pieces: list[bytes] = []
    for index in indexes:
        header, end = headers[index], ends[index]
        content = (
            wire[header:end]
            if unchanged
            else reframe_content(wire, header, end, channel_number, frame_max_bytes)
        )
        pieces += (methods[keys[index]], content)
        if first_seq_no:
            pieces.append(_answer(1, channel_number, 13, 60, 80, first_seq_no + index, 0, 0xCE))
    return b"".join(pieces)


def encode_return(
    batch: Batch, index: int, channel_number: int, frame_max_bytes: int, properties: bytes
) -> bytes:
    """The frames of one basic.return 312, with `properties` (flags and values) in its header."""
    method = _RETURN + b"\x01\x38\x08NO_ROUTE" + batch.distinct[batch.keys[index]][:-1]
    return (
        _frame_header(1, channel_number, len(method))
        + method
        + b"\xce"
        + reframe_content(
            batch.wire,
            batch.headers[index],
            batch.ends[index],
            channel_number,
            frame_max_bytes,
            properties,
        )
    )


def encode_answers(
    channel_number: int,
    method_id: int,
    cumulative: int,
    singles: Iterable[tuple[int, int]],
) -> bytes:
    """The frames of basic.ack (method_id 80) or basic.nack (120) that answer publishes.

    `cumulative`, if not 0, goes first with multiple=true; `singles` are ranges of tags answered
    one by one. A nack has the requeue bit set, as RabbitMQ's has: publishers must ignore it.
    """
    bits = 0 if method_id == BASIC_ACK else 2
    pieces: list[bytes] = []
    if cumulative:
        pieces.append(_answer(1, channel_number, 13, 60, method_id, cumulative, bits | 1, 0xCE))
    for first, last in singles:
        for tag in range(first, last + 1):
            pieces.append(_answer(1, channel_number, 13, 60, method_id, tag, bits, 0xCE))
    return b"".join(pieces)


def _with_content(
    method: bytes, batch: Batch, index: int, channel_number: int, frame_max_bytes: int
) -> bytes:
    header, end = batch.headers[index], batch.ends[index]
    if passes_through(batch, channel_number, frame_max_bytes):
        content = batch.wire[header:end]
    else:
        content = reframe_content(batch.wire, header, end, channel_number, frame_max_bytes)
    return _frame_header(1, channel_number, len(method)) + method + b"\xce" + content


def reframe_content(
    wire: bytes,
    header: int,
    end: int,
    channel_number: int,
    frame_max_bytes: int,
    properties: bytes | None = None,
) -> bytes:
    """The content in wire[header:end] with another channel number, split for another frame_max.

    `properties` (flags and values), if given, replace those of the content header.
    """
    body = header + 8 + _long(wire, header + 3)[0]
    head = wire[header + 7 : body - 1]
    if properties is not None:
        head = head[:12] + properties
    pieces = [_frame_header(2, channel_number, len(head)), head, b"\xce"]
    chunks: list[memoryview] = []
    view = memoryview(wire)
    while body < end:
        size = _long(wire, body + 3)[0]
        chunks.append(view[body + 7 : body + 7 + size])
        body += 8 + size
    chunk_bytes_max = (frame_max_bytes or 0xFFFFFFFF) - _FRAME_OVERHEAD_BYTES
    if any(len(chunk) > chunk_bytes_max for chunk in chunks):
        whole = memoryview(b"".join(chunks))
        chunks = [
            whole[start : start + chunk_bytes_max]
            for start in range(0, len(whole), chunk_bytes_max)
        ]
    for chunk in chunks:
        pieces += (_frame_header(3, channel_number, len(chunk)), chunk, b"\xce")
    return b"".join(pieces)
