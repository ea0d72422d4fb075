"""The cut-off rule, against RabbitMQ's own words of it and a client that counts its answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from leveret.core.publishing.unconfirmed import SeqRange, coalesce, merge, split_answered

NUMBERS = st.sets(st.integers(1, 30))


def ranges(numbers: Iterable[int]) -> list[SeqRange]:
    """The numbers as ranges in no order: neighbours joined, but for some."""
    joined: list[SeqRange] = []
    for number in sorted(numbers):
        if joined and joined[-1][1] == number - 1 and number % 4:
            joined[-1] = (joined[-1][0], number)
        else:
            joined.append((number, number))
    return joined[::-2] + joined[-2::-2]


def answers(
    numbers: Iterable[int], others: Iterable[int], smallest_open: int
) -> list[tuple[int, bool]]:
    """The frames that answer these numbers: tag and multiple."""
    cumulative, singles = coalesce(ranges(numbers), ranges(others), smallest_open)
    frames = [(cumulative, True)] if cumulative else []
    return frames + [(tag, False) for first, last in singles for tag in range(first, last + 1)]


def rabbitmqs_answers(
    numbers: set[int], others: set[int], unconfirmed: set[int]
) -> list[tuple[int, bool]]:
    """rabbit_channel, send_confirms and coalesce_and_send, in Python.

    A lone nack, too, is single: RabbitMQ's may be cumulative, and says the same.
    """
    if len(numbers) == 1:
        return [(number, False) for number in numbers]
    ordered = sorted(numbers)
    if not ordered:
        return []
    unconfirmed_cut_off = min(unconfirmed) if unconfirmed else ordered[-1] + 1
    cut_off = min([unconfirmed_cut_off, *others])
    below = [number for number in ordered if number < cut_off]
    frames = [(below[-1], True)] if below else []
    return frames + [(number, False) for number in ordered if number >= cut_off]


@given(NUMBERS, NUMBERS, NUMBERS)
def test_frames_are_rabbitmqs(confirmed: set[int], rejected: set[int], rest: set[int]) -> None:
    rejected -= confirmed
    rest -= confirmed | rejected
    smallest = min(rest, default=0)
    assert answers(confirmed, rejected, smallest) == rabbitmqs_answers(confirmed, rejected, rest)
    assert answers(rejected, confirmed, smallest) == rabbitmqs_answers(rejected, confirmed, rest)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8))
def test_every_number_is_answered_once_and_rightly_in_any_order(
    steps: list[tuple[set[int], set[int]]],
) -> None:
    """A client that takes `multiple` for all that is outstanding gets each answer once."""
    outstanding = set(range(1, 31))
    for confirmed, rejected in steps:
        acked, nacked = confirmed & outstanding, (rejected & outstanding) - confirmed
        rest = outstanding - acked - nacked
        smallest = min(rest, default=0)
        got_acks: set[int] = set()
        for tag, multiple in answers(acked, nacked, smallest):
            covered = {number for number in outstanding if number <= tag} if multiple else {tag}
            # No cumulative ack spans a number that is nacked or still open.
            assert covered <= acked
            assert not covered & got_acks
            got_acks |= covered
            outstanding -= covered
        assert got_acks == acked
        # Acks are written before nacks.
        got_nacks: set[int] = set()
        for tag, multiple in answers(nacked, acked, smallest):
            covered = {number for number in outstanding if number <= tag} if multiple else {tag}
            assert covered <= nacked
            assert not covered & got_nacks
            got_nacks |= covered
            outstanding -= covered
        assert got_nacks == nacked
        assert outstanding == rest


def test_all_that_is_below_the_smallest_open_number_goes_as_one() -> None:
    assert coalesce([(1, 4)], [], 0) == (4, [])
    assert coalesce([(1, 4), (6, 8)], [], 5) == (4, [(6, 8)])
    assert coalesce([(6, 8)], [], 5) == (0, [(6, 8)])
    assert coalesce([(1, 9)], [], 0) == (9, [])


def test_a_range_that_holds_the_cut_off_is_divided_there() -> None:
    assert coalesce([(1, 5), (6, 9)], [], 4) == (3, [(4, 9)])
    assert coalesce([(1, 5)], [(3, 3)], 0) == (2, [(3, 5)])


def test_a_pending_nack_cuts_off_as_an_open_number_does() -> None:
    assert coalesce([(1, 2), (4, 5)], [(3, 3)], 0) == (2, [(4, 5)])
    assert coalesce([(3, 3), (6, 6)], [(1, 2), (4, 5)], 0) == (0, [(3, 3), (6, 6)])


def test_a_lone_answer_is_never_multiple() -> None:
    assert coalesce([(7, 7)], [], 0) == (0, [(7, 7)])
    assert coalesce([(7, 7), (7, 7)], [], 0) == (0, [(7, 7)])


def test_nothing_is_answered_by_nothing() -> None:
    assert coalesce([], [(1, 2)], 3) == (0, [])


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=12))
def test_merged_ranges_are_the_same_numbers_in_order_and_apart(
    spans: list[tuple[int, int]],
) -> None:
    given_ranges = [(first, first + more) for first, more in spans]
    merged = merge(given_ranges)
    numbers = sorted({n for first, last in given_ranges for n in range(first, last + 1)})
    assert [n for first, last in merged for n in range(first, last + 1)] == numbers
    assert all(one[1] + 1 < other[0] for one, other in pairwise(merged))


@given(NUMBERS, NUMBERS)
def test_open_numbers_are_divided_into_answered_and_open_ones(
    still_open: set[int], said: set[int]
) -> None:
    found, left = split_answered(merge(ranges(still_open)), merge(ranges(said)))
    assert numbers_of(found) == sorted(still_open & said)
    assert numbers_of(left) == sorted(still_open - said)


def numbers_of(spans: list[SeqRange]) -> list[int]:
    return [number for first, last in spans for number in range(first, last + 1)]
