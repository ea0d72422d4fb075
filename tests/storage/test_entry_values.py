"""A number for each entry id, in rows, against a dictionary of all ids."""

from __future__ import annotations

from array import array
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from leveret.storage.journal.entry_values import EntryValues

IDS_MAX = 40
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["assign", "add", "clear", "keep"]),
        st.integers(0, IDS_MAX),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=30,
)


@given(CHANGES, st.sampled_from([2, 3, 512]))
def test_rows_say_what_a_dictionary_of_all_ids_says(
    changes: list[tuple[str, int, int, int]], rows_per_chunk_max: int
) -> None:
    values = EntryValues(rows_per_chunk_max=rows_per_chunk_max)
    wanted = dict.fromkeys(range(IDS_MAX + 10), 0)
    for what, first, further, value in changes:
        last = first + further
        ids = range(first, last + 1)
        if what == "assign":
            values.assign(first, last, value)
            wanted.update(dict.fromkeys(ids, value))
        elif what == "add":
            values.add(first, last, value)
            wanted.update({each: wanted[each] + value for each in ids})
        elif what == "clear":
            values.clear(first, last)
            wanted.update(dict.fromkeys(ids, 0))
        else:
            values.keep([(first, first), (first + 2, last)] if further > 1 else [(first, last)])
            for each in wanted:
                if each not in ids or (further > 1 and each == first + 1):
                    wanted[each] = 0
        rows = list(values)
        found = {each: value for start, end, value in rows for each in range(start, end + 1)}
        assert {each: value for each, value in found.items() if value} == {
            each: value for each, value in wanted.items() if value
        }
        assert sum(end - start + 1 for start, end, _ in rows) == len(found)
        again = EntryValues(rows_per_chunk_max=rows_per_chunk_max)
        again.replace(*(array("Q", column) for column in values.columns()))
        assert list(again) == rows
        assert len(again) == len(rows)
        assert values.last_id == (rows[-1][1] if rows else -1)
        number_of = values.cursor()
        for each in range(IDS_MAX + 10):
            number, until = number_of(each)
            assert number == wanted[each]
            assert all(wanted.get(other, 0) == number for other in range(each, min(until, 60)))


def test_numbers_of_new_ids_are_one_row_where_they_are_alike() -> None:
    values = EntryValues()
    values.assign_each(range(1, 4), 7)
    values.assign_each(array("Q", [4, 6]), 7)
    values.assign_each(range(7, 10), array("Q", [0, 8, 8]))
    assert list(values) == [(1, 6, 7), (8, 9, 8)]


def test_ids_in_any_order_end_in_the_rows_that_ascending_ones_do() -> None:
    ids = list(range(1, 6_001, 2))
    Random(1).shuffle(ids)
    values = EntryValues()
    for each in ids:
        values.assign(each, each, 1)
    assert list(values) == [(each, each, 1) for each in sorted(ids)]
    # What lies between them joins them all.
    for each in ids:
        values.assign(each + 1, each + 1, 1)
    assert list(values) == [(1, 6_000, 1)]
