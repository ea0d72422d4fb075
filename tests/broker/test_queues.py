"""Queues: their names, their lives, and what ends them."""

from __future__ import annotations

import re
from collections.abc import Callable

import leveret
import pytest
from insides import context_of
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from wire import Client, publish

Connect = Callable[..., Client]


def names(broker: leveret.Broker) -> list[str]:
    return [queue.name for queue in context_of(broker).vhosts["/"].table.queues()]


# --- Names


def test_an_empty_name_asks_for_one_and_every_one_is_another(client: Client) -> None:
    first, second = client.declare(""), client.declare("")
    for answer in (first, second):
        assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", answer.queue)
    assert first.queue != second.queue


def test_an_empty_name_elsewhere_is_the_queue_that_the_channel_declared_last(
    client: Client,
) -> None:
    client.declare("before")
    name = client.declare("").queue
    client.publish_all(name, b"1", b"2", b"3")
    client.send_methods(1, BasicGet())
    client.expect(1, BasicGetOk(1, False, "", name, 2))
    assert client.read_content(1).body == b"1"
    # As a binding's key, too.
    assert client.ask(1, QueueBind(exchange="amq.direct")) == QueueBindOk()
    client.send(publish(name, b"4", exchange="amq.direct", mandatory=True))
    assert client.read_method(1).name == "basic.ack"
    assert client.ask(1, QueueUnbind(exchange="amq.direct")) == QueueUnbindOk()
    client.send(publish(name, b"5", exchange="amq.direct", mandatory=True))
    assert client.read_method(1).name == "basic.return"
    assert client.read_content(1).body == b"5"
    assert client.read_method(1).name == "basic.ack"
    assert client.ask(1, QueuePurge()) == QueuePurgeOk(3)
    assert client.ask(1, BasicConsume(consumer_tag="c")) == BasicConsumeOk("c")
    assert client.counts(name) == (0, 1)
    assert client.ask(1, QueueDelete()) == QueueDeleteOk(0)


def test_the_last_declared_queue_is_the_channel_s_own(client: Client) -> None:
    client.declare("q")
    client.open_channel(2)
    text = "NOT_FOUND - no previously declared queue"
    assert client.ask(2, BasicGet()) == ChannelClose(404, text, 60, 70)


def test_names_may_be_as_long_and_odd_as_a_short_string(client: Client) -> None:
    name = "ö" * 127 + "!"
    client.declare(name)
    # rabbitmq-server#6115: confirms stopped for long names.
    client.publish_all(name, b"1")
    assert client.get(name) == (1, False, 0, b"1")


# --- Declaring


def test_declaring_again_says_how_many_are_ready_and_how_many_consume(client: Client) -> None:
    assert client.declare("q") == QueueDeclareOk("q", 0, 0)
    client.publish_all("q", b"1", b"2")
    assert client.declare("q") == QueueDeclareOk("q", 2, 0)
    assert client.declare("q", passive=True) == QueueDeclareOk("q", 2, 0)
    client.get("q")
    assert client.declare("q", passive=True) == QueueDeclareOk("q", 1, 0)
    client.consume("q", "c", no_ack=True)
    client.read_method(1)
    client.read_content(1)
    assert client.declare("q") == QueueDeclareOk("q", 0, 1)


def test_a_passive_declare_looks_at_no_property(client: Client) -> None:
    client.declare("q", durable=True, auto_delete=True)
    assert client.declare("q", passive=True, exclusive=True) == QueueDeclareOk("q", 0, 0)


def test_no_wait_is_not_answered(client: Client) -> None:
    client.send_methods(
        1,
        QueueDeclare(queue="q", no_wait=True),
        QueueBind(queue="q", exchange="amq.fanout", no_wait=True),
        QueuePurge(queue="q", no_wait=True),
    )
    assert client.counts("q") == (0, 0)
    client.send_methods(1, QueueDelete(queue="q", no_wait=True))
    client.nothing_more()
    client.send(publish("q", mandatory=True))
    assert client.read_method(1).name == "basic.return"


# --- Deleting


