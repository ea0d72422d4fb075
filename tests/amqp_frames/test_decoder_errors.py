"""Bytes that break the protocol: RabbitMQ's code and words, and which later events still count."""

from __future__ import annotations

import struct

import pytest
from decoding import (
    Publish,
    ack,
    content_header,
    decoded,
    frame,
    publish_method,
    three_ways,
)
from leveret.amqp_frames.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    HEARTBEAT_FRAME,
)
from leveret.amqp_frames.methods import (
    BasicDeliver,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    encode_method,
)

PUBLISH = (60, 40)
NONE = (0, 0)
METHOD = publish_method(b"\0\5queue\0")
HEADER_OF_4 = content_header(4)
EXPECTED_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
EXPECTED_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
EXPECTED_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"

CASES = {
    "header without a method": (HEADER_OF_4, 505, EXPECTED_METHOD, NONE),
    "body without a method": (frame(FRAME_BODY, b"x"), 505, EXPECTED_METHOD, NONE),
    "body after the whole body": (
        Publish().wire() + frame(FRAME_BODY, b"x"),
        505,
        EXPECTED_METHOD,
        NONE,
    ),
    "method instead of a header": (METHOD + METHOD, 505, EXPECTED_HEADER, PUBLISH),
    "ack instead of a header": (METHOD + ack(1), 505, EXPECTED_HEADER, PUBLISH),
    "body instead of a header": (METHOD + frame(FRAME_BODY, b""), 505, EXPECTED_HEADER, PUBLISH),
    "header with a weight": (
        METHOD + frame(FRAME_HEADER, struct.pack(">HHQH", 60, 1, 0, 0)),
        505,
        EXPECTED_HEADER,
        PUBLISH,
    ),
    "header of another class": (
        METHOD + frame(FRAME_HEADER, struct.pack(">HHQH", 50, 0, 0, 0)),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        PUBLISH,
    ),
    "method instead of a body": (METHOD + HEADER_OF_4 + METHOD, 505, EXPECTED_BODY, PUBLISH),
    "header instead of a body": (METHOD + HEADER_OF_4 * 2, 505, EXPECTED_BODY, PUBLISH),
    "method in the middle of a body": (
        METHOD + HEADER_OF_4 + frame(FRAME_BODY, b"ab") + ack(1),
        505,
        EXPECTED_BODY,
        PUBLISH,
    ),
    "body larger than announced": (
        METHOD + HEADER_OF_4 + frame(FRAME_BODY, b"12345"),
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
        PUBLISH,
    ),
    "second body frame larger than what remains": (
        METHOD + HEADER_OF_4 + frame(FRAME_BODY, b"123") + frame(FRAME_BODY, b"45"),
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
        PUBLISH,
    ),
    "body announced above what any broker takes": (
        METHOD + content_header(536_870_913),
        501,
        "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912",
        PUBLISH,
    ),
    "malformed properties": (
        METHOD + content_header(0, b"\x80\0\5abc"),
        502,
        "SYNTAX_ERROR - malformed basic properties",
        PUBLISH,
    ),
    "no properties where flags must be": (
        METHOD + frame(FRAME_HEADER, struct.pack(">HHQ", 60, 0, 4)),
        502,
        "SYNTAX_ERROR - malformed basic properties",
        PUBLISH,
    ),
    "publish whose names do not fill it": (
        publish_method(b"\0\5queue\0\0"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,0,5,113,117,101,117,101,0,0>>",
        PUBLISH,
    ),
    "unknown frame type": (
        frame(4, b"what?"),
        501,
        'FRAME_ERROR - type 4, all octets = <<"what?">>: unknown_frame',
        NONE,
    ),
    "unknown frame type with a long payload": (
        frame(7, bytes(range(40))),
        501,
        "FRAME_ERROR - type 7, first 16 octets = "
        "<<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15>>: unknown_frame",
        NONE,
    ),
    "octets that Erlang escapes": (
        frame(5, b'a"\\\n\x1b'),
        501,
        r'FRAME_ERROR - type 5, all octets = <<"a\"\\\n\e">>: unknown_frame',
        NONE,
    ),
    "method frame without both ids": (
        frame(FRAME_METHOD, b"\0\x3c"),
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60>>: unknown_frame",
        NONE,
    ),
    "header frame without a body size": (
        METHOD + frame(FRAME_HEADER, b"\0\x3c" + bytes(9)),
        501,
        "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0>>: unknown_frame",
        NONE,
    ),
    "heartbeat with a payload": (
        frame(FRAME_HEARTBEAT, b"\1", 0),
        501,
        "FRAME_ERROR - type 8, all octets = <<1>>: unknown_frame",
        NONE,
    ),
    "heartbeat on a channel": (
        frame(FRAME_HEARTBEAT, b"", 3),
        505,
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
        NONE,
    ),
    "content header on channel 0": (
        content_header(4, channel=0),
        505,
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,4,0,0>>",
        NONE,
    ),
    "body on channel 0": (
        frame(FRAME_BODY, b"x" * 17, 0),
        505,
        'UNEXPECTED_FRAME - type 3, first 16 octets = <<"xxxxxxxxxxxxxxxx">>',
        NONE,
    ),
    "unknown method": (
        frame(FRAME_METHOD, b"\0\x3c\0\x63"),
        540,
        "NOT_IMPLEMENTED - unknown method 60, 99",
        (60, 99),
    ),
    "delivery by a client": (
        encode_method(1, BasicDeliver()),
        503,
        "COMMAND_INVALID - unimplemented method",
        (60, 60),
    ),
    "return by a client": (
        encode_method(1, BasicReturn()),
        503,
        "COMMAND_INVALID - unimplemented method",
        (60, 50),
    ),
}

CLOSE = encode_method(0, ConnectionClose(200, "bye"))
CLOSE_OK = encode_method(0, ConnectionCloseOk())


@pytest.mark.parametrize(("wire", "code", "text", "method"), CASES.values(), ids=CASES.keys())
def test_the_error_has_rabbitmqs_code_and_words(
    wire: bytes, code: int, text: str, method: tuple[int, int]
) -> None:
    good = Publish()
    result = three_ways(good.wire() * 3 + wire, frame_max_bytes=4096)
    assert result.error == (code, text, *method)
    assert not result.lost_sync
    # What was whole before it still counts.
    assert result.publishes()[:3] == [good.message()] * 3


@pytest.mark.parametrize(("wire", "code", "text", "method"), CASES.values(), ids=CASES.keys())
def test_after_an_error_only_methods_on_channel_0_are_decoded(
    wire: bytes, code: int, text: str, method: tuple[int, int]
) -> None:
    before = three_ways(wire, frame_max_bytes=4096)
    more = (
        Publish().wire()
        + ack(1)
        + encode_method(1, ChannelClose())
        + frame(FRAME_BODY, b"", 0)
        + frame(99, b"?")
        + HEARTBEAT_FRAME
        + CLOSE
        + frame(FRAME_METHOD, b"\0\x0a\xff\xff", 0)
        + CLOSE_OK
    )
    result = three_ways(wire + more, frame_max_bytes=4096)
    assert result.error == before.error
    assert result.channels.pop(0) == [ConnectionClose(200, "bye"), ConnectionCloseOk()]
    assert result.channels == before.channels


def test_the_error_of_one_channel_ends_all() -> None:
    begun = b"".join(Publish(b"12", channel=2).frames()[:2])
    result = three_ways(begun + METHOD + METHOD + frame(FRAME_BODY, b"12", 2))
    assert result.publishes(2) == []


def test_a_frame_that_is_wrong_is_an_error_at_once_although_the_publish_is_not_whole() -> None:
    wrong_header = frame(FRAME_HEADER, struct.pack(">HHQ", 60, 0, 4))
    assert decoded([METHOD + wrong_header]).error is not None
    assert decoded([METHOD[:-1] + b"\0"]).lost_sync
    assert decoded([METHOD + HEADER_OF_4 + frame(FRAME_BODY, b"", 2)]).error is not None


def test_a_soft_code_never_comes_from_the_decoder() -> None:
    codes = {code for _, code, _, _ in CASES.values()}
    assert codes == {501, 502, 503, 505, 540}


def test_an_unopened_channel_is_not_the_decoders_concern() -> None:
    assert three_ways(encode_method(9, ChannelOpen())).error is None
