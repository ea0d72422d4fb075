"""Shared by the decoder's tests: sessions as bytes, and decoded events in a form to compare.

Where a read ends decides where batches are cut, and nothing else. So `Decoded` joins what one
channel sent between two of its methods: all publishes in their order, all acks in theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leveret.amqp_frames.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD
from leveret.amqp_frames.decoder import Begun, ChannelInput, Decoder, Event, MethodFrame
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import BasicAck, Method, encode_method
from leveret.amqp_frames.properties import decode_properties

FRAME_MAX_BYTES = 131_072
MESSAGE_SIZE_MAX_BYTES = 1 << 27
UNFINISHED_PUBLISHES_BYTES_MAX = 1 << 28


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((FRAME_END,))


def publish_method(key: bytes, channel: int = 1) -> bytes:
    """The method frame; `key` is exchange, routing key and bits as on the wire."""
    return frame(FRAME_METHOD, struct.pack(">HHH", 60, 40, 0) + key, channel)


def content_header(body_bytes: int, properties: bytes = b"\0\0", channel: int = 1) -> bytes:
    return frame(FRAME_HEADER, struct.pack(">HHQ", 60, 0, body_bytes) + properties, channel)


def body_frames(body: bytes, part_bytes: int = 1 << 30, channel: int = 1) -> list[bytes]:
    return [
        frame(FRAME_BODY, body[start : start + part_bytes], channel)
        for start in range(0, len(body), part_bytes)
    ]


def ack(tag: int, multiple: bool = False, channel: int = 1) -> bytes:
    return encode_method(channel, BasicAck(tag, multiple))


class Publish(NamedTuple):
    """One publish; `properties` are flags and values as on the wire."""

    body: bytes = b"body"
    key: bytes = b"\0\5queue\0"
    properties: bytes = b"\0\0"
    channel: int = 1
    part_bytes: int = 1 << 30

    def frames(self) -> list[bytes]:
        return [
            publish_method(self.key, self.channel),
            content_header(len(self.body), self.properties, self.channel),
            *body_frames(self.body, self.part_bytes, self.channel),
        ]

    def wire(self) -> bytes:
        return b"".join(self.frames())

    def message(self) -> Message:
        return Message(self.key, self.properties, self.body)


class Message(NamedTuple):
    """A publish as it was decoded."""

    key: bytes
    properties: bytes
    body: bytes


class Oversize(NamedTuple):
    body_bytes: int


class Between(NamedTuple):
    """The publishes and acks that a channel sent between two of its methods."""

    publishes: list[Message | Oversize]
    acks: list[tuple[int, bool]]


class Decoded:
    """By channel what it sent, in order; the methods of all channels; the error's code and text."""

    def __init__(self) -> None:
        self.channels: dict[int, list[Between | Method]] = {}
        self.methods: list[tuple[int, Method]] = []
        self.error: tuple[int, str, int, int] | None = None
        self.lost_sync = False

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Decoded)
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(vars(self))

    def add(self, event: Event) -> None:
        if isinstance(event, Begun):
            return
        items = self.channels.setdefault(event.channel_number, [])
        if isinstance(event, MethodFrame):
            items.append(event.method)
            self.methods.append((event.channel_number, event.method))
            return
        if not items or isinstance(items[-1], Method):
            items.append(Between([], []))
        between = items[-1]
        assert isinstance(between, Between)
        if isinstance(event, ChannelInput):
            if event.batch is not None:
                assert event.batch.channel_number == event.channel_number
                between.publishes.extend(messages(event.batch))
            if event.acks is not None:
                tags = event.acks.tags
                between.acks.extend(zip(tags, map(bool, event.acks.multiples), strict=True))
        else:
            between.publishes.append(Oversize(event.body_bytes))

    def publishes(self, channel: int = 1) -> list[Message | Oversize]:
        return [
            message
            for item in self.channels.get(channel, [])
            if isinstance(item, Between)
            for message in item.publishes
        ]

    def acks(self, channel: int = 1) -> list[tuple[int, bool]]:
        return [
            each
            for item in self.channels.get(channel, [])
            if isinstance(item, Between)
            for each in item.acks
        ]


