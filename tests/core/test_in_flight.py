"""A queue's messages in flight."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from batches import numbered
from holding import object_count, octets_held
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.channel.outstanding import Unacked
from leveret.core.connection.reading_time import ReadingTime
from leveret.core.queue.in_flight import Deadline, Delivery, InFlight
from leveret.core.queue.span import PagedSpan, Span

BATCH = numbered(10)


def delivery(count: int = 10, attempts: int = 0) -> Delivery:
    return Delivery(Span(BATCH, range(count), 1, attempts, True), "queue", None)


def test_a_delivery_counts_itself_among_its_attempts() -> None:
    assert delivery(attempts=2).attempts == 3


def test_parts_are_removed_once() -> None:
    out = delivery()
    assert out.remove(3, 5)
    assert out.remaining == [(0, 3), (5, 10)]
    for low, high in ((3, 5), (4, 6), (2, 4), (0, 10), (9, 11)):
        assert not out.remove(low, high)
    assert out.remove(0, 3)
    assert out.remove(5, 10)
    assert out.remaining == []
    assert not out.remove(0, 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=20))
def test_positions_that_were_not_removed_remain(parts: list[tuple[int, int]]) -> None:
    out = delivery()
    model = set(range(10))
    for low, count in parts:
        part = set(range(low, low + count))
        assert out.remove(low, low + count) == (part <= model)
        if part <= model:
            model -= part
        positions = [at for first, end in out.remaining for at in range(first, end)]
        assert positions == sorted(model)


@given(st.sets(st.integers(0, 9)), st.integers(0, 9), st.integers(1, 10))
def test_the_ranges_that_are_held_within_others(gone: set[int], low: int, count: int) -> None:
    out = delivery()
    for position in gone:
        out.remove(position, position + 1)
    ranges = out.held(low, low + count)
    assert all(first < end for first, end in ranges)
    held = [at for first, end in ranges for at in range(first, end)]
    assert held == [at for at in range(low, min(low + count, 10)) if at not in gone]


class CountedReads(list[tuple[int, int]]):
    """Counts the places that are looked at."""

    count = 0

    def __getitem__(self, place: Any) -> Any:
        self.count += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self[place] for place in range(len(self)))


def test_one_of_many_ranges_is_found_without_a_look_at_all_of_them() -> None:
    out = delivery()
    out.remaining = ranges = CountedReads((2 * place, 2 * place + 1) for place in range(10_000))
    ranges.count = 0
    assert out.held(10_000, 10_003) == [(10_000, 10_001), (10_002, 10_003)]
    assert ranges.count < 30


def test_only_the_channel_that_holds_a_delivery_gives_it_back() -> None:
    in_flight = InFlight()
    out = delivery()
    in_flight.add("channel", out)
    assert in_flight.message_count == 10
    assert not in_flight.remove("other", out, 0, 1)
    assert not in_flight.remove("channel", delivery(), 0, 1)
    assert in_flight.remove("channel", out, 0, 4)
    assert in_flight.message_count == 6
    assert not in_flight.remove("channel", out, 3, 5)
    assert in_flight.remove("channel", out, 4, 10)
    assert in_flight.message_count == 0
    assert object_count(in_flight) == object_count(InFlight())


def test_a_channel_that_is_gone_leaves_the_messages_that_it_still_held() -> None:
    in_flight = InFlight()
    first, second, others = delivery(), delivery(2), delivery()
    in_flight.add("channel", first)
    in_flight.add("channel", second)
    in_flight.add("other", others)
    in_flight.remove("channel", first, 0, 9)
    assert list(in_flight.remove_channel("channel")) == [first, second]
    assert first.remaining == [(9, 10)]
    assert in_flight.message_count == 10
    assert not list(in_flight.remove_channel("channel"))


def paged(delivery: Delivery) -> PagedSpan:
    """As a queue pages it, to which the journal has said that it has all."""
    span = delivery.span
    return PagedSpan(span.first_entry_id, len(span), span.attempts, span.stored)


def sent(
    in_flight: InFlight, rows: list[tuple[int, int]], unacked: Unacked | None = None
) -> list[Delivery]:
    """Deliveries with these first entry ids and counts, which a channel has sent."""
    unacked = Unacked() if unacked is None else unacked
    tag = 1
    deliveries = []
    for first, count in rows:
        out = Delivery(Span(BATCH, range(count), first, 0, True), "queue", None)
        in_flight.add("channel", out)
        unacked.add(tag, out)
        tag += count
        deliveries.append(out)
    return deliveries


def test_paged_neighbours_become_one_delivery_and_are_answered_by_their_old_names() -> None:
    in_flight = InFlight()
    first, second, third = sent(in_flight, [(1, 10), (11, 4), (15, 6)])
    assert in_flight.remove("channel", second, 1, 2)
    in_flight.page_out(paged)
    assert list(in_flight.deliveries()) == [first]
    assert (first.span.first_entry_id, len(first.span)) == (1, 20)
    assert first.remaining == [(0, 11), (12, 20)]
    assert in_flight.message_count == 19
    parts = [(second, 2, 4), (third, 0, 6), (first, 0, 3)]
    assert list(in_flight.current(parts)) == [(first, 12, 14), (first, 14, 20), (first, 0, 3)]
    assert all(in_flight.remove("channel", *part) for part in in_flight.current(parts))
    assert not any(in_flight.remove("channel", *part) for part in in_flight.current(parts))
    assert first.remaining == [(3, 11)]
    assert list(in_flight.remove_channel("channel")) == [first]
    assert in_flight.message_count == 0


def test_a_delivery_that_has_others_becomes_a_part_of_one_before_it() -> None:
    in_flight = InFlight()
    first, second, third = sent(in_flight, [(1, 2), (3, 3), (6, 1)])
    in_flight.page_out(lambda each: None if each is first else paged(each))
    assert list(in_flight.deliveries()) == [first, second]
    in_flight.page_out(paged)
    assert list(in_flight.deliveries()) == [first]
    assert list(in_flight.current([(third, 0, 1)])) == [(first, 5, 6)]


@pytest.mark.parametrize(
    "change",
    [
        {"first_entry_id": 12},
        {"attempts": 1},
        {"stored": False},
        {"deadline_ms": 7},
        {"is_spilled": True},
        {"priority": 1},
        {"sizes": array("I", [1] * 4)},
    ],
    ids=str,
)
def test_rows_that_differ_in_more_than_their_place_stay_apart(change: dict[str, Any]) -> None:
    in_flight = InFlight()
    first, second = sent(in_flight, [(1, 10), (11, 4)])
    facts = {"first_entry_id": 11, "count": 4, "attempts": 0, "stored": True, **change}
    in_flight.page_out(lambda each: paged(each) if each is first else PagedSpan(**facts))
    assert list(in_flight.deliveries()) == [first, second]


def test_deliveries_whose_tags_or_times_differ_stay_apart() -> None:
    in_flight = InFlight()
    deliveries = sent(in_flight, [(1, 2), (3, 2), (5, 2), (7, 2)])
    deliveries[1].deadline = Deadline(deliveries[1], "channel", ReadingTime(), 0, 1)
    deliveries[3].first_tag += 1
    in_flight.page_out(paged)
    assert list(in_flight.deliveries()) == deliveries


def test_the_sizes_of_bodies_and_the_bound_of_one_delivery_are_kept() -> None:
    in_flight = InFlight(joined_count_max=5)
    sent(in_flight, [(1, 2), (3, 3), (6, 1), (7, 1)])

    def sized(delivery: Delivery) -> PagedSpan:
        span = paged(delivery)
        first = span.first_entry_id
        span.sizes = array("I", range(first, first + len(span)))
        return span

    in_flight.page_out(sized)
    rows = [each.span for each in in_flight.deliveries()]
    assert [list(row.sizes or ()) for row in rows if isinstance(row, PagedSpan)] == [
        [1, 2, 3, 4, 5],
        [6, 7],
    ]


def test_what_a_stalled_consumer_holds_costs_by_runs_and_not_by_deliveries() -> None:
    in_flight, unacked = InFlight(), Unacked()
    octets = []
    tag = entry = 1
    for _ in range(2):
        for _ in range(500):
            for _ in range(100):
                out = Delivery(Span(BATCH, range(10), entry, 0, True), "queue", None)
                in_flight.add("channel", out)
                unacked.add(tag, out)
                tag, entry = tag + 10, entry + 10
            in_flight.page_out(paged)
        octets.append(octets_held((in_flight, unacked)))
    assert in_flight.message_count == unacked.count == 1_000_000
    assert octets[1] < 250_000
    assert octets[1] - octets[0] < 50_000
    parts = in_flight.current(unacked.remove(0, multiple=True))
    assert all(in_flight.remove("channel", *part) for part in parts)
    assert in_flight.message_count == 0
