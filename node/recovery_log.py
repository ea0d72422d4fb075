"""The lines of the service log that report what a start found in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .actors.disk.page_reader import log_findings
from .logs.events import JOURNAL_RECOVERED, JOURNAL_UNDISCARDED
from .storage.journal.journal import Journal
from .storage.journal.recovery import Recovered

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log_recovery(log: FilteringBoundLogger, recovered: Recovered, journal: Journal) -> None:
    """A warning for each finding, then how much there is."""
    log_findings(log, recovered.report)
    for undiscarded in journal.undiscarded:
        log.warning(JOURNAL_UNDISCARDED, file=undiscarded.name, error=str(undiscarded.error))
    messages = sum(entries.entries for entries in recovered.queues.values())
    log.info(JOURNAL_RECOVERED, queues=len(recovered.queues), messages=messages)
