"""Codes and words of what goes wrong with channels and frames: all close the connection.

The table of SEMANTICS, "Reply codes and texts", row by row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from leveret.amqp_frames.methods import (
    BasicConsumeOk,
    BasicPublish,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    QueueDeclare,
    TxCommit,
    TxRollback,
    TxSelect,
)
from mistakes import Mistake, assert_closes_the_channel, assert_closes_the_connection, parametrized
from wire import Client, content_header, frame, methods_of, publish

PUBLISH = (60, 40)
Q = QueueDeclare(queue="q")


# --- Channels


@parametrized(
    Mistake("opened twice", ChannelOpen(), 504, "CHANNEL_ERROR - second 'channel.open' seen"),
    Mistake(
        "method on another that is not open",
        methods_of(2, Q),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        ids=(50, 10),
    ),
    Mistake(
        "publish on another that is not open",
        publish("q", channel=2),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        ids=PUBLISH,
    ),
    Mistake("flow", ChannelFlow(False), 540, "NOT_IMPLEMENTED - active=false"),
    Mistake(
        "method of servers",
        BasicConsumeOk("c"),
        503,
        "COMMAND_INVALID - unimplemented method",
    ),
)
def test_a_channel_s_mistake_that_closes_the_connection(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)


NOT_TRANSACTIONAL = "PRECONDITION_FAILED - channel is not transactional"
MIXED = "PRECONDITION_FAILED - cannot switch from"


@parametrized(
    Mistake("commit outside of tx mode", TxCommit(), 406, NOT_TRANSACTIONAL),
    Mistake("rollback outside of tx mode", TxRollback(), 406, NOT_TRANSACTIONAL),
    # The client's channel is in confirm mode.
    Mistake("tx in confirm mode", TxSelect(), 406, f"{MIXED} confirm to tx mode"),
)
def test_a_transaction_where_there_can_be_none(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake("confirm", ConfirmSelect(), 406, f"{MIXED} tx to confirm mode", [TxSelect()]),
    Mistake(
        "confirm without waiting",
        ConfirmSelect(no_wait=True),
        406,
        f"{MIXED} tx to confirm mode",
        [TxSelect(), TxCommit(), TxRollback()],
    ),
)
def test_confirms_in_tx_mode(connect: Callable[..., Client], mistake: Mistake) -> None:
    client = connect()
    client.open_channel(1)
    assert_closes_the_channel(client, mistake)


def test_more_channels_than_were_agreed_on(connect: Callable[..., Client]) -> None:
    client = connect(channel_max=2)
    client.open_channel(1)
    client.open_channel(2)
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    culprit = methods_of(3, ChannelOpen())
    assert_closes_the_connection(client, Mistake("", culprit, 530, text))


# --- Frames


def header_of(class_id: int) -> bytes:
    return frame(2, 1, struct.pack(">HHQH", class_id, 0, 0, 0))


METHOD = methods_of(1, BasicPublish(routing_key="q"))
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
OTHER_CLASS = (
    "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
)
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


@parametrized(
    Mistake("body without method", frame(3, 1, b"x"), 505, NO_METHOD),
    Mistake("header without method", header_of(60), 505, NO_METHOD),
    Mistake("method where a header must be", METHOD * 2, 505, NO_HEADER, ids=PUBLISH),
    Mistake("body where a header must be", METHOD + frame(3, 1, b"x"), 505, NO_HEADER, ids=PUBLISH),
    Mistake("header of another class", METHOD + header_of(50), 505, OTHER_CLASS, ids=PUBLISH),
    Mistake(
        "method where a body must be",
        METHOD + content_header(1, 1) + METHOD,
        505,
        NO_BODY,
        ids=PUBLISH,
    ),
)
def test_a_frame_that_must_not_come_here(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)


def test_a_frame_larger_than_agreed_on_and_8_octets(connect: Callable[..., Client]) -> None:
    client = connect(frame_max_bytes=4096)
    client.open_channel()
    client.declare("q")
    # As RabbitMQ, the broker tolerates 8 octets too many: some clients count wrongly.
    client.send(METHOD, content_header(1, 4096), frame(3, 1, bytes(4096)))
    client.wait_for_counts("q", (1, 0))
    client.send(METHOD, content_header(1, 4097), frame(3, 1, bytes(4097)))
    text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}"
    client.expect(0, ConnectionClose(501, text, 0, 0))


def test_a_frame_without_its_end_octet(client: Client) -> None:
    client.send(frame(3, 1, b"abc")[:-1] + b"\x00")
    text = 'FRAME_ERROR - type 3, all octets = <<"abc">>: {invalid_frame_end_marker,0}'
    client.expect(0, ConnectionClose(501, text, 0, 0))


def test_a_frame_of_an_unknown_kind(client: Client) -> None:
    text = "FRAME_ERROR - type 9, all octets = <<1,2>>: unknown_frame"
    assert_closes_the_connection(client, Mistake("", frame(9, 1, b"\x01\x02"), 501, text))


def test_a_method_that_nobody_knows(client: Client) -> None:
    culprit = frame(1, 1, struct.pack(">HH", 60, 999))
    text = "NOT_IMPLEMENTED - unknown method 60, 999"
    assert_closes_the_connection(client, Mistake("", culprit, 540, text, ids=(60, 999)))


def test_headers_are_looked_at_where_publishes_pass_whole(client: Client) -> None:
    client.declare("q")
    # A field table whose length lies beyond the header.
    table = struct.pack(">HHQHI", 60, 0, 0, 0x2000, 99)
    client.send(METHOD, frame(2, 1, table))
    assert client.expect_type(0, ConnectionClose).reply_code in (501, 502)
