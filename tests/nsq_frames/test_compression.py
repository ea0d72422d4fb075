"""Streams: few octets may stand for many, or for none, and are worked on in small pieces."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import pytest
from cramjam import snappy
from leveret.nsq_frames.compression import (
    CHUNKS_MAX,
    PIECE_BYTES_MAX,
    Decompressor,
    DeflateCompressor,
    DeflateDecompressor,
    SnappyCompressor,
    SnappyDecompressor,
    StreamError,
)

MIB = 1 << 20
HEADER = b"\xff\x06\0\0sNaPpY"
PADDING = b"\xfe\0\0\0"
STREAMS = pytest.mark.parametrize("make", [DeflateDecompressor, SnappyDecompressor])
Make = Callable[[], Decompressor]


def deflated(data: bytes) -> bytes:
    return DeflateCompressor(6).compress(data)


def framed(data: bytes) -> bytes:
    return bytes(snappy.compress(data))


def compressed(make: Make, data: bytes) -> bytes:
    return deflated(data) if make is DeflateDecompressor else framed(data)


def pieces(decompressor: Decompressor) -> list[bytes]:
    found = []
    while decompressor.has_more:
        found.append(decompressor.next())
    return found


@STREAMS
def test_a_bomb_comes_in_small_pieces(make: Make) -> None:
    bomb = compressed(make, bytes(32 * MIB))
    assert len(bomb) < 2 * MIB
    decompressor = make()
    sizes = []
    for at in range(0, len(bomb), MIB):
        decompressor.feed(bomb[at : at + MIB])
        sizes += [len(piece) for piece in pieces(decompressor)]
    assert sum(sizes) == 32 * MIB
    assert max(sizes) <= PIECE_BYTES_MAX


@STREAMS
@pytest.mark.parametrize("read_bytes", [1, 7, 1_000, MIB])
def test_all_comes_whatever_the_reads(make: Make, read_bytes: int, seed: int) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(50_000) + bytes(100_000) + chance.randbytes(30_000)
    stream = compressed(make, data)
    decompressor = make()
    found = b""
    for at in range(0, len(stream), read_bytes):
        decompressor.feed(stream[at : at + read_bytes])
        found += b"".join(pieces(decompressor))
    assert found == data


def test_chunks_without_content_are_passed_over_in_steps() -> None:
    decompressor = SnappyDecompressor()
    decompressor.feed(HEADER + PADDING * 10 * CHUNKS_MAX + framed(b"behind"))
    found = pieces(decompressor)
    assert len(found) > 10
    assert b"".join(found) == b"behind"


@pytest.mark.parametrize(
    "chunk",
    [
        # It would be 1 MiB, by its own account: five octets of size, the lowest first.
        b"\0\x08\0\0" + bytes(4) + b"\x80\x80\x40\0",
        b"\0\x09\0\0" + bytes(4) + b"\xff\xff\xff\xff\x0f",
        # More than the largest that cannot be made smaller.
        b"\0\xff\xff\xff",
        b"\1\x05\0\1" + bytes(65_541),
        # A wrong checksum, no content, a kind that none may pass over.
        b"\1\x05\0\0" + bytes(4) + b"x",
        b"\0\4\0\0" + bytes(4),
        b"\0\2\0\0\0\0",
        b"\x02\0\0\0",
    ],
)
def test_a_chunk_that_is_too_large_or_wrong_ends_the_stream(chunk: bytes) -> None:
    decompressor = SnappyDecompressor()
    decompressor.feed(HEADER + chunk)
    with pytest.raises(StreamError):
        pieces(decompressor)


def test_a_stream_that_ends_is_followed_by_nothing() -> None:
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    decompressor = DeflateDecompressor()
    decompressor.feed(stream.compress(b"x") + stream.flush() + b"more")
    assert decompressor.next() == b"x"
    with pytest.raises(StreamError, match="has ended"):
        decompressor.next()


def test_a_client_can_decode_each_write_as_soon_as_it_has_come() -> None:
    inflate = zlib.decompressobj(-15)
    deflate, frame, unframe = DeflateCompressor(6), SnappyCompressor(), SnappyDecompressor()
    for data in (b"first", b"", b"second" * 1_000):
        assert inflate.decompress(deflate.compress(data)) == data
        unframe.feed(frame.compress(data))
        assert b"".join(pieces(unframe)) == data


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"\1\x08\0\0" + bytes(4) + b"gone", id="another checksum"),
        pytest.param(b"\1\xff\xff\xff", id="too large a chunk"),
        pytest.param(b"\0\x09\0\0" + bytes(4) + b"\xff\xff\xff\xff\x0f", id="too much content"),
        pytest.param(b"\2\4\0\0" + bytes(4), id="a kind that there is not"),
    ],
)
def test_chunks_before_a_broken_one_count(broken: bytes) -> None:
    decompressor = SnappyDecompressor()
    decompressor.feed(framed(b"first") + framed(b"second").removeprefix(HEADER) + broken)
    found: list[bytes] = []
    while sum(map(len, found)) < len(b"firstsecond"):
        found.append(decompressor.next())
    assert b"".join(found) == b"firstsecond"
    assert decompressor.has_more
    with pytest.raises(StreamError):
        decompressor.next()
