"""Compactions carried out as the actors do, but at once and on one thread."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.storage.errors import NoSpaceError
from leveret.storage.journal.compaction import Compaction, NotCompactableError
from leveret.storage.journal.journal import Journal


def compacted_in_pieces(journal: Journal) -> Iterator[None]:
    """One plan, if there is one, up to its end; the next reclaim installs the replacement.

    Something else may happen at each `yield`.
    """
    # What a segment had at the first look tells the second one whether it is being emptied.
    plan = journal.begin_compaction() or journal.begin_compaction()
    if plan is None:
        return
    compaction = Compaction(journal.log, plan)
    try:
        for _ in compaction.survey():
            yield
        yield
        for question in compaction.questions():
            compaction.answer(question.queue_id, journal.live_among(*question))
            yield
        for _ in compaction.write():
            yield
    except (NotCompactableError, NoSpaceError):
        journal.end_compaction(None)
        return
    yield
    journal.end_compaction(compaction.result)


def compact_all(journal: Journal) -> int:
    """Every segment that is worth it; returns how many."""
    count = 0
    while True:
        pieces = sum(1 for _ in compacted_in_pieces(journal))
        if not pieces:
            return count
        count += 1
        journal.reclaim()
