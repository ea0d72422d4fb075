from __future__ import annotations

import random

import hypothesis.strategies as st
from hypothesis import given
from leveret.spark.sink.message_ids import ContentIds, Place, PositionIds, message_ids

PLACE = Place("query", 3, 1)
ROW = st.tuples(st.sampled_from([b"", b"h", b"he"]), st.sampled_from([b"", b"b", b"eb", b"x"]))


def ids(rows: list[tuple[bytes, bytes]], place: Place = PLACE) -> list[str]:
    made = ContentIds(place)
    return [made.next(head, body) for head, body in rows]


@given(rows=st.lists(ROW, max_size=40), seed=st.integers())
def test_the_ids_of_a_partition_are_the_same_in_any_order_and_all_different(
    rows: list[tuple[bytes, bytes]], seed: int
) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    first, second = ids(rows), ids(shuffled)
    assert sorted(first) == sorted(second)
    assert len(set(first)) == len(rows)
    # A row keeps its own ids, not merely somebody's.
    assert set(zip(rows, first, strict=True)) == set(zip(shuffled, second, strict=True))


def test_another_query_batch_or_partition_gives_other_ids() -> None:
    places = [PLACE, Place("other", 3, 1), Place("query", 4, 1), Place("query", 3, 2)]
    places.append(Place("query", None, 1))
    assert len({ids([(b"", b"b")], place)[0] for place in places}) == len(places)


def test_position_counts_and_takes_no_notice_of_the_content() -> None:
    first, second = PositionIds(PLACE), PositionIds(PLACE)
    assert [first.next(b"", b"a"), first.next(b"", b"a")] == [
        second.next(b"x", b"y"),
        second.next(b"", b""),
    ]


def test_without_dedup_ids_are_new_each_time() -> None:
    first, second = message_ids("none", PLACE), message_ids("none", PLACE)
    given = {first.next(b"", b"a") for _ in range(3)} | {second.next(b"", b"a") for _ in range(3)}
    assert len(given) == 6
    assert {len(each) for each in given} == {32}
