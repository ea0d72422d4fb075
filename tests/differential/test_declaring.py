"""Queues and exchanges: made, made again, looked at and deleted, rightly and wrongly."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from dashed import dashed
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Session

Q = QueueDeclare(queue="q")
X = ExchangeDeclare(exchange="x", type="direct")
CONSUME = BasicConsume(queue="q", consumer_tag="c")
VERSION = {"x-queue-version": Field("signedint", 2)}


def declared(**arguments: object) -> QueueDeclare:
    named = dashed(arguments)
    return QueueDeclare(queue="q", arguments=named)  # type: ignore[arg-type]


# What is asked on one channel, one after the other; the answer to each is compared.
SESSIONS: dict[str, list[Method]] = {
    "a queue twice": [Q, Q, QueueDeclare(queue="q", passive=True)],
    "a queue of a name of its own": [QueueDeclare(), QueueDeclare(passive=True), QueueDelete()],
    "the last declared queue": [
        Q,
        QueueBind(exchange="amq.direct"),
        BasicGet(),
        QueuePurge(),
        BasicConsume(consumer_tag="c"),
        QueueUnbind(exchange="amq.direct", routing_key="q"),
        QueueDelete(),
    ],
    "no last declared queue": [
        QueueBind(exchange="amq.direct"),
        QueueUnbind(exchange="amq.direct"),
        BasicGet(),
        QueuePurge(),
        BasicConsume(consumer_tag="c"),
        QueueDelete(),
        QueueDeclare(passive=True),
    ],
    "a queue that is not there": [
        QueueDeclare(queue="q", passive=True),
        QueueBind(queue="q", exchange="amq.direct"),
        QueueUnbind(queue="q", exchange="amq.direct"),
        BasicGet(queue="q"),
        QueuePurge(queue="q"),
        CONSUME,
        QueueDelete(queue="q"),
    ],
    "an exchange that is not there": [
        ExchangeDeclare(exchange="x", passive=True),
        Q,
        QueueBind(queue="q", exchange="x"),
        QueueUnbind(queue="q", exchange="x"),
        ExchangeDelete(exchange="x"),
    ],
    "neither queue nor exchange is there": [QueueBind(queue="q", exchange="x")],
    "a durable queue as a transient one": [QueueDeclare(queue="q", durable=True), Q],
    "a transient queue as a durable one": [Q, QueueDeclare(queue="q", durable=True)],
    "a queue as an auto-delete one": [Q, QueueDeclare(queue="q", auto_delete=True)],
    "a queue as an exclusive one": [Q, QueueDeclare(queue="q", exclusive=True)],
    "an exclusive queue as a common one": [QueueDeclare(queue="q", exclusive=True), Q],
    "several properties at once": [
        Q,
        QueueDeclare(queue="q", durable=True, auto_delete=True, arguments=VERSION),
    ],
    "a queue passively as something else": [
        QueueDeclare(queue="q", durable=True),
        QueueDeclare(queue="q", passive=True, auto_delete=True, arguments=VERSION),
    ],
    "an argument that was not there": [Q, declared(x_queue_version=Field("signedint", 2))],
    "an argument that is missing": [declared(x_queue_version=Field("signedint", 2)), Q],
    "an argument of another value": [
        declared(x_queue_version=Field("signedint", 2)),
        declared(x_queue_version=Field("signedint", 1)),
    ],
    "an argument of another integer type": [
        declared(x_queue_version=Field("signedint", 2)),
        declared(x_queue_version=Field("long", 2)),
    ],
    "an unknown argument of another value": [
        declared(foo=Field("longstr", "a")),
        declared(foo=Field("longstr", "b")),
    ],
    "reserved names": [
        QueueDeclare(queue="amq.q"),
        QueueDeclare(queue="amq.q", passive=True),
        ExchangeDeclare(exchange="amq.x"),
        ExchangeDeclare(exchange="amq.x", passive=True),
        ExchangeDeclare(exchange="amq.direct", durable=True),
    ],
    "the default exchange": [
        ExchangeDeclare(exchange="", durable=True),
        ExchangeDeclare(exchange="", passive=True),
        ExchangeDelete(exchange=""),
        Q,
        QueueBind(queue="q", exchange=""),
        QueueUnbind(queue="q", exchange=""),
    ],
    "the broker's own exchanges": [
        ExchangeDelete(exchange="amq.direct"),
        ExchangeDelete(exchange="amq.topic", if_unused=True),
        ExchangeDeclare(exchange="amq.fanout", type="fanout", durable=True),
        ExchangeDeclare(exchange="amq.match", type="headers", durable=True),
        ExchangeDeclare(exchange="amq.topic", type="topic", durable=False),
    ],
    "an exchange twice": [X, X, ExchangeDeclare(exchange="x", type="topic", passive=True)],
    "an exchange of another type": [X, ExchangeDeclare(exchange="x", type="topic")],
    "an exchange as a durable one": [X, ExchangeDeclare(exchange="x", durable=True)],
    "an exchange as an auto-delete one": [X, ExchangeDeclare(exchange="x", auto_delete=True)],
    "an exchange as an internal one": [X, ExchangeDeclare(exchange="x", internal=True)],
    "an exchange in use": [
        X,
        Q,
        QueueBind(queue="q", exchange="x", routing_key="k"),
        ExchangeDelete(exchange="x", if_unused=True),
        QueueUnbind(queue="q", exchange="x", routing_key="k"),
        ExchangeDelete(exchange="x", if_unused=True),
    ],
    "a queue in use": [Q, CONSUME, QueueDelete(queue="q", if_unused=True)],
    "a binding twice, and taken away twice": [
        Q,
        QueueBind(queue="q", exchange="amq.topic", routing_key="a.*"),
        QueueBind(queue="q", exchange="amq.topic", routing_key="a.*"),
        QueueUnbind(queue="q", exchange="amq.topic", routing_key="a.*"),
        QueueUnbind(queue="q", exchange="amq.topic", routing_key="a.*"),
    ],
    "a binding with arguments": [
        Q,
        QueueBind(queue="q", exchange="amq.direct", routing_key="k", arguments=VERSION),
        QueueUnbind(queue="q", exchange="amq.direct", routing_key="k"),
        QueueUnbind(queue="q", exchange="amq.direct", routing_key="k", arguments=VERSION),
    ],
    "names as long as they may be": [
        QueueDeclare(queue="q" * 255),
        ExchangeDeclare(exchange="x" * 255),
        QueueBind(queue="q" * 255, exchange="x" * 255, routing_key="k" * 255),
        ExchangeDeclare(exchange="x" * 255, type="topic"),
    ],
    "names with line ends": [QueueDeclare(queue="q\n1"), ExchangeDeclare(exchange="x\r\n")],
    "names of other alphabets": [
        QueueDeclare(queue="lièvre"),
        QueueDeclare(queue="lièvre", durable=True),
        QueueDeclare(queue="兔", passive=True),
    ],
}


@pytest.mark.parametrize("claim", SESSIONS)
def test_one_after_the_other(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        channel = session.channel()
        channel.ask(*SESSIONS[claim])
        channel.settled()

    both.compare(claim, script)


@compared
def test_no_wait_brings_no_answer(session: Session) -> None:
    channel = session.channel()
    channel.send(
        QueueDeclare(queue="q", no_wait=True),
        ExchangeDeclare(exchange="x", type="fanout", no_wait=True),
        QueueBind(queue="q", exchange="x", no_wait=True),
        QueueDelete(queue="q", no_wait=True),
        ExchangeDelete(exchange="x", no_wait=True),
    )
    channel.settled()
    channel.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_no_wait_brings_an_error_all_the_same(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q"), QueueDeclare(queue="q", durable=True, no_wait=True))


@compared
def test_the_exclusive_queue_of_another_connection(session: Session) -> None:
    owner, other = session.channel(), session.channel()
    owner.ask(QueueDeclare(queue="q", exclusive=True))
    other.ask(
        Q,
        QueueDeclare(queue="q", exclusive=True),
        QueueDeclare(queue="q", passive=True),
        QueueBind(queue="q", exchange="amq.direct"),
        QueueUnbind(queue="q", exchange="amq.direct"),
        QueuePurge(queue="q"),
        BasicGet(queue="q"),
        CONSUME,
        QueueDelete(queue="q"),
    )
    owner.ask(QueueDelete(queue="q"))
    other.ask(QueueDelete(queue="q"))


@compared
def test_an_exclusive_queue_goes_with_its_connection(session: Session) -> None:
    owner, other = session.channel(), session.channel()
    owner.ask(QueueDeclare(queue="q", exclusive=True, durable=True))
    owner.connection.close()
    other.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_deleting_a_queue_that_is_not_empty(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    channel.publish("q")
    channel.publish("q")
    channel.ask(QueueDelete(queue="q", if_empty=True), Q, QueueDelete(queue="q"))


@compared
def test_an_auto_delete_queue_goes_with_its_last_consumer(session: Session) -> None:
    channel, other = session.channel(), session.channel()
    channel.ask(QueueDeclare(queue="q", auto_delete=True), CONSUME)
    other.ask(QueueDeclare(queue="q", passive=True))
    channel.connection.close()
    other.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_a_consumer_is_told_that_its_queue_is_deleted(session: Session) -> None:
    channel, other = session.channel(), session.channel()
    channel.ask(Q, CONSUME)
    other.ask(QueueDelete(queue="q"))
    channel.read()
    deaf = session.connect(capabilities=()).channel(1)
    deaf.ask(Q, CONSUME)
    other.ask(QueueDelete(queue="q"))
    deaf.settled()
