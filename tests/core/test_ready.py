"""Ready messages, in the order of entry ids."""

from __future__ import annotations

import pytest
from batches import numbered
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.queue.ready import Ready
from leveret.core.queue.span import Span

BATCH = numbered(10)


def span(first_entry_id: int, count: int, attempts: int = 0) -> Span:
    return Span(BATCH, range(count), first_entry_id, attempts, True)


def entries(span: Span) -> list[int]:
    return list(range(span.first_entry_id, span.first_entry_id + len(span)))


def test_messages_leave_in_the_order_they_came() -> None:
    ready = Ready()
    ready.append(span(1, 3))
    ready.append(span(4, 2))
    assert ready.message_count == 5
    assert [entries(ready.dequeue(2)) for _ in range(3)] == [[1, 2], [3], [4, 5]]
    assert ready.message_count == 0
    assert ready.head() is None
    with pytest.raises(IndexError):
        ready.dequeue(1)


def test_requeued_rows_go_to_their_old_places() -> None:
    ready = Ready()
    ready.append(span(1, 5))
    taken = [ready.dequeue(1) for _ in range(4)]
    for each in (taken[2], taken[0], taken[3]):
        ready.put_back(each)
    head = ready.head()
    assert head is not None
    assert entries(head) == [1]
    assert [entries(each) for each in ready] == [[1], [3], [4], [5]]
    assert [entries(ready.dequeue(9)) for _ in range(4)] == [[1], [3], [4], [5]]


def test_a_row_that_came_back_is_taken_in_parts_with_its_attempts() -> None:
    ready = Ready()
    ready.append(span(4, 2))
    ready.put_back(span(1, 3, attempts=2))
    first, second = ready.dequeue(2), ready.dequeue(2)
    assert (entries(first), first.attempts) == ([1, 2], 2)
    assert (entries(second), second.attempts) == ([3], 2)
    assert ready.dequeue(1).attempts == 0


def test_nothing_is_left_after_clear() -> None:
    ready = Ready()
    ready.append(span(2, 2))
    ready.put_back(span(1, 1))
    ready.clear()
    assert (ready.message_count, ready.head(), list(ready)) == (0, None, [])


@given(
    st.lists(st.tuples(st.sampled_from(["new", "take", "back"]), st.integers(1, 5)), max_size=60)
)
def test_the_lowest_entry_is_always_next(steps: list[tuple[str, int]]) -> None:
    ready = Ready()
    model: list[int] = []
    taken: list[Span] = []
    next_id = 1
    for step, number in steps:
        if step == "new":
            ready.append(span(next_id, number))
            model += range(next_id, next_id + number)
            next_id += number
        elif step == "take" and model:
            taken.append(ready.dequeue(number))
            out = entries(taken[-1])
            assert 1 <= len(out) <= number
            assert out == model[: len(out)]
            del model[: len(out)]
        elif step == "back" and taken:
            back = taken.pop(number % len(taken))
            ready.put_back(back)
            model = sorted(model + entries(back))
        assert ready.message_count == len(model)
        assert [entry for each in ready for entry in entries(each)] == model
