"""Figures of the journal's work: the journal's thread writes them, a scrape of metrics reads them.

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


class JournalFigures:
    """Since the node's start. A commit may run on another thread, but one runs at a time."""

    __slots__ = (
        "commit_messages",
        "compactions",
        "dead_bytes",
        "live_bytes",
        "segments",
        "sync_seconds",
    )

    def __init__(self) -> None:
        self.sync_seconds = Histogram(SYNC_SECONDS_BOUNDS)
        # Of commits that brought messages: how many, one for each queue that has got it.
        self.commit_messages = Histogram(COMMIT_MESSAGES_BOUNDS)
        # As they were at the last look.
        self.segments = 0
        self.live_bytes = 0
        self.dead_bytes = 0
        # Segments that were rewritten without their dead entries.
        self.compactions = 0

    def committed(self, message_count: int, sync_seconds: float | None) -> None:
        """A commit is on the disk; None: it needed no sync."""
        if message_count:
            self.commit_messages.observe(message_count)
        if sync_seconds is not None:
            self.sync_seconds.observe(sync_seconds)
