"""Background work on closed segments, on a thread of its own, one piece after the other.

The work is an iterator that reads or writes a little each time and yields how many bytes that were.
Behind each piece the actor pauses: it is busy for no more than a part of the time, and moves no
more than so many bytes a second, so that it takes neither the interpreter nor the disk from those
who commit. It shares no lock and no file with the journal's thread: what it needs to know of live
entries it asks by a message, and the journal installs what it has made.

The work there is: segments rewritten without their dead entries (`storage/journal/compaction.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ...logs.events import JOURNAL_COMPACTED, JOURNAL_NOT_COMPACTED
from ...storage.errors import NoSpaceError
from ...storage.journal.compaction import (
    Compaction,
    CompactionPlan,
    LiveRange,
    NotCompactableError,
    Question,
    Rewritten,
)
from ...storage.journal.log import Log
from ..messages import Ref
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# A stop waits for no longer pause.
PAUSE_SECONDS_MAX: Final = 0.1


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
    """How fast background work may go."""

    def __init__(
        self,
        bytes_per_second_max: int,
        busy_percent_max: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._idle_per_busy = 100 / busy_percent_max - 1
        self._pause = pause

    def pause_after(self, busy_seconds: float, moved_bytes: int) -> None:
        """So long a piece of work has moved so many bytes: wait before the next one."""
        by_bytes = moved_bytes / self._bytes_per_second_max - busy_seconds
        seconds = max(busy_seconds * self._idle_per_busy, by_bytes)
        if seconds > 0:
            self._pause(min(seconds, PAUSE_SECONDS_MAX))


class _GoOn(NamedTuple):
    """To itself: the next piece."""


class Maintenance(ThreadActor):
    """Carries out background work. Parent: the node."""

    def __init__(
        self,
        journal_log: Log,
        pace: Pace,
        make_room: Callable[[], bool],
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
    ) -> None:
        """`make_room` gives some of the disk's reserve, for a replacement that has no room."""
        super().__init__(log, on_fatal)
        self._journal_log = journal_log
        self._pace = pace
        self._make_room = make_room
        self._waiting: deque[Iterator[int | None]] = deque()
        # The answer of the journal, None while there is none.
        self._live: list[LiveRange] | None = None

    def on_gathered(self, messages: list[object]) -> None:
        """Take work on, and do a piece of it."""
        for each in messages:
            if isinstance(each, Compact):
                self._waiting.append(self._compact(each))
                if len(self._waiting) > 1:
                    continue
            elif isinstance(each, LiveEntries):
                self._live = each.live
            self._work()

    def _work(self) -> None:
        """The next piece, unless there is no work, or it waits for the journal."""
        while self._waiting:
            begin = time.monotonic()
            try:
                moved = next(self._waiting[0])
            except StopIteration:
                self._waiting.popleft()
                continue
            if moved is not None:
                self._pace.pause_after(time.monotonic() - begin, moved)
                tell(self.actor_ref, _GoOn())
            return

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
