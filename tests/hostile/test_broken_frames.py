"""Frames that break the protocol: each gets its connection.close, and nobody else notices.

Words are RabbitMQ's where SEMANTICS has them.
"""

from __future__ import annotations

import struct

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from bystander import Bystander
from socket_client import EndedError, RefusedError, SocketClient

pytestmark = pytest.mark.usefixtures("bystander")

PUBLISH = wire.publish_method(1, "", "queue")
WHOLE = wire.publish(1, "", "queue", b"hello")
HEADER = wire.content_header(1, 5)
DEEP = b"\1aF\0\0\0\xff"
EXPECTED_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
OTHER_CLASS = (
    "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
)


def properties(flags: int, values: bytes) -> bytes:
    return wire.frame(2, 1, struct.pack(">HHQH", 60, 0, 5, flags) + values)


# What is sent on an open channel 1; the code; how the text begins.
BROKEN: dict[str, tuple[bytes, int, str]] = {
    "a frame end is missing": (
        wire.ack(1, 1)[:-1] + b"\0",
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: "
        "{invalid_frame_end_marker,0}",
    ),
    "a frame end is missing behind a body": (
        WHOLE[:-1] + b"x" + WHOLE,
        501,
        'FRAME_ERROR - type 3, all octets = <<"hello">>: {invalid_frame_end_marker,120}',
    ),
    "a frame end is missing behind a header": (
        PUBLISH + HEADER[:-1] + b"x",
        501,
        "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,5,16,0,2>>: "
        "{invalid_frame_end_marker,120}",
    ),
    "a frame end is missing behind a publish": (
        PUBLISH[:-1] + b"x" + HEADER,
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,40,0,0,0,5,113,117,101,117,101,0>>: "
        "{invalid_frame_end_marker,120}",
    ),
    "a frame is too large": (
        struct.pack(">BHI", 3, 1, 200_000) + b"x",
        501,
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,200000,131064}",
    ),
    "a frame is larger than memory": (
        struct.pack(">BHI", 1, 1, 2**32 - 1) + b"x",
        501,
        "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131064}",
    ),
    "a frame has an unknown type": (wire.frame(9, 1, b"abc"), 501, "FRAME_ERROR - type 9"),
    "a heartbeat has a payload": (wire.frame(8, 0, b"x"), 501, "FRAME_ERROR - type 8"),
    "a heartbeat is on a channel": (wire.frame(8, 1, b""), 505, "UNEXPECTED_FRAME - type 8"),
    "a method has no ids": (wire.frame(1, 1, b"\0\x3c"), 501, "FRAME_ERROR - type 1"),
    "a method is cut short": (wire.method(1, wire.QOS, b"\0"), 501, "FRAME_ERROR"),
    "a method has octets left over": (wire.method(1, wire.ACK, bytes(20)), 501, "FRAME_ERROR"),
    "a class is unknown": (wire.method(1, (77, 1)), 540, "NOT_IMPLEMENTED"),
    "a method is unknown": (wire.method(1, (60, 77)), 540, "NOT_IMPLEMENTED"),
    "a method is the server's": (
        wire.method(1, wire.QUEUE_DECLARE_OK, wire.short("queue") + bytes(8)),
        503,
        "COMMAND_INVALID - unimplemented method",
    ),
    "a delivery comes from a client": (
        wire.method(1, wire.DELIVER, wire.short("t") + bytes(11)),
        503,
        "COMMAND_INVALID - unimplemented method",
    ),
    "a table ends inside a field": (
        wire.method(1, wire.QUEUE_DECLARE, b"\0\0" + wire.short("q") + b"\0" + wire.long(DEEP)),
        502,
        "SYNTAX_ERROR",
    ),
    "a channel was never opened": (wire.qos(7, 1), 504, EXPECTED_OPEN),
    "an ack is for a channel never opened": (wire.ack(7, 1), 504, EXPECTED_OPEN),
    "a publish is for a channel never opened": (
        wire.publish(7, "", "queue", b"x"),
        504,
        EXPECTED_OPEN,
    ),
    "a publish begins on a channel never opened": (
        wire.publish_method(7, "", "queue")
        + wire.content_header(7, 100_000)
        + wire.frame(3, 7, bytes(70_000)),
        504,
        EXPECTED_OPEN,
    ),
    "a channel is opened twice": (
        wire.method(1, wire.CHANNEL_OPEN, b"\0"),
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
    ),
    "a channel's method is on channel 0": (wire.qos(0, 1), 504, "CHANNEL_ERROR"),
    "a publish is on channel 0": (wire.publish(0, "", "queue", b"x"), 504, "CHANNEL_ERROR"),
    "a connection's method is on a channel": (
        wire.method(1, wire.CLOSE, wire.close_arguments()),
        503,
        "COMMAND_INVALID - unimplemented method",
    ),
    "a content header is on channel 0": (wire.frame(2, 0, bytes(14)), 505, "UNEXPECTED_FRAME"),
    "the handshake is said again": (wire.start_ok(), 504, "CHANNEL_ERROR"),
    "a body comes without a publish": (wire.frame(3, 1, b"x"), 505, NO_METHOD),
    "a header comes without a publish": (HEADER, 505, NO_METHOD),
    "a body comes without a header": (PUBLISH + wire.frame(3, 1, b"hello"), 505, NO_HEADER),
    "a method comes for a header": (PUBLISH + wire.qos(1, 1), 505, NO_HEADER),
    "a method comes for a body": (PUBLISH + HEADER + wire.qos(1, 1), 505, NO_BODY),
    "a header comes twice": (PUBLISH + HEADER + HEADER, 505, NO_BODY),
    "a header is for another class": (
        PUBLISH + wire.content_header(1, 5, class_id=50),
        505,
        OTHER_CLASS,
    ),
    "a header is cut short": (PUBLISH + wire.frame(2, 1, b"\0\x3c\0\0"), 501, "FRAME_ERROR"),
    "a body is larger than announced": (
        PUBLISH + HEADER + wire.frame(3, 1, b"123456"),
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
    ),
    "a body is announced larger than any": (
        PUBLISH + wire.frame(2, 1, struct.pack(">HHQH", 60, 0, 2**63, 0)),
        501,
        "FRAME_ERROR - content body size 9223372036854775808 exceeds maximum allowed size "
        "536870912",
    ),
    "properties are cut short": (PUBLISH + properties(1 << 12, b""), 502, "SYNTAX_ERROR"),
    "properties have octets left over": (
        PUBLISH + properties(1 << 12, b"\2\2"),
        502,
        "SYNTAX_ERROR",
    ),
    "a header table has an unknown type": (
        PUBLISH + properties(1 << 13, b"\0\0\0\5\1aZxx"),
        502,
        "SYNTAX_ERROR",
    ),
}


