"""Frames that are wrong, or come where they must not: every one closes the connection alike."""

from __future__ import annotations

import struct

import pytest
from both_brokers import BothBrokers, Script, Transcripts, compared
from client_frames import content_header, frame, methods_of
from leveret.amqp_frames.methods import (
    BasicConsumeOk,
    BasicPublish,
    ChannelFlow,
    ChannelOpen,
    QueueDeclare,
)
from scripted_session import Session

METHOD = methods_of(1, BasicPublish(routing_key="q"))
DECLARE = methods_of(1, QueueDeclare(queue="q"))


def header_of(class_id: int, tail: bytes = b"\0\0", weight: int = 0) -> bytes:
    return frame(2, 1, struct.pack(">HHQ", class_id, weight, 0) + tail)


def method_of(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def declare_with(table: bytes) -> bytes:
    """A queue.declare with these octets for its arguments, behind their length."""
    return method_of(50, 10, b"\0\0\x01q\0" + struct.pack(">I", len(table)) + table)


BROKEN: dict[str, bytes] = {
    "second open": methods_of(1, ChannelOpen()),
    "method on a channel that is not open": methods_of(2, QueueDeclare(queue="q")),
    "publish on a channel that is not open": methods_of(2, BasicPublish(routing_key="q"))
    + content_header(2, 0),
    "header on a channel that is not open": content_header(2, 0),
    "body on a channel that is not open": frame(3, 2, b"x"),
    "flow that stops": methods_of(1, ChannelFlow(False)),
    "method of servers": methods_of(1, BasicConsumeOk("c")),
    "body without method": frame(3, 1, b"x"),
    "header without method": header_of(60),
    "method where a header must be": METHOD * 2,
    "other method where a header must be": METHOD + DECLARE,
    "body where a header must be": METHOD + frame(3, 1, b"x"),
    "header of another class": METHOD + header_of(50),
    "header twice": METHOD + content_header(1, 1) * 2,
    "method where a body must be": METHOD + content_header(1, 1) + METHOD,
    "body longer than its header says": METHOD
    + content_header(1, 1)
    + frame(3, 1, b"xy")
    + DECLARE,
    "body of a size that nobody takes": METHOD + content_header(1, 536_870_913) + DECLARE,
    "no end octet": frame(3, 1, b"abc")[:-1] + b"\0",
    "no end octet, method": DECLARE[:-1] + b"x",
    "larger than agreed on": frame(3, 1, b"x" * 131_073),
    "much larger than agreed on": struct.pack(">BHI", 1, 1, 2**31) + b"x" * 16,
    "unknown kind": frame(9, 1, b"\x01\x02"),
    "kind 0": frame(0, 0, b""),
    "unknown method": method_of(60, 999),
    "unknown class": method_of(99, 10),
    "unknown method of the connection": method_of(10, 99, channel=0),
    "method of nothing": frame(1, 1, b""),
    "half a class": frame(1, 1, b"\0"),
    "arguments that end early": method_of(50, 10, b"\0\0\x05q"),
    "arguments that end late": method_of(60, 80, b"\0" * 9 + b"more"),
    "name that is not UTF-8": method_of(50, 10, b"\0\0\x02\xff\xfe\0" + bytes(4)),
    "table that ends early": declare_with(b"\x01aS\0\0\0\x09x"),
    "table of an unknown type": declare_with(b"\x01a?x"),
    "table with half a name": declare_with(b"\x09a"),
    "header that ends early": METHOD + header_of(60, b"\x80\0\x05abc"),
    "header that ends late": METHOD + header_of(60, b"\0\0abc"),
    "header of half its size": METHOD + frame(2, 1, b"\0\x3c\0\0"),
    "heartbeat on a channel": frame(8, 1, b""),
    "heartbeat on a channel that is not open": frame(8, 5, b""),
    "heartbeat with content": frame(8, 0, b"x"),
    "header with a weight": METHOD + header_of(60, weight=1),
    "content on channel 0": methods_of(0, BasicPublish(routing_key="q")),
    "body on channel 0": frame(3, 0, b"x"),
    "header on channel 0": content_header(0, 1),
}


def broken(frames: bytes) -> Script:
    def script(session: Session) -> None:
        connection = session.channel().connection
        connection.send(frames)
        connection.read()

    return script


@pytest.fixture(scope="module")
def endings(both: BothBrokers) -> Transcripts:
    """All at once: a broker that has lost count of frames waits before it closes the socket."""
    return both.transcripts_at_once({claim: broken(BROKEN[claim]) for claim in BROKEN})


@pytest.mark.parametrize("claim", BROKEN)
def test_a_broken_frame(both: BothBrokers, endings: Transcripts, claim: str) -> None:
    both.judge(f"frame: {claim}", endings[claim])


HARMLESS: dict[str, bytes] = {
    "heartbeat": frame(8, 0, b""),
    "bits that mean nothing": method_of(50, 10, b"\0\0\x01q\xe0" + bytes(4)),
}


@pytest.mark.parametrize("claim", HARMLESS)
def test_an_odd_frame_that_does_no_harm(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        channel = session.channel()
        channel.connection.send(HARMLESS[claim])
        channel.settled()

    both.compare(f"frame: {claim}", script)


@compared
def test_a_frame_8_octets_too_large_is_taken(session: Session) -> None:
    channel = session.connect(frame_max_bytes=4096).channel(1)
    channel.ask(QueueDeclare(queue="q"))
    for size in (4088, 4089, 4096):
        channel.send(METHOD, content_header(1, size), frame(3, 1, bytes(size)))
    channel.wait_for_counts("q", 3)


@compared
def test_a_body_in_pieces_of_all_sizes(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q"))
    empty = frame(3, 1, b"")
    channel.send(METHOD, content_header(1, 5), frame(3, 1, b"ab"), empty, frame(3, 1, b"cde"))
    channel.send(METHOD, content_header(1, 0))
    channel.wait_for_counts("q", 2)
