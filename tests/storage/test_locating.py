"""The plan of a read: few places, ascending, and how far they go."""

from __future__ import annotations

from array import array

from leveret.storage.journal.ledger import PLACES_STRIDE_BYTES, RunningLedger
from leveret.storage.journal.locating import ENTRY_READ_BYTES, ReadPlan, Sought, locate
from leveret.storage.journal.log import Position

FAR = 10 * PLACES_STRIDE_BYTES


def ledger_of(*appends: tuple[range | array[int], int, int, int, int]) -> RunningLedger:
    """Ids, body segment, entries segment, body offset and entries offset of each append."""
    ledger = RunningLedger()
    for number in (1, 2, 3):
        ledger.open(number)
    for append in appends:
        ledger.extend(7, *append)
    return ledger


def test_entries_are_sought_where_their_records_were_written() -> None:
    ledger = ledger_of(
        (range(1, 11), 1, 1, 100, 500),
        (range(11, 21), 1, 1, FAR, FAR + 50),
        (range(21, 31), 1, 2, FAR + 70, 90),
    )
    plan = locate(7, ledger.queues[7], [(5, 25), (40, 50)], 1 << 20)
    assert plan == ReadPlan(
        7,
        [
            Sought([(5, 10)], Position(1, 100), Position(1, 500)),
            Sought([(11, 20)], Position(1, FAR), Position(1, FAR + 50)),
            Sought([(21, 25)], Position(1, FAR + 70), Position(2, 90)),
        ],
        50,
        1 << 20,
    )
    assert plan.segments() == {1, 2}


def test_entries_of_one_place_are_sought_together_whatever_was_settled_between() -> None:
    ledger = ledger_of((range(1, 11), 1, 1, 100, 500), (array("Q", [12, 14]), 1, 1, 600, 700))
    ledger.settle(7, [(3, 3), (5, 8)])
    plan = locate(7, ledger.queues[7], [(1, 9), (10, 14)], 1 << 20)
    assert [each.ranges for each in plan.sought] == [
        [(1, 2), (4, 4), (9, 9), (10, 10)],
        [(12, 12), (14, 14)],
    ]


def test_a_plan_ends_where_its_places_have_twice_the_bytes() -> None:
    appends = [
        (range(first, first + 10), 1, 1, first * FAR, first * FAR + 50)
        for first in range(1, 500, 10)
    ]
    ledger = ledger_of(*appends)
    plan = locate(7, ledger.queues[7], [(1, 1000)], PLACES_STRIDE_BYTES)
    assert [each.ranges for each in plan.sought] == [[(1, 10)], [(11, 20)], [(21, 30)]]
    assert plan.through == 30
    # Few entries of a place are read with less.
    alone = [(each, each) for each in range(1, 500, 10)]
    plan = locate(7, ledger.queues[7], alone, PLACES_STRIDE_BYTES)
    assert len(plan.sought) == 3 * PLACES_STRIDE_BYTES // ENTRY_READ_BYTES


def test_a_plan_has_a_bounded_number_of_places() -> None:
    appends = [(range(each, each + 1), 1, 1, each * FAR, each * FAR) for each in range(1, 100)]
    plan = locate(7, ledger_of(*appends).queues[7], [(1, 1000)], 1 << 40, places_max=5)
    assert (len(plan.sought), plan.through) == (5, 5)


def test_a_queue_without_live_entries_is_done_with_at_once() -> None:
    assert locate(8, None, [(3, 4), (6, 9)], 1) == ReadPlan(8, [], 9, 1)
