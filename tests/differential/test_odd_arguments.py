"""Every argument with values of every kind, and methods where nobody expects them."""

from __future__ import annotations

import struct

import pytest
from both_brokers import BothBrokers, Script
from client_frames import content_header, frame, methods_of
from dead_letter_scripts import text
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlowOk,
    ChannelOpen,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leveret.amqp_frames.values.field_table import Field, Table
from scripted_session import Session

VALUES = (
    text("a"),
    text(""),
    Field("signedint", 0),
    Field("signedint", -1),
    Field("long", 2**40),
    Field("unsignedbyte", 200),
    Field("double", 2.0),
    Field("timestamp", 1000),
    Field("bool", True),
    Field("void", None),
    Field("binary", b"a"),
    Field("table", {}),
    Field("array", []),
)
QUORUM: Table = {"x-queue-type": text("quorum")}


def in_turn(*methods: Method) -> Script:
    """Questions on one channel, which is opened again when the broker closes it."""

    def script(session: Session) -> None:
        session.channel().ask(*methods)

    return script


def sent(*what: bytes | Method) -> Script:
    """The methods sent on one channel, and all their answers."""

    def script(session: Session) -> None:
        channel = session.channel()
        channel.send(*what)
        channel.settled()

    return script


def declared(name: str, **others: Field) -> Script:
    return in_turn(
        *(
            QueueDeclare(queue=f"q{number}", arguments={name: value, **others})
            for number, value in enumerate(VALUES)
        )
    )


def consumed(name: str) -> Script:
    return in_turn(
        QueueDeclare(queue="q"),
        *(
            BasicConsume(queue="q", consumer_tag=f"c{number}", arguments={name: value})
            for number, value in enumerate(VALUES)
        ),
    )


def bound(exchange: str) -> Script:
    return in_turn(
        QueueDeclare(queue="q"),
        *(
            method(queue="q", exchange=exchange, routing_key="k", arguments={name: value})
            for name in ("x-match", "x-foo", "k", "")
            for value in VALUES
            for method in (QueueBind, QueueUnbind)
        ),
    )


QUEUE_ARGUMENTS = (
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-max-priority",
    "x-queue-mode",
    "x-queue-type",
    "x-queue-version",
    "x-single-active-consumer",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-ha-policy",
    "x-quorum-initial-group-size",
    "x-max-age",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
    "x-foo",
    "X-Message-TTL",
    "",
)
CONSUMER_ARGUMENTS = ("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "x-foo", "")
ALIKE: dict[str, Script] = {
    **{f"queue {name}": declared(name) for name in QUEUE_ARGUMENTS},
    "queue x-dead-letter-routing-key with its exchange": declared(
        "x-dead-letter-routing-key", **{"x-dead-letter-exchange": text("")}
    ),
    **{f"consumer {name}": consumed(name) for name in CONSUMER_ARGUMENTS},
    "a consumer of a quorum queue": in_turn(
        QueueDeclare(queue="q", durable=True, arguments=QUORUM),
        *(
            BasicConsume(queue="q", consumer_tag=name, arguments={name: value})
            for name in CONSUMER_ARGUMENTS[:3]
            for value in (text("a"), Field("bool", True))
        ),
    ),
    **{f"binding to {kind}": bound(f"amq.{kind}") for kind in ("direct", "topic", "headers")},
    "exchange": in_turn(
        *(
            ExchangeDeclare(exchange=f"x{number}", arguments={name: value})
            for name in ("alternate-exchange", "x-foo", "")
            for number, value in enumerate(VALUES)
        )
    ),
    "flow-ok that nobody asked for": sent(ChannelFlowOk(True)),
    "close-ok that nobody asked for": sent(ChannelCloseOk()),
    "open behind close": sent(ChannelClose(200, "bye"), ChannelOpen()),
}


@pytest.mark.parametrize("claim", ALIKE)
def test_an_argument_of_every_kind(both: BothBrokers, claim: str) -> None:
    both.compare(f"odd: {claim}", ALIKE[claim])


NAN = bytes.fromhex("2000 00000007 01 61 66 7fc00000")


def nested(levels: int) -> bytes:
    """Headers with tables in tables, as the octets of the properties."""
    table = b""
    for _ in range(levels):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    return struct.pack(">HI", 0x2000, len(table)) + table


def published(properties: bytes) -> Script:
    header = frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + properties)
    return sent(methods_of(1, BasicPublish(routing_key="nowhere")), header)


def a_body_in_two_frames(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q"))
    pieces = frame(3, 1, b"a"), frame(3, 1, b"b")
    channel.send(methods_of(1, BasicPublish(routing_key="q")), content_header(1, 2), *pieces)
    channel.wait_for_counts("q", 1)
    channel.ask(BasicGet(queue="q", no_ack=True))


def a_name_that_is_not_utf_8(session: Session) -> None:
    """Its octets stand in RabbitMQ's answer, which then is no method that can be decoded."""
    connection = session.channel().connection
    connection.send(frame(1, 1, b"\0\x3c\0\x28\0\0\x01\xff\0\0"), content_header(1, 0))
    head = connection.read_bytes(7)
    session.record("answer", repr(connection.read_bytes(int.from_bytes(head[3:]) + 1)))


DIFFERENT: dict[str, Script] = {
    "x-consumer-timeout that is no number": in_turn(
        QueueDeclare(queue="q", arguments={"x-consumer-timeout": text("a")})
    ),
    "x-queue-leader-locator of a classic queue": in_turn(
        QueueDeclare(queue="q", arguments={"x-queue-leader-locator": text("client-local")})
    ),
    "x-queue-master-locator that is none": in_turn(
        QueueDeclare(queue="q", arguments={"x-queue-master-locator": text("a")})
    ),
    "x-stream-filter-size-bytes": in_turn(
        QueueDeclare(queue="q", arguments={"x-stream-filter-size-bytes": Field("long", 16)})
    ),
    "x-credit": in_turn(
        QueueDeclare(queue="q"),
        BasicConsume(queue="q", consumer_tag="c", arguments={"x-credit": text("a")}),
    ),
    "an unknown exchange type": in_turn(ExchangeDeclare(exchange="x", type="burrow")),
    "a stream": in_turn(
        QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": text("stream")})
    ),
    "if_empty of a quorum queue": in_turn(
        QueueDeclare(queue="q", durable=True, arguments=QUORUM),
        QueueDelete(queue="q", if_empty=True),
    ),
    "global prefetch of a quorum queue": in_turn(
        QueueDeclare(queue="q", durable=True, arguments=QUORUM),
        BasicQos(0, 5, True),
        BasicConsume(queue="q", consumer_tag="c"),
    ),
    "a header that is not a number": published(NAN),
    "headers 65 levels deep": published(nested(65)),
    "a body in two frames": a_body_in_two_frames,
    "a name that is not UTF-8": a_name_that_is_not_utf_8,
    "a delivery by a client": sent(methods_of(1, BasicDeliver())),
}


@pytest.mark.parametrize("claim", DIFFERENT)
def test_an_argument_that_the_brokers_take_differently(both: BothBrokers, claim: str) -> None:
    both.compare(f"odd: {claim}", DIFFERENT[claim])
