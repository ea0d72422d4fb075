"""Routing that takes long: others are served between its steps, and all keeps its order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import leveret
import pytest
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    TxCommitOk,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.exchanges.topic import TopicExchange
from transactions import COMMIT, transactional
from wire import Client, methods_of, publish

KEY_COUNT = 200
Connect = Callable[..., Client]


@pytest.fixture
def settings() -> dict[str, object]:
    """The event loop looks at its sockets after each key."""
    return {"routing_round_ms_max": 0}


@pytest.fixture
def looker(connect: Connect) -> Client:
    """Looks at the queue q, which gets all that goes to amq.topic."""
    client = connect()
    client.open_channel()
    client.declare("q")
    bind = QueueBind(queue="q", exchange="amq.topic", routing_key="#")
    assert client.ask(1, bind) == QueueBindOk()
    return client


@pytest.fixture
def sender(connect: Connect, looker: Client) -> Client:
    client = connect()
    client.open_channel()
    return client


def many(prefix: str) -> bytes:
    """Publishes with so many new keys."""
    return b"".join(publish(f"{prefix}.{n}", exchange="amq.topic") for n in range(KEY_COUNT))


def test_another_client_does_not_wait_until_a_channel_has_routed_many_keys(
    sender: Client, looker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[str] = []
    route = TopicExchange.route

    def note_and_route(exchange: TopicExchange, key: str) -> object:
        if not routed:
            # It comes while the first of the many is looked up.
            looker.send(publish("other", exchange="amq.topic"))
        routed.append(key)
        return route(exchange, key)

    monkeypatch.setattr(TopicExchange, "route", note_and_route)
    sender.send(many("a"))
    looker.wait_for_counts("q", (KEY_COUNT + 1, 0))
    assert routed.index("other") < KEY_COUNT // 2
    routed.remove("other")
    assert routed == [f"a.{n}" for n in range(KEY_COUNT)]


@pytest.fixture
def dead_letters(sender: Client) -> Callable[[], None]:
    """The returned call makes dead letters with so many keys, which go to amq.topic."""
    sender.send_methods(1, ExchangeDeclare(exchange="in", type="fanout"))
    sender.expect(1, ExchangeDeclareOk())
    arguments = table_of({"x-dead-letter-exchange": "amq.topic"})
    sender.declare("source", arguments=arguments)
    bind = QueueBind(queue="source", exchange="in", routing_key="")
    assert sender.ask(1, bind) == QueueBindOk()
    sender.send(b"".join(publish(f"a.{n}", exchange="in") for n in range(KEY_COUNT)))
    sender.wait_for_counts("source", (KEY_COUNT, 0))
    sender.consume("source")
    for _ in range(KEY_COUNT):
        sender.expect_type(1, BasicDeliver)
        sender.read_content(1)
    # All of them at once.
    return lambda: sender.send_methods(1, BasicNack(KEY_COUNT, True, False))


def test_another_client_does_not_wait_until_many_dead_letters_are_routed(
    dead_letters: Callable[[], None], looker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[str] = []
    route = TopicExchange.route

    def note_and_route(exchange: TopicExchange, key: str) -> object:
        if not routed:
            looker.send(publish("other", exchange="amq.topic"))
        routed.append(key)
        return route(exchange, key)

    monkeypatch.setattr(TopicExchange, "route", note_and_route)
    dead_letters()
    looker.wait_for_counts("q", (KEY_COUNT + 1, 0))
    assert routed.index("other") < KEY_COUNT // 2
    routed.remove("other")
    assert routed == [f"a.{n}" for n in range(KEY_COUNT)]


def test_a_stop_waits_for_dead_letters_that_are_being_routed(
    dead_letters: Callable[[], None],
    looker: Client,
    sender: Client,
    broker: leveret.Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routed: list[str] = []
    route = TopicExchange.route
    stopping = threading.Thread(target=broker.stop)

    def note_and_route(exchange: TopicExchange, key: str) -> object:
        if not routed:
            stopping.start()
        routed.append(key)
        return route(exchange, key)

    monkeypatch.setattr(TopicExchange, "route", note_and_route)
    dead_letters()
    wait_until(lambda: bool(routed))
    for client in (sender, looker):
        client.drop()
    stopping.join()
    assert len(routed) == KEY_COUNT


def test_what_comes_behind_them_waits_in_its_order(sender: Client, looker: Client) -> None:
    sender.declare("own")
    sender.send(publish("own"))
    sender.consume("own")
    sender.expect_type(1, BasicDeliver)
    sender.read_content(1)
    declare = methods_of(1, ExchangeDeclare(exchange="late", type="fanout"))
    late = publish("", exchange="late")
    sender.send(many("a"), methods_of(1, BasicAck(1, False)), declare, late, many("b"))
    sender.expect(1, ExchangeDeclareOk())
    assert looker.counts("q")[0] >= KEY_COUNT
    sender.nothing_more()
    assert looker.counts("q") == (2 * KEY_COUNT, 0)
    sender.close()
    # Its ack was heard, too.
    looker.wait_for_counts("own", (0, 0))


def test_their_confirms_come_when_they_are_with_their_queue(client: Client, looker: Client) -> None:
    client.send(many("a"), many("b"))
    client.expect_acks(range(1, 2 * KEY_COUNT + 1))
    assert looker.counts("q") == (2 * KEY_COUNT, 0)


@pytest.mark.parametrize("is_polite", [True, False])
def test_publishes_of_a_connection_before_its_end_arrive(
    sender: Client, looker: Client, is_polite: bool
) -> None:
    sender.send(many("a"), many("b"))
    if is_polite:
        sender.close()
    else:
        sender.socket.shutdown(socket.SHUT_WR)
    looker.wait_for_counts("q", (2 * KEY_COUNT, 0))


def test_a_commit_is_answered_when_all_of_it_is_routed(connect: Connect, looker: Client) -> None:
    client = transactional(connect)
    client.send(many("a"), COMMIT)
    client.expect(1, TxCommitOk())
    assert looker.counts("q") == (KEY_COUNT, 0)


def test_a_mistake_among_many_keys_is_answered_behind_the_publishes_before_it(
    sender: Client, looker: Client
) -> None:
    sender.send(many("a"), publish("k", exchange="none"), many("b"))
    assert sender.expect_type(1, ChannelClose).reply_code == 404
    assert looker.counts("q") == (KEY_COUNT, 0)


def test_a_stop_waits_for_them(sender: Client, broker: leveret.Broker) -> None:
    sender.send(many("a"))
    context = context_of(broker)
    wait_until(lambda: context.vhost_users.route_memory.used_bytes > 0)
    sender.drop()
    broker.stop()
    assert not context.routing_turns.waiting
