"""Policies set, changed and cleared by HTTP on queues and exchanges that hold messages.

What they ask for is of the queue `live` and the exchange `news`; pattern and name are the same for
all, so that one policy takes another's place.
"""

from __future__ import annotations

from both_brokers import compared
from dashed import dashed
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import table_of
from scripted_channel import Channel
from scripted_session import Session

PATH = "/api/policies/%2F/tried"


def set_policy(session: Session, path: str = PATH, **definition: object) -> None:
    given = {"pattern": "^(live|news)$", "definition": dashed(definition)}
    session.call(f"PUT {path}", given)


def clear_policy(session: Session, path: str = PATH) -> None:
    session.call(f"DELETE {path}")


def filled(session: Session, count: int, durable: bool = False, **arguments: object) -> Channel:
    """A channel in confirm mode, and the queue with so many messages."""
    channel = session.channel()
    table = table_of(dashed(arguments))
    channel.ask(QueueDeclare(queue="live", durable=durable, arguments=table))
    channel.ask(QueueDeclare(queue="dead"), QueueDeclare(queue="other"), ConfirmSelect())
    for number in range(count):
        publish(channel, b"%d" % number)
    return channel


def publish(channel: Channel, body: bytes, queue: str = "live", exchange: str = "") -> None:
    channel.publish(queue, body, exchange=exchange)
    channel.confirms(1)


def drain(channel: Channel, *queues: str) -> None:
    for queue in queues:
        get = BasicGet(queue=queue, no_ack=True)
        while isinstance(channel.ask(get), BasicGetOk):
            pass


def limited(session: Session, key: str) -> Channel:
    """The queue with messages of one octet, under a limit that was lowered and raised again."""
    channel = filled(session, 5)
    for limit, left in ((3, 3), (2, 2), (4, 2)):
        set_policy(session, **{key: limit})
        channel.wait_for_counts("live", left)
    for body in (b"a", b"b", b"c"):
        publish(channel, body)
    return channel


@compared
def test_max_length(session: Session) -> None:
    channel = limited(session, "max_length")
    channel.wait_for_counts("live", 4)
    clear_policy(session)
    publish(channel, b"d")
    drain(channel, "live")


@compared
def test_max_length_bytes(session: Session) -> None:
    channel = limited(session, "max_length_bytes")
    clear_policy(session)
    publish(channel, b"longer than four")
    drain(channel, "live")


@compared
def test_overflow(session: Session) -> None:
    channel = filled(session, 2, x_max_length=2)
    set_policy(session, overflow="reject-publish")
    publish(channel, b"rejected")
    set_policy(session, overflow="drop-head")
    publish(channel, b"enters")
    set_policy(session, overflow="reject-publish")
    publish(channel, b"rejected again")
    clear_policy(session)
    publish(channel, b"enters, too")
    drain(channel, "live")


@compared
def test_message_ttl(session: Session) -> None:
    channel = filled(session, 1)
    set_policy(session, message_ttl=60_000)
    publish(channel, b"stays")
    set_policy(session, message_ttl=1)
    drain(channel, "live")
    publish(channel, b"goes")
    channel.wait_for_counts("live", 0)
    clear_policy(session)
    publish(channel, b"stays for good")
    drain(channel, "live")


@compared
def test_expires(session: Session) -> None:
    channel = filled(session, 2)
    set_policy(session, expires=60_000)
    channel.wait_for_counts("live", 2)
    set_policy(session, expires=300)
    clear_policy(session)
    # Another queue's time begins later, and is over when it is certain that none ran here.
    channel.ask(QueueDeclare(queue="clock", arguments=table_of({"x-expires": 400})))
    channel.wait_until_gone("clock")
    drain(channel, "live")
    set_policy(session, expires=300)
    channel.wait_until_gone("live")
    clear_policy(session)


@compared
def test_dead_letter_exchange_and_routing_key(session: Session) -> None:
    channel = filled(session, 1, x_max_length=1)
    set_policy(session, dead_letter_exchange="", dead_letter_routing_key="dead")
    publish(channel, b"second")
    channel.wait_for_counts("dead", 1)
    set_policy(session, dead_letter_exchange="", dead_letter_routing_key="other")
    publish(channel, b"third")
    channel.wait_for_counts("other", 1)
    # Without a key of its own, a letter keeps the one that it came with.
    channel.ask(ExchangeDeclare(exchange="letters", type="topic"))
    channel.ask(QueueBind(queue="dead", exchange="letters", routing_key="live"))
    set_policy(session, dead_letter_exchange="letters")
    publish(channel, b"fourth")
    channel.wait_for_counts("dead", 2)
    # A key alone is no way to go.
    set_policy(session, dead_letter_routing_key="dead")
    publish(channel, b"fifth")
    clear_policy(session)
    publish(channel, b"sixth")
    drain(channel, "live", "other")
    channel.wait_for_counts("dead", 2)


@compared
def test_delivery_limit_of_a_quorum_queue(session: Session) -> None:
    channel = filled(session, 1, durable=True, x_queue_type="quorum")

    def come_back() -> None:
        got = channel.ask(BasicGet(queue="live"))
        if isinstance(got, BasicGetOk):
            channel.send(BasicNack(got.delivery_tag, False, True))

    channel.wait_for_counts("live", 1)
    set_policy(session, delivery_limit=1)
    come_back()
    channel.wait_for_counts("live", 1)
    come_back()
    channel.wait_for_counts("live", 0)
    set_policy(session, delivery_limit=2)
    publish(channel, b"again")
    for ready in (1, 1, 0):
        come_back()
        channel.wait_for_counts("live", ready)
    clear_policy(session)
    publish(channel, b"for ever")
    for _ in range(4):
        come_back()
        channel.wait_for_counts("live", 1)
    drain(channel, "live")


@compared
def test_alternate_exchange(session: Session) -> None:
    channel = filled(session, 0)
    for exchange, queue in (("to.dead", "dead"), ("to.other", "other")):
        channel.ask(ExchangeDeclare(exchange=exchange, type="fanout"))
        channel.ask(QueueBind(queue=queue, exchange=exchange))
    channel.ask(ExchangeDeclare(exchange="news", type="direct"))
    publish(channel, b"dropped", exchange="news")
    for exchange in ("to.dead", "to.other"):
        set_policy(session, alternate_exchange=exchange)
        publish(channel, b"goes there", exchange="news")
    clear_policy(session)
    publish(channel, b"dropped, too", exchange="news")
    drain(channel, "dead", "other")


@compared
def test_an_operator_policy_beside_policy_and_argument(session: Session) -> None:
    operators = PATH.replace("policies", "operator-policies")
    channel = filled(session, 5, x_max_length=5)
    set_policy(session, max_length=4)
    channel.wait_for_counts("live", 4)
    set_policy(session, operators, max_length=3)
    channel.wait_for_counts("live", 3)
    set_policy(session, max_length=2)
    channel.wait_for_counts("live", 2)
    clear_policy(session)
    for body in (b"a", b"b"):
        publish(channel, body)
    channel.wait_for_counts("live", 3)
    clear_policy(session, operators)
    for body in (b"c", b"d", b"e"):
        publish(channel, body)
    drain(channel, "live")


@compared
def test_a_consumer_sees_what_a_policy_leaves(session: Session) -> None:
    channel = filled(session, 4)
    set_policy(session, max_length=2)
    channel.wait_for_counts("live", 2)
    channel.ask(BasicConsume(queue="live", consumer_tag="c", no_ack=True))
    channel.read(2)
    clear_policy(session)
    publish(channel, b"after")
