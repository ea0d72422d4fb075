"""Paged messages on their way to the dead-letter exchange: which are read, and their reasons."""

from __future__ import annotations

from batches import batch_of
from leveret.core.queue.dying import DyingRows
from leveret.core.queue.paging import Wanted
from leveret.core.queue.span import PagedSpan
from leveret.storage.journal.reading import ReadRow
from wire import publish

BATCH = batch_of(*[publish("q", b"x")] * 20)


def row(first_entry_id: int, count: int, is_spilled: bool = False) -> PagedSpan:
    return PagedSpan(first_entry_id, count, 0, stored=True, is_spilled=is_spilled)


def test_rows_that_ascend_and_lie_in_the_same_place_are_wanted_together() -> None:
    rows = DyingRows()
    for span in (row(1, 3), row(7, 2), row(5, 2), row(9, 1, is_spilled=True)):
        rows.append(span, "expired")
    assert rows.wanted(100).ranges == [(1, 3), (7, 8)], "5 lies before 7"
    assert rows.wanted(4).ranges == [(1, 3), (7, 7)]
    assert rows.wanted(3).ranges == [(1, 3)]
    rows.wanted(100)
    _, missing = rows.fill([(1, 3), (7, 8)], [])
    assert [span.first_entry_id for span in missing] == [1, 7]
    assert rows.wanted(100) == Wanted([(5, 6)], is_spilled=False, is_dying=True)


def test_each_letter_has_the_reason_of_its_own_row() -> None:
    rows = DyingRows()
    rows.append(row(1, 3), "expired")
    rows.append(row(4, 2), "maxlen")
    rows.append(row(8, 2), "rejected")
    rows.wanted(100)
    found, missing = rows.fill(
        [(1, 5), (8, 9)], [ReadRow(BATCH, range(5), 1), ReadRow(BATCH, range(9, 10), 9)]
    )
    ends = [(span.first_entry_id, len(span), reason) for span, reason in found]
    assert ends == [(1, 3, "expired"), (4, 2, "maxlen"), (9, 1, "rejected")]
    assert [(span.first_entry_id, len(span)) for span in missing] == [(8, 1)]
    assert not rows


def test_what_was_not_read_yet_stays_before_what_left_later() -> None:
    rows = DyingRows()
    rows.append(row(1, 6), "expired")
    assert rows.wanted(100).ranges == [(1, 6)]
    rows.append(row(20, 1), "rejected")
    found, missing = rows.fill([(1, 4)], [ReadRow(BATCH, range(4), 1)])
    assert [len(span) for span, _ in found] == [4]
    assert not missing
    assert rows.wanted(100).ranges == [(5, 6), (20, 20)]
