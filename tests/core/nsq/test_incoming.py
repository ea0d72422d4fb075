"""Input of an NSQ client: magic, pieces, and what an agreed stream does to it."""

from __future__ import annotations

import zlib

import pytest
from leveret.core.nsq.incoming import SUBSCRIBER_PIECE_BYTES, BadMagicError, Incoming
from leveret.nsq_frames.commands import Command
from leveret.nsq_frames.compression import DeflateDecompressor, StreamError
from leveret.nsq_frames.publishes import PublishLimits, PublishRun
from nsq_wire import dpub, mpub, pub

LIMITS = PublishLimits(1_000, 1_000, 1_000)


def names(incoming: Incoming) -> list[bytes]:
    """The commands that are scanned, which are handled by this."""
    events = list(incoming.events)
    incoming.events.clear()
    assert all(isinstance(event, Command) for event in events)
    return [event.params[0] for event in events if isinstance(event, Command)]


def scanned(incoming: Incoming, *, is_subscriber: bool = False) -> list[bytes]:
    incoming.scan(is_subscriber=is_subscriber)
    return names(incoming)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_magic_and_commands_may_come_in_pieces(size: int) -> None:
    incoming = Incoming(LIMITS)
    data = b"  V2SUB t c\nRDY 1\n"
    got: list[bytes] = []
    for at in range(0, len(data), size):
        incoming.feed(data[at : at + size])
        got += scanned(incoming)
    assert got == [b"SUB", b"RDY"]
    assert incoming.has_magic
    assert not incoming.has_more


def test_another_magic_is_refused_as_soon_as_it_is_whole() -> None:
    incoming = Incoming(LIMITS)
    incoming.feed(b"GET")
    assert not incoming.has_magic
    with pytest.raises(BadMagicError):
        incoming.feed(b" / HTTP/1.1\r\n")


def test_a_subscribers_octets_are_scanned_a_piece_at_a_time() -> None:
    incoming = Incoming(LIMITS)
    line = b"TOUCH 0123456789abcdef\n"
    count = SUBSCRIBER_PIECE_BYTES // len(line) + 1
    incoming.feed(b"  V2" + line * count)
    turns = []
    while incoming.has_more:
        turns.append(len(scanned(incoming, is_subscriber=True)))
    assert len(turns) >= 2
    assert sum(turns) == count


def test_what_comes_ahead_of_an_agreed_stream_is_forgotten() -> None:
    incoming = Incoming(LIMITS)
    incoming.feed(b"  V2RDY 1\nRDY 2")
    incoming.scan(is_subscriber=False)
    incoming.discard()
    assert not incoming.events
    deflate = zlib.compressobj(wbits=-15)
    incoming.decompress(DeflateDecompressor())
    incoming.feed(deflate.compress(b"SUB t c\n") + deflate.flush(zlib.Z_SYNC_FLUSH))
    assert incoming.has_more
    assert scanned(incoming) == [b"SUB"]
    assert scanned(incoming) == []
    assert not incoming.has_more


def test_a_stream_that_is_not_compressed_is_an_error() -> None:
    incoming = Incoming(LIMITS)
    incoming.feed(b"  V2")
    incoming.decompress(DeflateDecompressor())
    incoming.feed(b"\xff" * 8)
    with pytest.raises(StreamError):
        incoming.scan(is_subscriber=False)


def test_a_command_that_is_left_incomplete_is_a_fault_at_the_end() -> None:
    incoming = Incoming(LIMITS)
    incoming.feed(b"  V2PUB t\n\0\0\0\5he")
    assert scanned(incoming) == []
    assert incoming.held_bytes
    assert incoming.end() is not None
    incoming.close()
    assert not incoming.has_more


@pytest.mark.parametrize(
    "data",
    [
        pub("t", b"x"),
        pub("t", b"x") * 3,
        mpub("t", b"x", b"y") + mpub("u", b"z"),
        dpub("t", 5, b"x"),
    ],
)
def test_a_read_of_nothing_but_publishes_is_their_run_at_once(data: bytes) -> None:
    incoming, scanning = Incoming(LIMITS), Incoming(LIMITS)
    incoming.feed(b"  V2")
    incoming.scan(is_subscriber=False)
    run = incoming.lone_run(data)
    scanning.feed(b"  V2" + data)
    scanning.scan(is_subscriber=False)
    [expected] = scanning.events
    assert run is not None
    assert isinstance(expected, PublishRun)
    assert run.batch.wire == expected.batch.wire
    assert (run.command, run.counts, run.delays_ms) == (expected[0], expected[2], expected[3])
    # It is not kept.
    assert not incoming.has_more
    assert not incoming.events


@pytest.mark.parametrize(
    ("before", "data"),
    [
        (b"", b"  V2" + pub("t", b"x")),
        (b"  V", b"2" + pub("t", b"x")),
        (b"  V2", b"NOP\n"),
        (b"  V2", pub("t", b"x") + b"NOP\n"),
        (b"  V2", pub("t", b"x") + mpub("t", b"x")),
        (b"  V2", pub("t", b"x")[:-1]),
        (b"  V2", pub("bad!", b"x")),
        (b"  V2", b""),
        (b"  V2PUB t", pub("t", b"x")),
        (b"  V2" + mpub("t", b"x", b"y")[:-1], pub("t", b"x")),
        (b"  V2NOP\n", pub("t", b"x")),
    ],
)
def test_what_else_a_read_holds_and_what_waits_before_it_is_scanned(
    before: bytes, data: bytes
) -> None:
    incoming, whole = Incoming(LIMITS), Incoming(LIMITS)
    incoming.feed(before)
    incoming.scan(is_subscriber=False)
    assert incoming.lone_run(data) is None
    # And nothing is lost by having asked.
    incoming.feed(data)
    incoming.scan(is_subscriber=False)
    whole.feed(before + data)
    whole.scan(is_subscriber=False)
    assert [type(each) for each in incoming.events] == [type(each) for each in whole.events]


def test_a_compressed_read_is_no_run() -> None:
    incoming = Incoming(LIMITS)
    incoming.feed(b"  V2")
    incoming.scan(is_subscriber=False)
    incoming.decompress(DeflateDecompressor())
    assert incoming.lone_run(pub("t", b"x")) is None
