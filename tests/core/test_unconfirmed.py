"""What queues owe a channel, against a model that counts message by message."""

from __future__ import annotations

from array import array

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from leveret.amqp_frames.batch import Batch, Indexes
from leveret.core.unconfirmed import Unconfirmed

QUEUES = ("a", "b", "c")


def batch_of(count: int) -> Batch:
    batch = Batch(bytes(10 * count), 1)
    for place in range(count):
        batch.starts.append(10 * place)
        batch.ends.append(10 * place + 10)
    return batch


def numbers(ranges: list[tuple[int, int]]) -> list[int]:
    return sorted(number for first, last in ranges for number in range(first, last + 1))


def test_a_message_to_three_queues_is_confirmed_when_the_last_has_confirmed() -> None:
    unconfirmed = Unconfirmed()
    batch = batch_of(2)
    unconfirmed.insert(batch, 1, dict.fromkeys(QUEUES, range(2)))
    unconfirmed.confirm("a", batch, range(2))
    unconfirmed.confirm("c", batch, range(2))
    assert unconfirmed.confirmed == []
    unconfirmed.confirm("b", batch, range(2))
    assert unconfirmed.confirmed == [(1, 2)]


def test_a_transient_message_does_not_wait_for_its_neighbours_fsync() -> None:
    unconfirmed = Unconfirmed()
    batch = batch_of(4)
    unconfirmed.insert(batch, 1, {"a": range(4)})
    unconfirmed.confirm("a", batch, array("I", [1, 3]))
    assert numbers(unconfirmed.confirmed) == [2, 4]
    assert unconfirmed.smallest() == 1


def test_one_queue_that_rejects_is_enough_and_later_confirms_do_not_count() -> None:
    unconfirmed = Unconfirmed()
    batch = batch_of(1)
    unconfirmed.insert(batch, 1, {"a": range(1), "b": range(1)})
    unconfirmed.reject("a", batch, range(1))
    unconfirmed.confirm("b", batch, range(1))
    assert (unconfirmed.confirmed, unconfirmed.rejected) == ([], [(1, 1)])


def test_a_queue_that_dies_rejects_exactly_what_it_owes() -> None:
    unconfirmed = Unconfirmed()
    batch = batch_of(6)
    unconfirmed.insert(batch, 1, {"a": array("I", [0, 2, 4]), "b": array("I", [1, 3, 5])})
    unconfirmed.confirm("a", batch, array("I", [0]))
    unconfirmed.queue_down("a")
    assert numbers(unconfirmed.confirmed) == [1]
    assert numbers(unconfirmed.rejected) == [3, 5]


class UnconfirmedModel(RuleBasedStateMachine):
    """Queues confirm, reject and die in any order; each number is answered exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.unconfirmed = Unconfirmed()
        self.next_seq_no = 1
        # Per batch: first number (0: none) and, per queue, the indexes that it still owes.
        self.batches: list[tuple[Batch, int, dict[str, set[int]]]] = []
        self.expected: dict[int, str] = {}
        self.owners: dict[int, set[str]] = {}
        self.answered: dict[int, str] = {}
        self.inserted_bytes = 0
        self.open_bytes: dict[Batch, int] = {}

    @rule(data=st.data(), count=st.integers(1, 6), numbered=st.booleans())
    def insert(self, data: st.DataObject, count: int, numbered: bool) -> None:
        batch = batch_of(count)
        first = self.next_seq_no if numbered else 0
        told: dict[str, Indexes] = {}
        for queue in data.draw(st.sets(st.sampled_from(QUEUES))):
            chosen = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
            told[queue] = range(count) if len(chosen) == count else array("I", chosen)
        unrouted = set(range(count)) - {index for each in told.values() for index in each}
        if numbered:
            self.next_seq_no += count
            self.unconfirmed.confirm_unrouted(first, sorted(unrouted))
            for index in unrouted:
                self.expected[first + index] = "ack"
            for queue, indexes in told.items():
                for index in indexes:
                    self.owners.setdefault(first + index, set()).add(queue)
        self.unconfirmed.insert(batch, first, told)
        self.inserted_bytes += batch.wire_bytes()
        self.batches.append((batch, first, {queue: set(told[queue]) for queue in told}))
        self.drain()

    def some_owed(self, data: st.DataObject) -> tuple[Batch, int, str, array[int]] | None:
        owing = [
            (batch, first, queue, sorted(indexes))
            for batch, first, told in self.batches
            for queue, indexes in told.items()
            if indexes
        ]
        if not owing:
            return None
        batch, first, queue, indexes = data.draw(st.sampled_from(owing))
        if data.draw(st.booleans()):
            chosen = indexes
        else:
            chosen = sorted(data.draw(st.sets(st.sampled_from(indexes), min_size=1)))
        for each, _first, told in self.batches:
            if each is batch:
                told[queue] -= set(chosen)
        return batch, first, queue, array("I", chosen)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        owed = self.some_owed(data)
        if owed is None:
            return
        batch, first, queue, indexes = owed
        self.unconfirmed.confirm(queue, batch, indexes)
        self.settle(first, queue, indexes, "ack")

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        owed = self.some_owed(data)
        if owed is None:
            return
        batch, first, queue, indexes = owed
        self.unconfirmed.reject(queue, batch, indexes)
        self.settle(first, queue, indexes, "nack")

    @rule(queue=st.sampled_from(QUEUES))
    def queue_down(self, queue: str) -> None:
        self.unconfirmed.queue_down(queue)
        for _batch, first, told in self.batches:
            indexes = told.get(queue, set())
            self.settle(first, queue, sorted(indexes), "nack")
            indexes.clear()

    def settle(self, first: int, queue: str, indexes: object, answer: str) -> None:
        if first:
            for index in indexes:  # type: ignore[attr-defined]
                number = first + index
                self.owners[number].discard(queue)
                if answer == "nack":
                    self.expected.setdefault(number, "nack")
                elif not self.owners[number]:
                    self.expected.setdefault(number, "ack")
        self.drain()

    def drain(self) -> None:
        """Take the answers as a channel does; none comes twice."""
        for answer, ranges in (
            ("ack", self.unconfirmed.confirmed),
            ("nack", self.unconfirmed.rejected),
        ):
            for number in numbers(ranges):
                assert number not in self.answered
                self.answered[number] = answer
            ranges.clear()

    @invariant()
    def each_number_is_answered_exactly_once_and_as_it_must_be(self) -> None:
        assert self.answered == self.expected

    @invariant()
    def the_smallest_open_number_is_known(self) -> None:
        still_open = [
            number for number in range(1, self.next_seq_no) if number not in self.expected
        ]
        assert self.unconfirmed.smallest() == (still_open[0] if still_open else 0)
        assert len(self.unconfirmed) == len(still_open)

    @invariant()
    def bytes_are_released_when_nobody_owes_the_batch(self) -> None:
        owed_bytes = sum(
            batch.wire_bytes() for batch, _first, told in self.batches if any(told.values())
        )
        assert self.unconfirmed.released_bytes == self.inserted_bytes - owed_bytes


TestUnconfirmedModel = UnconfirmedModel.TestCase
TestUnconfirmedModel.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
