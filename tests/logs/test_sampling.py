"""Which messages are traced: one of so many, and the same ones at every hop."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leveret.logs.trace.sampling import RUN_MESSAGES, Places, among, positions, ranges, sampled

EVERY = st.integers(1, 400)
BATCHES = st.integers(1, 2**63)


def places_of(count: int) -> st.SearchStrategy[Places]:
    """Ascending numbers below `count`, as queues hold them: with gaps, or a range."""
    with_gaps = st.sets(st.integers(0, count - 1)).map(lambda some: array("I", sorted(some)))
    bounds = st.tuples(st.integers(0, count), st.integers(0, count))
    return with_gaps | bounds.map(lambda pair: range(min(pair), max(pair)))


@given(BATCHES, st.integers(1, 2000), EVERY)
def test_what_is_sampled_ascends_and_does_not_depend_on_how_much_of_a_batch_is_seen(
    number: int, count: int, every: int
) -> None:
    chosen = list(sampled(number, count, every) or ())
    assert chosen == sorted(set(chosen))
    assert all(0 <= place < count for place in chosen)
    whole = sampled(number, 2000, every) or ()
    assert chosen == [place for place in whole if place < count]


@pytest.mark.parametrize("count", [1, 7, RUN_MESSAGES, 60, 311, 4000])
@pytest.mark.parametrize("every", [1, 2, 3, 100, 7919])
def test_one_of_so_many_is_chosen_whatever_the_size_of_the_reads(count: int, every: int) -> None:
    # Whatever other channels' batches lie between.
    for step in (1, 2, 3):
        batches = range(1, 1 + step * 100_000 // count, step)
        seen = len(batches) * count
        chosen = sum(len(sampled(number, count, every) or ()) for number in batches)
        assert chosen == pytest.approx(seen / every, rel=0.05, abs=6 * RUN_MESSAGES)


@pytest.mark.parametrize("every", [2, 100])
def test_every_place_of_a_batch_is_chosen_as_often_as_any_other(every: int) -> None:
    batches, count = 40_000, 64
    times = [0] * count
    for number in range(1, batches + 1):
        for place in sampled(number, count, every) or ():
            times[place] += 1
    assert all(each == pytest.approx(batches / every, rel=0.1) for each in times)


def test_a_rate_of_one_chooses_all() -> None:
    assert sampled(5, 3, 1) == range(3)
    assert sampled(5, 0, 1) is None


@given(st.data(), BATCHES, st.integers(1, 600), EVERY)
def test_what_is_among_others_is_what_both_have(
    data: st.DataObject, number: int, count: int, every: int
) -> None:
    indexes = data.draw(places_of(count))
    chosen = data.draw(places_of(count) | st.just(sampled(number, count, every) or range(0)))
    both = [index for index in indexes if index in set(chosen)]
    assert list(among(chosen, indexes)) == both
    assert [indexes[position] for position in positions(chosen, indexes)] == both


@given(places_of(100))
def test_ranges_have_each_number_once_and_do_not_touch(places: Places) -> None:
    pairs = ranges(places)
    assert [n for first, last in pairs for n in range(first, last + 1)] == list(places)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(pairs))
