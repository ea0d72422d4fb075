"""Delivery tags that are held, and what an ack makes of them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain
from random import Random

import pytest
from batches import numbered
from counting_list import CountingList
from holding import parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.errors import SoftError
from leveret.core.channel.outstanding import Unacked, runs_of_tags
from leveret.core.channel.transaction import Part
from leveret.core.queue.in_flight import Delivery, InFlight
from leveret.core.queue.span import PagedSpan, Span

Refused = Callable[[int, str], AbstractContextManager[None]]


def delivery(count: int) -> Delivery:
    return Delivery(Span(numbered(count), range(count), 1, 0, True), "queue", None)


@pytest.fixture
def unacked() -> Unacked:
    return Unacked()


@given(st.sets(st.integers(1, 12)), st.integers(1, 12), st.integers(1, 12))
def test_unknown_tags_are_recognised_by_the_outermost_held_ones(
    acked: set[int], one: int, other: int
) -> None:
    unacked = Unacked()
    for first_tag, count in ((1, 5), (6, 1), (7, 6)):
        unacked.add(first_tag, delivery(count))
    for tag in acked:
        unacked.remove(tag, False)
    first, last = sorted((one, other))
    missing = sorted(acked & set(range(first, last + 1)))
    assert unacked.not_held(first, last) == ((missing[0], missing[-1]) if missing else None)


@given(st.lists(st.integers(1, 12), unique=True), st.booleans())
def test_a_tag_is_found_as_long_as_it_is_held_and_finding_it_changes_nothing(
    acked: list[int], is_late: bool
) -> None:
    unacked = Unacked()
    deliveries = {first_tag: delivery(count) for first_tag, count in ((1, 5), (6, 1), (7, 6))}
    for first_tag, each in deliveries.items():
        unacked.add(first_tag, each)
    for tag in acked:
        unacked.remove(tag, False)
    late = deliveries[7]
    if is_late:
        timed_out(unacked, late)
    before = list(unacked)
    for tag in range(14):
        if 1 <= tag <= 12 and tag not in acked:
            first_tag = max(first for first in deliveries if first <= tag)
            low = tag - first_tag
            expected = (deliveries[first_tag], low, low + 1)
            assert unacked.find(tag) == (None if is_late and tag >= 7 else expected)
        else:
            with pytest.raises(SoftError, match=f"unknown delivery tag {tag}$"):
                unacked.find(tag)
    assert list(unacked) == before


def test_an_ack_of_one_tag_takes_one_message(unacked: Unacked) -> None:
    first, second = delivery(3), delivery(2)
    unacked.add(1, first)
    unacked.add(4, second)
    assert unacked.remove(2, False) == [(first, 1, 2)]
    assert unacked.remove(5, False) == [(second, 1, 2)]
    assert unacked.count == 3
    assert list(unacked) == [(first, 0, 1), (first, 2, 3), (second, 0, 1)]


def test_an_ack_of_many_takes_all_up_to_its_tag(unacked: Unacked) -> None:
    first, second = delivery(3), delivery(2)
    unacked.add(1, first)
    unacked.add(4, second)
    unacked.remove(1, False)
    assert unacked.remove(4, True) == [(first, 1, 3), (second, 0, 1)]
    assert list(unacked) == [(second, 1, 2)]


def test_tag_0_with_multiple_takes_everything_and_never_fails(unacked: Unacked) -> None:
    assert unacked.remove(0, True) == []
    held = delivery(3)
    unacked.add(7, held)
    unacked.remove(8, False)
    assert unacked.remove(0, True) == [(held, 0, 1), (held, 2, 3)]
    assert unacked.count == 0


@pytest.mark.parametrize(
    ("tag", "multiple"), [(0, False), (1, False), (3, False), (3, True), (6, False), (99, True)]
)
def test_a_tag_that_is_not_held_is_unknown(
    unacked: Unacked, refused: Refused, tag: int, multiple: bool
) -> None:
    unacked.add(1, delivery(5))
    unacked.remove(1, False)
    unacked.remove(3, False)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        unacked.remove(tag, multiple)
    assert [(low, high) for _, low, high in unacked] == [(1, 2), (3, 5)]
    assert unacked.count == 3


def test_acks_before_an_unknown_tag_count(unacked: Unacked, refused: Refused) -> None:
    held = delivery(3)
    unacked.add(1, held)
    parts = []
    with refused(406, "PRECONDITION_FAILED - unknown delivery tag 4"):
        for part in unacked.remove_range(2, 9):
            parts.append(part)  # noqa: PERF402 - what came before the error is what counts
    assert parts == [(held, 1, 3)]
    assert list(unacked) == [(held, 0, 1)]
    other = Unacked()
    other.add(1, held)
    with refused(406, "PRECONDITION_FAILED - unknown delivery tag 4"):
        parts += other.remove_range(1, 9)
    assert parts == [(held, 1, 3), (held, 0, 3)]


def test_a_delivery_that_is_acked_is_not_kept_alive(unacked: Unacked) -> None:
    held = [delivery(2) for _ in range(101)]
    for number in range(100):
        unacked.add(1 + 2 * number, held[number])

    def kept_alive() -> list[int]:
        free = sys.getrefcount(held[100])
        return [number for number in range(100) if sys.getrefcount(held[number]) > free]

    for tag in range(1, 52):
        unacked.remove(tag, False)
    assert kept_alive() == list(range(25, 100))
    unacked.remove(181, True)
    assert kept_alive() == list(range(90, 100))
    unacked.remove(0, True)
    assert kept_alive() == []


def test_taken_ranges_are_forgotten(unacked: Unacked) -> None:
    for tag in range(1, 2001):
        unacked.add(tag, delivery(1))
        if tag > 10:
            unacked.remove(tag - 10, False)
    assert max(map(len, parts(unacked, list))) < 200
    assert unacked.count == 10


def one_by_one(unacked: Unacked, acks: list[tuple[int, bool]]) -> tuple[list[int], str]:
    """Positions in the order of their acks, and the error's text."""
    taken: list[int] = []
    try:
        for tag, multiple in acks:
            for _, low, high in unacked.remove(tag, multiple):
                taken += range(low, high)
    except SoftError as error:
        return taken, error.reply_text
    return taken, ""


