"""A log in memory: no files, no directory, no names. It forgets what was not synced in a crash."""

from __future__ import annotations

from collections.abc import Iterable

from leveret.storage.errors import NoSpaceError
from leveret.storage.files import Buffer
from leveret.storage.journal.log import (
    JournalUnusableError,
    LogPositionError,
    Position,
    SegmentBegin,
    Undropped,
)
from leveret.storage.journal.synced_file import Synced


class MemoryReplacement:
    def __init__(self) -> None:
        self.content = bytearray()
        self.finished = bytearray()

    def append(self, buffers: list[Buffer]) -> None:
        for buffer in buffers:
            self.content += buffer

    def finish(self) -> None:
        self.finished = self.content

    def discard(self) -> None:
        self.finished = self.content = bytearray()


class MemoryLog:
    """A `Log`. `segments` are those that are there; `room` is how many bytes it still takes."""

    def __init__(self) -> None:
        self.unusable = ""
        self.writes_ahead = True
        self.segments: dict[int, bytearray] = {}
        self.replacements: dict[int, MemoryReplacement] = {}
        self.number = 0
        self.synced = Position(0, 0)
        self.syncs = 0
        self.room = 1 << 30
        # What `sync` is to raise.
        self.fault: OSError | None = None
        self.end: Synced | None = None
        self._next: SegmentBegin | None = None

    def append(self, at: Position, buffers: list[Buffer]) -> int:
        self._check()
        if self._next is not None:
            self.begin_segment(self._next)
        content = self.segments[self.number]
        if at != (self.number, len(content)):
            raise LogPositionError(f"{at} is not the end, {self.number}, {len(content)}")
        self._use(sum(map(len, buffers)))
        for buffer in buffers:
            content += buffer
        return len(content) - at.offset

    def begin_segment(self, begin: SegmentBegin) -> None:
        self._check()
        self.number, self._next = begin.synced.segment, begin
        self._use(len(begin.header))
        self.segments[self.number] = bytearray(begin.header)
        self._next = None
        self.sync()

    def sync(self) -> None:
        if self.fault is not None:
            self.unusable = str(self.fault)
            raise self.fault
        self.syncs += 1
        self.synced = Position(self.number, len(self.segments[self.number]))

    def read(self, at: Position, length: int) -> bytes:
        return bytes(self.segments[at.segment][at.offset : at.offset + length])

    def size_bytes(self, segment: int) -> int:
        return len(self.segments[segment])

    def rewrite(self, segment: int) -> MemoryReplacement:
        self.replacements[segment] = MemoryReplacement()
        return self.replacements[segment]

    def replace(self, segment: int) -> None:
        self.segments[segment] = self.replacements.pop(segment).finished

    def drop(self, segments: Iterable[int]) -> list[Undropped]:
        for segment in segments:
            del self.segments[segment]
        return []

    def drop_leftovers(self) -> list[Undropped]:
        return []

    def close(self, end: Synced) -> None:
        self.end = None if self.unusable else end
        self.abandon("closed")

    def abandon(self, why: str) -> None:
        self.unusable = self.unusable or why

    def _check(self) -> None:
        if self.unusable:
            raise JournalUnusableError(self.unusable)

    def _use(self, count: int) -> None:
        if count > self.room:
            raise NoSpaceError(None)
        self.room -= count
