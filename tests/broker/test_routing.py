"""Exchanges, end to end: which queues a published message is in."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReturn,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.amqp_frames.values.field_table import Field
from wire import Client, publish


def declare_exchange(client: Client, name: str, kind: str, **bits: bool) -> None:
    assert client.ask(1, ExchangeDeclare(exchange=name, type=kind, **bits)) == ExchangeDeclareOk()


def bind(client: Client, queue: str, exchange: str, key: str = "") -> None:
    method = QueueBind(queue=queue, exchange=exchange, routing_key=key)
    assert client.ask(1, method) == QueueBindOk()


def unbind(client: Client, queue: str, exchange: str, key: str = "") -> None:
    method = QueueUnbind(queue=queue, exchange=exchange, routing_key=key)
    assert client.ask(1, method) == QueueUnbindOk()


def reached(client: Client, exchange: str, key: str) -> set[str]:
    """The queues a, b and c that a message with this key goes to."""
    client.send(publish(key, exchange=exchange, mandatory=True))
    answer = client.read_method(1)
    if isinstance(answer, BasicReturn):
        client.read_content(1)
        answer = client.read_method(1)
        assert isinstance(answer, BasicAck)
        return set()
    assert isinstance(answer, BasicAck)
    queues = {queue for queue in "abc" if client.get(queue, no_ack=True) is not None}
    # Each once, however many bindings lead there.
    assert all(client.get(queue, no_ack=True) is None for queue in "abc")
    return queues


@pytest.fixture
def queues(client: Client) -> Client:
    for queue in "abc":
        client.declare(queue)
    return client


@pytest.mark.parametrize("exchange", ["amq.direct", "mine"])
def test_direct(queues: Client, exchange: str) -> None:
    client = queues
    if exchange == "mine":
        declare_exchange(client, exchange, "direct")
    bind(client, "a", exchange, "one")
    bind(client, "a", exchange, "two")
    bind(client, "b", exchange, "two")
    bind(client, "c", exchange, "")
    assert reached(client, exchange, "one") == {"a"}
    assert reached(client, exchange, "two") == {"a", "b"}
    assert reached(client, exchange, "") == {"c"}
    assert reached(client, exchange, "other") == set()
    unbind(client, "a", exchange, "two")
    assert reached(client, exchange, "two") == {"b"}


@pytest.mark.parametrize("exchange", ["amq.fanout", "mine"])
def test_fanout(queues: Client, exchange: str) -> None:
    client = queues
    if exchange == "mine":
        declare_exchange(client, exchange, "fanout")
    assert reached(client, exchange, "") == set()
    bind(client, "a", exchange, "ignored")
    bind(client, "b", exchange)
    bind(client, "b", exchange, "again")
    assert reached(client, exchange, "whatever") == {"a", "b"}
    unbind(client, "b", exchange)
    assert reached(client, exchange, "whatever") == {"a", "b"}
    unbind(client, "b", exchange, "again")
    assert reached(client, exchange, "whatever") == {"a"}


@pytest.mark.parametrize("exchange", ["amq.topic", "mine"])
def test_topic(queues: Client, exchange: str) -> None:
    client = queues
    if exchange == "mine":
        declare_exchange(client, exchange, "topic")
    bind(client, "a", exchange, "log.*.error")
    bind(client, "b", exchange, "log.#")
    bind(client, "c", exchange, "#")
    bind(client, "c", exchange, "*.disk.*")
    assert reached(client, exchange, "log.disk.error") == {"a", "b", "c"}
    assert reached(client, exchange, "log.disk.info") == {"b", "c"}
    assert reached(client, exchange, "log") == {"b", "c"}
    assert reached(client, exchange, "log.a.b.error") == {"b", "c"}
    assert reached(client, exchange, "") == {"c"}
    unbind(client, "c", exchange, "#")
    assert reached(client, exchange, "other") == set()
    assert reached(client, exchange, "x.disk.y") == {"c"}


def test_the_default_exchange_routes_to_the_queue_of_the_key_s_name(queues: Client) -> None:
    assert reached(queues, "", "a") == {"a"}
    assert reached(queues, "", "nobody") == set()


def test_a_read_of_mixed_keys_is_divided_and_each_queue_has_its_own_in_order(
    queues: Client,
) -> None:
    client = queues
    bind(client, "a", "amq.direct", "k")
    bind(client, "b", "amq.direct", "k")
    keys = ["a", "b", "c", "missing"] * 25
    pieces = [publish(key, b"%d" % number) for number, key in enumerate(keys)]
    pieces += [publish("k", b"%d" % number, exchange="amq.direct") for number in (100, 101)]
    client.send(*pieces)
    client.expect_acks(range(1, len(pieces) + 1))
    for queue, offset in (("a", 0), ("b", 1), ("c", 2)):
        expected = list(range(offset, 100, 4)) + ([100, 101] if queue != "c" else [])
        assert client.counts(queue) == (len(expected), 0)
        for number in expected:
            got = client.get(queue, no_ack=True)
            assert got is not None
            assert got.body == b"%d" % number


def test_bindings_that_differ_in_arguments_are_two(queues: Client) -> None:
    client = queues
    arguments = {"n": Field("signedint", 1)}
    bind(client, "a", "amq.direct", "k")
    method = QueueBind(queue="a", exchange="amq.direct", routing_key="k", arguments=arguments)
    assert client.ask(1, method) == QueueBindOk()
    assert reached(client, "amq.direct", "k") == {"a"}
    unbind(client, "a", "amq.direct", "k")
    assert reached(client, "amq.direct", "k") == {"a"}
    gone = QueueUnbind(queue="a", exchange="amq.direct", routing_key="k", arguments=arguments)
    assert client.ask(1, gone) == QueueUnbindOk()
    assert reached(client, "amq.direct", "k") == set()


def test_bindings_go_with_their_queue_and_with_their_exchange(queues: Client) -> None:
    client = queues
    declare_exchange(client, "x", "fanout")
    bind(client, "a", "x")
    bind(client, "b", "x")
    assert client.ask(1, QueueDelete(queue="a")) == QueueDeleteOk(0)
    client.declare("a")
    assert reached(client, "x", "") == {"b"}
    assert client.ask(1, ExchangeDelete(exchange="x")) == ExchangeDeleteOk()
    declare_exchange(client, "x", "fanout")
    assert reached(client, "x", "") == set()


def test_an_auto_delete_exchange_goes_with_its_last_binding(queues: Client) -> None:
    client = queues
    declare_exchange(client, "x", "direct", auto_delete=True)
    bind(client, "a", "x", "1")
    bind(client, "a", "x", "2")
    unbind(client, "a", "x", "1")
    assert reached(client, "x", "2") == {"a"}
    assert client.ask(1, QueueDelete(queue="a")) == QueueDeleteOk(0)
    answer = client.ask(1, ExchangeDeclare(exchange="x", passive=True))
    assert answer.name == "channel.close"


def test_a_binding_made_while_publishing_counts_from_its_bind_ok_on(queues: Client) -> None:
    client = queues
    declare_exchange(client, "x", "fanout")
    # The route is looked up once and kept: it must be forgotten.
    assert reached(client, "x", "k") == set()
    bind(client, "a", "x")
    assert reached(client, "x", "k") == {"a"}


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers"])
def test_the_predeclared_exchanges_are_there_and_durable(client: Client, name: str) -> None:
    assert client.ask(1, ExchangeDeclare(exchange=name, passive=True)) == ExchangeDeclareOk()
    kind = name.removeprefix("amq.")
    if kind != "headers":
        declare_exchange(client, name, kind, durable=True)
