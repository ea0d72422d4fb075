"""Who is served first: consumers by priority, one active alone, exclusive ones.

A consumer is on a connection of its own, so that what each gets is compared by itself.
"""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicNack,
    BasicQos,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDelete,
)
from leveret.amqp_frames.values.field_table import Field
from ranked import GET, SINGLE, Q, consume, consumer, publish, publisher
from scripted_session import Session

# What is asked on one channel, one after the other; the answer to each is compared.
SESSIONS: dict[str, list[Method]] = {
    "consumer priorities of every integer type": [
        Q,
        *(
            consume(kind, 1, kind)
            for kind in ("byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort")
        ),
    ],
    "a negative consumer priority": [Q, consume("c", -(2**40), "long")],
    "a consumer priority that is text": [Q, consume("c", "1", "longstr")],
    "a consumer priority that is a float": [Q, consume("c", 1.5, "double")],
    "a consumer priority that is a boolean": [Q, consume("c", True, "bool")],
    "a consumer priority that is a time": [Q, consume("c", 1, "timestamp")],
    "a consumer priority that is nothing": [
        Q,
        BasicConsume(queue="q", arguments={"x-priority": Field("void", None)}),
    ],
    "an exclusive consumer of a single active consumer's queue": [
        QueueDeclare(queue="q", arguments=SINGLE),
        consume("c", exclusive=True),
        consume("c"),
        consume("d", exclusive=True),
    ],
    "single active consumer as text": [
        QueueDeclare(queue="q", arguments={"x-single-active-consumer": Field("longstr", "true")})
    ],
    "single active consumer as a number": [
        QueueDeclare(queue="q", arguments={"x-single-active-consumer": Field("signedint", 1)})
    ],
    "single active consumer once and not again": [QueueDeclare(queue="q", arguments=SINGLE), Q],
    "not single active consumer and then so": [Q, QueueDeclare(queue="q", arguments=SINGLE)],
    "two exclusive consumers": [Q, consume("c", exclusive=True), consume("d", exclusive=True)],
    "an exclusive consumer and another": [Q, consume("c", exclusive=True), consume("d")],
    "a consumer and an exclusive one": [Q, consume("c"), consume("d", exclusive=True)],
    "an exclusive consumer after another has ended": [
        Q,
        consume("c"),
        BasicCancel("c"),
        consume("d", exclusive=True),
        BasicCancel("d"),
        consume("e"),
    ],
    "the delete of a queue with consumers on the channel": [
        Q,
        consume("c"),
        QueueDelete(queue="q", if_unused=True),
        Q,
        BasicCancel("c"),
    ],
}


@pytest.mark.parametrize("name", SESSIONS)
def test_one_channel(both: BothBrokers, name: str) -> None:
    def script(session: Session) -> None:
        session.channel().ask(*SESSIONS[name])

    both.compare(name, script)


@compared
def test_the_highest_consumer_priority_gets_all_while_it_has_room(session: Session) -> None:
    sending = publisher(session)
    none, low, high = (
        consumer(session, "none"),
        consumer(session, "low", -1),
        consumer(session, "high", 5, prefetch=2),
    )
    publish(sending, 1, 2, 3)
    high.read(2)
    none.read()
    high.send(BasicAck(1, False))
    high.settled()
    publish(sending, 4, 5)
    high.read()
    none.read()
    low.settled()


@compared
def test_equal_consumer_priorities_share(session: Session) -> None:
    sending = publisher(session)
    spare, first, second = (
        consumer(session, "spare", 1),
        consumer(session, "first", 7),
        consumer(session, "second", 7),
    )
    publish(sending, *range(6))
    first.read(3)
    second.read(3)
    spare.settled()


@compared
def test_what_a_low_consumer_gives_back_goes_to_a_high_one(session: Session) -> None:
    sending = publisher(session)
    low = consumer(session, "low", 1)
    publish(sending, 1, 2)
    low.read(2)
    high = consumer(session, "high", 2, prefetch=1)
    low.send(BasicNack(0, True, True))
    high.read()
    low.read()


@compared
def test_the_active_consumer_hands_over_by_priority_then_age(session: Session) -> None:
    sending = publisher(session, QueueDeclare(queue="q", arguments=SINGLE))
    channels = {
        tag: consumer(session, tag, priority)
        for tag, priority in (("a", 0), ("b", 0), ("c", 5), ("d", 5), ("e", 0))
    }
    for tag in "acdbe":
        publish(sending, 1)
        channels[tag].read()
        channels[tag].ask(BasicCancel(tag))


