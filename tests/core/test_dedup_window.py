"""A window remembers so many of the latest identities, for so long."""

from __future__ import annotations

from collections.abc import Iterable

from holding import object_count, octets_held
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.construction import make_queue
from leveret.core.queue.dedup import (
    IDENTITY_BYTES,
    STORED_KIND,
    DedupWindow,
    RememberedRow,
    window_of,
)

# Few octets and few values, so that identities share buckets and look like parts of each other.
identities = st.integers(0, 400).map(
    lambda number: (
        bytes((number >> shift & 1) for shift in (0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0))
        + STORED_KIND
    )
)
# Taken together at a time, in milliseconds after the one before.
together = st.lists(identities, max_size=6, unique=True)
steps = st.lists(st.tuples(together, st.sampled_from((0, 1, 40, 900))), max_size=30)


def number(value: int, count: int = IDENTITY_BYTES - 1) -> bytes:
    return value.to_bytes(count, "big") + STORED_KIND


def filled(window: DedupWindow, values: Iterable[bytes], first_entry_id: int = 1) -> None:
    window.remember(list(values), first_entry_id, window.until_ms(0))


@given(steps=steps, count_max=st.sampled_from((1, 2, 7, 100)), age_ms=st.sampled_from((None, 1000)))
def test_a_window_holds_the_last_ones_that_are_not_too_old_and_no_others(
    steps: list[tuple[list[bytes], int]], count_max: int, age_ms: int | None
) -> None:
    window = DedupWindow(count_max, age_ms)
    # When each was taken, oldest first; a window is told only of those that it does not hold.
    taken: list[tuple[bytes, int]] = []
    now_ms, next_entry_id = 1_000_000, 1
    for together, passed_ms in steps:
        now_ms += passed_ms
        window.expire(now_ms)
        fresh = [identity for identity in together if identity not in window]
        window.remember(fresh, next_entry_id, window.until_ms(now_ms))
        next_entry_id += len(fresh)
        taken += [(identity, now_ms) for identity in fresh]
        last = taken[-count_max:]
        # An age is rounded up to its 256th part: 4 ms of 1,000.
        sure = {each for each, at in last if age_ms is None or now_ms - at < age_ms}
        may = {each for each, at in last if age_ms is None or now_ms - at < age_ms + 4}
        held = {each for each, _ in taken if each in window}
        assert sure <= held <= may
        assert len(held) == len(window) <= count_max


@given(
    steps=st.lists(
        st.tuples(together, st.sets(st.integers(0, 40)), st.integers(0, 1)), max_size=30
    ),
    count_max=st.sampled_from((1, 2, 7, 100)),
)
def test_withdrawn_identities_are_forgotten_and_the_others_go_in_their_order(
    steps: list[tuple[list[bytes], set[int], int]], count_max: int
) -> None:
    window = DedupWindow(count_max, 1000)
    held: list[bytes] = []
    now_ms = 0
    for taken, places, passes in steps:
        now_ms += passes
        fresh = [identity for identity in taken if identity not in window]
        window.remember(fresh, 1, window.until_ms(now_ms))
        held = [*held, *fresh][-count_max:]
        withdrawn = [each for place, each in enumerate(reversed(held)) if place in places]
        # Whoever withdraws does not know what was forgotten meanwhile.
        window.withdraw([*withdrawn, number(7777)])
        held = [each for each in held if each not in withdrawn]
        assert len(window) == len(held)
        assert all(each in window for each in held)
        assert not any(each in window for each in withdrawn)
    window.expire(now_ms + 2000)
    assert (len(window), window.floor(9)) == (0, 9)
    assert object_count(window) == object_count(DedupWindow(count_max))


@given(steps=steps, count_max=st.sampled_from((1, 7, 100)))
def test_the_floor_lies_below_all_entries_that_are_remembered_and_rises(
    steps: list[tuple[list[bytes], int]], count_max: int
) -> None:
    window = DedupWindow(count_max)
    entries: list[tuple[bytes, int]] = []
    next_entry_id, floor = 1, 0
    for together, _ in steps:
        fresh = [identity for identity in together if identity not in window]
        window.remember(fresh, next_entry_id, 0)
        entries += [(identity, next_entry_id + at) for at, identity in enumerate(fresh)]
        next_entry_id += len(fresh)
        assert floor <= window.floor(next_entry_id) <= next_entry_id
        floor = window.floor(next_entry_id)
        assert all(entry_id >= floor for _, entry_id in entries[-count_max:])


def test_identities_from_the_journal_are_remembered_in_their_order_and_for_as_long() -> None:
    window = DedupWindow(3, 1000)
    rows = [
        RememberedRow(1, 500, number(1) + number(2)),
        RememberedRow(3, 700, bytearray(number(3) + number(4))),
    ]
    window.restore([RememberedRow(0, 400, number(9)), *rows], 400)
    assert [number(n) in window for n in (1, 2, 3, 4)] == [False, True, True, True]
    window.expire(500)
    assert [number(n) in window for n in (2, 3, 4)] == [False, True, True]
    assert window.floor(5) == 3
    window.expire(700)
    assert (len(window), window.floor(5), window.next_expiry_ms()) == (0, 5, None)


def test_a_clock_that_is_set_back_makes_nobody_forgotten_before_those_who_came_earlier() -> None:
    window = DedupWindow(10, 256)
    window.remember([number(1)], 1, window.until_ms(10_000))
    window.remember([number(2)], 2, window.until_ms(0))
    window.expire(10_255)
    assert number(1) in window
    assert number(2) in window


def test_octets_that_end_one_identity_and_begin_the_next_are_no_identity() -> None:
    window = DedupWindow(10)
    filled(window, [bytes(15) + b"\1", bytes(8) + b"\1" * 7 + STORED_KIND])
    assert bytes(7) + b"\1" + bytes(8) not in window
    assert bytes(8) + b"\1" * 7 + STORED_KIND in window


def test_a_remembered_identity_costs_fewer_than_50_octets() -> None:
    count = 100_000
    window = DedupWindow(count)
    for first in range(0, 2 * count, 100):
        # As digests do, they spread over all buckets.
        together = [
            number(value * 0x9E3779B97F4A7C15 % 2**64, 15) for value in range(first, first + 100)
        ]
        filled(window, [each[7:15] + each[:7] + STORED_KIND for each in together], first)
    assert len(window) == count
    assert octets_held(window) / count < 50


def test_a_queue_has_a_window_only_if_its_arguments_ask_for_one() -> None:
    assert make_queue("q", True, table_of({"x-max-length": 1}), 1).deduplication is None
    window = window_of(table_of({"x-dedup-window": 2, "x-dedup-age-ms": 512}))
    filled(window, [number(n) for n in (1, 2, 3)])
    assert (len(window), window.next_expiry_ms()) == (2, 512)