def in_runs(unacked: Unacked, acks: list[tuple[int, bool]]) -> tuple[list[int], str]:
    tags = array("Q", [tag for tag, _ in acks])
    multiples = bytearray(multiple for _, multiple in acks)
    taken: list[int] = []
    try:
        for first, last, multiple in runs_of_tags(tags, multiples):
            parts = unacked.remove(first, True) if multiple else unacked.remove_range(first, last)
            for _, low, high in parts:
                taken += range(low, high)
    except SoftError as error:
        return taken, error.reply_text
    return taken, ""


ROWS = st.builds(
    lambda first, count: [(tag, False) for tag in range(first, first + count)],
    st.integers(0, 12),
    st.integers(1, 8),
)
SINGLES = st.tuples(st.integers(0, 22), st.booleans()).map(lambda ack: [ack])


@given(st.lists(st.one_of(ROWS, ROWS, SINGLES), max_size=6).map(lambda lists: list(chain(*lists))))
def test_runs_of_tags_are_what_the_acks_are_one_by_one(acks: list[tuple[int, bool]]) -> None:
    held = delivery(20)
    one, other = Unacked(), Unacked()
    for each in (one, other):
        each.add(1, held)
    assert in_runs(one, acks) == one_by_one(other, acks)
    assert list(one) == list(other)
    assert one.count == other.count


def test_acks_in_order_are_one_run() -> None:
    tags = array("Q", range(5, 105))
    assert list(runs_of_tags(tags, bytearray(100))) == [(5, 104, False)]
    assert list(runs_of_tags(array("Q"), bytearray())) == []
    assert list(runs_of_tags(array("Q", [3]), bytearray(1))) == [(3, 3, False)]
    # As far apart as a row, and none.
    assert list(runs_of_tags(array("Q", [1, 9, 3]), bytearray(3))) == [
        (1, 1, False),
        (9, 9, False),
        (3, 3, False),
    ]


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.lists(st.integers(1, 30), max_size=20),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_tags_are_held_until_they_are_acked(
    counts: list[int], acked: list[int], low: int, high: int
) -> None:
    unacked = Unacked()
    held: set[int] = set()
    tag = 1
    for count in counts:
        unacked.add(tag, delivery(count))
        held.update(range(tag, tag + count))
        tag += count
    for each in acked:
        if each in held:
            unacked.remove(each, False)
            held.remove(each)
    first, last = min(low, high), max(low, high)
    assert unacked.holds(first, last) == bool(held & set(range(first, last + 1)))


def counted(tags: int) -> tuple[Unacked, CountingList]:
    """So many held tags, each in a range of its own."""
    unacked = Unacked()
    one = delivery(1)
    # private: what a change of the ranges costs shows nowhere but in their list.
    ranges = unacked._ranges = CountingList()
    for tag in range(1, tags + 1):
        unacked.add(tag, one)
    return unacked, ranges


