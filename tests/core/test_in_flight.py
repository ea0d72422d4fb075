"""A queue's messages in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batches import numbered
from holding import object_count
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.queue.in_flight import Delivery, InFlight
from leveret.core.queue.span import Span

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
