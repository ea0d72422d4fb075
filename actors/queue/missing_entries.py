"""Reports entries that a queue wanted to read and that are not on the disk: none leaves in silence.

Damage is reported where it is found, by the reader. This is about entries that no file has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.definitions import QueueDefinition
from ...core.queue.span import EntryRange
from ...logs.events import JOURNAL_LOST
from ...storage.journal.ledger import ranges_without
from ...storage.journal.report import described, entries_words

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def report_missing(
    log: FilteringBoundLogger,
    queue: QueueDefinition,
    missing: Sequence[EntryRange],
    reported: Sequence[EntryRange],
) -> None:
    """Log one line about the missing entries of which none was logged yet, if there are any."""
    silent = ranges_without(missing, reported)
    if silent:
        count = sum(last - first + 1 for first, last in silent)
        ids = described(range(first, last + 1) for first, last in silent)
        text = f"{entries_words(count)} of {queue}, {ids}: not on the disk"
        log.warning(JOURNAL_LOST, report=text, entries=count)
