from __future__ import annotations

from array import array

from leveret.storage.journal.ledger import RunningLedger


def ledger_of(segments: int) -> RunningLedger:
    ledger = RunningLedger()
    for number in range(1, segments + 1):
        ledger.open(number)
    return ledger


def test_a_queue_filled_and_emptied_in_order_costs_one_block() -> None:
    ledger = ledger_of(1)
    for first in range(1, 10_001, 100):
        ledger.extend(7, range(first, first + 100), 1, 1)
    assert len(ledger.queues[7]) == 1
    for first in range(1, 5_001, 50):
        ledger.settle(7, [(first, first + 49)])
        assert len(ledger.queues[7]) == 1
    assert ledger.live == {1: 5_000}


def test_a_body_and_an_entry_keep_their_segments_apart() -> None:
    ledger = ledger_of(3)
    ledger.extend(7, range(1, 11), 1, 2)
    assert ledger.live == {1: 10, 2: 10, 3: 0}
    assert ledger.removable() == []
    ledger.settle(7, [(1, 10)])
    assert ledger.removable() == [1, 2]


def test_a_settle_outlives_the_entries_record_that_it_speaks_of() -> None:
    ledger = RunningLedger()
    ledger.open(1)
    ledger.extend(7, range(1, 3), 1, 1)
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
    ledger.extend(7, range(1, 3), 1, 1)
    ledger.open(2)
    assert ledger.delivered(7, [(1, 2)])
    ledger.open(3)
    assert ledger.removable() == []


def test_a_record_that_would_say_nothing_is_not_made() -> None:
    ledger = ledger_of(1)
    ledger.extend(7, array("Q", [1, 5]), 1, 1)
    assert not ledger.settle(7, [(2, 4)])
    assert not ledger.delivered(7, [(2, 4), (6, 9)])
    assert not ledger.settle(8, [(1, 9)])
    assert not ledger.delivered(8, [(1, 9)])
    assert ledger.settle(7, [(4, 5)])


def test_the_entries_of_a_dropped_queue_keep_nothing() -> None:
    ledger = ledger_of(2)
    ledger.extend(7, range(1, 3), 1, 1)
    ledger.extend(8, range(1, 3), 1, 2)
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
    ledger.extend(7, range(1, 2), 2, 2)
    assert not ledger.may_remove
    ledger.settle(7, [(1, 1)])
    assert ledger.may_remove
