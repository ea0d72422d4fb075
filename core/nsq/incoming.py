"""Input of one NSQ client, until it is handled. Sans-IO.

Octets go the way magic, decompression, scanner, events, in pieces: few octets may stand for many
commands, and other connections have turns between two pieces. Whoever holds an `Incoming` scans a
piece when there is nothing in `events`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ...nsq_frames.commands import MAGIC, Event, Fault, Scanner
from ...nsq_frames.compression import Decompressor
from ...nsq_frames.publishes import PublishLimits, PublishRun

# Of a subscriber's octets so many are looked at in a round of the event loop: 3,000 FINs. A client
# that is ready for 2,500 messages has no more to send.
SUBSCRIBER_PIECE_BYTES: Final = 65_536


class BadMagicError(ValueError):
    """The client speaks another protocol."""


class Incoming:
    """The input of one connection; `events` are commands that are scanned and not carried out."""

    __slots__ = (
        "_decompressor",
        "_magic",
        "_scanner",
        "_unscanned",
        "events",
    )

    def __init__(self, limits: PublishLimits) -> None:
        self._magic = b""
        self._scanner = Scanner(limits)
        self._unscanned = b""
        self._decompressor: Decompressor | None = None
        self.events: deque[Event] = deque()

    @property
    def has_magic(self) -> bool:
        """Has the client said which protocol it speaks?"""
        return len(self._magic) == len(MAGIC)

    @property
    def has_more(self) -> bool:
        """Is there anything to scan?"""
        decompressor = self._decompressor
        has_compressed = decompressor is not None and decompressor.has_more
        return bool(self._unscanned) or has_compressed or self._scanner.has_more

    @property
    def held_bytes(self) -> int:
        """How much the scanner keeps of a command that is not complete."""
        return self._scanner.held_bytes

    @property
    def decompressor(self) -> Decompressor | None:
        """Undoes the client's compression; None: there is none."""
        return self._decompressor

    def feed(self, data: bytes) -> None:
        """Keep a read of the socket; BadMagicError if it begins as another protocol does."""
        if len(self._magic) < len(MAGIC):
            missing = len(MAGIC) - len(self._magic)
            self._magic += data[:missing]
            data = data[missing:]
            if self.has_magic and self._magic != MAGIC:
                raise BadMagicError
        if self._decompressor is not None:
            self._decompressor.feed(data)
        else:
            self._unscanned = self._unscanned + data if self._unscanned else data

    def lone_run(self, data: bytes) -> PublishRun | None:
        """The run of publishes that a read is, all of it; else None, and the read is to be fed.

        It is None, too, while earlier input waits, because that must be handled first.
        """
        if (
            self.events
            or self._unscanned
            or self._decompressor is not None
            or len(self._magic) < len(MAGIC)
        ):
            return None
        return self._scanner.lone_run(data)

    def scan(self, *, is_subscriber: bool) -> None:
        """Scan the next piece into `events`; StreamError if it cannot be decompressed."""
        piece = b"" if self._scanner.has_more else self._next_piece(is_subscriber)
        self.events += self._scanner.feed(piece)

    def _next_piece(self, is_subscriber: bool) -> bytes:
        if self._decompressor is not None:
            return self._decompressor.next()
        piece, self._unscanned = self._unscanned, b""
        if is_subscriber and len(piece) > SUBSCRIBER_PIECE_BYTES:
            self._unscanned = piece[SUBSCRIBER_PIECE_BYTES:]
            piece = piece[:SUBSCRIBER_PIECE_BYTES]
        return piece

    def decompress(self, decompressor: Decompressor) -> None:
        """All that comes from now on is compressed."""
        self._decompressor = decompressor

    def discard(self) -> None:
        """Forget what has come ahead of an answer that changes the stream."""
        self.events.clear()
        self._scanner.clear()
        self._unscanned = b""

    def end(self) -> Fault | None:
        """The client sends nothing more; the fault of a command that it has left incomplete."""
        return self._scanner.end()

    def close(self) -> None:
        """Forget everything: nothing more is handled."""
        self._scanner.close()
        self.events.clear()
        self._unscanned = b""
        self._decompressor = None
