"""The unconfirmed publishes of one channel: single cases."""

from __future__ import annotations

from array import array

import pytest
from batches import numbered
from leveret.core.publishing.unconfirmed import Unconfirmed


def numbers(ranges: list[tuple[int, int]]) -> list[int]:
    return sorted(number for first, last in ranges for number in range(first, last + 1))


@pytest.fixture
def unconfirmed() -> Unconfirmed:
    return Unconfirmed()


def test_one_queue_that_confirms_all_answers_the_batch_as_one_range(unconfirmed) -> None:
    batch = numbered(5)
    everything = range(5)
    unconfirmed.insert(batch, 11, {"q": everything})
    assert (unconfirmed.smallest(), len(unconfirmed)) == (11, 5)
    unconfirmed.confirm("q", batch, everything)
    assert unconfirmed.confirmed == [(11, 15)]
    assert (unconfirmed.smallest(), len(unconfirmed)) == (0, 0)
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_a_queue_may_confirm_in_parts(unconfirmed) -> None:
    # A transient message never waits for its neighbour's fsync.
    batch = numbered(4)
    unconfirmed.insert(batch, 1, {"q": range(4)})
    unconfirmed.confirm("q", batch, array("I", [1, 3]))
    assert numbers(unconfirmed.confirmed) == [2, 4]
    assert unconfirmed.smallest() == 1
    assert unconfirmed.released_bytes == 0
    unconfirmed.confirm("q", batch, array("I", [0, 2]))
    assert numbers(unconfirmed.confirmed) == [1, 2, 3, 4]
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_what_queues_confirm_of_messages_in_turn_is_one_range_in_any_order(unconfirmed) -> None:
    batch = numbered(9)
    told = {name: array("I", range(at, 9, 3)) for at, name in enumerate("abc")}
    unconfirmed.insert(batch, 4, told)
    for name in "ca":
        unconfirmed.confirm(name, batch, told[name])
    assert unconfirmed.smallest() == 5
    unconfirmed.confirm("b", batch, told["b"])
    assert unconfirmed.confirmed == [(4, 12)]
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_what_lacks_between_confirms_of_several_queues_stays_open(unconfirmed) -> None:
    batch = numbered(6)
    told = {"a": array("I", [0, 3]), "b": array("I", [1, 4]), "c": array("I", [2])}
    unconfirmed.insert(batch, 1, told)
    unconfirmed.confirm("b", batch, told["b"])
    assert unconfirmed.confirmed == [(2, 2), (5, 5)]
    unconfirmed.confirmed.clear()
    unconfirmed.reject("c", batch, told["c"])
    unconfirmed.confirm("a", batch, array("I", [3]))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([(4, 4)], [(3, 3)])
    assert (unconfirmed.smallest(), len(unconfirmed)) == (1, 1)


def test_the_slowest_queue_decides(unconfirmed) -> None:
    batch = numbered(2)
    unconfirmed.insert(batch, 1, {"a": range(2), "b": range(2), "c": range(2)})
    for queue in ("b", "a"):
        unconfirmed.confirm(queue, batch, range(2))
        assert unconfirmed.confirmed == []
    unconfirmed.confirm("c", batch, array("I", [1]))
    assert unconfirmed.confirmed == [(2, 2)]
    assert unconfirmed.smallest() == 1


def test_any_queue_that_rejects_makes_it_a_nack_and_later_confirms_count_for_nothing(
    unconfirmed,
) -> None:
    batch = numbered(2)
    unconfirmed.insert(batch, 1, {"a": range(2), "b": range(2)})
    unconfirmed.confirm("a", batch, range(2))
    unconfirmed.reject("b", batch, range(2))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [(1, 2)])
    other = numbered(1)
    unconfirmed.insert(other, 3, {"a": range(1), "b": range(1)})
    unconfirmed.reject("a", other, range(1))
    assert unconfirmed.rejected[1:] == [(3, 3)]
    assert unconfirmed.smallest() == 0
    assert unconfirmed.released_bytes == batch.wire_bytes
    unconfirmed.confirm("b", other, range(1))
    assert unconfirmed.confirmed == []
    assert unconfirmed.released_bytes == batch.wire_bytes + other.wire_bytes


