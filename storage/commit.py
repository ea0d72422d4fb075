"""One commit of the journal: what gathered by then, written and synced as a whole.

It touches the open segment's file and no other part of the journal, so that large ones can go to
the disk on a thread of their own while the journal takes what gathers next. One at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .open_segment import OpenSegment, Writing


class CommitResult(NamedTuple):
    """What a commit did."""

    # Is everything that was handed to the journal before it began on the disk now?
    synced: bool
    bytes: int
    records: int


class Commit:
    """Made by `Journal.begin_commit`. `run`, then tell of it, then `discard`."""

    __slots__ = ("_discard", "_going", "_segment", "_sync", "_writing", "size_bytes")

    def __init__(
        self,
        segment: OpenSegment,
        writing: Writing,
        sync: bool,
        going: Sequence[int],
        discard: Callable[[int], None],
    ) -> None:
        self._segment = segment
        self._writing = writing
        self._sync = sync
        # Segments that nothing needs, once this is on the disk, and what removes one.
        self._going = going
        self._discard = discard
        self.size_bytes = writing.size_bytes()

    def run(self) -> CommitResult:
        """Write, and sync if it must be. An OSError is fatal: nothing of it may be confirmed."""
        written = self._segment.write(self._writing, self._sync)
        return CommitResult(self._sync, written, self._writing.records)

    def discard(self) -> int:
        """Remove the segments that nothing needs any more; returns how many.

        After `run`, and after its confirms are told: removing takes its time.
        """
        try:
            for number in self._going:
                self._discard(number)
        except BaseException as error:
            self._segment.unusable = f"an earlier removal failed: {error!r}"
            raise
        return len(self._going)
