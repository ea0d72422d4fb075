"""Rows of messages."""

from __future__ import annotations

from array import array

from batches import batch_of, numbered
from leveret.core.span import Span
from wire import publish


def test_a_part_keeps_batch_ids_attempts_and_whether_the_journal_knows_it() -> None:
    span = Span(numbered(5), array("I", [0, 2, 3, 4]), 100, 3, True)
    part = span.part(1, 3)
    assert part.batch is span.batch
    assert list(part.indexes) == [2, 3]
    assert (part.first_entry_id, part.attempts, part.stored, len(part)) == (101, 3, True, 2)


def test_wire_bytes_are_exact_for_a_whole_batch_and_shared_out_evenly_for_a_part() -> None:
    batch = batch_of(publish("q", b"x" * 10), publish("q", b"x" * 30))
    whole = Span(batch, range(2), 1, 0, False)
    assert whole.wire_bytes() == len(batch.wire)
    assert whole.part(0, 1).wire_bytes() == whole.part(1, 2).wire_bytes() == len(batch.wire) // 2
