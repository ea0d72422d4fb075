"""Requeued messages return to their old places, as redelivered; acked messages do not return."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    Method,
)
from wire import Client, methods_of, publish

Connect = Callable[..., Client]


def deliver(tag: int, *, redelivered: bool = False) -> BasicDeliver:
    return BasicDeliver("c", tag, redelivered, "", "q")


@pytest.fixture
def consumer(client: Client, connect: Connect) -> Client:
    """Has got messages 1 to 5 of queue q, tags 1 to 5; none is acked yet."""
    client.declare("q")
    client.publish_all("q", *(b"%d" % number for number in range(1, 6)))
    consumer = connect()
    consumer.open_channel()
    consumer.consume("q")
    for number in range(1, 6):
        consumer.expect_delivery(deliver(number), b"%d" % number)
    return consumer


@pytest.mark.parametrize(
    ("methods", "remaining"),
    [
        ([BasicAck(1)], b"2345"),
        ([BasicAck(3)], b"1245"),
        ([BasicAck(5)], b"1234"),
        ([BasicAck(3, True)], b"45"),
        ([BasicAck(5, True)], b""),
        ([BasicAck(0, True)], b""),
        ([BasicAck(2), BasicAck(4, True)], b"5"),
        ([BasicAck(4), BasicAck(3), BasicAck(2)], b"15"),
        ([BasicAck(1), BasicAck(2), BasicAck(3)], b"45"),
        ([BasicNack(2, False, False)], b"1345"),
        ([BasicNack(3, True, False)], b"45"),
        ([BasicNack(0, True, False)], b""),
        ([BasicReject(2, False), BasicReject(5, False)], b"134"),
    ],
    ids=str,
)
def test_what_is_acked_or_rejected_for_good_is_gone_and_the_rest_comes_back_in_order(
    client: Client, consumer: Client, methods: list[Method], remaining: bytes
) -> None:
    consumer.send_methods(1, *methods)
    consumer.nothing_more()
    consumer.drop()
    client.wait_for_counts("q", (len(remaining), 0))
    for body in remaining:
        got = client.get("q", no_ack=True)
        assert got is not None
        assert (got.redelivered, got.body) == (True, bytes((body,)))


def test_acks_may_come_in_one_read_with_publishes_between(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2", b"3")
    client.consume("q")
    for number in (1, 2, 3):
        client.expect_delivery(deliver(number), b"%d" % number)
    client.send(
        methods_of(1, BasicAck(1)),
        publish("nowhere"),
        methods_of(1, BasicAck(2)),
        publish("nowhere"),
        methods_of(1, BasicAck(3)),
    )
    client.expect(1, BasicAck(5, True))
    assert client.ask(1, ChannelClose(200, "")) == ChannelCloseOk()
    client.open_channel()
    assert client.counts("q") == (0, 0)


# --- Requeue


def test_requeued_messages_come_again_at_once_in_order_as_redelivered(
    client: Client, consumer: Client
) -> None:
    consumer.send_methods(1, BasicNack(3, True, True))
    for tag, body in ((6, b"1"), (7, b"2"), (8, b"3")):
        consumer.expect_delivery(deliver(tag, redelivered=True), body)
    consumer.nothing_more()


@pytest.mark.parametrize("method", [BasicReject(2, True), BasicNack(2, False, True)], ids=str)
def test_a_requeued_message_goes_before_all_that_was_never_delivered(
    client: Client, connect: Connect, method: Method
) -> None:
    client.declare("q")
    client.publish_all("q", *b"1 2 3 4 5".split())
    consumer = connect()
    consumer.open_channel()
    assert consumer.ask(1, BasicQos(0, 3, False)) == BasicQosOk()
    consumer.consume("q")
    for number in (1, 2, 3):
        consumer.expect_delivery(deliver(number), b"%d" % number)
    consumer.send_methods(1, method)
    consumer.expect_delivery(deliver(4, redelivered=True), b"2")
    consumer.send_methods(1, BasicAck(1))
    consumer.expect_delivery(deliver(5), b"4")


def test_messages_requeued_out_of_order_are_in_order_again(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", *b"1 2 3 4 5 6".split())
    consumer = connect()
    consumer.open_channel()
    assert [consumer.get("q") for _ in range(5)][-1] == (5, False, 1, b"5")
    consumer.send_methods(1, BasicReject(4), BasicReject(2), BasicAck(3))
    assert consumer.get("q", no_ack=True) == (6, True, 2, b"2")
    assert consumer.get("q", no_ack=True) == (7, True, 1, b"4")
    consumer.send_methods(1, BasicReject(5), BasicReject(1))
    assert consumer.get("q", no_ack=True) == (8, True, 2, b"1")
    assert consumer.get("q", no_ack=True) == (9, True, 1, b"5")
    assert consumer.get("q", no_ack=True) == (10, False, 0, b"6")


def test_requeue_goes_to_another_consumer_if_that_has_room(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    first, second = connect(), connect()
    for each in (first, second):
        each.open_channel()
        assert each.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    first.consume("q")
    client.publish_all("q", b"1")
    first.expect_delivery(deliver(1), b"1")
    second.consume("q")
    first.send_methods(1, BasicReject(1, True))
    # Both have room: it goes to the one that was served longest ago.
    second.expect_delivery(deliver(1, redelivered=True), b"1")


def test_what_comes_back_to_several_queues_is_in_order_in_each(consumer: Client) -> None:
    consumer.declare("other")
    consumer.send(publish("other"))
    assert consumer.get("other") == (6, False, 0, b"body")
    consumer.send_methods(1, BasicNack(1, False, True))
    consumer.expect_delivery(deliver(7, redelivered=True), b"1")
    # Tags 2 to 5, the other queue's 6, and 7: the first message is the last of them.
    consumer.send_methods(1, BasicNack(7, True, True))
    for tag, body in enumerate(b"12345", 8):
        consumer.expect_delivery(deliver(tag, redelivered=True), bytes((body,)))


# --- Recover


@pytest.mark.parametrize("is_async", [False, True])
def test_recover_gives_back_everything_unacked_of_the_channel(
    client: Client, consumer: Client, is_async: bool
) -> None:
    consumer.send_methods(1, BasicAck(2))
    if is_async:
        consumer.send_methods(1, BasicRecoverAsync(True))
    else:
        assert consumer.ask(1, BasicRecover(True)) == BasicRecoverOk()
    for tag, body in ((6, b"1"), (7, b"3"), (8, b"4"), (9, b"5")):
        consumer.expect_delivery(deliver(tag, redelivered=True), body)
    consumer.nothing_more()


# --- The channel or the connection goes


@pytest.mark.parametrize("how", ["channel close", "channel error", "connection close", "loss"])
def test_a_channel_that_ends_gives_back_what_it_has_not_acked(
    client: Client, consumer: Client, how: str
) -> None:
    consumer.send_methods(1, BasicAck(1), BasicAck(4))
    if how == "channel close":
        assert consumer.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    elif how == "channel error":
        consumer.send_methods(1, BasicAck(1))
        assert consumer.expect_type(1, ChannelClose).reply_code == 406
    elif how == "connection close":
        consumer.close()
    else:
        consumer.nothing_more()
        consumer.drop()
    client.wait_for_counts("q", (3, 0))
    assert [client.get("q", no_ack=True) for _ in range(4)] == [
        (1, True, 2, b"2"),
        (2, True, 1, b"3"),
        (3, True, 0, b"5"),
        None,
    ]


def test_redelivered_stays_with_a_message_however_often_it_comes_back(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    for redelivered in (False, True, True):
        consumer = connect()
        consumer.open_channel()
        assert consumer.get("q") == (1, redelivered, 1, b"1")
        consumer.drop()
        client.wait_for_counts("q", (2, 0))
    assert client.get("q") == (1, True, 1, b"1")
    assert client.get("q") == (2, False, 0, b"2")


def test_channels_of_a_connection_hold_their_messages_apart(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    client.open_channel(2)
    assert client.get("q", channel=1) == (1, False, 1, b"1")
    assert client.get("q", channel=2) == (1, False, 0, b"2")
    assert client.ask(2, ChannelClose(200, "bye")) == ChannelCloseOk()
    assert client.counts("q") == (1, 0)
    client.send_methods(1, BasicAck(1))
    assert client.get("q") == (2, True, 0, b"2")