def test_delete_ok_says_how_many_messages_went(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(2)
    assert client.declare("q") == QueueDeclareOk("q", 0, 0)


@pytest.mark.parametrize("condition", [{"if_unused": True}, {"if_empty": True}])
def test_a_queue_unused_and_empty_is_deleted_on_either_condition(
    client: Client, condition: dict[str, bool]
) -> None:
    client.declare("q")
    assert client.ask(1, QueueDelete(queue="q", **condition)) == QueueDeleteOk(0)


def test_unacked_messages_do_not_count_for_if_empty(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1")
    client.get("q")
    assert client.ask(1, QueueDelete(queue="q", if_empty=True)) == QueueDeleteOk(0)


def test_a_queue_declared_anew_has_nothing_of_the_old_one(client: Client) -> None:
    client.declare("q", durable=True)
    assert client.ask(1, QueueBind(queue="q", exchange="amq.fanout")) == QueueBindOk()
    client.publish_all("q", b"1")
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(1)
    client.declare("q", durable=True)
    client.send(publish("", exchange="amq.fanout", mandatory=True))
    assert client.read_method(1).name == "basic.return"


# --- Exclusive


def test_exclusive_queues_die_with_their_connection_before_close_ok(
    connect: Connect, broker: leveret.Broker
) -> None:
    client, other = connect(), connect()
    client.open_channel()
    other.open_channel()
    client.declare("mine", exclusive=True)
    client.declare("durable and mine", exclusive=True, durable=True)
    client.declare("everybody's")
    client.send_methods(0, ConnectionClose(200, "bye"))
    client.expect(0, ConnectionCloseOk())
    assert names(broker) == ["everybody's"]
    # Free for another at once.
    assert other.declare("mine", exclusive=True) == QueueDeclareOk("mine", 0, 0)


def test_exclusive_queues_die_with_a_connection_that_is_lost(
    connect: Connect, broker: leveret.Broker
) -> None:
    client, other = connect(), connect()
    client.open_channel()
    client.declare("mine", exclusive=True)
    other.open_channel()
    client.drop()
    other.send_methods(1, QueueDeclare(queue="mine"))
    while isinstance(answer := other.read_method(1), ChannelClose):
        assert answer.reply_code == 405
        other.send_methods(1, ChannelCloseOk())
        other.open_channel()
        other.send_methods(1, QueueDeclare(queue="mine"))
    assert answer == QueueDeclareOk("mine", 0, 0)


def test_exclusive_queues_die_with_a_connection_that_made_a_mistake(
    connect: Connect, broker: leveret.Broker
) -> None:
    client, other = connect(), connect()
    client.open_channel()
    client.declare("mine", exclusive=True)
    client.send_methods(1, BasicPublish(routing_key="mine"), BasicPublish(routing_key="mine"))
    assert client.expect_type(0, ConnectionClose).reply_code == 505
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()
    other.open_channel()
    other.declare("another")
    assert names(broker) == ["another"]


def test_an_exclusive_queue_is_its_whole_connection_s_and_outlives_its_channel(
    client: Client,
) -> None:
    client.declare("mine", exclusive=True)
    client.open_channel(2)
    client.publish_all("mine", b"1")
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    assert client.get("mine", channel=2) == (1, False, 0, b"1")


# --- Auto-delete


def test_an_auto_delete_queue_dies_with_its_last_consumer(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q", auto_delete=True)
    client.consume("q", "a")
    client.consume("q", "b")
    assert client.ask(1, BasicCancel("a")) == BasicCancelOk("a")
    assert client.counts("q") == (0, 1)
    assert client.ask(1, BasicCancel("b")) == BasicCancelOk("b")
    client.declare("another")
    assert names(broker) == ["another"]


@pytest.mark.parametrize("how", ["channel", "connection"])
def test_an_auto_delete_queue_dies_with_the_channel_or_connection_of_its_last_consumer(
    client: Client, connect: Connect, broker: leveret.Broker, how: str
) -> None:
    client.declare("q", auto_delete=True)
    consumer = connect()
    consumer.open_channel()
    consumer.consume("q")
    if how == "channel":
        assert consumer.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
        consumer.open_channel()
        consumer.declare("another")
    else:
        consumer.close()
        client.declare("another")
    assert names(broker) == ["another"]


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    client: Client, connect: Connect, broker: leveret.Broker
) -> None:
    other = connect()
    other.open_channel()
    other.declare("q", auto_delete=True)
    other.close()
    assert client.counts("q") == (0, 0)
    client.publish_all("q", b"1")
    client.get("q")
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    client.open_channel()
    assert client.counts("q") == (1, 0)
