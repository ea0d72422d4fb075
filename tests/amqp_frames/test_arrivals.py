"""When messages arrived: runs of them, as few as there are times."""

from __future__ import annotations

from array import array
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given
from leveret.amqp_frames.messages.arrivals import (
    ArrivalRuns,
    Arrived,
    arrivals_of,
    joined_arrivals,
    runs_of,
)

columns = st.lists(st.integers(0, 3), min_size=1, max_size=20)


def arrived_each(times_ns: list[int]) -> Arrived:
    return joined_arrivals((time_ns, 1) for time_ns in times_ns)


def column_of(arrived: Arrived, indexes: range | array[int]) -> list[int]:
    column: list[int] = []
    for low, high, time_ns in runs_of(arrived, indexes):
        assert low == len(column) < high
        column += [time_ns] * (high - low)
    return column


@given(times_ns=columns, data=st.data())
def test_chosen_messages_have_their_times(times_ns: list[int], data: st.DataObject) -> None:
    arrived = arrived_each(times_ns)
    chosen = array(
        "I", sorted(data.draw(st.sets(st.sampled_from(range(len(times_ns))), min_size=1)))
    )
    expected = [times_ns[index] for index in chosen]
    assert column_of(arrived, chosen) == expected
    assert arrivals_of(arrived, chosen) == arrived_each(expected)


@given(rows=st.lists(columns, min_size=1, max_size=4))
def test_parts_are_joined_to_as_few_runs_as_there_are(rows: list[list[int]]) -> None:
    joined = joined_arrivals((arrived_each(row), len(row)) for row in rows)
    times_ns = [time_ns for row in rows for time_ns in row]
    assert joined == arrived_each(times_ns)
    assert column_of(joined, range(len(times_ns))) == times_ns
    if isinstance(joined, ArrivalRuns):
        assert len(joined.ends) == 1 + sum(a != b for a, b in pairwise(times_ns))
    else:
        assert set(times_ns) == {joined}
