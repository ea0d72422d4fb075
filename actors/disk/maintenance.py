"""Background work on closed segments, on a thread of its own, one piece after the other.

The work is an iterator that reads or writes a little each time and yields how many bytes that were.
Behind each piece the actor pauses: it is busy for no more than a part of the time, and moves no
more than so many bytes a second, so that it takes neither the interpreter nor the disk from those
who commit. It shares no lock and no file with the journal's thread: what it needs to know of live
entries it asks by a message, and the journal installs what it has made.

The work there is: segments rewritten without their dead entries (`storage/journal/compaction.py`);
segments that get an index, or that are verified because the start has read their index only
(`storage/journal/background_check.py`). Damage of these is a warning in the log, and the journal,
which is told of the segment, has its messages read: lost ones leave their queues.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ...core.statistics.journal_figures import CheckFigures
from ...logs.events import JOURNAL_COMPACTED, JOURNAL_NOT_COMPACTED
from ...storage.errors import NoSpaceError
from ...storage.journal.background_check import BackgroundCheck
from ...storage.journal.compaction import (
    Compaction,
    CompactionPlan,
    LiveRange,
    NotCompactableError,
    Question,
    Rewritten,
)
from ...storage.journal.log import Log
from ..messages import Ref, ReportsTo, SegmentDamaged, WakeAt, Woken
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor
from ..runtime.wall_clock import WallClock
from .page_reader import log_findings

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# A stop waits for no longer pause.
PAUSE_SECONDS_MAX: Final = 0.1
# It looks so often for segments that were closed, or are still to be verified.
LOOK_INTERVAL_SECONDS: Final = 1.0
# So much of segments is checked before other work has its turn.
CHECKED_BYTES_AT_ONCE: Final = 16 * 1024 * 1024


class Compact(NamedTuple):
    """Journal -> Maintenance: carry out this plan; answered with Compacted."""

    journal: Ref
    plan: CompactionPlan


class AskLive(NamedTuple):
    """Maintenance -> Journal: which of these entries are live? Answered with LiveEntries."""

    maintenance: Ref
    question: Question


class LiveEntries(NamedTuple):
    """Journal -> Maintenance: these."""

    live: list[LiveRange]


class Compacted(NamedTuple):
    """Maintenance -> Journal: the replacement is there, or `rewritten` is None.

    `may_retry`: there was no room for it, or the disk had an error.
    """

    rewritten: Rewritten | None
    may_retry: bool = False


class Pace:
    """How fast background work may go.

    `clock` and `busy_clock` are in seconds; the second one goes while the thread has a processor.
    """

    def __init__(
        self,
        bytes_per_second_max: int,
        busy_percent_max: int,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        busy_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.clock = clock
        self.busy_clock = busy_clock
        self._bytes_per_second_max = bytes_per_second_max
        self._idle_per_busy = 100 / busy_percent_max - 1
        self._pause = pause

    def pause_after(self, busy_seconds: float, seconds: float, moved_bytes: int) -> None:
        """A piece of work has moved so many bytes: wait before the next one.

        `busy_seconds` of its seconds it had a processor; on a machine with much to do it waits for
        one, and is not to wait three times as long again.
        """
        by_bytes = moved_bytes / self._bytes_per_second_max - seconds
        pause_seconds = max(busy_seconds * self._idle_per_busy, by_bytes)
        if pause_seconds > 0:
            self._pause(min(pause_seconds, PAUSE_SECONDS_MAX))


class SegmentChecks(NamedTuple):
    """The check of closed segments, when it looks for some, and where it says how far it is."""

    check: BackgroundCheck
    ticker: Ref
    # The scheduler's, in seconds.
    clock: Callable[[], float]
    figures: CheckFigures
    wall_clock: WallClock


class _GoOn(NamedTuple):
    """To itself: the next piece."""


class Maintenance(ThreadActor):
    """Carries out background work. Parent: the node."""

    def __init__(
        self,
        journal_log: Log,
        pace: Pace,
        make_room: Callable[[], bool],
        checks: SegmentChecks | None,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
    ) -> None:
        """`make_room` gives some of the disk's reserve, for a replacement that has no room.

        `checks`: None if a start verifies everything.
        """
        super().__init__(log, on_fatal)
        self._journal_log = journal_log
        self._pace = pace
        self._make_room = make_room
        self._checks = checks
        self._is_checking = False
        self._waiting: deque[Iterator[int | None]] = deque()
        # The answer of the journal, None while there is none.
        self._live: list[LiveRange] | None = None
        # The journal; it is made after this actor.
        self._listener: Ref | None = None

    def on_start(self) -> None:
        """Look for segments to check soon."""
        self._look_later()

    def _look_later(self) -> None:
        if self._checks is not None:
            when = self._checks.clock() + LOOK_INTERVAL_SECONDS
            tell(self._checks.ticker, WakeAt(when, self.actor_ref, "check"))

    def on_gathered(self, messages: list[object]) -> None:
        """Take work on, and do a piece of it."""
        for each in messages:
            if isinstance(each, Compact):
                self._waiting.append(self._compact(each))
                if len(self._waiting) > 1:
                    continue
            elif isinstance(each, Woken):
                self._look_later()
                if self._is_checking or self._checks is None or not self._checks.check.look():
                    continue
                self._is_checking = True
                self._checks.figures.left_bytes = self._checks.check.left_bytes
                self._waiting.append(self._check(self._checks))
                if len(self._waiting) > 1:
                    continue
            elif isinstance(each, LiveEntries):
                self._live = each.live
            elif isinstance(each, ReportsTo):
                self._listener = each.listener
                continue
            self._work()

    def _work(self) -> None:
        """The next piece, unless there is no work, or it waits for the journal."""
        while self._waiting:
            pace = self._pace
            begin, busy_before = pace.clock(), pace.busy_clock()
            try:
                moved = next(self._waiting[0])
            except StopIteration:
                self._waiting.popleft()
                continue
            if moved is not None:
                busy_seconds = pace.busy_clock() - busy_before
                pace.pause_after(busy_seconds, pace.clock() - begin, moved)
                tell(self.actor_ref, _GoOn())
            return

    def _check(self, checks: SegmentChecks) -> Iterator[int]:
        """Verify segments, and write their indexes, for a while."""
        check, figures = checks.check, checks.figures
        left_bytes = CHECKED_BYTES_AT_ONCE
        while left_bytes > 0:
            count, lines = check.step()
            figures.checked_bytes += count
            figures.left_bytes = check.left_bytes
            log_findings(self._log, lines)
            for segment in check.pop_damaged():
                if self._listener is not None:
                    tell(self._listener, SegmentDamaged(segment))
            if not count:
                self._is_checking = False
                figures.finished_seconds = checks.wall_clock.now_ms() / 1000
                return
            left_bytes -= count
            yield count
        self._waiting.append(self._check(checks))

    def _compact(self, message: Compact) -> Iterator[int | None]:
        """Rewrite a segment; yields None while it waits for an answer."""
        journal, plan = message
        compaction = Compaction(self._journal_log, plan)
        try:
            yield from compaction.survey()
            for question in compaction.questions():
                self._live = None
                tell(journal, AskLive(self.actor_ref, question))
                while self._live is None:
                    yield None
                compaction.answer(question.queue_id, self._live)
            yield from self._write(compaction)
        except NotCompactableError as error:
            self._log.debug(JOURNAL_NOT_COMPACTED, segment=plan.segment, reason=str(error))
            tell(journal, Compacted(None))
        except (NoSpaceError, OSError) as error:
            self._log.warning(JOURNAL_NOT_COMPACTED, segment=plan.segment, reason=str(error))
            tell(journal, Compacted(None, may_retry=True))
        else:
            rewritten = compaction.result
            assert rewritten is not None
            anchor = rewritten.anchor
            self._log.debug(
                JOURNAL_COMPACTED,
                segment=plan.segment,
                bytes_before=plan.size_bytes,
                bytes_after=anchor.end if anchor is not None else 0,
            )
            tell(journal, Compacted(rewritten))

    def _write(self, compaction: Compaction) -> Iterator[int | None]:
        while True:
            try:
                yield from compaction.write()
            except NoSpaceError:
                # It frees more than it takes, but not before it is there.
                if not self._make_room():
                    raise
            else:
                return
