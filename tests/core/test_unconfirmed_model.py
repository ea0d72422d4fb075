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
from leveret.core.publishing.unconfirmed import Unconfirmed, coalesce, merge

QUEUES = ("a", "b", "c")


class Published:
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
        self.published: list[Published] = []
        self.confirmed: list[int] = []
        self.rejected: list[int] = []
        self.acked: list[int] = []
        self.released_bytes = 0

    @rule(
        data=st.data(),
        count=st.integers(1, 6),
        confirm_mode=st.booleans(),
        shape=st.sampled_from(["all to one", "all to all", "each to one", "any"]),
    )
    def publish(self, data: st.DataObject, count: int, confirm_mode: bool, shape: str) -> None:
        queues = ("a",) if shape == "all to one" else QUEUES
        by_queue: dict[str, range | array[int]] = {}
        left = set(range(count))
        for queue in queues:
            indexes = list(range(count))
            if shape == "each to one":
                indexes = sorted(left) and sorted(data.draw(st.sets(st.sampled_from(sorted(left)))))
                left.difference_update(indexes)
            elif shape == "any":
                indexes = sorted(data.draw(st.sets(st.sampled_from(indexes))))
            if indexes:
                is_row = len(indexes) == count and data.draw(st.booleans())
                by_queue[queue] = range(count) if is_row else array("I", indexes)
        batch = numbered(count)
        first = self.next_seq_no if confirm_mode else 0
        if confirm_mode:
            self.next_seq_no += count
        told = set().union(*by_queue.values())
        told_count = data.draw(st.sampled_from([None, len(told)]))
        self.unconfirmed.insert(batch, first, by_queue, told_count)
        owed = [{queue for queue in by_queue if index in by_queue[queue]} for index in range(count)]
        self.published.append(Published(batch, first, owed))
        self.forget_if_answered(self.published[-1])

    def forget_if_answered(self, published: Published) -> None:
        if not any(published.owed):
            self.published.remove(published)
            self.released_bytes += published.batch.wire_bytes

    def apply_answer(
        self, published: Published, queue: str, indexes: list[int], rejects: bool
    ) -> None:
        for index in indexes:
            if queue not in published.owed[index]:
                continue
            published.owed[index].remove(queue)
            if index in published.open and (rejects or not published.owed[index]):
                published.open.remove(index)
                (self.rejected if rejects else self.confirmed).append(published.first + index)

    @precondition(lambda self: self.published)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES), rejects=st.booleans(), whole=st.booleans())
    def answer(self, data: st.DataObject, queue: str, rejects: bool, whole: bool) -> None:
        published = data.draw(st.sampled_from(self.published))
        owed = [index for index, queues in enumerate(published.owed) if queue in queues]
        if not whole:
            owed = sorted(data.draw(st.sets(st.integers(0, len(published.owed) - 1))))
        indexes = array("I", owed)
        if rejects:
            self.unconfirmed.reject(queue, published.batch, indexes)
        else:
            self.unconfirmed.confirm(queue, published.batch, indexes)
        self.apply_answer(published, queue, owed, rejects)
        self.forget_if_answered(published)

    @rule(queue=st.sampled_from(QUEUES))
    def fail(self, queue: str) -> None:
        """A queue that fails rejects all that it was told, answered or not."""
        for published in list(self.published):
            indexes = list(range(len(published.owed)))
            self.unconfirmed.reject(queue, published.batch, array("I", indexes))
            self.apply_answer(published, queue, indexes, rejects=True)
            self.forget_if_answered(published)

    @precondition(lambda self: not self.rejected)
    @rule()
    def ack(self) -> None:
        """The channel acks all that is confirmed, in the frames of the cut-off rule."""
        ranges = [(number, number) for number in self.confirmed]
        expected = coalesce(ranges, (), self.unconfirmed.smallest())
        cumulative, singles = self.unconfirmed.acks()
        assert (cumulative, merge(singles)) == (expected[0], merge(expected[1]))
        assert singles == sorted(singles)
        assert not self.unconfirmed.are_answers_due()
        self.acked += self.confirmed
        self.confirmed.clear()

    # Now and then: reading joins what queues confirmed of a batch, and acking need not join it.
    @rule()
    def answers_are_the_models(self) -> None:
        for ranges, expected in (
            (self.unconfirmed.confirmed, self.confirmed),
            (self.unconfirmed.rejected, self.rejected),
        ):
            numbers = [number for first, last in ranges for number in range(first, last + 1)]
            assert sorted(numbers) == sorted(expected)

    @invariant()
    def what_is_open_is_the_models(self) -> None:
        numbers = [each.first + index for each in self.published for index in each.open]
        assert self.unconfirmed.smallest() == min(numbers, default=0)
        assert len(self.unconfirmed) == len(numbers)

    @invariant()
    def every_batch_is_released_once(self) -> None:
        assert self.unconfirmed.released_bytes == self.released_bytes

    def teardown(self) -> None:
        for queue in QUEUES:
            self.fail(queue)
        self.answers_are_the_models()
        self.every_batch_is_released_once()
        assert not parts(self.unconfirmed, Batch)
        answered = self.acked + self.confirmed + self.rejected
        assert len(set(answered)) == len(answered)


TestUnconfirmed = UnconfirmedMachine.TestCase
TestUnconfirmed.settings = settings(
    deadline=None, max_examples=examples(60), stateful_step_count=30
)