# After these nobody knows where a frame begins: a close-ok cannot be heard.
LOST = ("invalid_frame_end_marker", "frame_too_large")


def refusal(client: SocketClient) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        client.expect(wire.CLOSE_OK)
    return refused.value


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_frame_closes_the_connection_with_its_code(
    what: str, attacked: BrokerProcess
) -> None:
    data, code, text = BROKEN[what]
    client = SocketClient(attacked.port)
    client.open_channel()
    client.send(data)
    said = refusal(client)
    assert (said.code, said.text[: len(text)]) == (code, text)
    # What is sent behind it is not listened to, but for the close-ok.
    client.send(wire.method(1, wire.CHANNEL_OPEN, b"\0") + WHOLE)
    client.send(wire.method(0, wire.CLOSE_OK))
    if any(fault in text for fault in LOST):
        client.abandon()
    assert client.rest() == []


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_frame_that_comes_octet_by_octet_is_answered_the_same(
    what: str, attacked: BrokerProcess
) -> None:
    data, code, text = BROKEN[what]
    client = SocketClient(attacked.port)
    client.open_channel()
    try:
        for at in range(len(data)):
            client.send(data[at : at + 1])
    except EndedError:
        pass
    said = refusal(client)
    assert (said.code, said.text[: len(text)]) == (code, text)
    client.abandon()


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x01\x01\x09\x01",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
        bytes(8),
        bytes(1 << 20),
    ],
)
def test_a_wrong_protocol_header_is_answered_with_ours_and_a_closed_socket(
    header: bytes, attacked: BrokerProcess
) -> None:
    client = SocketClient(attacked.port, opens=False)
    try:
        client.send(header)
        received = b""
        while more := client.socket.recv(100):
            received += more
        assert received == wire.PROTOCOL_HEADER
    except (EndedError, ConnectionResetError):
        # It closed while more was on its way.
        assert len(header) > 1000


def test_a_method_on_a_channel_that_was_closed_closes_the_connection(
    attacked: BrokerProcess,
) -> None:
    client = SocketClient(attacked.port)
    client.open_channel()
    client.ask(wire.method(1, wire.CHANNEL_CLOSE, wire.close_arguments()), wire.CHANNEL_CLOSE_OK)
    client.send(wire.qos(1, 1))
    said = refusal(client)
    assert (said.code, said.text) == (504, EXPECTED_OPEN)
    client.send(wire.method(0, wire.CLOSE_OK))
    assert client.rest() == []


def test_a_connection_that_lost_its_frames_is_closed_without_a_close_ok(
    attacked: BrokerProcess,
) -> None:
    client = SocketClient(attacked.port)
    client.send(struct.pack(">BHI", 3, 1, 200_000) + b"x")
    assert refusal(client).code == 501
    assert client.rest() == []


def test_a_close_that_is_never_answered_ends_in_a_closed_socket(attacked: BrokerProcess) -> None:
    client = SocketClient(attacked.port)
    client.send(wire.qos(7, 1))
    assert refusal(client).code == 504
    assert client.rest() == []


def test_the_bystander_is_served_while_hundreds_of_connections_come_and_break(
    attacked: BrokerProcess, bystander: Bystander
) -> None:
    data = [wire.handshake() + broken for broken, _, _ in BROKEN.values()]
    for number in range(300):
        client = SocketClient(attacked.port, opens=False)
        client.send(data[number % len(data)])
        client.abandon()
    SocketClient(attacked.port).close()
    bystander.wait_until_served(bystander.served + 1)
