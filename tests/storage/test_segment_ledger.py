from __future__ import annotations

from array import array

from leveret.storage.journal.ledger import (
    NOTED_QUEUES_MAX,
    PLACES_STRIDE_BYTES,
    RunningLedger,
    Spoken,
    ranges_in,
)


def ledger_of(segments: int) -> RunningLedger:
    ledger = RunningLedger()
    for number in range(1, segments + 1):
        ledger.open(number)
    return ledger


def test_a_queue_filled_and_emptied_in_order_costs_one_block() -> None:
    ledger = ledger_of(1)
    for first in range(1, 10_001, 100):
        ledger.extend(7, range(first, first + 100), 1, 1, 0, 0)
    assert len(ledger.queues[7]) == 1
    for first in range(1, 5_001, 50):
        ledger.settle(7, [(first, first + 49)])
        assert len(ledger.queues[7]) == 1
    assert ledger.live == {1: 5_000}


def test_a_body_and_an_entry_keep_their_segments_apart() -> None:
    ledger = ledger_of(3)
    ledger.extend(7, range(1, 11), 1, 2, 0, 0)
    assert ledger.live == {1: 10, 2: 10, 3: 0}
    assert ledger.removable() == []
    ledger.settle(7, [(1, 10)])
    assert ledger.removable() == [1, 2]


def test_a_settle_outlives_the_entries_record_that_it_speaks_of() -> None:
    ledger = RunningLedger()
    ledger.open(1)
    ledger.extend(7, range(1, 3), 1, 1, 0, 0)
    ledger.open(2)
    ledger.settle(7, [(1, 1)])
    ledger.open(3)
    assert ledger.removable() == []
    ledger.settle(7, [(2, 2)])
    assert ledger.removable() == [1, 2]
    ledger.forget([1, 2])
    assert ledger.live == {3: 0}


def test_a_delivery_outlives_the_entries_record_that_it_speaks_of() -> None:
    ledger = RunningLedger()
    ledger.open(1)
    ledger.extend(7, range(1, 3), 1, 1, 0, 0)
    ledger.open(2)
    assert ledger.delivered(7, [(1, 2)])
    ledger.open(3)
    assert ledger.removable() == []


def test_a_delivery_of_entries_that_a_rewritten_segment_lacks_keeps_nothing() -> None:
    ledger = RunningLedger()
    ledger.open(1)
    ledger.extend(7, range(1, 3), 1, 1, 0, 0)
    ledger.extend(8, range(1, 3), 1, 1, 0, 0)
    ledger.open(2)
    assert ledger.delivered(7, [(2, 2)])
    assert ledger.delivered(8, [(1, 1)])
    ledger.open(3)
    assert ledger.delivered(7, [(1, 2)])
    ledger.open(4)
    assert ledger.settle(7, [(2, 2)])
    assert ledger.settle(8, [(1, 2)])
    ledger.begin_rewrite(1)
    ledger.rewritten(1, Spoken(), 1)
    # Entry 1 of queue 7 is live, and segment 3 says that it was delivered.
    assert ledger.removable() == [2]


def test_notes_about_very_many_queues_stay_as_long_as_their_segment() -> None:
    ledger = RunningLedger()
    ledger.open(1)
    for queue_id in range(NOTED_QUEUES_MAX + 2):
        ledger.extend(queue_id, range(1, 2), 1, 1, 0, 0)
    ledger.open(2)
    for queue_id in range(1, NOTED_QUEUES_MAX + 2):
        assert ledger.delivered(queue_id, [(1, 1)])
    ledger.open(3)
    for queue_id in range(1, NOTED_QUEUES_MAX + 2):
        assert ledger.settle(queue_id, [(1, 1)])
    ledger.begin_rewrite(1)
    ledger.rewritten(1, Spoken(), 1)
    assert ledger.removable() == []
    assert ledger.settle(0, [(1, 1)])
    assert ledger.removable() == [1, 2]


