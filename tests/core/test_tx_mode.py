"""The conduct of a transaction: a commit routes, waits and returns, and a rollback undoes."""

from __future__ import annotations

import pytest
from batches import batch_of, numbered
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.methods import TxCommitOk, TxRollbackOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.channel.delivery_commands import DeliveryCommands
from leveret.core.channel.outstanding import Outstanding
from leveret.core.channel.transaction import BATCH_BYTES, HeldAcks, Outcome, TransactionMemory
from leveret.core.channel.tx_mode import TxMode
from leveret.core.channel.waiting import State, Waiting
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.publish_window import NodeWindow, PublishWindow, WindowShare
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Routed
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span
from publishing import confirm_all, indexes_by_queue, publisher_of
from wire import publish


class Bench:
    """A channel in tx mode, driven as its actor does it."""

    def __init__(self, commands, memory_bytes: int = 1_000_000) -> None:
        self.publisher = publisher_of(commands)
        self.outstanding = Outstanding(1, ChannelCredit())
        self.waiting = Waiting()
        self.window = PublishWindow(1_000_000, NodeWindow(1_000_000), None)
        self.memory = TransactionMemory(memory_bytes)
        share = WindowShare(self.window)
        self.tx_mode = TxMode(self.publisher, self.outstanding, self.waiting, share, self.memory)

    def deliver(self, count: int, queue: str = "q") -> Delivery:
        delivery = Delivery(Span(numbered(count), range(count), 1, 0, False), queue, None)
        self.outstanding.hold(delivery)
        return delivery

    def commit(self) -> list[Routed]:
        """Begin a commit and route all of it."""
        self.tx_mode.commit()
        routed = []
        while (held := self.tx_mode.next_publishes()) is not None:
            routed.append(carry_out(self.publisher.route_held(held)))
            self.tx_mode.routed(routed[-1])
        return routed


@pytest.fixture
def bench(commands) -> Bench:
    commands.declare_queue()
    return Bench(commands)


def test_a_commit_ends_when_every_queue_has_confirmed(bench: Bench) -> None:
    bench.tx_mode.publish(numbered(2))
    bench.tx_mode.publish(numbered(3))
    assert bench.window.used_bytes == 0
    assert not bench.tx_mode.is_told()
    routed = bench.commit()
    assert bench.tx_mode.is_told()
    assert [indexes_by_queue(each) for each in routed] == [{"q": [0, 1]}, {"q": [0, 1, 2]}]
    assert bench.window.used_bytes == sum(each.batch.wire_bytes for each in routed)
    for each in routed:
        assert bench.tx_mode.finish() is None
        assert bench.waiting.state is State.COMMIT
        confirm_all(bench.publisher, each.batch, each)
    end = bench.tx_mode.finish()
    assert end is not None
    assert (end.event, end.publish_count, end.answer, end.error) == (
        "transaction.committed",
        5,
        TxCommitOk(),
        None,
    )
    assert (bench.waiting.state, bench.memory.used_bytes) == (State.FREE, 0)
    # Nothing is left to be answered by other means, nor by the next commit.
    assert bench.publisher.answers() == b""
    assert bench.tx_mode.finish() is None


def test_commands_about_deliveries_are_no_publishes_of_a_transaction(bench: Bench) -> None:
    bench.publisher.delivery_holder = commands = DeliveryCommands(bench.outstanding)
    delivery = bench.deliver(2)
    headers = table_of({"delivery-tag": 2})
    touch = publish("touch", b"", Properties(headers=headers), exchange="amq.leveret.delivery")
    bench.tx_mode.publish(batch_of(touch * 2))
    assert (bench.tx_mode.is_told(), bench.memory.used_bytes) == (True, 0)
    bench.tx_mode.publish(batch_of(touch, publish("q")))
    assert commands.drain().touched == [(delivery, 1, 2), (delivery, 1, 2), (delivery, 1, 2)]
    [routed] = bench.commit()
    assert indexes_by_queue(routed) == {"q": [1]}
    confirm_all(bench.publisher, routed.batch, routed)
    assert bench.tx_mode.finish() is not None


def test_a_commit_of_nothing_ends_at_once(bench: Bench) -> None:
    assert bench.commit() == []
    end = bench.tx_mode.finish()
    assert end is not None
    assert (end.publish_count, end.returned, end.answer) == (0, [], TxCommitOk())