def test_a_rejected_batch_is_let_go_when_the_last_of_many_queues_has_spoken(unconfirmed) -> None:
    batch = numbered(2)
    unconfirmed.insert(batch, 1, dict.fromkeys("abcd", range(2)))
    unconfirmed.reject("a", batch, range(2))
    unconfirmed.confirm("b", batch, range(1))
    unconfirmed.confirm("b", batch, range(1, 2))
    unconfirmed.reject("c", batch, range(2))
    assert unconfirmed.released_bytes == 0
    unconfirmed.reject("d", batch, range(2))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [(1, 2)])
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_a_second_answer_of_a_queue_does_not_count(unconfirmed) -> None:
    # One that dies may reject what it has confirmed, or rejected, before.
    batch = numbered(4)
    unconfirmed.insert(batch, 1, {"q": range(4), "r": range(4)})
    unconfirmed.confirm("q", batch, range(2))
    unconfirmed.confirm("q", batch, range(2))
    unconfirmed.reject("q", batch, range(4))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [(3, 4)])
    unconfirmed.reject("q", batch, range(4))
    unconfirmed.confirm("r", batch, range(4))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([(1, 2)], [(3, 4)])
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_answers_of_a_queue_that_owes_nothing_do_not_count(unconfirmed) -> None:
    batch = numbered(1)
    unconfirmed.insert(batch, 1, {"q": range(1)})
    unconfirmed.confirm("other", batch, range(1))
    unconfirmed.reject("other", batch, range(1))
    unconfirmed.confirm("q", numbered(1), range(1))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [])


def test_a_queue_that_fails_rejects_exactly_the_messages_that_it_owed(unconfirmed) -> None:
    first, second, third = numbered(3), numbered(2), numbered(1)
    unconfirmed.insert(first, 1, {"q": range(3)})
    unconfirmed.insert(second, 4, {"q": range(2), "r": range(2)})
    unconfirmed.insert(third, 6, {"r": range(1)})
    unconfirmed.confirm("q", first, array("I", [1]))
    # It names all that it was told.
    unconfirmed.reject("q", first, range(3))
    unconfirmed.reject("q", second, range(2))
    assert numbers(unconfirmed.confirmed) == [2]
    assert numbers(unconfirmed.rejected) == [1, 3, 4, 5]
    assert unconfirmed.smallest() == 6


def test_messages_that_no_queue_got_are_not_waited_for(unconfirmed) -> None:
    batch = numbered(4)
    unconfirmed.insert(batch, 1, {"q": array("I", [2])})
    unconfirmed.confirm_unrouted(1, [0, 1, 3])
    assert unconfirmed.confirmed == [(1, 2), (4, 4)]
    assert (unconfirmed.smallest(), len(unconfirmed)) == (3, 1)
    nowhere = numbered(2)
    unconfirmed.insert(nowhere, 5, {})
    assert unconfirmed.released_bytes == nowhere.wire_bytes


def test_outside_confirm_mode_only_the_bytes_are_waited_for(unconfirmed) -> None:
    batch = numbered(3)
    unconfirmed.insert(batch, 0, {"q": range(3), "r": array("I", [1])})
    assert (unconfirmed.smallest(), len(unconfirmed)) == (0, 0)
    unconfirmed.confirm("q", batch, range(3))
    assert unconfirmed.released_bytes == 0
    unconfirmed.reject("r", batch, array("I", [1]))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [])
    assert unconfirmed.released_bytes == batch.wire_bytes


def test_the_confirm_that_ends_a_batch_with_numbers_says_so(unconfirmed) -> None:
    everything = range(3)
    alone, divided, several, unnumbered = (numbered(3) for _ in range(4))
    unconfirmed.insert(alone, 1, {"q": everything})
    assert unconfirmed.confirm("q", alone, everything)
    assert not unconfirmed.confirm("q", alone, everything)
    unconfirmed.insert(divided, 4, {"q": everything})
    assert not unconfirmed.confirm("q", divided, array("I", [0, 2]))
    assert unconfirmed.confirm("q", divided, array("I", [1]))
    unconfirmed.insert(several, 7, {"a": everything, "b": everything})
    assert not unconfirmed.confirm("a", several, everything)
    assert unconfirmed.confirm("b", several, everything)
    unconfirmed.insert(unnumbered, 0, {"q": everything})
    assert not unconfirmed.confirm("q", unnumbered, everything)
    rejected = numbered(3)
    unconfirmed.insert(rejected, 10, {"a": everything, "b": everything})
    unconfirmed.reject("a", rejected, everything)
    # All have their nacks: nothing is confirmed any more.
    assert not unconfirmed.confirm("b", rejected, everything)
