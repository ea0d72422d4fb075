"""The seam between the journal's rules and the place where its bytes lie.

A log is a row of numbered segments. The one with the highest number is open: bytes are appended to
it, at the position that the caller expects, until the next one is begun. The others are closed, and
each of them can be read, replaced by other bytes, and dropped whole. The rules (`journal.py`,
`segment_writer.py`) know nothing else: neither files nor paths. Segments as files on the local disk
are `segment_log.py`; a log that other machines keep, too, could stand in its place.

The promises of a log, and no more:
- appended bytes survive a crash of the process; a crash of the machine only after `sync`, or once
  the next segment was begun. Until then any part of them may be there;
- a segment that was begun is there after any crash, with all of the segments before it;
- a segment that was dropped may be there again after a crash of the machine;
- after any error but NoSpaceError the state is unknown: every later call is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ..files import Buffer
from .synced_file import Synced


class Position(NamedTuple):
    """A place in the log."""

    segment: int
    offset: int


class SegmentBegin(NamedTuple):
    """A segment to be begun: its first bytes, and what the log is to remember of it beside it."""

    header: bytes
    synced: Synced


class LogPositionError(Exception):
    """The log does not end where the caller thinks that it does."""


class JournalUnusableError(Exception):
    """The log was closed, or failed before: its state is unknown."""


class Undropped(NamedTuple):
    """A segment, or another thing that nobody needs any more, that could not be dropped."""

    # 0: it is none of the log's segments.
    segment: int
    name: str
    error: OSError


class Replacement(Protocol):
    """A closed segment's bytes, written anew beside it. For one thread."""

    def append(self, buffers: list[Buffer]) -> None:
        """Write behind what there is. NoSpaceError if there is no room: only `discard` follows."""

    def finish(self) -> None:
        """Return once it is on the disk; `Log.replace` may follow."""

    def discard(self) -> None:
        """Remove it, finished or not."""


class Log(Protocol):
    """For one thread at a time; `read`, `rewrite` and `unusable` for any."""

    # Why every further call is refused; empty while none is.
    unusable: str
    # May it write more than it was handed, to be faster? Not while every byte of room is needed.
    writes_ahead: bool

    @property
    def number(self) -> int:
        """The segment that the next append goes to."""

    @property
    def synced(self) -> Position:
        """Up to here all is synced."""

    def append(self, at: Position, buffers: list[Buffer]) -> int:
        """Append the buffers at this position; returns the bytes. `sync` may have to follow.

        LogPositionError if the log does not end there. NoSpaceError if there is no room: then the
        log ends there, and that is synced.
        """

    def begin_segment(self, begin: SegmentBegin) -> None:
        """Close the open segment, synced to its end, and go on in this one.

        It is on the disk when this returns. NoSpaceError if there is no room: then the segment is
        not there, and the next append begins with another try.
        """

    def sync(self) -> None:
        """Return once all appended bytes are on the disk."""

    def read(self, at: Position, length: int) -> bytes:
        """The bytes from there on; fewer only where the segment ends.

        OSError if they cannot be read: that ends nothing.
        """

    def size_bytes(self, segment: int) -> int:
        """Of a closed segment."""

    def rewrite(self, segment: int) -> Replacement:
        """Begin to write a closed segment anew. An earlier replacement does not count.

        Nobody else rewrites it. NoSpaceError if there is no room.
        """

    def replace(self, segment: int) -> None:
        """Have the finished replacement stand for the segment, also after a crash.

        The caller has noted, and synced, its end. An OSError leaves either of them there.
        """

    def drop(self, segments: Iterable[int]) -> list[Undropped]:
        """Drop closed segments; returns those that could not be, which the next call tries again.

        The caller has noted, and synced, that nothing needs them.
        """

    def drop_leftovers(self) -> list[Undropped]:
        """Drop the leftovers of a crash, once a segment is there whose header does not list it."""

    def close(self, end: Synced) -> None:
        """Sync the rest, remember its end, and close. After an error: close only."""

    def abandon(self, why: str) -> None:
        """Close everything as it is."""
