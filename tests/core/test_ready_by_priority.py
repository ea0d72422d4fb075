"""Queues with priorities: the highest first, in order within one, and what comes back to its place.

In any order of events such queues are in test_message_queue_model.py.
"""

from __future__ import annotations

import pytest
from batches import mixed
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.construction import equip
from leveret.core.queue.ready import Ready
from leveret.core.queue.ready_by_priority import ReadyByPriority
from leveret.core.queue.rules import MessageQueue
from leveret.core.queue.span import Span

PRIORITIES = st.none() | st.sampled_from((0, 1, 4, 5, 6, 255))
PRIORITY_MAX = 5
WINDOW = 1000


def batch_with(*priorities: int | None) -> Batch:
    return mixed([True] * len(priorities), priorities)


def span_with(first_entry_id: int, *priorities: int | None, attempts: int = 0) -> Span:
    return Span(batch_with(*priorities), range(len(priorities)), first_entry_id, attempts, True)


def entries(span: Span) -> list[int]:
    return list(range(span.first_entry_id, span.first_entry_id + len(span)))


def drained(ready: Ready) -> list[list[int]]:
    rows = []
    while ready.message_count:
        rows.append(entries(ready.dequeue(9)))
    return rows


def test_the_highest_priority_leaves_first_and_each_in_its_order() -> None:
    ready = ReadyByPriority(9)
    ready.append(span_with(1, 0, 9, 9, 3))
    ready.append(span_with(5, 9, 0, 3, 3))
    assert ready.message_count == 8
    assert [entries(each) for each in ready] == [[2, 3], [5], [4], [7, 8], [1], [6]]
    assert drained(ready) == [[2, 3], [5], [4], [7, 8], [1], [6]]
    assert ready.head() is None
    with pytest.raises(IndexError):
        ready.dequeue(1)


def test_none_is_0_and_above_the_maximum_is_the_maximum() -> None:
    ready = ReadyByPriority(5)
    ready.append(span_with(1, None, 200, 0, 5, 6, 4))
    assert drained(ready) == [[2], [4, 5], [6], [1], [3]]


def test_requeued_rows_go_to_their_old_places_within_their_priority() -> None:
    ready = ReadyByPriority(9)
    ready.append(span_with(1, 5, 5, 5, 1))
    taken = [ready.dequeue(1) for _ in range(2)]
    ready.append(span_with(5, 9))
    taken[0].attempts = 1
    ready.put_back(taken[1])
    ready.put_back(taken[0])
    head = ready.head()
    assert head is not None
    assert entries(head) == [5]
    taken = [ready.dequeue(9) for _ in range(5)]
    assert [entries(each) for each in taken] == [[5], [1], [2], [3], [4]]
    assert [each.attempts for each in taken] == [0, 1, 0, 0, 0]
    assert ready.message_count == 0


def test_nothing_is_left_after_clear() -> None:
    ready = ReadyByPriority(9)
    ready.append(span_with(1, 5, 1))
    ready.put_back(ready.dequeue(1))
    ready.clear()
    assert (ready.message_count, ready.head(), list(ready)) == (0, None, [])


def test_rows_of_one_priority_are_not_divided() -> None:
    ready = ReadyByPriority(9)
    batch = batch_with(3, 3, 3)
    assert ready.divide(batch, range(3)) == (range(3),)
    assert ready.divide(batch, range(1, 2)) == (range(1, 2),)


@given(st.lists(PRIORITIES, min_size=1, max_size=12), st.data())
def test_divided_rows_are_of_one_priority_each_highest_first_and_in_order(
    priorities: list[int | None], data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.sampled_from(range(len(priorities))), min_size=1).map(sorted))
    level = [min(each or 0, PRIORITY_MAX) for each in priorities]
    rows = ReadyByPriority(PRIORITY_MAX).divide(batch_with(*priorities), chosen)  # type: ignore[arg-type]
    assert [list(row) for row in rows] == [
        [index for index in chosen if level[index] == priority]
        for priority in range(PRIORITY_MAX, -1, -1)
        if any(level[index] == priority for index in chosen)
    ]


def test_only_a_queue_with_the_argument_has_the_part() -> None:
    for arguments, kind in (
        ({}, Ready),
        ({"x-max-priority": 0}, Ready),
        ({"x-max-priority": 1}, ReadyByPriority),
        ({"x-max-priority": 255}, ReadyByPriority),
    ):
        queue = MessageQueue("the queue", True, WINDOW)
        equip(queue, table_of(arguments), WINDOW)
        assert type(queue.ready) is kind


def test_restored_messages_are_in_the_order_of_priorities() -> None:
    queue = MessageQueue("the queue", True, WINDOW)
    equip(queue, table_of({"x-max-priority": PRIORITY_MAX}), WINDOW)
    queue.restore(Span(batch_with(None, 2, 2, 9), range(4), 11, 1, stored=True))
    queue.restore(Span(batch_with(3), range(1), 20, 0, stored=True))
    assert [(entries(each), each.attempts) for each in queue.ready] == [
        ([14], 1),
        ([20], 0),
        ([12, 13], 1),
        ([11], 1),
    ]
    assert queue.next_entry_id == 21