def test_acks_return_to_their_queues_with_the_commit_and_in_order(bench: Bench) -> None:
    one, other = bench.deliver(2), bench.deliver(1, "r")
    bench.outstanding.settle(3, False, Outcome.RETURNED)
    bench.outstanding.settle(1, False, Outcome.ACKED)
    bench.tx_mode.publish(numbered(1))
    [routed] = bench.commit()
    assert bench.tx_mode.finish() is None
    confirm_all(bench.publisher, routed.batch, routed)
    end = bench.tx_mode.finish()
    assert end is not None
    assert [(outcome, returned.by_queue) for outcome, returned in end.returned] == [
        (Outcome.RETURNED, {"r": [(other, 0, 1)]}),
        (Outcome.ACKED, {"q": [(one, 0, 1)]}),
    ]
    assert end.acks == [
        HeldAcks(Outcome.RETURNED, [(other, 0, 1)]),
        HeldAcks(Outcome.ACKED, [(one, 0, 1)]),
    ]
    assert len(bench.outstanding) == 1


def test_a_commit_that_a_queue_has_refused_settles_nothing(bench: Bench) -> None:
    bench.deliver(1)
    bench.outstanding.settle(1, False, Outcome.ACKED)
    bench.tx_mode.publish(numbered(2))
    [routed] = bench.commit()
    for queue, indexes in routed.by_queue.items():
        bench.publisher.unconfirmed.reject(queue, routed.batch, indexes)
    bench.tx_mode.why_refused = "no space left on the disk"
    end = bench.tx_mode.finish()
    assert end is not None
    assert (end.event, end.returned, end.answer) == ("transaction.failed", [], None)
    assert end.reason == "partial tx completion, no space left on the disk"
    assert end.error is not None
    assert (end.error.reply_code, end.error.class_id, end.error.method_id) == (406, 90, 20)


def test_an_exchange_that_goes_while_a_commit_is_routed_makes_it_fail(commands) -> None:
    commands.declare_exchange("x", "fanout")
    bench = Bench(commands)
    bench.tx_mode.publish(batch_of(publish("k", exchange="x")))
    bench.tx_mode.commit()
    topology = commands.topology
    topology.apply(topology.prepare_delete_exchange("x"))
    held = bench.tx_mode.next_publishes()
    assert held is not None
    bench.tx_mode.routed(carry_out(bench.publisher.route_held(held)))
    end = bench.tx_mode.finish()
    assert end is not None
    assert end.reason == "partial tx completion"


def test_a_commit_without_a_route_is_none(commands) -> None:
    commands.declare_exchange("x", "fanout")
    bench = Bench(commands)
    bench.tx_mode.publish(batch_of(publish("k", exchange="x")))
    topology = commands.topology
    topology.apply(topology.prepare_delete_exchange("x"))
    with pytest.raises(SoftError, match="no exchange 'x'"):
        bench.tx_mode.commit()
    assert bench.waiting.state is State.FREE


def test_a_rollback_forgets_publishes_and_holds_acked_messages_again(bench: Bench) -> None:
    delivery = bench.deliver(2)
    bench.outstanding.settle(2, True, Outcome.ACKED)
    bench.tx_mode.publish(numbered(4))
    end = bench.tx_mode.rollback()
    assert (end.event, end.publish_count, end.answer) == (
        "transaction.rolled_back",
        4,
        TxRollbackOk(),
    )
    assert (end.acks, end.returned) == ([HeldAcks(Outcome.ACKED, [(delivery, 0, 2)])], [])
    assert (len(bench.outstanding), bench.memory.used_bytes) == (2, 0)
    assert bench.commit() == []


def test_a_transaction_that_is_too_large_is_the_fault_of_the_publish(commands) -> None:
    commands.declare_queue()
    bench = Bench(commands, memory_bytes=BATCH_BYTES)
    with pytest.raises(SoftError, match="larger than configured max size") as why:
        bench.tx_mode.publish(numbered(1))
    assert (why.value.class_id, why.value.method_id) == (60, 40)
    bench.tx_mode.release()
    assert bench.memory.used_bytes == 0


def test_few_publishes_of_a_large_read_are_held_without_it(bench: Bench) -> None:
    batch = numbered(1)
    batch.wire += bytes(10 * BATCH_BYTES)
    bench.tx_mode.publish(batch)
    [routed] = bench.commit()
    assert len(routed.batch.wire) == batch.wire_bytes
