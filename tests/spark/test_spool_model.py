"""The reader with a spool between a model of two queues and a model of Spark and its sink.

Both have their say as in life: Spark has a log of offsets and one of commits, and asks as
MicroBatchExecution does; the sink skips the batch ids it knows. What may go wrong does: the process
is killed, or the machine's power goes, at any operation on the disk; the disk fails; an ack is lost
before or after the broker has taken it; the driver dies between any two of Spark's steps.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from crashing_files import PowerCut
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from leveret.spark.errors import SourceError
from leveret.spark.options import ReadOptions
from leveret.spark.source.held_ranges import HeldRanges
from leveret.spark.source.received import Received
from leveret.spark.source.spooled_source import SpooledReader
from pika import BasicProperties
from pyspark.sql.streaming.datasource import ReadMaxRows
from spool_disk import DIRECTORY, SpoolDisk
from stream_reading import rows

Channel = tuple[str, int]
DEATHS = ["before the log", "before the sink", "after the sink"]
NOTHING = BasicProperties()


class Killed(BaseException):
    """The driver dies here."""


class ModelConsumers:
    """`Consumers` without threads; the query hands deliveries in, and takes acks."""

    def __init__(self, query: SpooledQuery) -> None:
        self.ranges: HeldRanges[Channel, Received] = HeldRanges()
        self.changed = threading.Condition()
        self.warn = lambda *_args, **_known: None
        self.check = lambda: None
        self.wait_for = lambda _enough, _seconds: None
        self.ack = query.ack


class ModelReader(SpooledReader):
    def __init__(self, query: SpooledQuery) -> None:
        super().__init__(ReadOptions(queue=("a", "b"), num_partitions=1), DIRECTORY, query.disk)
        self.consumers = self._consumers = ModelConsumers(query)

    def _warn(self, event: str, **known: object) -> None:
        """Nothing is printed."""


class SpooledQuery(RuleBasedStateMachine):
    @initialize(prefetch=st.integers(1, 6), records=st.integers(1, 5))
    def begin(self, prefetch: int, records: int) -> None:
        self.prefetch, self.limit = prefetch, ReadMaxRows(records)
        self.disk = SpoolDisk()
        self.ready: dict[str, list[int]] = {"a": [], "b": []}
        self.published: set[int] = set()
        # What the broker delivers again though it may be in the spool.
        self.again: Counter[int] = Counter()
        self.numbers, self.channels = count(), count()
        self.offsets: list[str] = []
        self.commits = 0
        self.sink: dict[int, list[tuple[int, int]]] = {}
        self.ack_fate = "taken"
        self.unacked: dict[Channel, dict[int, int]] = {}
        self.start_process()

    # The broker's side.

    def start_process(self) -> None:
        for channel in list(self.unacked):
            self.requeue(channel)
        self.reader = ModelReader(self)
        self.tags = {}
        for queue in self.ready:
            self.open(queue)

    def open(self, queue: str) -> None:
        channel = (queue, next(self.channels))
        self.reader.consumers.ranges.open(channel)
        self.unacked[channel] = {}
        self.tags[channel] = count(1)

    def requeue(self, channel: Channel) -> None:
        self.ready[channel[0]][:0] = self.unacked.pop(channel).values()

    def ack(self, tags: dict[Channel, int]) -> None:
        fate, self.ack_fate = self.ack_fate, "taken"
        acked = [
            (channel, tag, number)
            for channel, last in tags.items()
            for tag, number in self.unacked[channel].items()
            if tag <= last
        ]
        if "taken" in fate:
            for channel, tag, _ in acked:
                del self.unacked[channel][tag]
        else:
            self.again.update(number for _, _, number in acked)
        if "killed" in fate:
            raise Killed
        if "connection" in fate:
            for channel in tags:
                self.lose(channel)

    def lose(self, channel: Channel) -> None:
        self.reader.consumers.ranges.close(channel)
        self.requeue(channel)
        self.open(channel[0])

    @rule(queue=st.sampled_from("ab"), messages=st.integers(1, 8), most=st.integers(0, 8))
    def publish(self, queue: str, messages: int, most: int) -> None:
        for _ in range(messages):
            number = next(self.numbers)
            self.published.add(number)
            self.ready[queue].append(number)
        self.deliver(most)

    @rule(most=st.integers(1, 8))
    def deliver(self, most: int) -> None:
        for channel, unacked in self.unacked.items():
            for _ in range(most):
                if self.ready[channel[0]] and len(unacked) < self.prefetch:
                    tag, number = next(self.tags[channel]), self.ready[channel[0]].pop(0)
                    unacked[tag] = number
                    message = Received(channel[0], "", "", False, NOTHING, b"%d" % number)
                    self.reader.consumers.ranges.hold(channel, tag, 1, message)

    @rule(queue=st.sampled_from("ab"))
    def lose_connection(self, queue: str) -> None:
        [channel] = [each for each in self.unacked if each[0] == queue]
        self.lose(channel)

    # Spark's side.

    def offset(self, batch: int) -> Any:
        """The end of a batch, as it is in the log."""
        return json.loads(self.offsets[batch]) if batch >= 0 else self.reader.initialOffset()

    def trigger(self, dies: str = "never") -> None:
        number = self.commits
        start = self.offset(number - 1)
        if number == len(self.offsets):
            end = self.reader.latestOffset(start, self.limit)
            # The newest, and the one before until Spark's next question.
            assert len(self.disk.ranges()) <= 2
            if json.dumps(end) == json.dumps(start):
                return
            die_at("before the log", dies)
            self.offsets.append(json.dumps(end))
            if number:
                self.reader.commit(self.offset(number - 1))
        end = self.offset(number)
        die_at("before the sink", dies)
        found = [(int(row["body"]), row["_seq"]) for row in rows(self.reader, start, end)]
        assert [seq for _, seq in found] == list(range(start["n"], end["n"]))
        # The sink skips what it knows; it must be what it was.
        assert self.sink.setdefault(number, found) == found
        die_at("after the sink", dies)
        self.commits = number + 1

    @rule(
        dies=st.sampled_from(
            ["never"] * 4 + ["before the log", "before the sink", "after the sink"]
        )
    )
    def run_batch(self, dies: str) -> None:
        try:
            self.trigger(dies)
        except Killed:
            self.crash()

    @rule(
        fate=st.sampled_from(
            ["lost, connection", "taken, connection", "lost, killed", "taken, killed"]
        )
    )
    def run_batch_whose_ack_is(self, fate: str) -> None:
        self.ack_fate = fate
        try:
            self.trigger()
        except Killed:
            self.crash()
        self.ack_fate = "taken"

    @rule(
        operations=st.integers(1, 12),
        ends=st.sampled_from(["power", "kill"]),
        seed=st.integers(0, 1 << 16),
    )
    def run_batches_until_the_disk_stops(self, operations: int, ends: str, seed: int) -> None:
        self.disk.operations_left = operations
        held = [number for each in self.unacked.values() for number in each.values()]
        try:
            for _ in range(3):
                self.trigger()
        except PowerCut:
            # What was being written may be there.
            self.again.update(held)
            self.crash(Random(seed) if ends == "power" else None)
        self.disk.operations_left = None

    @rule(operation=st.sampled_from(["create", "write", "sync_data", "rename", "sync_directory"]))
    def run_batch_on_a_disk_that_fails(self, operation: str) -> None:
        held = [number for each in self.unacked.values() for number in each.values()]
        self.disk.failing = {operation: OSError(28, "No space left on device")}
        with suppress(SourceError):
            self.trigger()
        if not self.disk.failing:
            self.again.update(held)
            self.crash()
        self.disk.failing = {}

    @rule(seed=st.none() | st.integers(0, 1 << 16))
    def stop_between_batches(self, seed: int | None) -> None:
        self.crash(None if seed is None else Random(seed))

    def crash(self, power: Random | None = None) -> None:
        self.disk.operations_left = None
        self.disk.kill() if power is None else self.disk.cut_power(power)
        self.start_process()

    @rule(batches=st.integers(1, 3), commits=st.integers(0, 3))
    def set_the_checkpoint_back(self, batches: int, commits: int) -> None:
        """Spark does not sync its logs: a power failure takes the last of them, or some more."""
        logs = self.offsets, self.commits
        left = max(0, len(self.offsets) - batches)
        self.offsets, self.commits = self.offsets[:left], max(0, min(self.commits - commits, left))
        # Spark runs no batch again but the last that it has logged.
        self.commits = max(self.commits, left - 1)
        self.crash()
        start = self.offset(self.commits - 1)["n"]
        oldest = min((int(name[:20]) for name in self.disk.ranges()), default=start)
        if start >= oldest:
            # The sink sees to it that the batches are what they were.
            self.trigger()
            return
        with pytest.raises(SourceError):
            self.trigger()
        # Whoever runs it puts the logs back.
        self.offsets, self.commits = logs
        self.crash()

    # What must hold.

    def seen(self) -> Counter[int]:
        return Counter(number for batch in self.sink.values() for number, _ in batch)

    @invariant()
    def nothing_comes_twice_but_what_the_broker_delivers_again(self) -> None:
        for number, times in self.seen().items():
            assert times <= 1 + self.again[number]

    def teardown(self) -> None:
        # Twice as often as there can be batches: a window that stalls does not get there.
        for _ in range(2 * sum(1 + self.again[number] for number in self.published) + 2):
            self.deliver(self.prefetch)
            self.trigger()
        self.nothing_comes_twice_but_what_the_broker_delivers_again()
        assert self.seen().keys() == self.published
        assert not any(self.ready.values())
        assert not any(self.unacked.values())
        assert len(self.disk.ranges()) <= 1


def die_at(place: str, dies: str) -> None:
    if place == dies:
        raise Killed


TestSpooledQuery = SpooledQuery.TestCase
TestSpooledQuery.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
