"""Acknowledgements in a transaction: held until the commit, undone by a rollback."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import fail, in_flight_count, queue_actor, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
)
from transactions import COMMIT, bodies, commit, transactional
from wire import PERSISTENT, Client, publish


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return transactional(connect)


@pytest.fixture
def consumer(client: Client, connect: Callable[..., Client]) -> Client:
    """A client in tx mode that has got messages 1 to 4 of queue q and acked none."""
    other = connect()
    other.open_channel(1, confirms=True)
    other.declare("q")
    other.publish_all("q", b"1", b"2", b"3", b"4")
    client.consume("q")
    for number in range(1, 5):
        client.expect_delivery(BasicDeliver("c", number, False, "", "q"), b"%d" % number)
    return client


def test_acks_are_held_until_the_commit(consumer: Client) -> None:
    consumer.send_methods(1, BasicAck(1), BasicAck(3), BasicReject(2, False))
    consumer.nothing_more()
    assert consumer.ask(1, TxRollback()) == TxRollbackOk()
    # All are unacknowledged again, with their old tags.
    consumer.send_methods(1, BasicAck(3, True))
    commit(consumer)
    assert consumer.ask(1, BasicRecover(True)) == BasicRecoverOk()
    consumer.expect_delivery(BasicDeliver("c", 5, True, "", "q"), b"4")


def test_messages_acked_in_an_open_transaction_return_when_its_channel_closes(
    consumer: Client,
) -> None:
    consumer.send_methods(1, BasicAck(4, True))
    assert consumer.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    consumer.wait_for_counts("q", (4, 0), 2)
    assert bodies(consumer) == [b"1", b"2", b"3", b"4"]


def test_requeued_messages_come_back_at_the_commit_behind_its_publishes(consumer: Client) -> None:
    consumer.send_methods(1, BasicNack(2, False, True), BasicNack(4, False, False))
    consumer.send(publish("q", b"5"))
    consumer.nothing_more()
    consumer.send(COMMIT)
    frames = {
        b"2": BasicDeliver("c", 6, True, "", "q"),
        b"5": BasicDeliver("c", 5, False, "", "q"),
    }
    # The answer comes from the channel, the deliveries from the queue.
    kinds = []
    for _ in range(3):
        method = consumer.read_method(1)
        kinds.append(type(method))
        if isinstance(method, BasicDeliver):
            assert frames.pop(consumer.read_content(1).body) == method
    assert kinds.count(TxCommitOk) == 1
    assert not frames


def test_a_tag_acked_in_the_transaction_is_unknown_until_it_is_rolled_back(
    consumer: Client,
) -> None:
    consumer.send_methods(1, BasicAck(1), TxRollback(), BasicAck(1), BasicAck(1))
    consumer.expect(1, TxRollbackOk())
    text = "PRECONDITION_FAILED - unknown delivery tag 1"
    consumer.expect(1, ChannelClose(406, text, 60, 80))


def test_held_acks_give_no_credit_until_the_commit(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", b"1"), publish("q", b"2"), COMMIT)
    client.expect(1, TxCommitOk())
    assert client.ask(1, BasicQos(0, 1)) == BasicQosOk()
    client.consume("q")
    client.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"1")
    client.send_methods(1, BasicAck(1))
    client.nothing_more()
    client.send(COMMIT)
    methods = {type(method) for method in (client.read_method(1),)}
    if methods == {TxCommitOk}:
        client.expect_delivery(BasicDeliver("c", 2, False, "", "q"), b"2")
    else:
        assert client.read_content(1).body == b"2"
        client.expect(1, TxCommitOk())


def test_recover_waits_for_no_commit_and_leaves_what_was_acked(consumer: Client) -> None:
    consumer.send_methods(1, BasicAck(1), BasicAck(2))
    assert consumer.ask(1, BasicRecover(True)) == BasicRecoverOk()
    consumer.expect_delivery(BasicDeliver("c", 5, True, "", "q"), b"3")
    consumer.expect_delivery(BasicDeliver("c", 6, True, "", "q"), b"4")
    commit(consumer)


def test_acks_wait_for_the_sync_of_what_was_published_with_them(
    consumer: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    consumer.declare("durable", channel=2, durable=True)
    files.hold()
    consumer.send_methods(1, BasicAck(2, True))
    consumer.send(publish("durable", b"x", PERSISTENT), COMMIT)
    files.wait_until_syncing()
    consumer.nothing_more(2)
    assert in_flight_count(broker, "q") == 4
    consumer.send_methods(1, ChannelClose(200, "bye"))
    files.release()
    consumer.expect(1, TxCommitOk(), ChannelCloseOk())
    consumer.wait_for_counts("q", (2, 0), 2)
    assert bodies(consumer) == [b"3", b"4"]


def test_nothing_is_settled_by_a_commit_that_fails(
    consumer: Client, broker: leveret.Broker
) -> None:
    consumer.declare("bad", channel=2)
    queue = queue_actor(broker, "bad")
    fail(queue)
    wait_until(lambda: not queue.is_alive())
    consumer.send_methods(1, BasicAck(4, True))
    consumer.send(publish("bad"), COMMIT)
    text = "PRECONDITION_FAILED - partial tx completion"
    consumer.expect(1, ChannelClose(406, text, 90, 20))
    consumer.wait_for_counts("q", (4, 0), 2)
