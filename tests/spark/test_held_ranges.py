from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from leveret.spark.source.held_ranges import HeldRanges

ALL = 1 << 30


def ranges_with(*sizes: int, remaining: int | None = None) -> HeldRanges[str, str]:
    """One channel "c", whose deliveries are "m1", "m2"... of these sizes."""
    ranges: HeldRanges[str, str] = HeldRanges()
    ranges.open("c", remaining)
    for tag, size_bytes in enumerate(sizes, 1):
        ranges.hold("c", tag, size_bytes, f"m{tag}")
    return ranges


def test_a_range_is_acked_when_the_start_has_passed_it_and_not_before() -> None:
    ranges = ranges_with(1, 1, 1)
    assert ranges.cut(0, 2, ALL) == 2
    assert ranges.passed(0) == {}
    assert ranges.passed(2) == {"c": 2}
    assert ranges.passed(2) == {}


def test_nothing_to_cut_gives_the_start_itself() -> None:
    assert ranges_with().cut(7, 10, ALL) == 7


def test_a_range_has_no_more_messages_than_asked_for() -> None:
    ranges = ranges_with(1, 1, 1)
    assert ranges.cut(0, 2, ALL) == 2
    assert ranges.rows(0, 2) == (0, ["m1", "m2"])


def test_a_range_has_no_more_bytes_than_asked_for() -> None:
    ranges = ranges_with(40, 40, 40)
    assert ranges.cut(0, 10, 100) == 2


def test_a_message_larger_than_a_range_is_a_range_of_its_own() -> None:
    ranges = ranges_with(500, 1)
    assert ranges.cut(0, 10, 100) == 1


def test_a_range_not_yet_passed_is_given_again() -> None:
    ranges = ranges_with(1, 1, 1)
    assert ranges.cut(0, 2, ALL) == 2
    assert ranges.cut(0, 2, ALL) == 2
    assert ranges.rows(0, 2) == ranges.rows(0, 2) == (0, ["m1", "m2"])


def test_a_range_of_another_process_has_no_rows() -> None:
    ranges = ranges_with(1, 1)
    assert ranges.rows(10, 15) is None


def test_offsets_go_on_behind_a_replayed_range() -> None:
    ranges = ranges_with(1, 1)
    ranges.rows(10, 15)
    assert ranges.cut(15, 10, ALL) == 17


def test_offsets_go_on_from_the_start_handed_in() -> None:
    ranges = ranges_with(1, 1)
    assert ranges.cut(1000, 10, ALL) == 1002
    assert ranges.rows(1000, 1002) == (1000, ["m1", "m2"])


def test_a_closed_channel_is_not_acked() -> None:
    ranges = ranges_with(1, 1)
    assert ranges.cut(0, 1, ALL) == 1
    assert ranges.close("c") == (1, None)
    ranges.open("d")
    assert ranges.passed(1) == {}


def test_a_range_outlives_its_channel_for_tasks_that_are_tried_again() -> None:
    ranges = ranges_with(1, 1)
    ranges.cut(0, 1, ALL)
    ranges.close("c")
    assert ranges.rows(0, 1) == (0, ["m1"])
    assert ranges.available == 0


def test_no_more_is_cut_than_may_remain() -> None:
    ranges = ranges_with(1, 1, 1, remaining=2)
    assert ranges.available == 2
    assert ranges.cut(0, 10, ALL) == 2
    assert ranges.passed(2) == {"c": 2}
    assert ranges.remaining == 0
    assert ranges.cut(2, 10, ALL) == 2


def test_what_was_not_acked_may_be_cut_again_of_the_next_channel() -> None:
    ranges = ranges_with(1, 1, 1, remaining=3)
    ranges.cut(0, 2, ALL)
    assert ranges.close("c") == (2, 3)


def test_channels_are_cut_in_turn_and_acked_each() -> None:
    ranges = ranges_with(1, 1, 1)
    ranges.open("d")
    ranges.hold("d", 1, 1, "d1")
    assert ranges.cut(0, 3, ALL) == 3
    assert ranges.rows(0, 3) == (0, ["m1", "d1", "m2"])
    assert ranges.unacked("c") == 3
    assert ranges.passed(3) == {"c": 2, "d": 1}


@pytest.mark.parametrize(
    ("records", "size_bytes", "expected"),
    [(2, ALL, True), (3, ALL, False), (3, 20, True), (3, 21, False)],
)
def test_a_batch_is_whole_by_count_or_by_bytes(
    records: int, size_bytes: int, expected: bool
) -> None:
    assert ranges_with(10, 10).has(records, size_bytes) is expected


