from __future__ import annotations

from array import array
from collections.abc import Callable
from random import Random

import pytest
from holding import parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.storage.journal.ledger import BLOCKS_PER_LIST_MAX, Block, LiveEntries


def ids_of(blocks: list[Block]) -> list[int]:
    return [entry_id for block in blocks for entry_id in block.entry_ids]


def filled(*many: range | array[int]) -> LiveEntries[Block]:
    live_entries: LiveEntries[Block] = LiveEntries()
    for number, entry_ids in enumerate(many):
        live_entries.append(Block(entry_ids, number, number + 100, 0, 0))
    return live_entries


def test_a_cut_at_the_left_takes_whole_blocks_and_parts() -> None:
    live_entries = filled(range(1, 5), range(5, 10))
    taken = live_entries.cut(0, 6)
    assert [(block.entry_ids, block.body_segment) for block in taken] == [
        (range(1, 5), 0),
        (range(5, 7), 1),
    ]
    (rest,) = live_entries
    assert (rest.entry_ids, rest.body_segment, rest.entries_segment) == (range(7, 10), 1, 101)


def test_a_cut_in_the_middle_splits_a_block_in_three() -> None:
    live_entries = filled(range(1, 3), range(10, 20), range(30, 40))
    assert ids_of(live_entries.cut(12, 13)) == [12, 13]
    assert [block.entry_ids for block in live_entries] == [
        range(1, 3),
        range(10, 12),
        range(14, 20),
        range(30, 40),
    ]


def test_a_cut_between_ids_takes_nothing_and_keeps_the_order() -> None:
    live_entries = filled(range(1, 3), array("Q", [10, 15]), range(30, 40))
    for first, last in ((3, 9), (11, 14), (16, 29), (40, 99), (0, 0)):
        assert live_entries.cut(first, last) == []
        assert list(live_entries.within(first, last)) == []
    assert ids_of(list(live_entries)) == [1, 2, 10, 15, *range(30, 40)]


id_lists = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=6)
ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


@pytest.mark.parametrize("blocks_per_list_max", [1, 2, BLOCKS_PER_LIST_MAX])
@given(gaps=id_lists, cuts=ranges, stays=st.booleans())
def test_cuts_do_what_sets_do(
    blocks_per_list_max: int, gaps: list[list[int]], cuts: list[tuple[int, int]], stays: bool
) -> None:
    live_entries: LiveEntries[Block] = LiveEntries(blocks_per_list_max)
    wanted: set[int] = set()
    next_id = 0
    for number, block_gaps in enumerate(gaps):
        ids = array("Q")
        for gap in block_gaps:
            ids.append(next_id + gap)
            next_id = ids[-1] + 1
        contiguous = ids[-1] - ids[0] + 1 == len(ids)
        entry_ids = range(ids[0], ids[-1] + 1) if contiguous else ids
        live_entries.append(Block(entry_ids, number, number, 0, 0))
        wanted.update(ids)
    for first, length in cuts:
        last = first + length
        expected = sorted(entry_id for entry_id in wanted if first <= entry_id <= last)
        covered = list(live_entries.within(first, last))
        assert set(expected) <= set(ids_of(covered))
        assert all(any(first <= i <= last for i in block.entry_ids) for block in covered)
        if stays:
            assert ids_of(live_entries.isolate(first, last)) == expected
        else:
            assert ids_of(live_entries.cut(first, last)) == expected
            wanted.difference_update(expected)
        assert ids_of(list(live_entries)) == sorted(wanted)
        assert all(len(block.entry_ids) for block in live_entries)


def longest_list(touch: Callable[[LiveEntries[Block], int], object], count: int) -> int:
    """Touch so many entries one by one in any order: the longest list that there was."""
    order = list(range(1, count + 1))
    Random(count).shuffle(order)
    live_entries = filled(range(1, count + 1))
    longest = 0
    for number, entry_id in enumerate(order):
        touch(live_entries, entry_id)
        if number % 1000 == 0:
            longest = max(longest, *map(len, parts(live_entries, list)))
    return longest


def test_entries_that_are_settled_or_delivered_in_any_order_leave_no_long_list() -> None:
    """Or each would cost as much as there are gaps; the time of it is not asserted on."""
    assert longest_list(lambda entries, each: entries.cut(each, each), 20_000) <= 512
    assert longest_list(lambda entries, each: entries.isolate(each, each), 20_000) <= 512
