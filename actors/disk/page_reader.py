"""The thread that reads messages back for queues that do not hold them in memory.

Of messages in the journal it gets a plan with each read, from the journal's thread, and says when
it has carried it out, so that the segments are pinned no longer than that. Messages of which nobody
was promised that they survive are in files of its own (`storage/spill.py`).

A place that the disk cannot read costs the messages there: they are reported, in the words of a
start, and the queue is told that they are lost. Any other error ends the node.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...core.queue.columns import body_sizes
from ...core.queue.sizing import SizedRow
from ...core.statistics.journal_figures import PageFigures
from ...storage.journal.ledger import joined
from ...storage.journal.locating import ReadPlan
from ...storage.journal.reading import JournalReader, PageRead
from ...storage.journal.report import ReportLine
from ...storage.spill import Spill
from ..messages import (
    DropSpilled,
    EntriesRead,
    EntriesSized,
    EntriesSpilled,
    ReadSpilled,
    Ref,
    SpillEntries,
)
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ...logs.trace.trace import Trace


class ReadPage(NamedTuple):
    """Journal -> PageReader: carry out this plan for the queue; answered with PageDone."""

    journal: Ref
    queue: Ref
    plan: ReadPlan
    # Answered with the sizes of the bodies, and nothing else of the messages.
    only_sizes: bool = False


class PageDone(NamedTuple):
    """PageReader -> Journal: the segments of this plan are read no more."""

    plan: ReadPlan


class PageReader(ThreadActor):
    """Owns the reader of the journal and the spilled messages. Parent: the node."""

    def __init__(
        self,
        reader: JournalReader,
        spill: Spill,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        trace: Trace | None = None,
        figures: PageFigures | None = None,
    ) -> None:
        super().__init__(log, on_fatal)
        self._figures = figures or PageFigures()
        self._reader = reader
        self._spill = spill
        self._trace = trace

    def on_gathered(self, messages: list[object]) -> None:
        """Read, spill and drop, in order."""
        for each in messages:
            if isinstance(each, ReadPage):
                page = self._reader.read(each.plan, self._joins())
                tell(each.journal, PageDone(each.plan))
                self._answer(each.queue, page, each.only_sizes)
            elif isinstance(each, ReadSpilled):
                page = self._spill.read(each.queue_id, each.ranges, each.bytes_max, self._joins())
                self._answer(each.queue, page, each.only_sizes)
            elif isinstance(each, SpillEntries):
                failed = not self._spill.write(each.queue_id, each.rows, self._joins())
                if not failed:
                    counts = [len(indexes) for _, indexes, _ in each.rows]
                    self._figures.spilled_messages += sum(counts)
                # Mostly they are one range, and the queue looks each of its rows up in them.
                ranges = joined(
                    [(first, first + len(indexes) - 1) for _, indexes, first in each.rows]
                )
                tell(each.queue, EntriesSpilled(ranges, failed))
            elif isinstance(each, DropSpilled):
                self._spill.drop(each.queue_id, each.ranges)

    def _joins(self) -> bool:
        """May messages of several batches come in one? The trace would not know them any more."""
        return self._trace is None or not self._trace.is_on

    def _answer(self, queue: Ref, page: PageRead, only_sizes: bool) -> None:
        log_findings(self._log, page.report)
        self._figures.read_messages += sum([len(row.indexes) for row in page.rows])
        # A queue that has gone meanwhile needs no answer.
        if only_sizes:
            sizes = [
                SizedRow(row.first_entry_id, array("I", body_sizes(row.batch, row.indexes)))
                for row in page.rows
            ]
            tell(queue, EntriesSized(sizes, page.lost, page.through))
        else:
            tell(queue, EntriesRead(page.rows, page.lost, page.through))

    def on_stop(self) -> None:
        """Remove the spilled messages."""
        self._spill.close()

    def on_failure(self, *_exception: object) -> None:
        """The same."""
        self._spill.close()


def log_findings(log: FilteringBoundLogger, lines: Sequence[ReportLine]) -> None:
    """A warning for each finding in the journal."""
    for line in lines:
        cost = {} if line.entries is None else {"entries": line.entries}
        event = f"journal.{line.event}"
        log.warning(event, report=line.text, **cost)
