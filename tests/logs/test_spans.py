"""Sets of numbers as ranges do what sets of numbers do."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from leveret.logs.spans import Spans

PAIRS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


def numbers(pairs: object) -> set[int]:
    return {number for first, last in pairs for number in range(first, last + 1)}  # type: ignore[attr-defined]


@given(PAIRS, PAIRS, PAIRS)
def test_spans_are_a_set_of_numbers(
    one: list[tuple[int, int]], other: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    spans = Spans(one)
    spans.remove(other)
    expected = numbers(one) - numbers(other)
    assert numbers(spans) == expected
    assert numbers(spans.common(asked)) == expected & numbers(asked)
    assert numbers(spans.missing(asked)) == numbers(asked) - expected
    assert spans.count() == len(expected)
    assert bool(spans) == bool(expected)
    pairs = list(spans)
    # Ascending, and no two of them touch.
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(pairs))
    if expected:
        assert spans.smallest() == min(expected)


def test_a_range_of_any_length_costs_one_range() -> None:
    spans = Spans([(0, 10**15)])
    spans.remove([(5, 10**12)])
    assert list(spans) == [(0, 4), (10**12 + 1, 10**15)]
    assert spans.count() == 5 + 10**15 - 10**12
