"""Users, vhosts and permissions: every method, allowed and refused, as RabbitMQ has it."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from client_frames import publish
from granted import HAS_TOPICS, PASSWORD, PERMISSIONS
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from scripted_channel import Channel
from scripted_session import Session

Q = QueueDeclare(queue="q")
X = ExchangeDeclare(exchange="x", type="fanout")
Y = ExchangeDeclare(exchange="y", type="fanout")

# In an order in which each can be carried out where the one before it was.
METHODS: list[Method | bytes] = [
    Q,
    QueueDeclare(queue="q", passive=True),
    QueueDeclare(queue="new"),
    QueueDeclare(exclusive=True),
    QueueDeclare(queue="dead", arguments=table_of({"x-dead-letter-exchange": "y"})),
    QueueDeclare(queue="dead", arguments=table_of({"x-dead-letter-exchange": "missing"})),
    X,
    ExchangeDeclare(exchange="x", passive=True),
    ExchangeDeclare(exchange="new", type="topic"),
    ExchangeDeclare(exchange="a", type="fanout", arguments=table_of({"alternate-exchange": "y"})),
    QueueBind(queue="q", exchange="x"),
    QueueBind(queue="q", exchange="amq.topic", routing_key="k"),
    QueueUnbind(queue="q", exchange="x"),
    ExchangeBind(destination="y", source="x"),
    ExchangeUnbind(destination="y", source="x"),
    BasicGet(queue="q"),
    BasicGet(queue="missing"),
    BasicConsume(queue="q", consumer_tag="c"),
    BasicCancel("c"),
    QueuePurge(queue="q"),
    QueueDelete(queue="missing"),
    QueueDelete(queue="q"),
    ExchangeDelete(exchange="missing"),
    ExchangeDelete(exchange="y"),
    QueueBind(queue="missing", exchange="missing"),
]
PUBLISHES = [
    publish("q"),
    publish("k", exchange="x"),
    publish("k", exchange="missing"),
    publish("k", exchange="amq.topic"),
    publish("q", b"", Properties(user_id="guest")),
]


@pytest.mark.parametrize("user", PERMISSIONS)
def test_every_method(both: BothBrokers, user: str) -> None:
    def script(session: Session) -> None:
        session.channel().ask(Q, X, Y)
        channel = session.connect(user=user, password=PASSWORD).channel(1)
        channel.ask(*METHODS)

    both.compare(f"methods of a user who {user}", script)


@pytest.mark.parametrize("user", PERMISSIONS)
def test_every_publish(both: BothBrokers, user: str) -> None:
    def script(session: Session) -> None:
        session.channel().ask(Q, X, Y)
        channel = session.connect(user=user, password=PASSWORD).channel(1)
        for frames in PUBLISHES:
            # Again each time: a channel that was closed is opened as it was at first.
            channel.ask(ConfirmSelect(), frames)

    both.compare(f"publishes of a user who {user}", script)


def opened(session: Session, user: str, vhost: str) -> None:
    connection = session.raw_connection()
    connection.send(PROTOCOL_HEADER)
    connection.next_command(0)
    properties = table_of({"capabilities": {"authentication_failure_close": True}})
    connection.ask(
        ConnectionStartOk(properties, "PLAIN", f"\0{user}\0{PASSWORD}".encode(), "en_US")
    )
    connection.ask(ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(virtual_host=vhost))


@compared
def test_a_vhost_that_the_user_may_enter(session: Session) -> None:
    opened(session, "does all", "other")


@compared
def test_a_vhost_that_the_user_may_not_enter(session: Session) -> None:
    opened(session, "does nothing", "other")


@compared
def test_a_vhost_that_is_not_there(session: Session) -> None:
    opened(session, "does all", "missing")


@compared
def test_vhosts_are_apart(session: Session) -> None:
    here = session.channel()
    there = session.connect(user="does all", password=PASSWORD, vhost="other").channel(1)
    here.ask(Q)
    there.ask(
        QueueDeclare(queue="q", passive=True),
        QueueDeclare(queue="q", exclusive=True),
        ExchangeDeclare(exchange="x", passive=True),
        ExchangeDeclare(exchange="amq.direct", durable=False),
        QueueDeclare(queue="q", durable=True),
        QueueDelete(queue="q"),
    )
    here.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_a_user_id_that_an_impersonator_sets(session: Session) -> None:
    for user in ("does all", "impersonates"):
        channel = session.connect(user=user, password=PASSWORD).channel(1)
        channel.ask(Q, ConfirmSelect(), publish("q", b"", Properties(user_id="somebody")))
        channel.ask(BasicGet(queue="q"))


@compared
def test_topic_permissions(session: Session) -> None:
    channel = session.connect(user=HAS_TOPICS, password=PASSWORD).channel(1)
    channel.ask(Q, ExchangeDeclare(exchange="t", type="topic"))
    for key in ("a", HAS_TOPICS, "b", ""):
        channel.ask(ConfirmSelect(), publish(key, exchange="amq.topic"))
        channel.ask(ConfirmSelect(), publish(key, exchange="t"))
    for key in ("a", "b", "bb"):
        channel.ask(
            QueueBind(queue="q", exchange="amq.topic", routing_key=key),
            QueueUnbind(queue="q", exchange="amq.topic", routing_key=key),
            ExchangeBind(destination="t", source="amq.topic", routing_key=key),
            ExchangeUnbind(destination="t", source="amq.topic", routing_key=key),
            ExchangeBind(destination="amq.topic", source="t", routing_key=key),
        )


@compared
def test_a_user_that_has_all_its_connections(session: Session) -> None:
    opened(session, "may not connect", "/")


@compared
def test_a_vhost_that_has_all_its_connections(session: Session) -> None:
    opened(session, "does all", "no connection")


@compared
def test_a_user_that_has_all_its_channels(session: Session) -> None:
    connection = session.connect(user="has a channel", password=PASSWORD)
    connection.channel(1).ask(Q)
    Channel(connection, 2).ask(ChannelOpen())


@compared
def test_a_vhost_that_has_all_its_queues(session: Session) -> None:
    channel = session.connect(vhost="one queue").channel(1)
    channel.ask(
        Q,
        Q,
        QueueDeclare(queue="second"),
        QueueDeclare(queue="q", passive=True),
        QueueDelete(queue="q"),
        QueueDeclare(queue="second"),
        QueueDelete(queue="second"),
    )


@compared
def test_queues_with_policies(session: Session) -> None:
    channel = session.channel()
    roomy = table_of({"x-max-length": 2, "x-overflow": "drop-head"})
    for name, arguments in (("governed", {}), ("governed.op", {}), ("governed.own", roomy)):
        declare = QueueDeclare(queue=name, arguments=arguments)
        channel.ask(declare, ConfirmSelect(), publish(name), publish(name), publish(name))
        channel.ask(declare, QueueDelete(queue=name))