def decoder(
    frame_max_bytes: int = FRAME_MAX_BYTES,
    message_size_max_bytes: int = MESSAGE_SIZE_MAX_BYTES,
    unfinished_publishes_bytes_max: int = UNFINISHED_PUBLISHES_BYTES_MAX,
) -> Decoder:
    return Decoder(frame_max_bytes, message_size_max_bytes, unfinished_publishes_bytes_max)


def decoded(pieces: Iterable[bytes], **limits: int) -> Decoded:
    """The events that a new decoder returns for these reads."""
    reading = decoder(**limits)
    result = Decoded()
    for piece in pieces:
        for event in reading.feed(piece):
            result.add(event)
    error = reading.error
    if error is not None:
        result.error = error.reply_code, error.reply_text, error.class_id, error.method_id
    result.lost_sync = reading.lost_sync
    return result


def byte_by_byte(wire: bytes) -> list[bytes]:
    return [wire[at : at + 1] for at in range(len(wire))]


def three_ways(wire: bytes, **limits: int) -> Decoded:
    """The events of the bytes, decoded whole, byte by byte, and with the start of more behind."""
    whole = decoded([wire], **limits)
    assert decoded(byte_by_byte(wire), **limits) == whole
    # Half a method, of another channel: it completes nothing.
    trailing = publish_method(b"\0\0\0", channel=99)[:-1]
    assert decoded([wire + trailing], **limits) == whole
    return whole


def messages(batch: Batch) -> Iterator[Message]:
    """A batch's messages, after a look at all that the batch says of itself."""
    largest = 0
    for index in range(len(batch)):
        start, header, end = batch.starts[index], batch.headers[index], batch.ends[index]
        frames = list(split_frames(batch.wire[start:end]))
        kinds = [kind for kind, _, _ in frames]
        assert kinds == [FRAME_METHOD, FRAME_HEADER] + [FRAME_BODY] * (len(kinds) - 2)
        assert {channel for _, channel, _ in frames} == {batch.channel_number}
        payloads = [payload for _, _, payload in frames]
        assert header == start + len(payloads[0]) + 8
        body = b"".join(payloads[2:])
        assert batch.body_bytes(index) == len(body)
        key = batch.distinct[batch.keys[index]]
        # Two reserved octets stand before the names and mean nothing.
        assert payloads[0][:4] == b"\0\x3c\0\x28"
        assert payloads[0][6:] == key
        properties = payloads[1][12:]
        values = decode_properties(properties, 0, len(properties))
        assert batch.persistent[index] == (values.delivery_mode == 2)
        is_flagged = index in (batch.flagged or ())
        must_look = values.expiration is not None or values.user_id is not None
        must_look = must_look or values.delivery_mode not in (None, 1, 2)
        must_look = must_look or values.reply_to == "amq.rabbitmq.reply-to"
        if must_look or {"CC", "BCC"} & set(values.headers or ()):
            assert is_flagged
        elif not (values.headers or values.reply_to):
            assert not is_flagged
        largest = max(largest, *(len(payload) + 8 for payload in payloads[1:]))
        yield Message(key, properties, body)
    assert batch.frame_bytes_max == largest
    assert len(set(batch.distinct)) == len(batch.distinct) == len(set(batch.keys))
    neighbours = zip(batch.starts[1:], batch.ends, strict=False)
    assert batch.contiguous == all(start == end for start, end in neighbours)
    assert batch.wire_bytes == sum(batch.ends) - sum(batch.starts)


def split_frames(wire: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, channel and payload of each frame."""
    at = 0
    while at < len(wire):
        kind, channel, size = struct.unpack_from(">BHI", wire, at)
        assert wire[at + 7 + size] == FRAME_END
        yield kind, channel, wire[at + 7 : at + 7 + size]
        at += 8 + size
