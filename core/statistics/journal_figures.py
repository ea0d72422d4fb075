"""Figures of the journal's work: one thread writes each of them, a scrape of metrics reads them.

There is no lock: each figure is one number, or a histogram.
"""

from __future__ import annotations

from typing import Final

from ..histogram import Histogram

# From a disk whose own cache survives a loss of power to an overloaded one.
SYNC_SECONDS_BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    *(2.5, 5, 10),
)
COMMIT_MESSAGES_BOUNDS: Final = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


class CheckFigures:
    """How far the background check of closed segments is; the thread of maintenance writes it."""

    __slots__ = ("checked_bytes", "finished_seconds", "left_bytes")

    def __init__(self) -> None:
        # Since the node's start.
        self.checked_bytes = 0
        # Of the segments that it knows to be left.
        self.left_bytes = 0
        # Since the epoch: when it had nothing left the last time; 0: not yet.
        self.finished_seconds = 0.0


class PageFigures:
    """Messages that the page reader's thread has read and written for queues."""

    __slots__ = ("read_messages", "spilled_messages")

    def __init__(self) -> None:
        # Of the journal, and of those spilled.
        self.read_messages = 0
        # Transient ones that had no room in memory.
        self.spilled_messages = 0


class JournalFigures:
    """Since the node's start. A commit may run on another thread, but one runs at a time."""

    __slots__ = (
        "check",
        "commit_messages",
        "compactions",
        "damaged_segments",
        "dead_bytes",
        "is_at_work",
        "live_bytes",
        "pages",
        "segments",
        "sync_seconds",
        "write_seconds",
        "writes",
        "written_bytes",
    )

    def __init__(self) -> None:
        # Does its thread carry out at this moment what it was told?
        self.is_at_work = False
        self.sync_seconds = Histogram(SYNC_SECONDS_BOUNDS)
        # Of commits that brought messages: how many, one for each queue that has got it.
        self.commit_messages = Histogram(COMMIT_MESSAGES_BOUNDS)
        # A commit is one write.
        self.writes = 0
        self.written_bytes = 0
        self.write_seconds = 0.0
        # As they were at the last look.
        self.segments = 0
        self.live_bytes = 0
        self.dead_bytes = 0
        # In which the start or a check has found damage.
        self.damaged_segments = 0
        self.check = CheckFigures()
        self.pages = PageFigures()
        # Segments that were rewritten without their dead entries.
        self.compactions = 0

    @property
    def written_messages(self) -> int:
        """On the disk, one for each queue that has got it."""
        return int(self.commit_messages.total) + self.pages.spilled_messages

    def committed(
        self,
        message_count: int,
        written_bytes: int,
        write_seconds: float,
        sync_seconds: float | None,
    ) -> None:
        """A commit is on the disk; None: it needed no sync."""
        self.writes += 1
        self.written_bytes += written_bytes
        self.write_seconds += write_seconds
        if message_count:
            self.commit_messages.observe(message_count)
        if sync_seconds is not None:
            self.sync_seconds.observe(sync_seconds)
