"""The publishes and acks of a transaction: their checks, routes and numbers."""

from __future__ import annotations

import pytest
from batches import batch_of, numbered
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.methods import BasicReturn
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.core.channel.transaction import (
    BATCH_BYTES,
    PART_BYTES,
    HeldAcks,
    Outcome,
    Transaction,
    TransactionMemory,
)
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Held, Publisher
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span
from publishing import confirm_all, indexes_by_queue, methods, publisher_of
from wire import publish


@pytest.fixture
def publisher(commands) -> Publisher:
    made = publisher_of(commands, tags=True)
    made.transactional = True
    return made


def test_held_batches_are_routed_at_the_commit_and_waited_for(commands, publisher) -> None:
    held = [publisher.hold(numbered(2)), publisher.hold(numbered(3))]
    assert publisher.unconfirmed.smallest() == 0
    commands.declare_queue()
    routed = [carry_out(publisher.route_held(each)) for each in held]
    assert [indexes_by_queue(each) for each in routed] == [{"q": [0, 1]}, {"q": [0, 1, 2]}]
    for first, each in zip((1, 3), routed, strict=True):
        assert publisher.unconfirmed.smallest() == first
        confirm_all(publisher, each.batch, each)
    assert publisher.unconfirmed.smallest() == 0
    assert publisher.answers() == b""


def test_returns_of_a_commit_have_no_ack_and_no_tag(publisher) -> None:
    held = publisher.hold(batch_of(publish("nowhere", mandatory=True), publish("nowhere")))
    frames = carry_out(publisher.route_held(held)).frames
    assert methods(frames) == [BasicReturn(312, "NO_ROUTE", "", "nowhere")]
    assert b"x-delivery-tag" not in frames
    assert publisher.answers() == b""


def test_a_mistake_is_found_when_it_is_held_and_numbers_nothing(publisher) -> None:
    for wire in (publish("k", exchange="x"), publish("q", properties=Properties(user_id="other"))):
        with pytest.raises(SoftError) as caught:
            publisher.hold(batch_of(publish("q"), wire))
        assert (caught.value.class_id, caught.value.method_id) == (60, 40)
    assert publisher.unconfirmed.smallest() == 0


def test_an_exchange_that_has_gone_is_found_before_anything_is_routed(commands, publisher) -> None:
    commands.declare_exchange("x", "fanout")
    held = publisher.hold(batch_of(publish("k", exchange="x")))
    publisher.check_held(held)
    topology = commands.topology
    topology.apply(topology.prepare_delete_exchange("x"))
    with pytest.raises(SoftError, match="no exchange 'x'"):
        publisher.check_held(held)
    # Or, if it went in between, then.
    assert carry_out(publisher.route_held(held)).error is not None


def test_copies_are_looked_for_once_when_they_are_held(commands, publisher) -> None:
    commands.declare_queue()
    headers = {"BCC": Field("array", [Field("longstr", "q")])}
    held = publisher.hold(batch_of(publish("nowhere", properties=Properties(headers=headers))))
    assert b"BCC" not in held.batch.wire
    assert indexes_by_queue(carry_out(publisher.route_held(held))) == {"q": [0]}


def held_of(count: int) -> Held:
    return Held(numbered(count), {})


def test_the_limit_counts_bytes_batches_and_acknowledgements() -> None:
    held = held_of(1)
    size = BATCH_BYTES + held.batch.wire_bytes
    delivery = Delivery(Span(held.batch, range(1), 1, 0, False), "queue", None)
    limit = 2 * size + PART_BYTES
    transaction: Transaction = Transaction(TransactionMemory(limit))
    transaction.hold_publishes(held)
    transaction.hold_publishes(held)
    transaction.hold_acks(HeldAcks(Outcome.ACKED, [(delivery, 0, 1)]))
    text = f"transaction size of the connection is larger than configured max size {limit}"
    with pytest.raises(SoftError, match=text):
        transaction.hold_acks(HeldAcks(Outcome.ACKED, [(delivery, 0, 1)]))
    transaction.clear()
    assert not transaction.publishes
    assert not transaction.acks
    transaction.hold_publishes(held)
    transaction.hold_publishes(held)
    with pytest.raises(SoftError, match=text):
        transaction.hold_publishes(held)


def test_the_transactions_of_a_connection_share_one_memory() -> None:
    size = BATCH_BYTES + held_of(1).batch.wire_bytes
    memory = TransactionMemory(3 * size)
    first: Transaction = Transaction(memory)
    second: Transaction = Transaction(memory)
    for each in (first, second, first):
        each.hold_publishes(held_of(1))
    with pytest.raises(SoftError):
        second.hold_publishes(held_of(1))
    # Its channel ends; what it held, the last of it included, is free again.
    second.clear()
    assert memory.used_bytes == 2 * size
    first.hold_publishes(held_of(1))
    first.clear()
    assert memory.used_bytes == 0
