"""Frames after which it is not known where the next begins: the words, and the silence then."""

from __future__ import annotations

import struct

import pytest
from decoding import Publish, ack, content_header, decoder, frame, publish_method, three_ways
from leveret.amqp_frames.constants import FRAME_BODY, HEARTBEAT_FRAME
from leveret.amqp_frames.methods import ConnectionClose, ConnectionCloseOk, encode_method

METHOD = publish_method(b"\0\5queue\0")
HEADER_OF_4 = content_header(4)
CLOSE = encode_method(0, ConnectionClose(200, "bye"))
CLOSE_OK = encode_method(0, ConnectionCloseOk())

LOST = {
    "bad end of a method": (
        ack(1)[:-1] + b"\0",
        "FRAME_ERROR - type 1, first 16 octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: "
        "{invalid_frame_end_marker,0}".replace("first 16", "all"),
    ),
    "bad end of a heartbeat": (
        HEARTBEAT_FRAME[:-1] + b"\xcf",
        "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,207}",
    ),
    "bad end of a publish's method": (
        METHOD[:-1] + b"A",
        "FRAME_ERROR - type 1, all octets = <<0,60,0,40,0,0,0,5,113,117,101,117,101,0>>: "
        "{invalid_frame_end_marker,65}",
    ),
    "bad end of a content header": (
        METHOD + HEADER_OF_4[:-1] + b"A",
        "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,4,0,0>>: "
        "{invalid_frame_end_marker,65}",
    ),
    "bad end of a body": (
        Publish(b"0123456789abcdefg").wire()[:-1] + b"A",
        'FRAME_ERROR - type 3, first 16 octets = <<"0123456789abcdef">>: '
        "{invalid_frame_end_marker,65}",
    ),
    "frame too large": (
        frame(FRAME_BODY, bytes(4097)),
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}",
    ),
    "size of which nothing comes": (
        b"\x63\0\1\xff\xff\xff\xff",
        "FRAME_ERROR - type 99, all octets = <<>>: {frame_too_large,4294967295,4088}",
    ),
    "body frame too large": (
        Publish(b"x" * 5000).wire(),
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,5000,4088}",
    ),
    "content header too large": (
        METHOD + content_header(0, b"\x20\0" + struct.pack(">I", 5000) + bytes(5000)),
        "FRAME_ERROR - type 2, all octets = <<>>: {frame_too_large,5018,4088}",
    ),
}


@pytest.mark.parametrize(("wire", "text"), LOST.values(), ids=LOST.keys())
def test_when_frame_boundaries_are_lost_nothing_more_is_decoded(wire: bytes, text: str) -> None:
    good = Publish()
    result = three_ways(good.wire() * 3 + wire, frame_max_bytes=4096)
    assert result.error == (501, text, 0, 0)
    assert result.lost_sync
    assert result.publishes() == [good.message()] * 3
    assert three_ways(good.wire() * 3 + wire + CLOSE_OK * 3, frame_max_bytes=4096) == result


def test_an_error_may_be_followed_by_the_loss_of_sync() -> None:
    result = three_ways(frame(99, b"?") + CLOSE + b"\1\0\0\0\0\0\0\0" + CLOSE_OK)
    assert result.error is not None
    assert "unknown_frame" in result.error[1]
    assert result.lost_sync
    assert result.methods == [(0, ConnectionClose(200, "bye"))]


def test_a_frame_too_large_is_refused_when_its_size_is_read() -> None:
    reading = decoder()
    assert reading.feed(b"\3\0\1\0\2\0") == []
    assert reading.error is None
    reading.feed(b"\x09")
    assert reading.error is not None
    assert reading.error.reply_text == (
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131081,131064}"
    )
