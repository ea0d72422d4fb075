"""Counts of channels, and their sums for queues, exchanges, vhosts and the node."""

from __future__ import annotations

import pytest
from batches import batch_of, numbered
from counting import acked, delivered, told_one
from leveret.amqp_frames.messages.batch import Batch
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Publisher, Routed
from leveret.core.statistics.channel_counts import ChannelCounts
from leveret.core.statistics.node_counts import NodeCounts
from publishing import confirm_all
from wire import publish

DEFAULT, X = b"\0", b"\1x"


class Counted:
    """A channel that publishes and counts, as its actor does."""

    def __init__(self, commands, publisher: Publisher) -> None:
        self.node = NodeCounts()
        self.topology = commands.topology
        self.publisher = publisher
        publisher.confirm_mode = False
        self.counts = ChannelCounts(self.node, self.topology)

    def confirms(self) -> None:
        self.publisher.confirm_mode = True
        self.counts.confirm_mode(self.publisher.unconfirmed)

    def publish(self, batch: Batch) -> Routed:
        routed = carry_out(self.publisher.route(batch))
        self.counts.routed(routed)
        return routed

    def collected(self) -> dict[str, int]:
        self.node.collect()
        return self.node.totals

    def of_exchange(self, name: str) -> dict[str, int]:
        counted = self.node.of_exchange(self.topology, name)
        assert counted is not None
        return counted.totals

    def by_exchange(self, queue: QueueDefinition) -> dict[str, int]:
        """Messages of a queue by the exchange that they came through."""
        counted = self.node.of_queue(queue).by_exchange
        return {name: each.totals["publish"] for name, each in counted.items()}

    def exchanges(self) -> dict[bytes, dict[str, int]]:
        """The channel's counts by exchange."""
        return {name: each.totals for name, each in self.counts.exchanges.items()}


@pytest.fixture
def counted(commands, publisher: Publisher) -> Counted:
    return Counted(commands, publisher)


def test_a_publish_counts_for_the_channel_the_exchange_and_each_queue(commands, counted) -> None:
    queues = [commands.declare_queue(name) for name in "qr"]
    commands.declare_exchange("x", "fanout")
    for queue in queues:
        commands.bind(queue.name, "x")
    counted.publish(numbered(3))
    counted.publish(batch_of(*[publish("any", exchange="x")] * 2))
    assert counted.collected() == {"publish": 5}
    assert counted.counts.totals == {"publish": 5}
    assert counted.exchanges() == {DEFAULT: {"publish": 3}, X: {"publish": 2}}
    assert counted.of_exchange("") == {"publish_in": 3, "publish_out": 3}
    assert counted.of_exchange("x") == {"publish_in": 2, "publish_out": 4}
    of_queues = [counted.node.of_queue(queue) for queue in queues]
    assert [each.totals for each in of_queues] == [{"publish": 5}, {"publish": 2}]
    assert [counted.by_exchange(queue) for queue in queues] == [{"": 3, "x": 2}, {"x": 2}]
    assert counted.node.of_vhost(commands.topology).totals == {"publish": 5}


def test_each_exchange_of_a_batch_counts_its_own_messages(commands, counted) -> None:
    queue = commands.declare_queue()
    commands.declare_exchange("x", "topic")
    commands.bind("q", "x", "one")
    keys = [("", "q"), ("x", "one"), ("x", "two"), ("", "q"), ("", "none"), ("x", "one")]
    mandatory = [("", "none"), ("x", "two")]
    batch = batch_of(
        *(publish(key, exchange=exchange) for exchange, key in keys),
        *(publish(key, exchange=exchange, mandatory=True) for exchange, key in mandatory),
    )
    counted.publish(batch)
    assert counted.collected() == {"publish": 8, "return_unroutable": 2, "drop_unroutable": 2}
    unroutable = {"publish": 4, "return_unroutable": 1, "drop_unroutable": 1}
    assert counted.exchanges() == {DEFAULT: unroutable, X: unroutable}
    assert counted.by_exchange(queue) == {"": 2, "x": 2}


def test_a_run_of_batches_to_one_queue_counts_as_they_would_alone(commands, counted) -> None:
    queue, other = commands.declare_queue("q"), commands.declare_queue("r")
    for key, to, count in ((b"q", queue, 1), (b"q", queue, 2), (b"r", other, 4), (b"q", queue, 8)):
        told_one(counted.counts, b"\0\1" + key + b"\0", to, count)
    assert counted.collected() == {"publish": 15}
    told_one(counted.counts, b"\0\1q\0", queue, 16)
    assert counted.collected() == {"publish": 31}
    assert counted.by_exchange(queue) == {"": 27}
    assert counted.of_exchange("") == {"publish_in": 31, "publish_out": 31}


def test_what_is_confirmed_follows_from_what_is_open_and_what_was_nacked(commands, counted) -> None:
    commands.declare_queue()
    counted.publish(numbered(5))
    counted.confirms()
    first, second = numbered(3), numbered(2)
    routed = counted.publish(first)
    assert counted.collected() == {"publish": 8, "publish_numbered": 3}
    confirm_all(counted.publisher, first, routed)
    # Nothing is published meanwhile.
    assert counted.collected()["confirm"] == 3
    for queue, indexes in counted.publish(second).by_queue.items():
        counted.publisher.unconfirmed.reject(queue, second, indexes)
    totals = {"publish": 10, "publish_numbered": 5, "confirm": 3}
    assert counted.collected() == totals
    assert counted.exchanges() == {DEFAULT: totals}


