"""Topology that changes between a publish in a transaction and its commit."""

from __future__ import annotations

from both_brokers import compared
from leveret.amqp_frames.methods import (
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from scripted_session import Session


@compared
def test_a_binding_made_between_a_publish_and_its_commit(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="a"), TxSelect())
    channel.publish("k", exchange="amq.direct")
    channel.settled()
    channel.ask(QueueBind(queue="a", exchange="amq.direct", routing_key="k"), TxCommit())
    channel.ask(QueueDeclare(queue="a", passive=True))


@compared
def test_an_exchange_deleted_between_a_publish_and_its_commit(session: Session) -> None:
    channel = session.channel()
    channel.ask(ExchangeDeclare(exchange="x", type="fanout"), TxSelect())
    channel.publish("k", exchange="x")
    channel.settled()
    channel.ask(ExchangeDelete(exchange="x"), TxCommit())
