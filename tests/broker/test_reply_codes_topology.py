"""Codes and words of what goes wrong with exchanges, queues and bindings: all close the channel.

The table of SEMANTICS, "Reply codes and texts", row by row.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueueUnbind,
)
from leveret.amqp_frames.values.field_table import Field
from mistakes import Mistake, assert_closes_the_channel, parametrized
from wire import Client, publish

PUBLISH = (60, 40)
NO_EXCHANGE = "NOT_FOUND - no exchange 'x' in vhost '/'"
NO_QUEUE = "NOT_FOUND - no queue 'q' in vhost '/'"
NO_LAST_QUEUE = "NOT_FOUND - no previously declared queue"
Q = QueueDeclare(queue="q")


@parametrized(
    Mistake("publish", publish("k", exchange="x"), 404, NO_EXCHANGE, ids=PUBLISH),
    Mistake("bind", QueueBind(queue="q", exchange="x"), 404, NO_EXCHANGE, [Q]),
    Mistake("passive", ExchangeDeclare(exchange="x", passive=True), 404, NO_EXCHANGE),
)
def test_an_exchange_that_is_not_there(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake("passive", QueueDeclare(queue="q", passive=True), 404, NO_QUEUE),
    Mistake("bind", QueueBind(queue="q", exchange="amq.direct"), 404, NO_QUEUE),
    Mistake("consume", BasicConsume(queue="q"), 404, NO_QUEUE),
    Mistake("get", BasicGet(queue="q"), 404, NO_QUEUE),
    Mistake("purge", QueuePurge(queue="q"), 404, NO_QUEUE),
)
def test_a_queue_that_is_not_there(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake("bind", QueueBind(exchange="amq.direct"), 404, NO_LAST_QUEUE),
    Mistake("unbind", QueueUnbind(exchange="amq.direct"), 404, NO_LAST_QUEUE),
    Mistake("consume", BasicConsume(), 404, NO_LAST_QUEUE),
    Mistake("get", BasicGet(), 404, NO_LAST_QUEUE),
    Mistake("purge", QueuePurge(), 404, NO_LAST_QUEUE),
    Mistake("delete", QueueDelete(), 404, NO_LAST_QUEUE),
)
def test_no_queue_name_without_an_earlier_declare(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def inequivalent(what: str, named: str, received: str, current: str) -> str:
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{what}' for {named} in vhost '/': "
        f"received {received} but current is {current}"
    )


@parametrized(
    Mistake(
        "durable",
        QueueDeclare(queue="q", durable=False),
        406,
        inequivalent("durable", "queue 'q'", "'false'", "'true'"),
        [QueueDeclare(queue="q", durable=True)],
    ),
    Mistake(
        "auto-delete",
        QueueDeclare(queue="q", auto_delete=True),
        406,
        inequivalent("auto_delete", "queue 'q'", "'true'", "'false'"),
        [Q],
    ),
    Mistake(
        "argument that was not there",
        QueueDeclare(queue="q", arguments={"x-max-length": Field("signedint", 10)}),
        406,
        inequivalent("x-max-length", "queue 'q'", "the value '10' of type 'signedint'", "none"),
        [Q],
    ),
    Mistake(
        "argument that is missing",
        Q,
        406,
        inequivalent("x-queue-version", "queue 'q'", "none", "the value '2' of type 'signedint'"),
        [QueueDeclare(queue="q", arguments={"x-queue-version": Field("signedint", 2)})],
    ),
    Mistake(
        "argument of another value",
        QueueDeclare(queue="q", arguments={"x-queue-version": Field("signedint", 1)}),
        406,
        inequivalent("x-queue-version", "queue 'q'", "'1'", "'2'"),
        [QueueDeclare(queue="q", arguments={"x-queue-version": Field("signedint", 2)})],
    ),
    Mistake(
        "exchange type",
        ExchangeDeclare(exchange="x", type="topic"),
        406,
        inequivalent("type", "exchange 'x'", "'topic'", "'direct'"),
        [ExchangeDeclare(exchange="x", type="direct")],
    ),
    Mistake(
        "exchange durable",
        ExchangeDeclare(exchange="amq.direct", type="direct", durable=False),
        406,
        inequivalent("durable", "exchange 'amq.direct'", "'false'", "'true'"),
    ),
    Mistake(
        "exchange auto-delete",
        ExchangeDeclare(exchange="x", type="direct", auto_delete=True),
        406,
        inequivalent("auto_delete", "exchange 'x'", "'true'", "'false'"),
        [ExchangeDeclare(exchange="x", type="direct")],
    ),
    Mistake(
        "exchange internal",
        ExchangeDeclare(exchange="x", type="direct", internal=True),
        406,
        inequivalent("internal", "exchange 'x'", "'true'", "'false'"),
        [ExchangeDeclare(exchange="x", type="direct")],
    ),
)
def test_declaring_what_is_there_otherwise(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
UNKNOWN_TYPE = "PRECONDITION_FAILED - unknown exchange type 'foo'"
RESERVED_QUEUE = "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'"
RESERVED_EXCHANGE = "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"
SYSTEM = "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
INTERNAL = "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"


@parametrized(
    Mistake("queue", QueueDeclare(queue="amq.x"), 403, RESERVED_QUEUE),
    Mistake("exchange", ExchangeDeclare(exchange="amq.x"), 403, RESERVED_EXCHANGE),
    Mistake("declare default", ExchangeDeclare(exchange=""), 403, DEFAULT),
    Mistake("delete default", ExchangeDelete(exchange=""), 403, DEFAULT),
    Mistake("bind default", QueueBind(queue="q", exchange=""), 403, DEFAULT, [Q]),
    Mistake("unbind default", QueueUnbind(queue="q", exchange=""), 403, DEFAULT, [Q]),
    Mistake("delete system exchange", ExchangeDelete(exchange="amq.direct"), 403, SYSTEM),
    Mistake("exchange type", ExchangeDeclare(exchange="x", type="foo"), 406, UNKNOWN_TYPE),
    Mistake(
        "publish to internal",
        publish("k", exchange="x"),
        403,
        INTERNAL,
        [ExchangeDeclare(exchange="x", type="fanout", internal=True)],
        PUBLISH,
    ),
)
def test_names_and_types_that_cannot_be_had(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


IN_USE = "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
EXCHANGE_IN_USE = "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"


@parametrized(
    Mistake(
        "queue", QueueDelete(queue="q", if_unused=True), 406, IN_USE, [Q, BasicConsume(queue="q")]
    ),
    Mistake(
        "exchange",
        ExchangeDelete(exchange="x", if_unused=True),
        406,
        EXCHANGE_IN_USE,
        [Q, ExchangeDeclare(exchange="x"), QueueBind(queue="q", exchange="x")],
    ),
)
def test_deleting_if_unused_what_is_in_use(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_deleting_if_empty_what_is_not_empty(connect: Callable[..., Client]) -> None:
    client = connect()
    client.open_channel()
    client.declare("q")
    client.send(publish("q"))
    text = "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    mistake = Mistake("", QueueDelete(queue="q", if_empty=True), 406, text)
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (1, 0)


def test_deleting_what_is_not_there_is_no_mistake(client: Client) -> None:
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    assert client.ask(1, ExchangeDelete(exchange="x")) == ExchangeDeleteOk()


LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="q"),
        QueueDeclare(queue="q", exclusive=True),
        QueueDeclare(queue="q", passive=True),
        QueueBind(queue="q", exchange="amq.direct"),
        QueueDelete(queue="q"),
        QueuePurge(queue="q"),
        BasicConsume(queue="q"),
        BasicGet(queue="q"),
    ],
    ids=repr,
)
def test_the_exclusive_queue_of_another_connection(
    connect: Callable[..., Client], method: Method
) -> None:
    owner, other = connect(), connect()
    owner.open_channel()
    owner.declare("q", exclusive=True)
    other.open_channel()
    assert_closes_the_channel(other, Mistake("", method, 405, LOCKED))
    owner.open_channel(2)
    assert owner.counts("q", 2) == (0, 0)


def test_an_exclusive_queue_is_not_declared_as_another(client: Client) -> None:
    client.declare("q", exclusive=True)
    assert client.declare("q", exclusive=True).message_count == 0
    assert client.ask(1, QueueDeclare(queue="q")) == ChannelClose(405, LOCKED, 50, 10)
