"""A connection's objects go with it at once: no cycle of references keeps them for the collector.

The collector of a broker runs seldom, and by objects that were made, not by their bytes, so what
waits for it may fill the memory: 30 channels with 9,990 routes each, eight times in a row, took
552 MB.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator

import leveret
import pytest
from insides import context_of, on_loop, readers, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConnectionClose,
    QueueDeclare,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from wire import Client, publish

Connect = Callable[..., Client]


def publishes_to_many_keys(client: Client) -> None:
    client.open_channel(1)
    client.send(*(publish(f"{number}", exchange="amq.topic") for number in range(100)))
    client.nothing_more()


def holds_what_it_was_delivered(client: Client) -> None:
    client.open_channel(1)
    client.declare("mine", exclusive=True)
    assert client.ask(1, BasicQos(prefetch_count=1, global_=True)) == BasicQosOk()
    client.consume("mine")
    client.send(publish("mine", bytes(10_000)), publish("mine"))
    client.expect_type(1, BasicDeliver)
    client.read_content(1)


def has_a_transaction_open(client: Client) -> None:
    client.open_channel(1)
    client.declare("mine", exclusive=True)
    assert client.ask(1, TxSelect()) == TxSelectOk()
    client.send(publish("mine", bytes(10_000)))
    client.nothing_more()


def asks_for_replies(client: Client) -> None:
    client.open_channel(1)
    client.consume("amq.rabbitmq.reply-to", no_ack=True)
    headers = table_of({"CC": ["a", "b"]})
    client.send(publish("k", b"", Properties(reply_to="amq.rabbitmq.reply-to", headers=headers)))
    client.nothing_more()


def makes_a_mistake_on_each_channel(client: Client) -> None:
    for channel in range(1, 4):
        client.open_channel(channel)
    client.send_methods(1, QueueDeclare(queue="none", passive=True))
    client.expect_type(1, ChannelClose)
    client.send_methods(2, BasicAck(5, False))
    client.expect_type(2, ChannelClose)
    client.send(publish("k", exchange="none", channel=3))
    client.expect_type(3, ChannelClose)


def breaks_the_protocol(client: Client) -> None:
    client.open_channel(1)
    client.send(publish("k", bytes(10_000)), b"\1\0\1\0\0\0\1\0X")
    client.expect_type(0, ConnectionClose)


def goes_in_the_middle_of_a_publish(client: Client) -> None:
    client.open_channel(1)
    client.send(publish("k", bytes(200_000))[:150_000])


def close_politely(client: Client) -> None:
    client.open_channel(1)
    client.close()


WAYS = [
    publishes_to_many_keys,
    holds_what_it_was_delivered,
    has_a_transaction_open,
    asks_for_replies,
    makes_a_mistake_on_each_channel,
    breaks_the_protocol,
    goes_in_the_middle_of_a_publish,
    close_politely,
]


@pytest.fixture
def found_by_collector() -> Iterator[Callable[[], Counter[str]]]:
    """Counts by class the broker's objects that nobody but the collector has let go of."""

    def found() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        kinds = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage)
        gc.garbage.clear()
        return Counter({kind: n for kind, n in kinds.items() if kind.startswith("leveret.")})

    gc.collect()
    gc.disable()
    yield found
    gc.set_debug(0)
    gc.enable()


def wait_until_nobody_is_connected(broker: leveret.Broker) -> None:
    wait_until(lambda: not readers(broker))
    runtime = context_of(broker).runtime
    wait_until(runtime.is_idle)
    # Behind what the event loop had to do by then, also outside of the actors.
    on_loop(broker)
    wait_until(runtime.is_idle)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_connection_s_objects_are_in_no_cycle(
    broker: leveret.Broker,
    connect: Connect,
    found_by_collector: Callable[[], Counter[str]],
    way: Callable[[Client], None],
) -> None:
    client = connect()
    found_by_collector()
    way(client)
    client.drop()
    wait_until_nobody_is_connected(broker)
    assert not found_by_collector()


def test_a_refused_login_is_in_no_cycle(
    broker: leveret.Broker, found_by_collector: Callable[[], Counter[str]]
) -> None:
    found_by_collector()
    with Client(broker.host, broker.port) as client:
        client.send(b"HTTP/1.1 is no AMQP\r\n")
        client.read_bytes(8)
    with Client(broker.host, broker.port) as client, pytest.raises(AssertionError):
        client.log_in(password="wrong")
    wait_until_nobody_is_connected(broker)
    assert not found_by_collector()


def test_routes_are_kept_once_for_a_user_and_go_with_his_last_connection(
    broker: leveret.Broker, connect: Connect
) -> None:
    users = context_of(broker).vhost_users
    clients = [connect() for _ in range(3)]
    used = set()
    for client, channel in itertools.product(clients, range(1, 11)):
        client.open_channel(channel)
        client.send(*(publish(f"{n}", exchange="amq.topic", channel=channel) for n in range(500)))
        client.nothing_more(channel)
        used.add(users.route_memory.used_bytes)
    assert 500 * 300 < min(used) == max(used) < 500 * 600
    for client in clients:
        assert len(users) == 1
        client.close()
    wait_until_nobody_is_connected(broker)
    assert (len(users), users.route_memory.used_bytes) == (0, 0)


class TestWithLittleRoomForRoutes:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"routes_kept_bytes_max": 100_000}

    def test_no_number_of_keys_channels_and_connections_takes_more(
        self, broker: leveret.Broker, connect: Connect
    ) -> None:
        users = context_of(broker).vhost_users
        for client in [connect(), connect()]:
            for channel in range(1, 6):
                client.open_channel(channel)
                random = (os.urandom(8).hex() for _ in range(400))
                client.send(*(publish(k, exchange="amq.topic", channel=channel) for k in random))
                client.nothing_more(channel)
                assert users.route_memory.used_bytes <= 100_000
