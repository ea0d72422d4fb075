"""Queues that hold so much or so long: overflow, time to live, and what becomes of the rest."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from client_frames import PERSISTENT, publish
from dashed import dashed
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ConfirmSelect,
    Method,
    QueueDeclare,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_channel import Channel
from scripted_session import Session

GET = BasicGet(queue="q", no_ack=True)


def number(value: int) -> Field:
    return Field("signedint" if abs(value) < 2**31 else "long", value)


def text(value: str) -> Field:
    return Field("longstr", value)


def queue(name: str = "q", *, durable: bool = False, **arguments: Field) -> QueueDeclare:
    named = dashed(arguments)
    return QueueDeclare(queue=name, durable=durable, arguments=named)


def dead_lettering(**arguments: Field) -> QueueDeclare:
    """A queue q whose dead letters go to the queue `dead`."""
    letters = {"x_dead_letter_exchange": text(""), "x_dead_letter_routing_key": text("dead")}
    return queue(**letters, **arguments)


def filled(session: Session, declare: QueueDeclare, *bodies: bytes) -> Channel:
    """A channel in confirm mode that has published these to q, one by one."""
    channel = session.channel()
    channel.ask(QueueDeclare(queue="dead"), declare, ConfirmSelect())
    for body in bodies:
        channel.publish("q", body)
        channel.confirms(1)
    return channel


def drain(channel: Channel, name: str = "q") -> None:
    while channel.ask(BasicGet(queue=name, no_ack=True)).name != "basic.get-empty":
        pass


FOUR = (b"1", b"22", b"333", b"4444")
LENGTHS: dict[str, dict[str, Field]] = {
    "drops its head": {"x_max_length": number(2)},
    "drops its head, said so": {"x_max_length": number(2), "x_overflow": text("drop-head")},
    "refuses": {"x_max_length": number(2), "x_overflow": text("reject-publish")},
    "refuses to its dead letters": {
        "x_max_length": number(2),
        "x_overflow": text("reject-publish-dlx"),
    },
    "holds nothing": {"x_max_length": number(0)},
    "refuses all": {"x_max_length": number(0), "x_overflow": text("reject-publish")},
    "drops its head in octets": {"x_max_length_bytes": number(7)},
    "refuses in octets": {"x_max_length_bytes": number(3), "x_overflow": text("reject-publish")},
    "both limits": {"x_max_length": number(3), "x_max_length_bytes": number(8)},
}


@pytest.mark.parametrize("claim", LENGTHS)
def test_a_queue_that_is_full(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        drain(channel := filled(session, queue(**LENGTHS[claim]), *FOUR))
        channel.publish("q", b"mandatory", mandatory=True)
        channel.confirms(1)
        drain(channel)

    both.compare(f"full queue: {claim}", script)


@pytest.mark.parametrize("claim", LENGTHS)
def test_what_a_full_queue_makes_of_its_dead(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        drain(channel := filled(session, dead_lettering(**LENGTHS[claim]), *FOUR))
        channel.settled()
        drain(channel, "dead")

    both.compare(f"dead letters of a full queue: {claim}", script)


@compared
def test_one_publish_alone_that_is_refused(session: Session) -> None:
    channel = filled(session, queue(x_max_length=number(0), x_overflow=text("reject-publish")))
    channel.publish("q")
    channel.read()


@compared
def test_only_ready_messages_count_towards_the_limit(session: Session) -> None:
    channel = filled(session, queue(x_max_length=number(2)), b"1", b"2")
    get = BasicGet(queue="q")
    channel.ask(get, get)
    for body in (b"3", b"4", b"5"):
        channel.publish("q", body)
        channel.read()
    # What comes back makes it too long again.
    channel.send(BasicNack(2, True))
    channel.settled()
    channel.wait_for_counts("q", 2)
    drain(channel)


@compared
def test_a_burst_that_a_full_queue_refuses(session: Session) -> None:
    channel = filled(
        session,
        queue(durable=True, x_max_length=number(10), x_overflow=text("reject-publish")),
    )
    channel.send(*(publish("q", b"%d" % n, PERSISTENT) for n in range(10)))
    channel.confirms(10)
    channel.send(*(publish("q", b"%d" % n, PERSISTENT) for n in range(10, 30)))
    channel.confirms(20)
    drain(channel)


@compared
def test_a_message_goes_past_a_limit_to_a_consumer_that_waits(session: Session) -> None:
    channel = filled(session, queue(x_max_length=number(1)))
    consumer = session.channel()
    consumer.ask(BasicQos(0, 2), BasicConsume(queue="q", consumer_tag="c"))
    for body in (b"1", b"2", b"3", b"4"):
        channel.publish("q", body)
        channel.read()
    consumer.read(2)
    consumer.send(BasicAck(1))
    consumer.read()


TTL = Properties(expiration="1")
LIVES: dict[str, tuple[QueueDeclare, Properties]] = {
    "of the queue": (dead_lettering(x_message_ttl=number(1)), Properties()),
    "of the message": (dead_lettering(), TTL),
    "of the message, less than the queue's": (dead_lettering(x_message_ttl=number(60_000)), TTL),
    "of the queue, less than the message's": (
        dead_lettering(x_message_ttl=number(1)),
        Properties(expiration="60000"),
    ),
    "none at all, of the queue": (dead_lettering(x_message_ttl=number(0)), Properties()),
    "none at all, of the message": (dead_lettering(), Properties(expiration="0")),
}


@pytest.mark.parametrize("claim", LIVES)
def test_a_message_whose_time_is_over(both: BothBrokers, claim: str) -> None:
    declare, properties = LIVES[claim]

    def script(session: Session) -> None:
        channel = filled(session, declare)
        channel.publish("q", b"body", properties)
        channel.read()
        channel.wait_for_counts("dead", 1)
        channel.ask(GET)
        drain(channel, "dead")

    both.compare(f"time to live: {claim}", script)


@compared
def test_a_message_without_time_is_delivered_to_who_waits(session: Session) -> None:
    channel = filled(session, dead_lettering(x_message_ttl=number(0)))
    consumer = session.channel()
    consumer.ask(BasicQos(0, 1), BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("q", b"1")
    channel.read()
    consumer.read()
    channel.publish("q", b"2")
    channel.read()
    channel.wait_for_counts("dead", 1)
    drain(channel, "dead")


@compared
def test_an_unacked_message_does_not_expire_until_it_comes_back(session: Session) -> None:
    channel = filled(session, dead_lettering())
    channel.publish("q", b"1", Properties(expiration="300"))
    channel.read()
    channel.ask(BasicGet(queue="q"))
    channel.publish("q", b"2", TTL)
    channel.read()
    channel.wait_for_counts("dead", 1)
    channel.send(BasicNack(1))
    channel.wait_for_counts("dead", 2)
    drain(channel)
    drain(channel, "dead")


@compared
def test_a_queue_that_nobody_uses_goes(session: Session) -> None:
    channel = session.channel()
    channel.ask(queue(x_expires=number(1)))
    channel.wait_until_gone("q")
    channel.ask(QueueDeclare(queue="q", passive=True))


@compared
def test_a_queue_with_a_consumer_stays(session: Session) -> None:
    channel = session.channel()
    channel.ask(queue(x_expires=number(200)), BasicConsume(queue="q", consumer_tag="c"))
    other = session.channel()
    other.ask(queue("r", x_expires=number(400)))
    other.wait_until_gone("r")
    other.ask(QueueDeclare(queue="q", passive=True))


ARGUMENTS: dict[str, list[Method]] = {
    name: [queue(**{argument: value}), queue()]
    for name, argument, value in (
        ("ttl of less than nothing", "x_message_ttl", number(-1)),
        ("ttl too long", "x_message_ttl", number(315_360_000_001)),
        ("ttl in words", "x_message_ttl", text("1000")),
        ("ttl with a point", "x_message_ttl", Field("double", 1.0)),
        ("ttl as long as it may be", "x_message_ttl", number(315_360_000_000)),
        ("expires at once", "x_expires", number(0)),
        ("expires before", "x_expires", number(-1)),
        ("expires in words", "x_expires", text("1")),
        ("expires too late", "x_expires", number(315_360_000_001)),
        ("length of less than nothing", "x_max_length", number(-1)),
        ("length in words", "x_max_length", text("many")),
        ("octets of less than nothing", "x_max_length_bytes", number(-1)),
        ("overflow of another kind", "x_overflow", text("spill")),
        ("overflow in numbers", "x_overflow", number(1)),
        ("mode of another kind", "x_queue_mode", text("eager")),
        ("mode in numbers", "x_queue_mode", number(1)),
        ("lazy mode", "x_queue_mode", text("lazy")),
        ("version of another kind", "x_queue_version", number(3)),
        ("version in words", "x_queue_version", text("2")),
        ("key without exchange", "x_dead_letter_routing_key", text("k")),
        ("exchange in numbers", "x_dead_letter_exchange", number(1)),
        ("single in words", "x_single_active_consumer", text("yes")),
        ("priority too high", "x_max_priority", number(256)),
        ("priority of less than nothing", "x_max_priority", number(-1)),
        ("type of another kind", "x_queue_type", text("heap")),
        ("type in numbers", "x_queue_type", number(1)),
    )
}


@pytest.mark.parametrize("claim", ARGUMENTS)
def test_an_argument(both: BothBrokers, claim: str) -> None:
    both.compare(f"argument: {claim}", lambda session: session.channel().ask(*ARGUMENTS[claim]))
