"""From batches to the frames of deliveries and returns: the one loop over messages on the way out.

A message's content header and body are written as they came in when the receiving channel has the
number that is in them and every frame fits the receiver's frame_max; else the channel number is
patched, or the body split anew. The stored bytes do not depend on the receiver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from ..compiled import codec
from ..constants import CLASS_BASIC, FRAME_END, FRAME_METHOD, NO_ROUTE
from ..methods import BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReturn
from .batch import Batch
from .contents import Buffer, column, cut_contents, encode_contents, fits, frame, reframe_content

_frame_header = Struct(">BHI").pack
_tag = Struct(">Q").pack
# A whole basic.ack or basic.nack frame: frame header, ids, tag, bits, frame end.
_answer = Struct(">BHIHHQBB").pack
_FRAME_END: Final = bytes((FRAME_END,))
_ANSWER_BYTES: Final = 13
# Where the tag stands in an ack's frame.
_TAG_AT: Final = 11
_MULTIPLE: Final = 1
_REQUEUE: Final = 2
_RETURN: Final = BasicReturn.prefix + NO_ROUTE.to_bytes(2, "big") + b"\x08NO_ROUTE"
BASIC_ACK: Final = BasicAck.method_id
BASIC_NACK: Final = BasicNack.method_id


def encode_deliveries(
    batch: Batch,
    indexes: Sequence[int],
    first_delivery_tag: int,
    consumer_tag: bytes,
    redelivered: bool,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.deliver for these messages, with ascending delivery tags.

    `consumer_tag` is a short string as on the wire; `frame_max_bytes` 0 means no limit.
    """
    if codec is not None and fits(batch, frame_max_bytes):
        return codec.deliveries(
            batch.wire,
            batch.headers,
            batch.ends,
            batch.keys,
            batch.distinct,
            indexes,
            channel_number,
            batch.channel_number != channel_number,
            BasicDeliver.prefix + consumer_tag,
            first_delivery_tag,
            redelivered,
        )
    # What stands before and behind the delivery tag, by number of key.
    around: dict[int, tuple[bytes, bytes]] = {}
    for number in _keys_used(batch, indexes):
        key = batch.distinct[number]
        # The key ends with the octet of bits, whose place is the redelivered bit's here.
        method_bytes = 4 + len(consumer_tag) + 8 + len(key)
        around[number] = (
            _frame_header(FRAME_METHOD, channel_number, method_bytes)
            + BasicDeliver.prefix
            + consumer_tag,
            (b"\1" if redelivered else b"\0") + key[:-1] + _FRAME_END,
        )
    if not fits(batch, frame_max_bytes):
        cut = cut_contents(batch, indexes, channel_number, frame_max_bytes)
        return _around_cut(batch, indexes, first_delivery_tag, around, cut)
    contents = encode_contents(batch, indexes, channel_number, frame_max_bytes)
    tag = first_delivery_tag
    pieces: list[bytes] = []
    if len(around) == 1:
        ((before, after),) = around.values()
        for content in contents:
            pieces += (before, _tag(tag), after, content)
            tag += 1
    else:
        for number, content in zip(column(batch.keys, indexes), contents, strict=True):
            before, after = around[number]
            pieces += (before, _tag(tag), after, content)
            tag += 1
    return b"".join(pieces)


def _around_cut(
    batch: Batch,
    indexes: Sequence[int],
    tag: int,
    around: dict[int, tuple[bytes, bytes]],
    cut: Iterable[list[Buffer]],
) -> bytes:
    """The methods around contents that are in pieces: these are large, and copied only once."""
    pieces: list[Buffer] = []
    for number, content in zip(column(batch.keys, indexes), cut, strict=True):
        before, after = around[number]
        pieces += (before, _tag(tag), after)
        pieces += content
        tag += 1
    return b"".join(pieces)


