"""Limits of vhosts and users: RabbitMQ 3.10's codes and words, and room when some have gone."""

from __future__ import annotations

import leveret
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.commands.control_client import ask_broker
from wire import Client


def change(broker: leveret.Broker, request: str, **arguments: object) -> None:
    ask_broker(broker.configuration.data_dir, request, arguments)


def refused(broker: leveret.Broker) -> ConnectionClose:
    with Client(broker.host, broker.port) as client:
        client.offer()
        client.expect_type(0, ConnectionTune)
        opening = (ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(virtual_host="/"))
        client.send_methods(0, *opening)
        return client.expect_type(0, ConnectionClose)


def test_connections_to_a_vhost(broker: leveret.Broker) -> None:
    change(broker, "vhost limits", vhost="/", limits={"max-connections": 1})
    with Client(broker.host, broker.port) as client:
        client.log_in()
        text = (
            "NOT_ALLOWED - access to vhost '/' refused for user 'guest': "
            "connection limit (1) is reached"
        )
        assert refused(broker) == ConnectionClose(530, text, 10, 40)
        client.close()
    wait_until(lambda: not context_of(broker).open_connections)
    with Client(broker.host, broker.port) as client:
        client.log_in()
        change(broker, "vhost limits", vhost="/", limits={"max-connections": -1})
        with Client(broker.host, broker.port) as second:
            second.log_in()


def test_connections_of_a_user(broker: leveret.Broker) -> None:
    change(broker, "user limits", user="guest", limits={"max-connections": 0})
    text = "NOT_ALLOWED - connection refused for user 'guest': user connection limit (0) is reached"
    assert refused(broker) == ConnectionClose(530, text, 10, 40)
    change(broker, "user limits", user="guest", limits={})
    with Client(broker.host, broker.port) as client:
        client.log_in()


def test_channels_of_a_user_on_all_connections(broker: leveret.Broker) -> None:
    change(broker, "user limits", user="guest", limits={"max-channels": 1})
    with Client(broker.host, broker.port) as client, Client(broker.host, broker.port) as other:
        client.log_in()
        client.open_channel(1)
        other.log_in()
        other.send_methods(1, ChannelOpen())
        text = (
            "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum "
            "allowed user limit of (1)"
        )
        assert other.expect_type(0, ConnectionClose) == ConnectionClose(530, text, 0, 0)
        assert client.ask(1, ChannelClose(200, "", 0, 0)) == ChannelCloseOk()
        client.open_channel(1)


def test_queues_of_a_vhost(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        client.declare("old")
        change(broker, "vhost limits", vhost="/", limits={"max-queues": 1})
        client.declare("old")
        text = (
            "PRECONDITION_FAILED - cannot declare queue 'new': queue limit in vhost '/' (1) "
            "is reached"
        )
        closed = client.ask(1, QueueDeclare(queue="new"))
        assert closed == ChannelClose(406, text, 50, 10)
        client.send_methods(1, ChannelCloseOk())
        client.open_channel(1)
        assert client.ask(1, QueueDelete(queue="old")) == QueueDeleteOk(0)
        client.declare("new")