def test_a_record_that_would_say_nothing_is_not_made() -> None:
    ledger = ledger_of(1)
    ledger.extend(7, array("Q", [1, 5]), 1, 1, 0, 0)
    assert not ledger.settle(7, [(2, 4)])
    assert not ledger.delivered(7, [(2, 4), (6, 9)])
    assert not ledger.settle(8, [(1, 9)])
    assert not ledger.delivered(8, [(1, 9)])
    assert ledger.settle(7, [(4, 5)])


def test_the_entries_of_a_dropped_queue_keep_nothing() -> None:
    ledger = ledger_of(2)
    ledger.extend(7, range(1, 3), 1, 1, 0, 0)
    ledger.extend(8, range(1, 3), 1, 2, 0, 0)
    ledger.drop(7)
    ledger.drop(7)
    assert ledger.live == {1: 2, 2: 2}
    ledger.drop(8)
    assert ledger.removable() == [1]


def test_asking_again_is_free_until_something_has_changed() -> None:
    ledger = ledger_of(2)
    assert ledger.removable() == [1]
    ledger.forget([1])
    assert not ledger.may_remove
    ledger.extend(7, range(1, 2), 2, 2, 0, 0)
    assert not ledger.may_remove
    ledger.settle(7, [(1, 1)])
    assert ledger.may_remove


def test_entries_of_a_stretch_of_a_segment_share_a_place_and_those_behind_have_another() -> None:
    ledger = ledger_of(1)
    step = PLACES_STRIDE_BYTES // 4
    for number in range(10):
        body_offset = 100 + number * step
        ledger.extend(7, range(number + 1, number + 2), 1, 1, body_offset, body_offset + 50)
    [block] = ledger.queues[7]
    assert list(block.places) == [
        *(1, 100, 150),
        *(6, 100 + 5 * step, 150 + 5 * step),
    ]


def test_a_body_that_lies_elsewhere_than_those_before_has_a_place() -> None:
    ledger = ledger_of(1)
    far = 10 * PLACES_STRIDE_BYTES
    ledger.extend(7, range(1, 2), 1, 1, far, far + 50)
    ledger.extend(7, range(2, 3), 1, 1, 100, far + 100)
    ledger.extend(7, range(3, 4), 1, 1, 100 + PLACES_STRIDE_BYTES, far + 150)
    [block] = ledger.queues[7]
    assert list(block.places) == [1, far, far + 50, 2, 100, far + 100]


def test_a_block_that_is_divided_keeps_its_places_in_both_parts() -> None:
    ledger = ledger_of(1)
    ledger.extend(7, range(1, 3), 1, 1, 100, 150)
    ledger.extend(7, range(3, 5), 1, 1, PLACES_STRIDE_BYTES * 2, PLACES_STRIDE_BYTES * 2)
    ledger.settle(7, [(2, 2)])
    assert [list(block.places) for block in ledger.queues[7]] == [
        [1, 100, 150, 3, PLACES_STRIDE_BYTES * 2, PLACES_STRIDE_BYTES * 2]
    ] * 2


def test_the_place_of_entries_that_were_never_written_is_that_of_others() -> None:
    ledger = ledger_of(1)
    far = 10 * PLACES_STRIDE_BYTES
    ledger.extend(7, range(1, 3), 1, 1, 100, 150)
    ledger.extend(7, range(3, 5), 1, 1, far, far + 50)
    ledger.withdraw(7, range(3, 5))
    ledger.extend(7, range(3, 5), 1, 1, 200, 250)
    [block] = ledger.queues[7]
    assert (block.entry_ids, list(block.places)) == (range(1, 5), [1, 100, 150])


def test_numbers_are_ranges_with_gaps_between_them() -> None:
    assert ranges_in(range(5, 9)) == [(5, 8)]
    assert ranges_in(array("Q", (1, 2, 3, 7, 9, 10))) == [(1, 3), (7, 7), (9, 10)]
    assert ranges_in([]) == []
