"""Vhosts on a running broker: apart from each other, made and deleted while clients are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import leveret
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    ChannelClose,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from leveret.commands.control_client import ask_broker
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]


def change(broker: leveret.Broker, request: str, **arguments: object) -> None:
    ask_broker(broker.configuration.data_dir, request, arguments)


def make_vhost(broker: leveret.Broker, name: str) -> None:
    """A vhost where guest may do everything."""
    change(broker, "vhost add", vhost=name)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    change(broker, "permissions set", user="guest", vhost=name, **everything)


def refused(broker: leveret.Broker, vhost: str) -> ConnectionClose:
    with Client(broker.host, broker.port) as client:
        client.offer()
        client.expect_type(0, ConnectionTune)
        opening = (ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(virtual_host=vhost))
        client.send_methods(0, *opening)
        return client.expect_type(0, ConnectionClose)


def test_a_vhost_is_opened_when_it_is_there_and_its_user_may(broker: leveret.Broker) -> None:
    text = "NOT_ALLOWED - vhost v not found"
    assert refused(broker, "v") == ConnectionClose(530, text, 10, 40)
    change(broker, "vhost add", vhost="v")
    text = "NOT_ALLOWED - access to vhost 'v' refused for user 'guest'"
    assert refused(broker, "v") == ConnectionClose(530, text, 10, 40)
    change(broker, "permissions set", user="guest", vhost="v", configure="", write="", read="")
    with Client(broker.host, broker.port) as client:
        client.log_in(vhost="v")
    change(broker, "permissions clear", user="guest", vhost="v")
    assert refused(broker, "v") == ConnectionClose(530, text, 10, 40)


def test_the_same_names_in_two_vhosts_are_different_things(
    broker: leveret.Broker, connect: Connect
) -> None:
    make_vhost(broker, "v")
    here, there = connect(), connect(vhost="v")
    for client in (here, there):
        client.open_channel(1, confirms=True)
        client.declare("q")
        client.ask(1, ExchangeDeclare(exchange="x", type="fanout"))
        client.ask(1, QueueBind(queue="q", exchange="x"))
        # Every vhost has these from the start.
        client.ask(1, QueueBind(queue="q", exchange="amq.fanout"))
    for exchange in ("", "x", "amq.fanout"):
        there.send(publish("q", b"there", exchange=exchange))
    there.expect_acks(range(1, 4))
    assert there.counts("q") == (3, 0)
    assert here.counts("q") == (0, 0)


def test_mistakes_are_told_with_the_vhost_s_name(broker: leveret.Broker, connect: Connect) -> None:
    make_vhost(broker, "v")
    client = connect(vhost="v")
    client.open_channel(1)
    text = "NOT_FOUND - no queue 'q' in vhost 'v'"
    assert client.ask(1, BasicGet(queue="q")) == ChannelClose(404, text, 60, 70)


def test_a_vhost_is_deleted_with_its_connections_queues_and_messages(
    broker: leveret.Broker, connect: Connect
) -> None:
    make_vhost(broker, "v")
    staying, leaving = connect(), connect(vhost="v")
    for client in (staying, leaving):
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True)
        client.publish_all("q", b"kept", properties=PERSISTENT)
        client.declare("mine", exclusive=True)
    assert leaving.ask(1, BasicConsume(queue="mine", consumer_tag="c")) == BasicConsumeOk("c")
    change(broker, "vhost delete", vhost="v")
    text = "CONNECTION_FORCED - vhost 'v' is deleted"
    assert leaving.expect_type(0, ConnectionClose) == ConnectionClose(320, text)
    leaving.send_methods(0, ConnectionCloseOk())
    leaving.expect_closed()
    assert refused(broker, "v").reply_text == "NOT_ALLOWED - vhost v not found"
    assert staying.counts("q") == (1, 0)
    # What comes by the same name is new.
    make_vhost(broker, "v")
    again = connect(vhost="v")
    again.open_channel(1)
    missing = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost 'v'", 50, 10)
    assert again.ask(1, QueueDeclare(queue="q", passive=True)) == missing


def test_a_user_s_connections_close_when_it_is_deleted(
    broker: leveret.Broker, connect: Connect
) -> None:
    password_hash = context_of(broker).accounts.users["guest"].password_hash
    change(broker, "user add", user="ann", password_hash=password_hash, tags=[])
    change(broker, "permissions set", user="ann", vhost="/", configure="", write="", read="")
    staying, leaving = connect(), connect(user="ann")
    change(broker, "user delete", user="ann")
    text = "CONNECTION_FORCED - user 'ann' is deleted"
    assert leaving.expect_type(0, ConnectionClose) == ConnectionClose(320, text)
    staying.open_channel(1)
    with Client(broker.host, broker.port) as client:
        client.offer(user="ann", capabilities=("authentication_failure_close",))
        assert client.expect_type(0, ConnectionClose).reply_code == 403


def test_a_permission_that_is_taken_away_counts_at_once(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q")
    client.publish_all("q", b"allowed")
    change(broker, "permissions set", user="guest", vhost="/", configure=".*", write="", read=".*")
    client.send(publish("q", b"refused"))
    text = (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' "
        "refused for user 'guest'"
    )
    assert client.expect_type(1, ChannelClose) == ChannelClose(403, text, 60, 40)


def test_vhosts_and_what_is_in_them_are_there_after_a_restart(tmp_path: Path) -> None:
    def start() -> leveret.Broker:
        return leveret.Broker(data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10)

    with start() as broker:
        make_vhost(broker, "kept")
        make_vhost(broker, "gone")
        for vhost in ("/", "kept", "gone"):
            with Client(broker.host, broker.port) as client:
                client.log_in(vhost=vhost).open_channel(1, confirms=True)
                client.declare("q", durable=True)
                client.ask(1, ExchangeDeclare(exchange="x", type="fanout", durable=True))
                client.ask(1, QueueBind(queue="q", exchange="x"))
                client.publish_all("q", vhost.encode(), properties=PERSISTENT)
        change(broker, "vhost delete", vhost="gone")
    # The second start sees what the first one made of it, too.
    for messages in (1, 2):
        with start() as broker:
            queues = [queue.vhost for queue in context_of(broker).vhosts.queues()]
            assert sorted(queues) == ["/", "kept"]
            with Client(broker.host, broker.port) as client:
                client.log_in(vhost="kept").open_channel(1, confirms=True)
                assert client.counts("q") == (messages, 0)
                client.send(publish("", b"routed", PERSISTENT, exchange="x"))
                client.expect_acks(range(1, 2))
            assert refused(broker, "gone").reply_code == 530


def test_a_connection_that_has_gone_is_forgotten(broker: leveret.Broker, connect: Connect) -> None:
    connect().close()
    wait_until(lambda: not context_of(broker).open_connections)
