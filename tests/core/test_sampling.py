"""Samples of a node: exact rates by the tick, and no work for objects that have not changed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from counting import told_one
from leveret.core.definitions import QueueDefinition
from leveret.core.statistics.channel_counts import ChannelCounts
from leveret.core.statistics.history import details
from leveret.core.statistics.node_counts import NodeCounts
from leveret.core.statistics.sampling import GAUGES, NODE, OCTETS, QUEUE, VHOST, Sampling
from leveret.core.statistics.traffic import Traffic

TICK_MS = 5_000
MIB = 1024 * 1024


class Rules(SimpleNamespace):
    """Counts of a queue's messages."""

    deferred_count = 0

    def counts(self) -> tuple[int, int, int]:
        return self.ready, 0, self.unacked


class Node:
    """A node with a channel; `at` makes a sample."""

    def __init__(self, commands, samples_max: int = 121, bytes_max: int = MIB) -> None:
        self.counts = NodeCounts()
        self.topology = commands.topology
        self.commands = commands
        self.sampling = Sampling(self.counts, TICK_MS, samples_max, bytes_max)
        self.channel = ChannelCounts(self.counts, self.topology)
        self.traffic: list[Traffic] = []
        self.gauges = (0,) * len(GAUGES)

    def queue(self, name: str) -> QueueDefinition:
        queue = self.commands.declare_queue(name)
        queue.rules = Rules(ready=0, unacked=0)
        self.counts.add_queue(queue, self.topology)
        return queue

    def publish(self, queue: QueueDefinition, count: int) -> None:
        told_one(self.channel, b"\0\1q\0", queue, count)
        queue.rules.ready += count
        self.counts.touch(queue)

    def at(self, tick: int) -> int:
        """How many steps a sample at this tick takes."""
        return sum(1 for _ in self.sampling.sample(tick, self.traffic, lambda: self.gauges))

    def rate(self, owner: object, columns: tuple[str, ...], *names: str) -> float:
        numbers = [columns.index(name) for name in names]
        history = owner.history  # type: ignore[attr-defined]
        found: float = details([history], numbers, self.sampling.moment)["rate"]
        return found


@pytest.fixture
def node(commands) -> Node:
    return Node(commands)


def test_rates_are_exact_by_the_tick(node: Node) -> None:
    queue = node.queue("q")
    counts = node.counts.of_queue(queue)
    node.at(100)
    for tick, count in ((101, 10), (102, 35), (103, 5)):
        node.publish(queue, count)
        node.at(tick)
        assert node.rate(counts, QUEUE, "publish") == count / 5
        assert node.rate(counts, QUEUE, "messages_ready", "messages_unacknowledged") == count / 5
        assert node.rate(node.counts.of_vhost(node.topology), VHOST, "publish") == count / 5
        assert node.rate(node.counts, NODE, "messages_ready") == count / 5
    node.at(104)
    assert node.rate(counts, QUEUE, "publish") == 0.0
    assert node.rate(node.counts, NODE, "publish") == 0.0


def test_a_queue_that_shrinks_has_a_negative_rate_and_one_that_goes_leaves_the_sums(
    node: Node,
) -> None:
    queues = [node.queue(name) for name in "qr"]
    for queue in queues:
        node.publish(queue, 50)
    node.at(1)
    queues[0].rules.ready = 30
    node.counts.touch(queues[0])
    node.at(2)
    vhost = node.counts.of_vhost(node.topology)
    assert node.rate(vhost, VHOST, "messages_ready") == -4.0
    assert vhost.levels["messages_ready"] == 80
    queues[1].rules = None
    node.counts.remove_queue(queues[1])
    node.at(3)
    assert vhost.levels["messages_ready"] == node.counts.levels["messages_ready"] == 30
    assert node.rate(vhost, VHOST, "messages_ready") == -10.0


def test_idle_queues_cost_a_sample_nothing(node: Node) -> None:
    queues = [node.queue(f"q{number}") for number in range(2_000)]
    for queue in queues:
        node.publish(queue, 1)
    node.at(1)
    # Until their histories have been cut to the last values.
    for tick in range(2, 150):
        node.at(tick)
    idle = node.at(150)
    node.publish(queues[7], 1)
    assert idle <= 2
    assert node.at(151) <= 20


def test_octets_of_connections_count_for_their_vhost_and_stay_when_they_end(node: Node) -> None:
    traffic = Traffic()
    node.traffic.append(traffic)
    traffic.received_bytes = 100
    node.at(1)
    # The vhost is open from now on.
    traffic.count_octets = lambda *octets: node.counts.count_octets(node.topology, *octets)
    traffic.received_bytes, traffic.sent_bytes = 600, 50
    node.at(2)
    vhost = node.counts.of_vhost(node.topology)
    assert vhost.levels["recv_oct"] == 600
    assert node.rate(traffic, OCTETS, "recv_oct") == 100.0
    assert node.rate(traffic, OCTETS, "send_oct") == 10.0
    assert node.rate(vhost, VHOST, "send_oct") == 10.0
    traffic.sent_bytes = 60
    traffic.count()
    node.traffic.clear()
    node.at(3)
    assert vhost.levels["send_oct"] == 60


def test_histories_reach_back_as_far_as_their_limits_allow(commands) -> None:
    node = Node(commands, samples_max=10)
    queue = node.queue("q")
    for tick in range(1, 40):
        node.publish(queue, 1)
        node.at(tick)
    history = node.counts.of_queue(queue).history
    assert history is not None
    assert len(history) == 11
    assert node.sampling.moment.first_kept == 29


def test_many_objects_share_the_memory_of_histories(commands) -> None:
    node = Node(commands, bytes_max=65_536)
    queues = [node.queue(f"q{number}") for number in range(100)]
    for tick in range(1, 40):
        for queue in queues:
            node.publish(queue, 1)
        node.at(tick)
    rows = sum(len(node.counts.of_queue(queue).history or ()) for queue in queues)
    assert node.sampling.samples_kept < 10
    assert rows * 100 <= 65_536 + 200 * 100
    # And it is used by those that are left when the others are idle.
    for tick in range(40, 60):
        node.publish(queues[0], 1)
        node.at(tick)
    assert node.sampling.samples_kept > 40


def test_nothing_is_noted_while_nobody_samples(node: Node) -> None:
    queue = node.queue("q")
    node.sampling.stop()
    node.publish(queue, 1)
    node.counts.collect()
    assert not node.counts.touched
