"""Codes and words of what goes wrong with exchanges that lead on: headers, bindings, alternates."""

from __future__ import annotations

from leveret.amqp_frames.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import Field
from mistakes import Mistake, assert_closes_the_channel, parametrized
from wire import Client, publish

Q = QueueDeclare(queue="q")
X = ExchangeDeclare(exchange="x", type="fanout")
Y = ExchangeDeclare(exchange="y", type="fanout", internal=True)
ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
X_MATCH = "PRECONDITION_FAILED - Invalid x-match field"
EXPECTED = "expected all, any, all-with-x, or any-with-x"


def not_there(name: str) -> str:
    return f"NOT_FOUND - no exchange '{name}' in vhost '/'"


@parametrized(
    Mistake("source", ExchangeBind(0, "x", "y"), 404, not_there("y"), [X]),
    Mistake("destination", ExchangeBind(0, "y", "x"), 404, not_there("y"), [X]),
    Mistake("both", ExchangeBind(0, "x", "y"), 404, not_there("y")),
)
def test_binding_exchanges_that_are_not_there(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake("bind to", ExchangeBind(0, "", "x"), 403, ON_DEFAULT, [X]),
    Mistake("bind from", ExchangeBind(0, "x", ""), 403, ON_DEFAULT, [X]),
    Mistake("unbind to", ExchangeUnbind(0, "", "x"), 403, ON_DEFAULT, [X]),
    Mistake("unbind from", ExchangeUnbind(0, "x", ""), 403, ON_DEFAULT, [X]),
)
def test_the_default_exchange_is_bound_to_nothing(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def with_match(match: Field) -> tuple[QueueBind, ExchangeBind]:
    arguments = {"x-match": match}
    return (
        QueueBind(queue="q", exchange="amq.headers", arguments=arguments),
        ExchangeBind(destination="x", source="amq.match", arguments=arguments),
    )


FOO = with_match(Field("longstr", "foo"))
NUMBER = with_match(Field("signedint", 5))


@parametrized(
    Mistake("value of a queue's", FOO[0], 406, f'{X_MATCH} value <<"foo">>; {EXPECTED}', [Q]),
    Mistake("value of an exchange's", FOO[1], 406, f'{X_MATCH} value <<"foo">>; {EXPECTED}', [X]),
    Mistake(
        "type of a queue's",
        NUMBER[0],
        406,
        f"{X_MATCH} type signedint (value 5); expected longstr",
        [Q],
    ),
    Mistake(
        "type of an exchange's",
        NUMBER[1],
        406,
        f"{X_MATCH} type signedint (value 5); expected longstr",
        [X],
    ),
)
def test_an_x_match_that_is_none(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake(
        "publish to internal",
        publish("k", exchange="y"),
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'y' in vhost '/'",
        [X, Y, ExchangeBind(destination="y", source="x")],
        ids=(60, 40),
    ),
    Mistake(
        "delete one that leads to another",
        ExchangeDelete(exchange="x", if_unused=True),
        406,
        "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use",
        [X, Y, ExchangeBind(destination="y", source="x")],
    ),
    Mistake(
        "alternate exchange that is no name",
        ExchangeDeclare(exchange="z", arguments={"alternate-exchange": Field("bool", True)}),
        406,
        "PRECONDITION_FAILED - invalid type 'bool' for arg 'alternate-exchange' "
        "in exchange 'z' in vhost '/'",
    ),
    Mistake(
        "another alternate exchange",
        ExchangeDeclare(
            exchange="x", type="fanout", arguments={"alternate-exchange": Field("longstr", "y")}
        ),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' "
        "in vhost '/': received the value 'y' of type 'longstr' but current is none",
        [X],
    ),
    Mistake(
        "type that is not built",
        ExchangeDeclare(exchange="z", type="x-modulus-hash"),
        406,
        "PRECONDITION_FAILED - invalid arg 'type' for exchange 'z' in vhost '/': not implemented",
    ),
)
def test_what_else_is_refused(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
