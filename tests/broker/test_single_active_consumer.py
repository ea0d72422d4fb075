"""Queues with `x-single-active-consumer`: one consumer receives, the others stand by."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pika
import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.amqp_frames.values.field_table import Field
from wire import PERSISTENT, Client

Connect = Callable[..., Client]
SINGLE = {"x-single-active-consumer": Field("bool", True)}


@pytest.fixture
def consume(connect: Connect) -> Connect:
    """Starts a consumer of "q" on a connection of its own."""

    def consuming(priority: int = 0, prefetch: int = 0) -> Client:
        consumer = connect()
        consumer.open_channel()
        assert consumer.ask(1, BasicQos(0, prefetch, False)) == BasicQosOk()
        consumer.consume("q", arguments={"x-priority": Field("signedint", priority)})
        return consumer

    return consuming


def expect(consumer: Client, tag: int, body: bytes, *, redelivered: bool = False) -> None:
    consumer.expect_delivery(BasicDeliver("c", tag, redelivered, "", "q"), body)


def test_only_the_first_receives_though_others_have_room(client: Client, consume: Connect) -> None:
    client.declare("q", arguments=SINGLE)
    first, second, higher = consume(prefetch=2), consume(), consume(priority=9)
    client.publish_all("q", b"1", b"2", b"3")
    expect(first, 1, b"1")
    expect(first, 2, b"2")
    assert client.counts("q") == (1, 3)
    first.send_methods(1, BasicAck(1))
    expect(first, 3, b"3")
    for waiting in (second, higher):
        waiting.nothing_more()


def test_after_a_cancel_the_next_receives_and_what_the_old_one_holds_stays_with_it(
    client: Client, consume: Connect
) -> None:
    client.declare("q", arguments=SINGLE)
    first, second, third = consume(prefetch=1), consume(), consume()
    client.publish_all("q", b"1", b"2")
    expect(first, 1, b"1")
    assert first.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    # What waited goes over at once.
    expect(second, 1, b"2")
    assert client.counts("q") == (0, 2)
    # It is the channel's until it ends; then it comes back, redelivered, to who is active now.
    assert first.ask(1, ChannelClose(200, "")) == ChannelCloseOk()
    expect(second, 2, b"1", redelivered=True)
    third.nothing_more()


def test_deliveries_of_a_dead_connection_go_to_the_next_consumer(
    client: Client, consume: Connect
) -> None:
    client.declare("q", durable=True, arguments=SINGLE)
    first, second, highest = consume(), consume(1), consume(2)
    client.publish_all("q", b"1", b"2", b"3", properties=PERSISTENT)
    for number in (1, 2, 3):
        expect(first, number, b"%d" % number)
    first.send_methods(1, BasicAck(2))
    first.nothing_more()
    first.drop()
    expect(highest, 1, b"1", redelivered=True)
    expect(highest, 2, b"3", redelivered=True)
    second.nothing_more()
    # One that waits may go without a hand-over.
    second.drop()
    client.wait_for_counts("q", (0, 1))
    client.publish_all("q", b"4")
    expect(highest, 3, b"4")


def test_cancel_ok_stands_before_what_another_consumer_of_the_channel_gets(
    client: Client, connect: Connect
) -> None:
    client.declare("q", arguments=SINGLE)
    consumer = connect()
    consumer.open_channel()
    assert consumer.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    consumer.consume("q", "a")
    consumer.consume("q", "b")
    client.publish_all("q", b"1", b"2", b"3")
    consumer.expect_delivery(BasicDeliver("a", 1, False, "", "q"), b"1")
    assert consumer.ask(1, BasicCancel("a")) == BasicCancelOk("a")
    consumer.expect_delivery(BasicDeliver("b", 2, False, "", "q"), b"2")
    # The old one's message is no credit of the new one's.
    consumer.send_methods(1, BasicAck(1))
    consumer.nothing_more()
    consumer.send_methods(1, BasicAck(2))
    consumer.expect_delivery(BasicDeliver("b", 3, False, "", "q"), b"3")


def test_a_consumer_that_waited_can_be_cancelled_and_come_again_behind_the_others(
    client: Client, consume: Connect
) -> None:
    client.declare("q", arguments=SINGLE)
    first, second, third = consume(), consume(), consume()
    assert second.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    second.consume("q")
    assert first.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    client.publish_all("q", b"1")
    expect(third, 1, b"1")
    second.nothing_more()


def test_get_and_delete_do_not_ask_who_is_active(client: Client, connect: Connect) -> None:
    client.declare("q", arguments=SINGLE)
    consumer = connect(capabilities=("consumer_cancel_notify",))
    consumer.open_channel()
    assert consumer.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    consumer.consume("q", "a")
    consumer.consume("q", "b")
    client.publish_all("q", b"1", b"2")
    consumer.expect_delivery(BasicDeliver("a", 1, False, "", "q"), b"1")
    assert client.get("q") == (1, False, 0, b"2")
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    consumer.expect(1, BasicCancel("a", True), BasicCancel("b", True))


def test_a_queue_declared_with_it_is_another_without_it(client: Client) -> None:
    client.declare("q", arguments=SINGLE)
    client.open_channel(2)
    client.declare("q", arguments=SINGLE, channel=2)
    with pytest.raises(AssertionError, match="inequivalent arg 'x-single-active-consumer'"):
        client.declare("q", channel=2)


def test_pika_consumers_take_over_one_by_one(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        publisher = connection.channel()
        publisher.queue_declare("q", arguments={"x-single-active-consumer": True})
        publisher.confirm_delivery()
        got: list[tuple[str, bytes]] = []

        def take(channel: object, method: object, _properties: object, body: bytes) -> None:
            got.append((method.consumer_tag, body))  # type: ignore[attr-defined]
            channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

        channels = {name: connection.channel() for name in ("a", "b", "c")}
        for name, channel in channels.items():
            channel.basic_consume("q", take, consumer_tag=name)
        for number, name in enumerate(channels):
            publisher.basic_publish("", "q", b"%d" % number)
            while len(got) == number:
                connection.process_data_events(time_limit=1)
            channels[name].close()
        assert got == [("a", b"0"), ("b", b"1"), ("c", b"2")]