class Query(RuleBasedStateMachine):
    """Two queues, one query with a checkpoint, and whatever goes wrong between them."""

    @initialize(prefetch=st.integers(1, 6), records=st.integers(1, 5), size_bytes=st.integers(1, 9))
    def begin(self, prefetch: int, records: int, size_bytes: int) -> None:
        self.prefetch, self.records, self.size_bytes = prefetch, records, size_bytes
        self.ready: dict[str, list[int]] = {"a": [], "b": []}
        self.published: Counter[int] = Counter()
        self.written: Counter[int] = Counter()
        self.numbers, self.channels = count(), count()
        self.logged = (0, 0)
        self.committed = 0
        self.mishaps = 0
        self.start_process()

    def start_process(self) -> None:
        self.ranges: HeldRanges[tuple[str, int], int] = HeldRanges()
        self.unacked: dict[tuple[str, int], dict[int, int]] = {}
        self.tags = {}
        for queue in self.ready:
            self.open(queue)
        if self.logged[1] > self.committed:
            assert self.ranges.rows(*self.logged) is None
            self.committed = self.logged[1]

    def open(self, queue: str) -> None:
        channel = (queue, next(self.channels))
        self.ranges.open(channel)
        self.unacked[channel] = {}
        self.tags[channel] = count(1)

    def requeue(self, channel: tuple[str, int]) -> None:
        self.ready[channel[0]][:0] = self.unacked.pop(channel).values()

    @rule(queue=st.sampled_from("ab"), messages=st.integers(1, 8))
    def publish(self, queue: str, messages: int) -> None:
        for _ in range(messages):
            number = next(self.numbers)
            self.published[number] += 1
            self.ready[queue].append(number)

    @rule(most=st.integers(1, 8))
    def deliver(self, most: int) -> None:
        for channel, unacked in self.unacked.items():
            for _ in range(most):
                if self.ready[channel[0]] and len(unacked) < self.prefetch:
                    tag, number = next(self.tags[channel]), self.ready[channel[0]].pop(0)
                    unacked[tag] = number
                    self.ranges.hold(channel, tag, number % 4, number)

    @rule(fails=st.sampled_from(["never"] * 4 + ["before the sink", "after the sink"]))
    def trigger(self, fails: str) -> None:
        start = self.committed
        self.ack(self.ranges.passed(start))
        end = self.ranges.cut(start, self.records, self.size_bytes)
        assert end >= start
        if end == start:
            return
        self.logged = (start, end)
        # Spark commits what was before, now that there is something behind it.
        self.ack(self.ranges.passed(start))
        first, messages = self.ranges.rows(start, end) or pytest.fail("a range without rows")
        assert (first, len(messages)) == (start, end - start)
        assert len(messages) <= self.records
        assert len(messages) == 1 or sum(each % 4 for each in messages) <= self.size_bytes
        if fails != "before the sink":
            self.written.update(messages)
        if fails == "never":
            self.committed = end
        else:
            self.crash()

    def ack(self, tags: dict) -> None:
        for channel, last in tags.items():
            for tag in [tag for tag in self.unacked[channel] if tag <= last]:
                number = self.unacked[channel].pop(tag)
                assert self.written[number], f"message {number} is acked and was never written"

    @rule()
    def crash(self) -> None:
        self.mishaps += 1
        for channel in list(self.unacked):
            self.requeue(channel)
        self.start_process()

    @rule(queue=st.sampled_from("ab"))
    def lose_connection(self, queue: str) -> None:
        self.mishaps += 1
        [channel] = [each for each in self.unacked if each[0] == queue]
        self.ranges.close(channel)
        self.requeue(channel)
        self.open(queue)

    @invariant()
    def nothing_is_lost(self) -> None:
        there = {number for queue in self.ready.values() for number in queue}
        there.update(number for each in self.unacked.values() for number in each.values())
        assert there | self.written.keys() == self.published.keys()
        for channel, unacked in self.unacked.items():
            assert self.ranges.unacked(channel) == len(unacked) <= self.prefetch

    def teardown(self) -> None:
        # Twice as often as there can be batches: a window that stalls does not get there.
        for _ in range(2 * len(self.published) + 2):
            self.deliver(self.prefetch)
            self.trigger("never")
        assert self.written.keys() == self.published.keys()
        assert not any(self.ready.values())
        assert not any(self.unacked.values())
        if not self.mishaps:
            assert self.written == self.published


TestQuery = Query.TestCase
TestQuery.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