@compared
def test_what_the_active_consumer_held_stays_with_its_channel_until_that_ends(
    session: Session,
) -> None:
    sending = publisher(session, QueueDeclare(queue="q", arguments=SINGLE))
    first, second = consumer(session, "first"), consumer(session, "second")
    publish(sending, 1, 2)
    first.read(2)
    first.ask(BasicCancel("first"))
    first.send(BasicAck(1, False))
    first.settled()
    publish(sending, 3)
    second.read()
    first.ask(ChannelClose(200, ""))
    second.read()


@compared
def test_the_active_consumer_s_connection_goes(session: Session) -> None:
    sending = publisher(session, QueueDeclare(queue="q", arguments=SINGLE))
    first, second, third = (
        consumer(session, "first"),
        consumer(session, "second"),
        consumer(session, "third", 1),
    )
    publish(sending, 1, 2)
    first.read(2)
    first.connection.drop()
    third.read(2)
    second.settled()
    sending.wait_for_counts("q", 0, 2)


@compared
def test_an_exclusive_consumer_keeps_other_connections_out_until_it_goes(session: Session) -> None:
    sending = publisher(session)
    first = session.channel()
    first.ask(consume("c", exclusive=True))
    second = session.channel()
    second.ask(consume("c"), GET)
    publish(sending, 1)
    first.read()
    first.connection.drop()
    sending.wait_for_counts("q", 1)
    second.ask(consume("c"))
    second.read()


@compared
def test_a_deleted_queue_cancels_its_consumers(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, consume("a"), consume("b"))
    deaf = session.connect(capabilities=()).channel(1)
    deaf.ask(consume("c"))
    other = session.channel()
    other.ask(QueueDelete(queue="q"))
    # In RabbitMQ, too, the consumers of one channel are told in order of their tags.
    channel.read(2)
    deaf.settled()
    # The tags are free again, and to cancel them is no error.
    channel.ask(BasicCancel("a"), Q, consume("b"))


@compared
def test_the_consumer_that_deletes_its_own_queue_is_told(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, consume("c"), QueueDelete(queue="q"))
    channel.read()


@compared
def test_an_exclusive_queue_s_end_tells_nobody(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q", exclusive=True), consume("c"))
    channel.connection.drop()
    other = session.channel()
    other.ask(Q)


@compared
def test_what_waits_when_the_active_consumer_is_cancelled(session: Session) -> None:
    """Leveret hands it over at once, RabbitMQ does not."""
    sending = publisher(session, QueueDeclare(queue="q", arguments=SINGLE))
    first, second = consumer(session, "first", prefetch=1), consumer(session, "second")
    publish(sending, 1, 2)
    first.read()
    first.ask(BasicCancel("first"))
    second.settled()


QUORUM = {"x-queue-type": Field("longstr", "quorum")}


@compared
def test_a_quorum_queue_s_consumers_by_priority(session: Session) -> None:
    sending = publisher(session, QueueDeclare(queue="q", durable=True, arguments=QUORUM))
    low, high = consumer(session, "low", prefetch=5), consumer(session, "high", 5, prefetch=1)
    publish(sending, 1)
    high.read()
    publish(sending, 2)
    low.read()
    high.send(BasicAck(1, False))
    high.settled()
    publish(sending, 3)
    high.read()


@compared
def test_a_quorum_queue_s_active_consumer_hands_over(session: Session) -> None:
    arguments = QUORUM | SINGLE
    sending = publisher(session, QueueDeclare(queue="q", durable=True, arguments=arguments))
    first, second, third = (consumer(session, tag, prefetch=5) for tag in "abc")
    publish(sending, 1)
    first.read()
    first.send(BasicAck(1, False))
    first.settled()
    first.ask(BasicCancel("a"))
    publish(sending, 2)
    second.read()
    second.connection.drop()
    third.read()


@compared
def test_a_quorum_queue_has_no_maximum_priority(session: Session) -> None:
    arguments = QUORUM | {"x-max-priority": Field("byte", 5)}
    session.channel().ask(QueueDeclare(queue="q", durable=True, arguments=arguments))


@compared
def test_a_consumer_without_acks_waits_while_the_channel_s_limit_is_held(session: Session) -> None:
    sending = publisher(session)
    sending.ask(QueueDeclare(queue="r"))
    publish(sending, 1, 2)
    for body in (b"3", b"4"):
        sending.publish("r", body)
        sending.confirms(1)
    channel = session.channel()
    channel.ask(BasicQos(0, 2, True), consume("c"))
    channel.read(2)
    channel.ask(BasicConsume(queue="r", consumer_tag="free", no_ack=True))
    channel.settled()
    # It gets all of it with the first ack, and takes up nothing of the credit.
    channel.send(BasicAck(1, False))
    channel.read(2)
    publish(sending, 5)
    channel.read()
    sending.publish("r", b"6")
    sending.confirms(1)
    channel.settled()
