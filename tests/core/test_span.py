"""Rows of messages."""

from __future__ import annotations

from array import array

from batches import batch_of, numbered
from leveret.core.queue.span import Span, positions_in, ranges_of
from wire import publish


def test_a_part_keeps_batch_ids_attempts_and_whether_the_journal_knows_it() -> None:
    span = Span(numbered(5), array("I", [0, 2, 3, 4]), 100, 3, True)
    part = span.part(1, 3)
    assert part.batch is span.batch
    assert list(part.indexes) == [2, 3]
    assert (part.first_entry_id, part.attempts, part.stored, len(part)) == (101, 3, True, 2)


def test_a_row_from_which_messages_are_cut_keeps_the_others() -> None:
    span = Span(numbered(5), array("I", [0, 2, 3, 4]), 100, 3, True)
    first = span.cut(1)
    assert (list(first.indexes), first.first_entry_id, first.attempts) == ([0], 100, 3)
    assert (list(span.indexes), span.first_entry_id, span.attempts) == ([2, 3, 4], 101, 3)
    assert first.batch is span.batch


def test_wire_bytes_are_exact_for_a_whole_batch_and_shared_out_evenly_for_a_part() -> None:
    batch = batch_of(publish("q", b"x" * 10), publish("q", b"x" * 30))
    whole = Span(batch, range(2), 1, 0, False)
    assert whole.wire_bytes() == len(batch.wire)
    assert whole.part(0, 1).wire_bytes() == whole.part(1, 2).wire_bytes() == len(batch.wire) // 2


def test_ranges_join_neighbours_in_whatever_order_they_come() -> None:
    assert ranges_of([]) == []
    assert ranges_of([5, 3, 4, 9, 1]) == [(1, 1), (3, 5), (9, 9)]


def test_positions_are_divided_by_the_ranges_that_their_entries_are_in() -> None:
    span = Span(numbered(10), range(10), 100, 0, stored=True)
    divided = positions_in(span, 2, 9, [(90, 102), (104, 104), (105, 106), (120, 130)])
    assert list(divided) == [
        (2, 3, True),
        (3, 4, False),
        (4, 5, True),
        (5, 7, True),
        (7, 9, False),
    ]
    assert list(positions_in(span, 2, 9, [])) == [(2, 9, False)]
    assert list(positions_in(span, 2, 9, [(0, 1000)])) == [(2, 9, True)]
