"""Lines of the service log about a start that reads the journal: how far, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .actors.disk.page_reader import log_findings
from .logs.events import JOURNAL_READING, JOURNAL_RECOVERED, JOURNAL_UNDISCARDED
from .storage.journal.journal import Journal
from .storage.journal.recovery import Recovered

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# A reading of the journal that takes longer logs a line so often.
READING_LOG_SECONDS: Final = 5.0


class ReadingLog:
    """Call it with the bytes that are read and those of all, as often as there are more."""

    def __init__(self, log: FilteringBoundLogger, monotonic: Callable[[], float]) -> None:
        """`monotonic`: seconds on a clock that also goes on while the event loop waits for us."""
        self._log = log
        self._monotonic = monotonic
        self._logged_at = monotonic()

    def __call__(self, bytes_read: int, bytes_in_all: int) -> None:
        """Log it, if the last line, or the begin, was long ago, and something is left to read."""
        now = self._monotonic()
        if now - self._logged_at >= READING_LOG_SECONDS and bytes_read < bytes_in_all:
            self._logged_at = now
            self._log.info(JOURNAL_READING, bytes_read=bytes_read, bytes_in_all=bytes_in_all)


def log_losses(log: FilteringBoundLogger, recovered: Recovered) -> None:
    """A warning for each finding in the messages that queues had read at their start."""
    log_findings(log, recovered.losses.report.lines())


def log_recovery(
    log: FilteringBoundLogger, recovered: Recovered, journal: Journal, unverified_count: int
) -> None:
    """A warning for each finding, then how much there is.

    `unverified_count`: so many segments were recovered by their index.
    """
    log_findings(log, recovered.report)
    for undiscarded in journal.undiscarded:
        log.warning(JOURNAL_UNDISCARDED, file=undiscarded.name, error=str(undiscarded.error))
    messages = sum(entries.entries for entries in recovered.queues.values())
    log.info(
        JOURNAL_RECOVERED,
        queues=len(recovered.queues),
        messages=messages,
        unverified_segments=unverified_count,
    )
