"""Exchanges that lead on: headers, bindings between exchanges, alternates, end to end."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Plain, table_of
from wire import Client, publish


def declare_exchange(client: Client, name: str, kind: str, **how: object) -> None:
    method = ExchangeDeclare(exchange=name, type=kind, **how)  # type: ignore[arg-type]
    assert client.ask(1, method) == ExchangeDeclareOk()


def bind(client: Client, queue: str, exchange: str, key: str = "", **arguments: Plain) -> None:
    method = QueueBind(0, queue, exchange, key, arguments=table_of(arguments))
    assert client.ask(1, method) == QueueBindOk()


def join(client: Client, destination: str, source: str, key: str = "", **how: Plain) -> None:
    method = ExchangeBind(0, destination, source, key, arguments=table_of(how))
    assert client.ask(1, method) == ExchangeBindOk()


def part(client: Client, destination: str, source: str, key: str = "", **how: Plain) -> None:
    method = ExchangeUnbind(0, destination, source, key, arguments=table_of(how))
    assert client.ask(1, method) == ExchangeUnbindOk()


def is_there(client: Client, exchange: str) -> bool:
    """By what a publish to it brings on channel 2."""
    client.open_channel(2)
    client.send(publish("", exchange=exchange, mandatory=True, channel=2))
    answer = client.read_method(2)
    if isinstance(answer, BasicReturn):
        client.read_content(2)
        assert client.ask(2, ChannelClose(200, "")) == ChannelCloseOk()
        return True
    assert answer.name == "channel.close", answer
    client.send_methods(2, ChannelCloseOk())
    return False


def reached(client: Client, exchange: str, key: str = "", **headers: Plain) -> set[str]:
    """The queues a, b and c that a message with this key and these headers goes to."""
    properties = Properties(headers=table_of(headers))
    client.send(publish(key, b"body", properties, exchange=exchange, mandatory=True))
    answer = client.read_method(1)
    if isinstance(answer, BasicReturn):
        # Return before confirm, and the content as it was sent.
        assert (answer.exchange, answer.routing_key) == (exchange, key)
        assert client.read_content(1).properties == properties
        answer = client.read_method(1)
        assert isinstance(answer, BasicAck)
        return set()
    assert isinstance(answer, BasicAck)
    queues = {queue for queue in "abc" if client.get(queue, no_ack=True) is not None}
    # Each once, however many ways lead there.
    assert all(client.get(queue, no_ack=True) is None for queue in "abc")
    return queues


@pytest.fixture
def queues(client: Client) -> Client:
    for queue in "abc":
        client.declare(queue)
    return client


@pytest.mark.parametrize("exchange", ["amq.headers", "amq.match", "mine"])
def test_headers(queues: Client, exchange: str) -> None:
    client = queues
    if exchange == "mine":
        declare_exchange(client, exchange, "headers")
    bind(client, "a", exchange, n=1, s="text")
    bind(client, "b", exchange, **{"x-match": "any", "n": 1, "s": "text"})
    bind(client, "c", exchange, **{"x-match": "all-with-x", "n": 1, "x-y": True})
    assert reached(client, exchange, n=1, s="text") == {"a", "b"}
    assert reached(client, exchange, "ignored", n=1) == {"b"}
    assert reached(client, exchange, n="1", s="text") == {"b"}
    assert reached(client, exchange, **{"n": 1, "x-y": True}) == {"b", "c"}
    assert reached(client, exchange, n=2) == set()
    assert reached(client, exchange) == set()
    method = QueueUnbind(0, "a", exchange, "", table_of({"s": "text", "n": 1}))
    assert client.ask(1, method) == QueueUnbindOk()
    assert reached(client, exchange, n=1, s="text") == {"b"}


def test_a_read_of_messages_with_mixed_headers_is_divided_in_order(queues: Client) -> None:
    client = queues
    for queue in "abc":
        bind(client, queue, "amq.headers", to=queue)
    names = ["a", "b", "c", "nobody"] * 50
    pieces = [
        publish(
            "k", b"%d" % number, Properties(headers=table_of({"to": name})), exchange="amq.headers"
        )
        for number, name in enumerate(names)
    ]
    client.send(*pieces)
    client.expect_acks(range(1, len(pieces) + 1))
    for offset, queue in enumerate("abc"):
        for number in range(offset, 200, 4):
            got = client.get(queue, no_ack=True)
            assert got is not None
            assert got.body == b"%d" % number
        assert client.counts(queue) == (0, 0)


def test_bindings_between_exchanges(queues: Client) -> None:
    client = queues
    declare_exchange(client, "in", "topic")
    declare_exchange(client, "inside", "fanout", internal=True)
    bind(client, "a", "in", "#")
    bind(client, "b", "inside")
    assert reached(client, "in", "log.error") == {"a"}
    join(client, "inside", "in", "*.error")
    join(client, "inside", "in", "log.*")
    # A cycle does no harm.
    join(client, "in", "inside")
    assert reached(client, "in", "log.error") == {"a", "b"}
    assert reached(client, "in", "log") == {"a"}
    part(client, "inside", "in", "*.error")
    assert reached(client, "in", "disk.error") == {"a"}
    part(client, "inside", "in", "log.*")
    part(client, "inside", "in", "log.*")
    assert reached(client, "in", "log.error") == {"a"}


def test_an_exchange_bound_to_a_headers_exchange(queues: Client) -> None:
    client = queues
    join(client, "amq.fanout", "amq.headers", **{"x-match": "any", "n": 1, "m": 1})
    join(client, "amq.match", "amq.fanout")
    bind(client, "a", "amq.fanout")
    bind(client, "b", "amq.match", m=1)
    assert reached(client, "amq.headers", n=1) == {"a"}
    assert reached(client, "amq.headers", m=1) == {"a", "b"}
    assert reached(client, "amq.headers", m=2) == set()
    assert reached(client, "amq.fanout", m=1) == {"a", "b"}


def test_no_wait_binds_without_an_answer(queues: Client) -> None:
    client = queues
    bind(client, "a", "amq.fanout")
    client.send_methods(1, ExchangeBind(0, "amq.fanout", "amq.topic", "k", no_wait=True))
    assert reached(client, "amq.topic", "k") == {"a"}
    client.send_methods(1, ExchangeUnbind(0, "amq.fanout", "amq.topic", "k", no_wait=True))
    assert reached(client, "amq.topic", "k") == set()


def test_mandatory_is_judged_after_the_alternate_exchange(queues: Client) -> None:
    client = queues
    arguments = table_of({"alternate-exchange": "spare"})
    declare_exchange(client, "x", "direct", arguments=arguments)
    bind(client, "a", "x", "k")
    # It is not there yet.
    assert reached(client, "x", "other") == set()
    declare_exchange(client, "spare", "headers", arguments=table_of({"alternate-exchange": "x"}))
    assert reached(client, "x", "other", n=1) == set()
    bind(client, "b", "spare", n=1)
    assert reached(client, "x", "other", n=1) == {"b"}
    assert reached(client, "x", "other", n=2) == set()
    assert reached(client, "x", "k", n=1) == {"a"}
    assert client.ask(1, ExchangeDelete(exchange="spare")) == ExchangeDeleteOk()
    assert reached(client, "x", "other", n=1) == set()


def test_auto_delete_exchanges_go_with_their_last_binding_and_take_others_along(
    queues: Client,
) -> None:
    client = queues
    for name in ("first", "second"):
        declare_exchange(client, name, "fanout", auto_delete=True)
    join(client, "second", "first")
    bind(client, "a", "second")
    assert reached(client, "first") == {"a"}
    assert client.ask(1, QueueDelete(queue="a")) == QueueDeleteOk(0)
    assert not is_there(client, "second")
    assert not is_there(client, "first")
    declare_exchange(client, "first", "fanout", auto_delete=True)
    join(client, "amq.fanout", "first")
    join(client, "first", "amq.direct")
    assert is_there(client, "first")
    part(client, "amq.fanout", "first")
    assert not is_there(client, "first")
    assert reached(client, "amq.direct") == set()


def test_bindings_go_with_an_exchange_at_either_end(queues: Client) -> None:
    client = queues
    declare_exchange(client, "x", "fanout")
    join(client, "x", "amq.fanout")
    bind(client, "a", "x")
    assert reached(client, "amq.fanout") == {"a"}
    assert client.ask(1, ExchangeDelete(exchange="x", if_unused=False)) == ExchangeDeleteOk()
    declare_exchange(client, "x", "fanout")
    bind(client, "a", "x")
    assert reached(client, "amq.fanout") == set()
    join(client, "x", "amq.fanout")
    assert reached(client, "amq.fanout") == {"a"}
