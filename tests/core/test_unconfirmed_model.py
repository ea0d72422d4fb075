"""Unconfirmed against a model that holds, for each message, the set of queues that owe it."""

from __future__ import annotations

from array import array

from batches import numbered
from examples import examples
from holding import parts
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from leveret.amqp_frames.messages.batch import Batch
from leveret.core.publishing.unconfirmed import Unconfirmed

QUEUES = ("a", "b", "c")


class Told:
    """One batch in the model."""

    def __init__(self, batch: Batch, first: int, owed: list[set[str]]) -> None:
        self.batch = batch
        self.first = first
        self.owed = owed
        self.open = {index for index, queues in enumerate(owed) if queues and first}


class UnconfirmedMachine(RuleBasedStateMachine):
    """Publishes, confirms, rejects and deaths, in any order and any parts."""

    def __init__(self) -> None:
        super().__init__()
        self.unconfirmed = Unconfirmed()
        self.next_seq_no = 1
        self.told: list[Told] = []
        self.confirmed: list[int] = []
        self.rejected: list[int] = []
        self.released_bytes = 0

    @rule(
        data=st.data(),
        count=st.integers(1, 6),
        confirm_mode=st.booleans(),
        shape=st.sampled_from(["all to one", "all to all", "any"]),
    )
    def publish(self, data: st.DataObject, count: int, confirm_mode: bool, shape: str) -> None:
        queues = {"all to one": ("a",), "all to all": QUEUES, "any": QUEUES}[shape]
        told = {}
        for queue in queues:
            indexes = list(range(count))
            if shape == "any":
                indexes = sorted(data.draw(st.sets(st.sampled_from(indexes))))
            if indexes:
                is_row = len(indexes) == count and data.draw(st.booleans())
                told[queue] = range(count) if is_row else array("I", indexes)
        batch = numbered(count)
        first = self.next_seq_no if confirm_mode else 0
        if confirm_mode:
            self.next_seq_no += count
        self.unconfirmed.insert(batch, first, told)
        owed = [{queue for queue in told if index in told[queue]} for index in range(count)]
        self.told.append(Told(batch, first, owed))
        self.let_go(self.told[-1])

    def let_go(self, told: Told) -> None:
        if not any(told.owed):
            self.told.remove(told)
            self.released_bytes += told.batch.wire_bytes

    def say(self, told: Told, queue: str, indexes: list[int], rejects: bool) -> None:
        for index in indexes:
            if queue not in told.owed[index]:
                continue
            told.owed[index].remove(queue)
            if index in told.open and (rejects or not told.owed[index]):
                told.open.remove(index)
                (self.rejected if rejects else self.confirmed).append(told.first + index)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES), rejects=st.booleans(), whole=st.booleans())
    def answer(self, data: st.DataObject, queue: str, rejects: bool, whole: bool) -> None:
        told = data.draw(st.sampled_from(self.told))
        owed = [index for index, queues in enumerate(told.owed) if queue in queues]
        if not whole:
            owed = sorted(data.draw(st.sets(st.integers(0, len(told.owed) - 1))))
        indexes = array("I", owed)
        if rejects:
            self.unconfirmed.reject(queue, told.batch, indexes)
        else:
            self.unconfirmed.confirm(queue, told.batch, indexes)
        self.say(told, queue, owed, rejects)
        self.let_go(told)

    @rule(queue=st.sampled_from(QUEUES))
    def queue_down(self, queue: str) -> None:
        self.unconfirmed.queue_down(queue)
        for told in list(self.told):
            self.say(told, queue, list(range(len(told.owed))), rejects=True)
            self.let_go(told)

    @invariant()
    def answers_are_the_models(self) -> None:
        for ranges, expected in (
            (self.unconfirmed.confirmed, self.confirmed),
            (self.unconfirmed.rejected, self.rejected),
        ):
            numbers = [number for first, last in ranges for number in range(first, last + 1)]
            assert sorted(numbers) == sorted(expected)

    @invariant()
    def what_is_open_is_the_models(self) -> None:
        numbers = [told.first + index for told in self.told for index in told.open]
        assert self.unconfirmed.smallest() == min(numbers, default=0)
        assert len(self.unconfirmed) == len(numbers)

    @invariant()
    def every_batch_is_released_once(self) -> None:
        assert self.unconfirmed.released_bytes == self.released_bytes

    def teardown(self) -> None:
        for queue in QUEUES:
            self.queue_down(queue)
        self.answers_are_the_models()
        self.every_batch_is_released_once()
        assert not parts(self.unconfirmed, Batch)
        answered = self.confirmed + self.rejected
        assert len(set(answered)) == len(answered)


TestUnconfirmed = UnconfirmedMachine.TestCase
TestUnconfirmed.settings = settings(
    deadline=None, max_examples=examples(60), stateful_step_count=30
)
