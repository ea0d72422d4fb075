"""Which messages of a batch the journal must write."""

from __future__ import annotations

import pytest
from batches import batch_of
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.properties import Properties
from leveret.core.exchanges.table import carry_out
from wire import PERSISTENT, TRANSIENT, publish


def persistent_at(*indexes: int, count: int = 6, keys: str = "qqqqqq") -> Batch:
    return batch_of(
        *(
            publish(keys[index], properties=PERSISTENT if index in indexes else TRANSIENT)
            for index in range(count)
        )
    )


def test_all_persistent_to_a_durable_queue_is_said_by_none(commands, publisher) -> None:
    commands.declare_queue(durable=True)
    batch = persistent_at(*range(6))
    carry_out(publisher.route(batch))
    assert batch.durable is None


@pytest.mark.parametrize(
    ("keys", "persistent", "durable"),
    [
        ("qqqqqq", (), []),
        ("qqqqqq", (1, 4), [1, 4]),
        ("tttttt", range(6), []),
        ("qtqtqt", range(6), [0, 2, 4]),
        ("qtqtqt", (0, 1, 2, 3), [0, 2]),
        ("qrqrqr", range(6), None),
        ("qrqrqt", range(6), [0, 1, 2, 3, 4]),
        ("qrtntn", range(6), [0, 1]),
        ("nnnnnn", range(6), []),
    ],
)
def test_durable_are_the_persistent_ones_that_reach_a_durable_queue(
    commands, publisher, keys: str, persistent: range, durable: list[int] | None
) -> None:
    commands.declare_queue("q", durable=True)
    commands.declare_queue("r", durable=True)
    commands.declare_queue("t", durable=False)
    batch = persistent_at(*persistent, keys=keys)
    carry_out(publisher.route(batch))
    assert (None if batch.durable is None else list(batch.durable)) == durable


def test_one_durable_queue_of_several_is_enough(commands, publisher) -> None:
    commands.declare_exchange("x", "fanout")
    for name, is_durable in (("q", True), ("t", False), ("u", False)):
        commands.declare_queue(name, durable=is_durable)
        commands.bind(name, "x")
    batch = batch_of(*[publish("k", properties=PERSISTENT, exchange="x")] * 3)
    carry_out(publisher.route(batch))
    assert batch.durable is None


def test_answers_behind_an_error_are_not_written(commands, publisher) -> None:
    commands.declare_queue(durable=True)
    good = publish("q", properties=PERSISTENT)
    batch = batch_of(good, good, publish("k", exchange="missing"), good)
    carry_out(publisher.route(batch))
    assert batch.durable is not None
    assert list(batch.durable) == [0, 1]


@pytest.mark.parametrize("name", ["q", "t"])
@pytest.mark.parametrize("persistent", [(), (0,), range(3)])
@pytest.mark.parametrize("confirms", [False, True])
def test_a_batch_for_one_queue_is_routed_in_short_as_in_full(
    commands, publisher, name: str, persistent: range, confirms: bool
) -> None:
    for queue, is_durable in (("q", True), ("t", False)):
        commands.declare_queue(queue, durable=is_durable)
    publisher.confirm_mode = confirms
    first, second = (persistent_at(*persistent, count=3, keys=name * 3) for _ in range(2))
    # Its route is not kept yet.
    assert publisher.route_to_one(first) is None
    routed = carry_out(publisher.route(first))
    queue, indexes = publisher.route_to_one(second)
    assert {queue: indexes} == routed.by_queue
    assert second.number == first.number + 1
    assert second.durable == first.durable
    # The next number is the one behind theirs.
    for batch in (first, second):
        publisher.unconfirmed.confirm(queue, batch, routed.by_queue[queue])
    assert publisher.unconfirmed.released_bytes == first.wire_bytes + second.wire_bytes
    assert publisher.unconfirmed.confirmed == ([(1, 3), (4, 6)] if confirms else [])


def test_only_a_plain_batch_for_one_queue_is_routed_in_short(commands, publisher) -> None:
    commands.declare_exchange("x", "fanout")
    for name in "qr":
        commands.declare_queue(name)
        commands.bind(name, "x")
    expiring = Properties(delivery_mode=2, expiration="1000")
    for wires in (
        # Two queues; two keys; none; and a property that publishing depends on.
        [publish("k", exchange="x")],
        [publish("q"), publish("r")],
        [publish("nobody")],
        [publish("q", properties=expiring)],
    ):
        carry_out(publisher.route(batch_of(*wires)))
        batch = batch_of(*wires)
        assert publisher.route_to_one(batch) is None
        assert batch.number == 0
    assert publisher.route_to_one(batch_of(publish("q"))) is not None
    # A change of the topology may have changed the route.
    commands.declare_queue("s")
    commands.bind("s", "x")
    assert publisher.route_to_one(batch_of(publish("q"))) is None
