"""A live broker counts its messages as RabbitMQ 3.10 does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import leveret
from insides import context_of, on_loop, queue_definition
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
)
from wire import Client, publish

Connect = Callable[..., Client]


def collected(broker: leveret.Broker) -> dict[str, Any]:
    counts = context_of(broker).counts
    on_loop(broker, counts.collect)
    return counts.totals


def test_messages_count_as_in_rabbitmq(broker: leveret.Broker, connect: Connect) -> None:
    # Measured on RabbitMQ 3.10.8: the same commands, and the same numbers.
    client = connect()
    client.open_channel(1, confirms=True)
    client.open_channel(2)
    client.send_methods(1, ExchangeDeclare(exchange="x", type="fanout"))
    client.expect(1, ExchangeDeclareOk())
    for name in ("a", "b"):
        client.declare(name)
        client.send_methods(1, QueueBind(queue=name, exchange="x"))
        client.expect(1, QueueBindOk())
    client.declare("a")
    client.declare("a", passive=True)
    client.declare("gone")
    assert client.ask(1, QueueDelete(queue="gone")) == QueueDeleteOk(0)
    client.send(*[publish("a")] * 10)
    client.expect_acks(range(1, 11))
    client.send(*[publish("k", exchange="x")] * 5)
    client.expect_acks(range(11, 16))
    client.send(publish("nowhere", channel=2), publish("nowhere", channel=2, mandatory=True))
    client.expect_type(2, BasicReturn)
    client.read_content(2)
    assert client.ask(2, BasicQos(prefetch_count=4)) == BasicQosOk()
    client.consume("a", channel=2)
    for _ in range(4):
        client.expect_type(2, BasicDeliver)
        client.read_content(2)
    client.send_methods(2, *(BasicAck(tag) for tag in (1, 2, 3)))
    for _ in range(3):
        client.expect_type(2, BasicDeliver)
        client.read_content(2)
    assert client.get("b") is not None
    client.send_methods(1, BasicNack(1))
    assert client.get("b") is not None
    assert client.get("b", no_ack=True) is not None
    client.declare("empty")
    assert client.ask(1, BasicGet(queue="empty")) == BasicGetEmpty()
    assert collected(broker) == {
        "ack": 3,
        "confirm": 15,
        "deliver": 7,
        "deliver_get": 10,
        "drop_unroutable": 1,
        "get": 2,
        "get_empty": 1,
        "get_no_ack": 1,
        "publish": 17,
        "publish_numbered": 15,
        "redeliver": 1,
        "return_unroutable": 1,
    }
    counts = context_of(broker).counts
    of_a = counts.of_queue(queue_definition(broker, "a"))
    assert of_a.totals == {"ack": 3, "deliver": 7, "deliver_get": 7, "publish": 15}
    by_exchange = {name: each.totals for name, each in of_a.by_exchange.items()}
    assert by_exchange == {"": {"publish": 10}, "x": {"publish": 5}}
    topology = context_of(broker).vhosts["/"]
    of_x = counts.of_exchange(topology, "x")
    assert of_x is not None
    assert of_x.totals == {"publish_in": 5, "publish_out": 10}
    assert counts.churn == {
        "channel_closed": 0,
        "channel_created": 2,
        "connection_closed": 0,
        "connection_created": 1,
        "queue_created": 4,
        "queue_declared": 5,
        "queue_deleted": 1,
    }


def test_a_connection_counts_its_octets(broker: leveret.Broker, connect: Connect) -> None:
    client = connect()
    client.open_channel(1)
    [opened] = context_of(broker).open_connections.values()
    before = opened.traffic.received_bytes, opened.traffic.sent_bytes
    # Twice: the first reply has been counted when the second comes.
    question = BasicQos(prefetch_count=1)
    assert client.ask(1, question) == client.ask(1, question) == BasicQosOk()
    after = opened.traffic.received_bytes, opened.traffic.sent_bytes
    assert after == (before[0] + 2 * 19, before[1] + 2 * 12)
    assert opened.traffic.received_count >= 3
    assert opened.traffic.sent_count >= 3