def _keys_used(batch: Batch, indexes: Sequence[int]) -> Iterable[int]:
    """Numbers of keys, those of these messages among them: not many more than messages."""
    if len(batch.distinct) <= len(indexes):
        return range(len(batch.distinct))
    return set(column(batch.keys, indexes))


def encode_get_ok(
    batch: Batch,
    index: int,
    delivery_tag: int,
    redelivered: bool,
    message_count: int,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.get-ok for one message; `message_count` is the number of messages left in
    the queue."""
    method = b"".join(
        (
            BasicGetOk.prefix,
            _tag(delivery_tag),
            b"\1" if redelivered else b"\0",
            batch.distinct[batch.keys[index]][:-1],
            message_count.to_bytes(4, "big"),
        )
    )
    content = encode_contents(batch, range(index, index + 1), channel_number, frame_max_bytes)
    return frame(FRAME_METHOD, channel_number, method) + content[0]


def encode_returns(
    batch: Batch,
    indexes: Sequence[int],
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
) -> bytes:
    """The frames of basic.return 312 NO_ROUTE for these messages, each behind it its own ack.

    Return before confirm: method, header and body of the return stand directly before the ack in
    the same write. `first_seq_no` is the number of the batch's first message, or 0 outside
    confirm mode: then no acks.
    """
    if codec is not None and fits(batch, frame_max_bytes):
        return codec.returns(
            batch.wire,
            batch.headers,
            batch.ends,
            batch.keys,
            batch.distinct,
            indexes,
            channel_number,
            batch.channel_number != channel_number,
            _RETURN,
            first_seq_no,
        )
    methods = {
        number: _return_method(batch, number, channel_number)
        for number in _keys_used(batch, indexes)
    }
    contents = encode_contents(batch, indexes, channel_number, frame_max_bytes)
    keys = column(batch.keys, indexes)
    pieces: list[bytes] = []
    if not first_seq_no:
        for key, content in zip(keys, contents, strict=True):
            pieces += (methods[key], content)
        return b"".join(pieces)
    # An ack frame is all the same but for its tag.
    ack = encode_ack(channel_number, 0)
    before, after = ack[:_TAG_AT], ack[_TAG_AT + 8 :]
    for index, key, content in zip(indexes, keys, contents, strict=True):
        pieces += (methods[key], content, before, _tag(first_seq_no + index), after)
    return b"".join(pieces)


def encode_tagged_return(
    batch: Batch,
    index: int,
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
    properties: bytes,
) -> bytes:
    """The same for one message, with `properties` (flags and values) in place of its own."""
    content = reframe_content(
        batch.wire,
        batch.headers[index],
        batch.ends[index],
        channel_number,
        frame_max_bytes,
        properties,
    )
    method = _return_method(batch, batch.keys[index], channel_number)
    return method + content + encode_ack(channel_number, first_seq_no + index)


def _return_method(batch: Batch, key_number: int, channel_number: int) -> bytes:
    return frame(FRAME_METHOD, channel_number, _RETURN + batch.distinct[key_number][:-1])


def encode_ack(channel_number: int, tag: int) -> bytes:
    """The frame of basic.ack for one publish."""
    return _answer(
        FRAME_METHOD, channel_number, _ANSWER_BYTES, CLASS_BASIC, BASIC_ACK, tag, 0, FRAME_END
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
    bits = 0 if method_id == BASIC_ACK else _REQUEUE
    if codec is not None:
        return codec.answers(channel_number, method_id, bits, cumulative, singles)
    answers: list[tuple[int, int]] = []
    if cumulative:
        answers.append((cumulative, bits | _MULTIPLE))
    for first, last in singles:
        answers += [(tag, bits) for tag in range(first, last + 1)]
    return b"".join(
        [
            _answer(
                FRAME_METHOD,
                channel_number,
                _ANSWER_BYTES,
                CLASS_BASIC,
                method_id,
                tag,
                bits,
                FRAME_END,
            )
            for tag, bits in answers
        ]
    )
