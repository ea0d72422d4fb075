"""Which frames answer a set of publishes, against the cut-off rule said number by number."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from leveret.core.coalescing import SeqRange, coalesce, merge

NUMBERS = st.sets(st.integers(1, 40))


def ranges_of(numbers: set[int], cuts: list[bool]) -> list[SeqRange]:
    """The numbers as ranges: neighbours joined, except where a cut says otherwise."""
    ranges: list[SeqRange] = []
    for number, cut in zip(sorted(numbers), cuts, strict=False):
        if ranges and ranges[-1][1] == number - 1 and not cut:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def numbers_of(ranges: list[SeqRange]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


def rule(numbers: set[int], others: set[int], smallest_open: int) -> tuple[int, list[int]]:
    """SEMANTICS 2a, 7, in its own words: sort; cut off; one cumulative below, single above."""
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return 0, ordered
    cut_off = min([smallest_open or ordered[-1] + 1, *others])
    below = [number for number in ordered if number < cut_off]
    return (below[-1] if below else 0), ordered[len(below) :]


@given(
    numbers=NUMBERS.filter(bool),
    others=NUMBERS,
    smallest_open=st.integers(0, 41),
    cuts=st.lists(st.booleans(), min_size=40, max_size=40),
    shuffled=st.randoms(use_true_random=False),
)
def test_coalescing_is_the_cut_off_rule(
    numbers: set[int], others: set[int], smallest_open: int, cuts: list[bool], shuffled: object
) -> None:
    others -= numbers
    if smallest_open in numbers | others:
        smallest_open = 0
    ranges = ranges_of(numbers, cuts)
    shuffled.shuffle(ranges)  # type: ignore[attr-defined]
    cumulative, singles = coalesce(ranges, ranges_of(others, cuts), smallest_open)
    assert (cumulative, numbers_of(singles)) == rule(numbers, others, smallest_open)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5))))
def test_merged_ranges_are_ascending_apart_and_the_same_numbers(pairs: list[SeqRange]) -> None:
    ranges = [(first, first + more) for first, more in pairs]
    merged = merge(ranges)
    assert numbers_of(merged) == sorted(set(numbers_of(ranges)))
    assert all(one[1] + 1 < two[0] for one, two in pairwise(merged))


def test_a_lone_answer_is_not_multiple() -> None:
    assert coalesce([(7, 7)], [], 0) == (0, [(7, 7)])


def test_a_cumulative_ack_never_spans_a_number_that_will_be_nacked() -> None:
    assert coalesce([(1, 2), (4, 5)], [(3, 3)], 0) == (2, [(4, 5)])


def test_a_cumulative_ack_never_spans_an_unconfirmed_number() -> None:
    assert coalesce([(1, 3), (5, 6)], [], 4) == (3, [(5, 6)])


def test_a_range_that_holds_the_cut_off_is_divided_there() -> None:
    assert coalesce([(1, 5), (6, 9)], [], 4) == (3, [(4, 9)])
