"""Consumers with `x-priority`: the highest that has room gets it, those that are equal share."""

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
    BasicNack,
    BasicQos,
    BasicQosOk,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.core.queue.consumers import Consumers
from wire import Client

Connect = Callable[..., Client]
Consume = Callable[..., Client]


@pytest.fixture
def consume(connect: Connect) -> Consume:
    """Starts a consumer of "q" with this priority, on a connection of its own."""

    def consuming(priority: int | None, prefetch: int, tag: str = "c") -> Client:
        consumer = connect()
        consumer.open_channel()
        assert consumer.ask(1, BasicQos(0, prefetch, False)) == BasicQosOk()
        arguments = {} if priority is None else {"x-priority": Field("signedint", priority)}
        consumer.consume("q", tag, arguments=arguments)
        return consumer

    return consuming


def expect(consumer: Client, tag: int, body: bytes, name: str = "c") -> None:
    consumer.expect_delivery(BasicDeliver(name, tag, False, "", "q"), body)


def test_the_highest_priority_gets_all_while_it_has_room(client: Client, consume: Consume) -> None:
    client.declare("q")
    none, low, high = consume(None, 9), consume(-1, 9), consume(10, 2)
    client.publish_all("q", b"1")
    client.publish_all("q", b"2")
    client.publish_all("q", b"3")
    expect(high, 1, b"1")
    expect(high, 2, b"2")
    # No priority is 0, which is above -1.
    expect(none, 1, b"3")
    high.send_methods(1, BasicAck(1))
    high.nothing_more()
    client.publish_all("q", b"4", b"5")
    expect(high, 3, b"4")
    expect(none, 2, b"5")
    low.nothing_more()


def test_messages_of_one_read_are_divided_by_consumer_priority(
    client: Client, consume: Consume
) -> None:
    client.declare("q")
    low, high = consume(1, 0), consume(2, 3)
    client.publish_all("q", *(b"%d" % number for number in range(10)))
    for number in range(3):
        expect(high, number + 1, b"%d" % number)
    for number in range(3, 10):
        expect(low, number - 2, b"%d" % number)
    high.nothing_more()


def test_consumers_of_equal_priority_share_fairly(client: Client, consume: Consume) -> None:
    client.declare("q")
    equals = [consume(5, 10) for _ in range(3)]
    spare = consume(4, 10)
    for number in range(6):
        client.publish_all("q", b"%d" % number)
    for place, consumer in enumerate(equals):
        expect(consumer, 1, b"%d" % place)
        expect(consumer, 2, b"%d" % (place + 3))
        consumer.nothing_more()
    spare.nothing_more()


def test_a_newcomer_of_a_higher_priority_takes_over(client: Client, consume: Consume) -> None:
    client.declare("q")
    old = consume(0, 10)
    client.publish_all("q", b"1")
    expect(old, 1, b"1")
    new = consume(1, 10)
    client.publish_all("q", b"2")
    expect(new, 1, b"2")
    assert new.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    client.publish_all("q", b"3")
    expect(old, 2, b"3")


def test_requeued_messages_go_to_the_consumer_of_the_highest_priority_with_room(
    client: Client, consume: Consume
) -> None:
    client.declare("q")
    low = consume(1, 10)
    client.publish_all("q", b"1", b"2")
    expect(low, 1, b"1")
    expect(low, 2, b"2")
    high = consume(2, 1)
    low.send_methods(1, BasicNack(0, True, True))
    high.expect_delivery(BasicDeliver("c", 1, True, "", "q"), b"1")
    low.expect_delivery(BasicDeliver("c", 3, True, "", "q"), b"2")


def test_room_in_a_channel_s_global_prefetch_is_its_highest_priority_s_first(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    consumer = connect()
    consumer.open_channel()
    assert consumer.ask(1, BasicQos(0, 2, True)) == BasicQosOk()
    consumer.consume("q", "low")
    client.publish_all("q", b"1", b"2", b"3", b"4")
    expect(consumer, 1, b"1", "low")
    expect(consumer, 2, b"2", "low")
    consumer.consume("q", "high", arguments={"x-priority": Field("byte", 1)})
    consumer.nothing_more()
    consumer.send_methods(1, BasicAck(2))
    expect(consumer, 3, b"3", "high")
    consumer.send_methods(1, BasicAck(1))
    expect(consumer, 4, b"4", "high")


def test_a_new_consumer_is_served_without_asking_consumers_that_have_no_room(
    client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.declare("q")
    client.publish_all("q", *b"1 2 3 4".split())
    asked: list[Consumers] = []
    monkeypatch.setattr(Consumers, "all_changed", asked.append)
    consumers = [connect() for _ in range(3)]
    for place, consumer in enumerate(consumers):
        consumer.open_channel()
        assert consumer.ask(1, BasicQos(0, 1, place == 1)) == BasicQosOk()
        consumer.consume("q")
        expect(consumer, 1, b"%d" % (place + 1))
    consumers[1].send_methods(1, BasicAck(1))
    expect(consumers[1], 2, b"4")
    assert asked == []


def test_pika_sees_the_capability_and_its_consumers_go_by_priority(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        assert connection._impl.server_capabilities["consumer_priorities"] is True
        publisher, low, high = (connection.channel() for _ in range(3))
        publisher.queue_declare("q")
        publisher.confirm_delivery()
        got: list[tuple[str, bytes]] = []
        for channel, name, priority in ((low, "low", 0), (high, "high", 7)):
            channel.basic_qos(prefetch_count=2)

            def note(_channel: object, method: object, _properties: object, body: bytes) -> None:
                got.append((method.consumer_tag, body))  # type: ignore[attr-defined]

            channel.basic_consume("q", note, consumer_tag=name, arguments={"x-priority": priority})
        for number in range(4):
            publisher.basic_publish("", "q", b"%d" % number)
        while len(got) < 4:
            connection.process_data_events(time_limit=1)
        assert sorted(got) == [("high", b"0"), ("high", b"1"), ("low", b"2"), ("low", b"3")]
