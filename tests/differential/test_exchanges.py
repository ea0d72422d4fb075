"""Bindings between exchanges, headers and alternates: made, refused, and what goes with what."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers
from leveret.amqp_frames.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leveret.amqp_frames.values.field_table import Field, Table
from scripted_session import Session


def number(value: int, kind: str = "signedint") -> Field:
    return Field(kind, value)


def text(value: str) -> Field:
    return Field("longstr", value)


def fanout(name: str, **how: object) -> ExchangeDeclare:
    return ExchangeDeclare(exchange=name, type="fanout", **how)  # type: ignore[arg-type]


def alternate(name: str) -> Table:
    return {"alternate-exchange": text(name)}


def queue_bind(queue: str, exchange: str, key: str = "", **arguments: Field) -> QueueBind:
    return QueueBind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)


# --- What is asked on one channel, one after the other.

Q = QueueDeclare(queue="q")
X, Y = fanout("x"), fanout("y")
MATCHES = (
    text("all"),
    text("any"),
    text("all-with-x"),
    text("any-with-x"),
    text("foo"),
    text(""),
    text("ANY"),
    text("é"),
    text("兔"),
    text('a"b\\c\n'),
    number(5),
    Field("void", None),
    Field("bool", True),
    Field("binary", b"any"),
    Field("table", {"a": number(1)}),
    Field("array", [text("any")]),
)
SESSIONS: dict[str, list[Method]] = {
    "every x-match": [
        Q,
        X,
        *(
            bind
            for match in MATCHES
            for bind in (
                QueueBind(queue="q", exchange="amq.headers", arguments={"x-match": match}),
                ExchangeBind(destination="x", source="amq.match", arguments={"x-match": match}),
                QueueBind(queue="q", exchange="amq.topic", arguments={"x-match": match}),
            )
        ),
    ],
    "binding exchanges that are not there": [
        X,
        ExchangeBind(0, "x", "y"),
        ExchangeBind(0, "y", "x"),
        ExchangeBind(0, "y", "z"),
        ExchangeUnbind(0, "x", "y"),
        ExchangeUnbind(0, "y", "x"),
        ExchangeUnbind(0, "x", "x", "never bound"),
    ],
    "binding the default exchange": [
        X,
        ExchangeBind(0, "x", ""),
        ExchangeBind(0, "", "x"),
        ExchangeBind(0, "", ""),
        ExchangeUnbind(0, "x", ""),
        ExchangeUnbind(0, "", "x"),
    ],
    "binding a queue as if it were an exchange": [Q, X, ExchangeBind(0, "q", "x")],
    "bindings between exchanges twice": [
        X,
        Y,
        ExchangeBind(0, "y", "x", "k"),
        ExchangeBind(0, "y", "x", "k"),
        ExchangeDelete(exchange="x", if_unused=True),
        ExchangeUnbind(0, "y", "x", "k"),
        ExchangeUnbind(0, "y", "x", "k"),
        ExchangeDelete(exchange="x", if_unused=True),
    ],
    "an exchange that others lead to is not in use": [
        X,
        Y,
        ExchangeBind(0, "y", "x"),
        ExchangeDelete(exchange="y", if_unused=True),
        ExchangeDelete(exchange="x", if_unused=True),
    ],
    "alternates that are no names": [
        ExchangeDeclare(exchange="x", arguments={"alternate-exchange": number(1)}),
        ExchangeDeclare(exchange="x", arguments={"alternate-exchange": Field("bool", True)}),
        ExchangeDeclare(exchange="x", arguments={"alternate-exchange": Field("void", None)}),
    ],
    "other alternates": [
        ExchangeDeclare(exchange="x", arguments=alternate("a")),
        ExchangeDeclare(exchange="x", arguments=alternate("a")),
        ExchangeDeclare(exchange="x", arguments=alternate("b")),
        ExchangeDeclare(exchange="x"),
        ExchangeDeclare(exchange="x", arguments=alternate("a") | {"other": number(1)}),
    ],
    "auto-delete exchanges one after the other": [
        fanout("x", auto_delete=True),
        fanout("y", auto_delete=True),
        Q,
        ExchangeBind(0, "y", "x"),
        queue_bind("q", "y"),
        ExchangeDeclare(exchange="y", passive=True),
        QueueDelete(queue="q"),
        ExchangeDeclare(exchange="y", passive=True),
        ExchangeDeclare(exchange="x", passive=True),
    ],
    "auto-delete exchanges in a cycle": [
        fanout("x", auto_delete=True),
        fanout("y", auto_delete=True),
        ExchangeBind(0, "y", "x"),
        ExchangeBind(0, "x", "y"),
        ExchangeDelete(exchange="x"),
        ExchangeDeclare(exchange="x", passive=True),
        ExchangeDeclare(exchange="y", passive=True),
    ],
    "an auto-delete exchange bound to itself": [
        fanout("x", auto_delete=True),
        ExchangeBind(0, "x", "x"),
        ExchangeDeclare(exchange="x", passive=True),
        ExchangeUnbind(0, "x", "x"),
        ExchangeDeclare(exchange="x", passive=True),
    ],
    "an auto-delete exchange that others lead to": [
        fanout("x"),
        fanout("y", auto_delete=True),
        ExchangeBind(0, "y", "x"),
        ExchangeUnbind(0, "y", "x"),
        ExchangeDeclare(exchange="y", passive=True),
    ],
    "internal exchanges": [
        fanout("x", internal=True),
        X,
        Q,
        queue_bind("q", "x"),
        QueueUnbind(queue="q", exchange="x"),
    ],
}


@pytest.mark.parametrize("claim", SESSIONS)
def test_one_after_the_other(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        channel = session.channel()
        channel.ask(*SESSIONS[claim])
        channel.settled()

    both.compare(claim, script)