def test_confirms_never_become_fewer_however_much_is_published_meanwhile(commands, counted) -> None:
    commands.declare_queue()
    counted.confirms()
    first = numbered(3)
    confirm_all(counted.publisher, first, counted.publish(first))
    assert counted.collected()["confirm"] == 3
    counted.publish(numbered(2))
    for _ in counted.node.collecting():
        counted.publish(numbered(4))
        assert counted.node.totals["confirm"] == 3
    assert counted.collected()["confirm"] == 3


def test_publishes_before_confirm_mode_have_no_number_though_they_are_added_later(
    commands, counted
) -> None:
    for name in "xy":
        commands.declare_exchange(name, "fanout")
        commands.bind(commands.declare_queue(name).name, name)
    for name in "xy":
        counted.publish(batch_of(publish("any", exchange=name)))
    steps = counted.node.collecting()
    next(steps)
    counted.confirms()
    for _ in steps:
        pass
    assert counted.collected() == {"publish": 2}


def test_confirms_count_for_the_exchange_of_their_publishes(commands, counted) -> None:
    for name in "qr":
        commands.declare_queue(name)
    commands.declare_exchange("x", "fanout")
    commands.bind("q", "x")
    commands.bind("r", "x")
    counted.confirms()
    mixed = batch_of(*(publish("q", exchange=exchange) for exchange in ("", "x", "x", "", "x")))
    owed = counted.publish(mixed).by_queue
    counted.publish(numbered(1))
    confirmed, last = owed
    counted.publisher.unconfirmed.confirm(confirmed, mixed, owed[confirmed])
    counted.node.collect()
    by_exchange = [counted.exchanges()[each].get("confirm", 0) for each in (DEFAULT, X)]
    assert by_exchange == [2, 0]
    counted.publisher.unconfirmed.confirm(last, mixed, owed[last])
    counted.node.collect()
    by_exchange = [counted.exchanges()[each].get("confirm", 0) for each in (DEFAULT, X)]
    assert by_exchange == [2, 3]


def test_deliveries_and_acks_count_for_the_channel_and_the_queue(commands, counted) -> None:
    queue = commands.declare_queue()
    counts = counted.counts
    delivered(counts, queue, 5, 2, no_ack=False)
    delivered(counts, queue, 3, 0, no_ack=True)
    acked(counts, queue, 4)
    counts.got(queue, is_redelivered=True, no_ack=False)
    counts.got(queue, is_redelivered=False, no_ack=True)
    counts.got_nothing(queue)
    expected = {
        "ack": 4,
        "deliver": 5,
        "deliver_get": 10,
        "deliver_no_ack": 3,
        "get": 1,
        "get_empty": 1,
        "get_no_ack": 1,
        "redeliver": 3,
    }
    assert counted.collected() == expected
    assert counts.queues[queue].totals == expected
    assert counted.node.of_queue(queue).totals == expected


def test_a_channel_that_counts_nothing_is_not_collected(commands, counted, monkeypatch) -> None:
    queue = commands.declare_queue()
    drained = []
    drain = ChannelCounts.draining
    monkeypatch.setattr(ChannelCounts, "draining", lambda self: drained.append(self) or drain(self))
    idle = ChannelCounts(counted.node, commands.topology)
    for _ in range(3):
        acked(counted.counts, queue, 1)
        counted.node.collect()
        counted.node.collect()
    assert drained == [counted.counts] * 3
    assert idle.totals == {}


def test_what_an_ended_channel_has_counted_stays(commands, counted) -> None:
    commands.declare_queue()
    counted.confirms()
    counted.publish(numbered(4))
    counted.counts.end()
    assert counted.collected() == {"publish": 4, "publish_numbered": 4}


def test_a_channel_forgets_queues_and_exchanges_that_are_no_more(commands, counted) -> None:
    commands.declare_queue("stays").rules = "some"
    for number in range(100):
        commands.declare_exchange(f"x{number}")
        queue = commands.declare_queue(f"q{number}")
        commands.bind(queue.name, f"x{number}")
        counted.publish(batch_of(publish("k", exchange=f"x{number}"), publish("stays")))
        acked(counted.counts, queue, 1)
        counted.node.collect()
        queue.rules = None
        plan = commands.topology.prepare_delete_exchange(f"x{number}")
        commands.topology.apply(plan)
    counts = counted.counts
    assert len(counts.exchanges) + len(counts.queues) <= 65
    assert counts.totals == {"publish": 200, "ack": 100}
    stays: QueueDefinition = commands.table.find_queue("stays")
    assert counted.by_exchange(stays) == {"": 100}


def test_counts_of_a_channel_that_counts_while_it_is_collected_are_not_lost(
    commands, counted
) -> None:
    queues = [commands.declare_queue(f"q{number}") for number in range(5)]
    for queue in queues:
        acked(counted.counts, queue, 1)
    for _ in counted.node.collecting():
        acked(counted.counts, queues[0], 1)
    assert counted.collected()["ack"] == counted.node.of_queue(queues[0]).totals["ack"] + 4
    assert counted.node.totals["ack"] >= 10


def test_who_gives_up_collecting_leaves_nothing_behind(commands, counted) -> None:
    queues = [commands.declare_queue(f"q{number}") for number in range(5)]
    for queue in queues:
        acked(counted.counts, queue, 1)
    steps = counted.node.collecting()
    next(steps)
    steps.close()
    acked(counted.counts, queues[0], 1)
    assert counted.collected() == {"ack": 6}
