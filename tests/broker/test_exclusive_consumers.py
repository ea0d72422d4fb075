"""Exclusive consumers, and what consumers are told when their queue goes: frame by frame."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pika
import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.amqp_frames.values.field_table import Field
from wire import Client, publish

Connect = Callable[..., Client]
IN_USE = ChannelClose(403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", 60, 20)


def opened(connect: Connect, *capabilities: str) -> Client:
    client = connect(capabilities=capabilities)
    client.open_channel()
    return client


def with_cancel_capability(connect: Connect) -> Client:
    return opened(connect, "consumer_cancel_notify")


def refused(client: Client, *, exclusive: bool = False) -> None:
    """A consumer more is not let in; its channel is closed and opened again."""
    consume = BasicConsume(queue="q", consumer_tag="more", exclusive=exclusive)
    client.send_methods(1, consume)
    client.expect(1, IN_USE)
    client.send_methods(1, ChannelCloseOk())
    client.open_channel()


# --- Exclusive consumers


@pytest.mark.parametrize("ending", ["cancel", "channel", "connection", "socket"])
def test_an_exclusive_consumer_keeps_others_out_until_it_ends(
    client: Client, connect: Connect, ending: str
) -> None:
    client.declare("q")
    alone, other = opened(connect), opened(connect)
    alone.consume("q", exclusive=True)
    refused(other)
    refused(other, exclusive=True)
    # Its own channel has no more right to another than others.
    alone.open_channel(2)
    alone.send_methods(2, BasicConsume(queue="q", consumer_tag="c"))
    alone.expect(2, IN_USE)
    alone.send_methods(2, ChannelCloseOk())
    client.publish_all("q", b"1")
    alone.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"1")
    assert client.counts("q") == (0, 1)
    if ending == "cancel":
        assert alone.ask(1, BasicCancel("c")) == BasicCancelOk("c")
        alone.send_methods(1, BasicAck(1))
        alone.nothing_more()
    elif ending == "channel":
        assert alone.ask(1, ChannelClose(200, "")) == ChannelCloseOk()
    elif ending == "connection":
        assert alone.ask(0, ConnectionClose(200, "")) == ConnectionCloseOk()
    else:
        alone.drop()
    client.wait_for_counts("q", (0 if ending == "cancel" else 1, 0))
    other.consume("q", exclusive=True)
    if ending != "cancel":
        other.expect_delivery(BasicDeliver("c", 1, True, "", "q"), b"1")
    other.nothing_more()


def test_a_refused_consumer_leaves_its_tag_free_and_the_queue_as_it_was(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    first, other = opened(connect), opened(connect)
    first.consume("q")
    refused(other, exclusive=True)
    assert client.counts("q") == (0, 1)
    other.consume("q", "more")
    assert client.counts("q") == (0, 2)
    client.publish_all("q", b"1", b"2")
    first.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"1")
    other.expect_delivery(BasicDeliver("more", 1, False, "", "q"), b"2")


def test_get_is_not_kept_out_by_an_exclusive_consumer(client: Client, connect: Connect) -> None:
    client.declare("q")
    alone = opened(connect)
    client.publish_all("q", b"1")
    assert client.get("q") == (1, False, 0, b"1")
    alone.consume("q", exclusive=True, arguments={"x-priority": Field("short", 3)})
    assert client.get("q") is None


def test_the_first_of_two_exclusive_consumers_in_one_read_is_added(client: Client) -> None:
    client.declare("q")
    one, two = (BasicConsume(queue="q", consumer_tag=tag, exclusive=True) for tag in "cd")
    client.send_methods(1, one, two)
    client.expect(1, BasicConsumeOk("c"), IN_USE)


# --- What the server cancels


def test_a_delivery_stands_before_the_cancel_and_nothing_follows_it(
    client: Client, connect: Connect
) -> None:
    consumer = with_cancel_capability(connect)
    consumer.declare("q")
    consumer.consume("q", "a")
    client.publish_all("q", b"1")
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    consumer.expect_delivery(BasicDeliver("a", 1, False, "", "q"), b"1")
    consumer.expect(1, BasicCancel("a", True))
    client.declare("q")
    client.publish_all("q", b"2")
    consumer.send_methods(1, BasicAck(1))
    consumer.nothing_more()
    # It is a new queue, which this consumer never was at.
    assert client.counts("q") == (1, 0)


def test_each_channel_is_told_of_its_own_consumers(connect: Connect) -> None:
    consumer = with_cancel_capability(connect)
    consumer.open_channel(2)
    consumer.declare("q")
    consumer.declare("r")
    consumer.consume("q", "c")
    consumer.consume("q", "c", channel=2)
    consumer.consume("r", "d", channel=2)
    other = opened(connect)
    assert other.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    told = {consumer.read_any_method() for _ in range(2)}
    assert told == {(1, BasicCancel("c", True)), (2, BasicCancel("c", True))}
    consumer.nothing_more(2)
    consumer.send(publish("r", b"still there"))
    consumer.expect_delivery(BasicDeliver("d", 1, False, "", "r"), b"still there", 2)


def test_a_consumer_that_deletes_its_own_queue_gets_delete_ok_and_basic_cancel(
    connect: Connect,
) -> None:
    consumer = with_cancel_capability(connect)
    consumer.declare("q")
    consumer.consume("q")
    assert consumer.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    consumer.expect(1, BasicCancel("c", True))
    consumer.nothing_more()


@pytest.mark.parametrize("if_unused", [False, True])
def test_a_delete_that_is_refused_cancels_nobody(connect: Connect, if_unused: bool) -> None:
    consumer, other = with_cancel_capability(connect), opened(connect)
    consumer.declare("q")
    consumer.consume("q", no_ack=True)
    if if_unused:
        other.send_methods(1, QueueDelete(queue="q", if_unused=True))
        text = "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
        other.expect(1, ChannelClose(406, text, 50, 40))
    else:
        assert other.ask(1, QueueDelete(queue="p", if_empty=True)) == QueueDeleteOk(0)
    consumer.send(publish("q", b"1"))
    consumer.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"1")


def test_an_exclusive_queue_that_goes_with_its_connection_cancels_nobody_else(
    connect: Connect,
) -> None:
    owner, other = with_cancel_capability(connect), with_cancel_capability(connect)
    owner.declare("mine", exclusive=True)
    owner.consume("mine")
    other.declare("q")
    other.consume("q")
    owner.drop()
    other.wait_for_counts("q", (0, 1))
    other.nothing_more()


def test_an_auto_delete_queue_that_goes_with_its_last_consumer_sends_no_cancel(
    connect: Connect,
) -> None:
    consumer = with_cancel_capability(connect)
    consumer.declare("q", auto_delete=True)
    consumer.consume("q", "a")
    consumer.consume("q", "b")
    assert consumer.ask(1, BasicCancel("a")) == BasicCancelOk("a")
    assert consumer.counts("q") == (0, 1)
    assert consumer.ask(1, BasicCancel("b")) == BasicCancelOk("b")
    consumer.nothing_more()


def test_pika_hears_that_its_consumer_was_cancelled(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel, other = connection.channel(), connection.channel()
        cancelled: list[str] = []
        channel.queue_declare("q")
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        channel.basic_consume("q", lambda *_: None, consumer_tag="c", exclusive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            other.basic_consume("q", lambda *_: None)
        assert (closed.value.reply_code, closed.value.reply_text) == (403, IN_USE.reply_text)
        connection.channel().queue_delete("q")
        while not cancelled:
            connection.process_data_events(time_limit=1)
        assert cancelled == ["c"]
        assert channel.consumer_tags == []


# --- A maximum of consumers


@pytest.mark.parametrize("is_single", [False, True])
def test_more_consumers_than_the_queue_may_have_are_refused_until_one_goes(
    client: Client, connect: Connect, is_single: bool
) -> None:
    arguments = {
        "x-max-consumers": Field("signedint", 2),
        "x-single-active-consumer": Field("bool", is_single),
    }
    client.declare("q", arguments=arguments)
    client.consume("q", "first")
    client.consume("q", "second")
    other = opened(connect)
    other.send_methods(1, BasicConsume(queue="q", consumer_tag="third"))
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in use by its maximum of 2 consumers"
    other.expect(1, ChannelClose(403, text, 60, 20))
    other.send_methods(1, ChannelCloseOk())
    other.open_channel()
    assert client.ask(1, BasicCancel("first")) == BasicCancelOk("first")
    other.consume("q", "third")
    assert client.counts("q") == (0, 2)
