"""The streams that IDENTIFY can agree on: deflate, and snappy where its library is installed.

Both ways of a connection are one stream each, in which every write ends so that the client can
decode all of it. `Decompressor.next` gives so much at a time, because few octets may stand for
many.
"""

from __future__ import annotations

import zlib
from typing import Any, Final, Protocol

snappy: Any = None
try:
    import cramjam

    snappy = cramjam.snappy
except ImportError:
    # The extra `nsq` brings it; without it nobody is offered snappy.
    pass

HAS_SNAPPY: Final = snappy is not None
# So many octets come out of a stream at once.
PIECE_BYTES_MAX: Final = 262_144
# Deflate without zlib's header.
_RAW: Final = -15

_STREAM_HEADER: Final = b"\xff\x06\x00\x00sNaPpY"
# A chunk's kind, and its size in three octets.
_CHUNK_HEADER_BYTES: Final = 4
# Of 65,536 octets that cannot be made smaller, with their checksum: as Go's library.
_CHUNK_BYTES_MAX: Final = 76_494
_PLAIN_BYTES_MAX: Final = 65_536
_COMPRESSED, _UNCOMPRESSED = 0, 1
_CHECKSUM_BYTES: Final = 4
# So many chunks are looked at at once: a read may hold 262,144 without any content.
CHUNKS_MAX: Final = 1_000


class StreamError(Exception):
    """The octets are not those of the stream; nothing can be read behind them."""


class Compressor(Protocol):
    """The outgoing stream."""

    def compress(self, data: bytes) -> bytes:
        """The octets after which a client can decode all of this."""


class Decompressor(Protocol):
    """The incoming stream."""

    has_more: bool
    """May `next` have more, although nothing more has come?"""

    def feed(self, data: bytes) -> None:
        """More of it has come."""

    def next(self) -> bytes:
        """The next octets, PIECE_BYTES_MAX at most; there may be none.

        StreamError if the octets cannot be decoded.
        """


class DeflateCompressor:
    """Deflate at this level, 1 to 9."""

    __slots__ = ("_stream",)

    def __init__(self, level: int) -> None:
        self._stream = zlib.compressobj(level, zlib.DEFLATED, _RAW)

    def compress(self, data: bytes) -> bytes:
        """As Compressor."""
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class DeflateDecompressor:
    """Its other end."""

    __slots__ = ("_pending", "_stream", "has_more")

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_RAW)
        self._pending = b""
        self.has_more = False

    def feed(self, data: bytes) -> None:
        """As Decompressor."""
        self._pending = self._pending + data if self._pending else data
        self.has_more = True

    def next(self) -> bytes:
        """As Decompressor."""
        if self._stream.eof:
            raise StreamError("the stream has ended")
        try:
            piece = self._stream.decompress(self._pending, PIECE_BYTES_MAX)
        except zlib.error as error:
            raise StreamError(str(error)) from None
        self._pending = self._stream.unconsumed_tail
        self.has_more = len(piece) == PIECE_BYTES_MAX or self._stream.eof
        return piece


class SnappyCompressor:
    """Snappy in its framing format."""

    __slots__ = ("_has_begun",)

    def __init__(self) -> None:
        self._has_begun = False

    def compress(self, data: bytes) -> bytes:
        """As Compressor."""
        framed = bytes(snappy.compress(data))
        if self._has_begun:
            return framed.removeprefix(_STREAM_HEADER)
        self._has_begun = True
        return framed


class SnappyDecompressor:
    """Its other end."""

    __slots__ = ("_chunks_max", "_pending", "has_more")

    def __init__(self) -> None:
        self._pending = b""
        # A piece has so many chunks at most.
        self._chunks_max = CHUNKS_MAX
        self.has_more = False

    def feed(self, data: bytes) -> None:
        """As Decompressor."""
        self._pending += data
        self.has_more = True

    def next(self) -> bytes:
        """As Decompressor."""
        pending = self._pending
        at, self.has_more = _piece_end(pending, self._chunks_max)
        if not at:
            return b""
        try:
            piece = bytes(snappy.decompress(_STREAM_HEADER + pending[:at]))
        except Exception as error:
            # The library has an exception of its own for what cannot be decoded.
            if self._chunks_max == 1:
                raise StreamError(str(error)) from None
            # One by one, because the chunks before the broken one count: as in nsqd.
            self._chunks_max = 1
            return self.next()
        self._pending = pending[at:]
        return piece


def _piece_end(pending: bytes, chunks_max: int) -> tuple[int, bool]:
    """Where the whole chunks end that are a piece together, and whether more may stand behind."""
    at = plain_bytes = chunk_count = 0
    while at + _CHUNK_HEADER_BYTES <= len(pending):
        begin = at + _CHUNK_HEADER_BYTES
        end = begin + int.from_bytes(pending[at + 1 : begin], "little")
        is_whole = end <= len(pending)
        its_bytes = _plain_bytes(pending, at, end) if is_whole else 0
        if end - begin > _CHUNK_BYTES_MAX or its_bytes > _PLAIN_BYTES_MAX:
            if at:
                return at, True
            raise StreamError("a chunk is too large")
        if not is_whole:
            break
        plain_bytes += its_bytes
        if plain_bytes > PIECE_BYTES_MAX or chunk_count == chunks_max:
            return at, True
        at = end
        chunk_count += 1
    return at, False


def _plain_bytes(pending: bytes, at: int, end: int) -> int:
    """The size that a chunk has by its own account; the library refuses one that lies."""
    content = at + _CHUNK_HEADER_BYTES + _CHECKSUM_BYTES
    size = 0
    if pending[at] == _UNCOMPRESSED:
        size = max(end - content, 0)
    elif pending[at] == _COMPRESSED:
        # Seven bits in each octet, the lowest first.
        for place, octet in enumerate(pending[content : min(content + 5, end)]):
            size |= (octet & 0x7F) << 7 * place
            if octet < 0x80:
                break
    return size