def test_a_late_worker_moves_little_however_much_is_held() -> None:
    count = 40_000
    unacked, ranges = counted(count)
    # Of each two the second first.
    for tag in range(1, count // 5, 2):
        unacked.remove(tag + 1, False)
        unacked.remove(tag, False)
    # 4,000 times what is behind, if that were moved each time.
    assert ranges.moved < 3 * count
    assert next(iter(unacked))[1:] == (0, 1)
    assert unacked.count == count * 4 // 5


def test_asking_for_held_messages_moves_little_however_many_there_are() -> None:
    count = 20_000
    unacked, ranges = counted(count)
    for tag in range(2, 1_000, 2):
        unacked.remove(tag, False)
        assert unacked.holds(tag - 1, tag - 1)
    # 499 times what is held, if holes were closed for each question.
    assert ranges.moved < 3 * count
    assert not unacked.holds(998, 998)


BATCH = numbered(12)


def timed_out(unacked: Unacked, *deliveries: Delivery) -> list[Part]:
    return unacked.time_out([(each, 0, len(each.span)) for each in deliveries])


def test_a_late_answer_names_its_consumer_and_no_message() -> None:
    unacked = Unacked()
    first, second = (Delivery(Span(BATCH, range(3), 1, 0, True), "q", None) for _ in range(2))
    unacked.add(1, first)
    unacked.add(4, second)
    assert list(unacked.remove_range(2, 2)) == [(first, 1, 2)]
    assert timed_out(unacked, first) == []
    assert not unacked.holds(1, 3)
    assert unacked.holds(3, 4)
    ((late, low, high), *rest) = unacked.remove(6, True)
    assert (late.queue, late.consumer, len(late.span), high - low) == ("q", None, 0, 1)
    assert rest == [(late, 2, 3), (second, 0, 3)]
    with pytest.raises(SoftError, match=r"unknown delivery tag 1$"):
        unacked.remove(1, False)


def test_late_tags_that_are_neighbours_take_up_one_range_and_no_read() -> None:
    unacked = Unacked()
    deliveries = [Delivery(Span(BATCH, range(1), n, 0, True), "q", None) for n in range(1000)]
    for tag, delivery in enumerate(deliveries, 1):
        unacked.add(tag, delivery)
        timed_out(unacked, delivery)
    assert len(list(unacked)) <= 2 * 64
    assert unacked.count == 1000
    assert sum(high - low for _, low, high in unacked.remove(0, True)) == 1000


def test_beyond_the_limit_the_oldest_late_tags_are_forgotten_with_their_credit() -> None:
    unacked = Unacked(timed_out_ranges_max=10)
    forgotten = 0
    for tag in range(1, 1001, 2):
        # Never neighbours: one between them is on its way.
        late, other = (Delivery(Span(BATCH, range(1), tag, 0, True), "q", None) for _ in range(2))
        unacked.add(tag, late)
        unacked.add(tag + 1, other)
        forgotten += sum(high - low for _, low, high in timed_out(unacked, late))
    assert forgotten > 300
    parts = unacked.remove(0, True)
    assert sum(high - low for delivery, low, high in parts if not len(delivery.span)) == (
        500 - forgotten
    )
    assert len(parts) == 500 + 500 - forgotten


def test_tags_name_the_same_messages_whether_their_deliveries_have_become_one_or_not(
    seed: int,
) -> None:
    chosen = Random(seed)
    unacked, in_flight = Unacked(ranges_min=2), InFlight(joined_count_max=9)
    # By tag: the entry id.
    held: dict[int, int] = {}
    tag = entry = 1

    def deliver() -> None:
        nonlocal tag, entry
        count = chosen.randint(1, 4)
        entry += chosen.choice((0, 0, 0, 1))
        out = Delivery(Span(numbered(count), range(count), entry, 0, True), "queue", None)
        in_flight.add("channel", out)
        unacked.add(tag, out)
        for _ in range(count):
            held[tag] = entry
            tag, entry = tag + 1, entry + 1

    def page(delivery: Delivery) -> PagedSpan | None:
        span = delivery.span
        return PagedSpan(span.first_entry_id, len(span), 0, True) if chosen.random() < 0.8 else None

    def ack() -> None:
        last = chosen.choice(list(held))
        multiple = chosen.random() < 0.1
        gone = [each for each in held if each == last or (multiple and each < last)]
        found = []
        for part in in_flight.current(unacked.remove(last, multiple)):
            assert in_flight.remove("channel", *part)
            delivery, low, high = part
            first = delivery.span.first_entry_id
            found += range(first + low, first + high)
        assert found == [held.pop(each) for each in gone]
        assert unacked.count == in_flight.message_count == len(held)

    for _ in range(2_000):
        chosen.choice((deliver, lambda: in_flight.page_out(page), ack if held else deliver))()
    for each, entry_id in held.items():
        part = unacked.find(each)
        assert part is not None
        [(delivery, low, _)] = in_flight.current([part])
        assert delivery.span.first_entry_id + low == entry_id
    assert in_flight.has_joined
