"""Consuming: deliveries, get, prefetch, acks, requeues and their order, rightly and wrongly."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueuePurge,
)
from scripted_session import Channel, Session

Q = QueueDeclare(queue="q")
GET = BasicGet(queue="q")
CONSUME = BasicConsume(queue="q", consumer_tag="c")


def filled(session: Session, count: int) -> Channel:
    """A channel, and a queue q that holds the messages 1 to `count`."""
    publisher = session.channel()
    publisher.ask(Q, ConfirmSelect())
    for number in range(1, count + 1):
        publisher.publish("q", b"%d" % number)
    publisher.confirms(count)
    return session.channel()


@compared
def test_a_consumer_gets_all_in_order(session: Session) -> None:
    channel = filled(session, 5)
    channel.ask(CONSUME)
    channel.read(5)
    channel.send(BasicAck(5, True))
    channel.wait_for_counts("q", 0, 1)
    channel.ask(BasicCancel("c"), BasicCancel("c"), BasicCancel("never"))
    channel.wait_for_counts("q", 0, 0)


@compared
def test_the_broker_makes_a_tag_where_the_client_gives_none(session: Session) -> None:
    channel = filled(session, 1)
    channel.ask(BasicConsume(queue="q"))
    channel.read()
    channel.send(BasicConsume(queue="q", consumer_tag="quiet", no_wait=True))
    channel.settled()
    channel.ask(BasicConsume(queue="q", consumer_tag="quiet"))


@compared
def test_get_says_what_is_left(session: Session) -> None:
    channel = filled(session, 3)
    channel.ask(GET, BasicGet(queue="q", no_ack=True), GET, GET)
    channel.send(BasicNack(2, False, True))
    channel.ask(GET)
    channel.send(BasicAck(0, True))
    channel.ask(GET)


@compared
def test_prefetch_of_a_consumer(session: Session) -> None:
    channel = filled(session, 6)
    channel.ask(BasicQos(0, 2), CONSUME)
    channel.read(2)
    channel.ask(Q)
    channel.settled()
    channel.send(BasicAck(1))
    channel.read()
    channel.send(BasicAck(3, True))
    channel.read(2)
    # For consumers that come later, not for this one.
    channel.ask(BasicQos(0, 1))
    channel.send(BasicAck(5, True))
    channel.read()
    channel.wait_for_counts("q", 0, 1)


@compared
def test_prefetch_of_a_whole_channel(session: Session) -> None:
    channel = filled(session, 6)
    channel.ask(QueueDeclare(queue="r"), BasicQos(0, 2, True), CONSUME)
    channel.read(2)
    channel.ask(BasicConsume(queue="r", consumer_tag="d"))
    channel.ask(Q)
    channel.settled()
    channel.send(BasicAck(2, True))
    channel.read(2)
    # More for the channel as it is.
    channel.ask(BasicQos(0, 3, True))
    channel.read()
    channel.wait_for_counts("q", 1, 1)


@compared
def test_prefetch_counts_no_message_that_needs_no_ack(session: Session) -> None:
    channel = filled(session, 4)
    channel.ask(BasicQos(0, 1), BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    channel.read(4)
    channel.ask(BasicGet(queue="q"))


REQUEUES: dict[str, list[Method]] = {
    "nack of one": [BasicNack(2)],
    "nack of several": [BasicNack(3, True)],
    "nack of all": [BasicNack(0, True)],
    "reject": [BasicReject(2)],
    "out of order": [BasicNack(4), BasicReject(1), BasicNack(3)],
    "dropped by reject": [BasicReject(2, False), BasicReject(3)],
    "dropped by nack": [BasicNack(2, True, False), BasicNack(4)],
    "acked around": [BasicAck(2), BasicNack(0, True)],
    "recovered asynchronously": [BasicAck(1), BasicRecoverAsync(True)],
}


@pytest.mark.parametrize("claim", REQUEUES)
def test_requeued_messages_return_to_their_places(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        channel = filled(session, 6)
        for _ in range(4):
            channel.ask(GET)
        channel.send(*REQUEUES[claim])
        channel.settled()
        for _ in range(7):
            channel.ask(GET)

    both.compare(f"requeue: {claim}", script)


@compared
def test_what_comes_back_to_several_queues_is_in_order_in_each(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, QueueDeclare(queue="other"), CONSUME)
    for number in (b"1", b"2"):
        channel.publish("q", number)
        channel.read()
    channel.publish("other")
    channel.ask(BasicGet(queue="other"))
    channel.send(BasicNack(1, False, True))
    channel.read()
    channel.send(BasicNack(4, True, True))
    channel.read(2)
    channel.settled()


@compared
def test_recover_brings_what_is_unacked_again(session: Session) -> None:
    channel = filled(session, 3)
    channel.ask(GET, GET, BasicRecover(True), GET, GET, GET, GET)
    channel.ask(BasicRecover(False))
    channel.connection.end()


@compared
def test_a_channel_that_closes_gives_its_messages_back(session: Session) -> None:
    channel = filled(session, 4)
    channel.ask(BasicQos(0, 3), CONSUME)
    channel.read(3)
    channel.send(BasicAck(2))
    channel.read()
    channel.connection.close()
    other = session.channel()
    other.wait_for_counts("q", 3)
    other.ask(GET, GET, GET, GET)


@compared
def test_a_connection_that_is_cut_gives_its_messages_back(session: Session) -> None:
    channel = filled(session, 3)
    channel.ask(CONSUME)
    channel.read(3)
    channel.connection.drop()
    other = session.channel()
    other.wait_for_counts("q", 3)
    other.ask(GET, GET, GET, GET)


@compared
def test_a_cancelled_consumer_keeps_what_it_has(session: Session) -> None:
    channel = filled(session, 3)
    channel.ask(BasicQos(0, 2), CONSUME)
    channel.read(2)
    channel.ask(BasicCancel("c"))
    channel.wait_for_counts("q", 1)
    channel.send(BasicAck(1), BasicNack(2))
    channel.settled()
    channel.wait_for_counts("q", 2)
    channel.ask(GET, GET)


@compared
def test_messages_are_dealt_to_consumers_in_turn(session: Session) -> None:
    publisher = session.channel()
    publisher.ask(Q)
    channel = session.channel()
    channel.ask(*(BasicConsume(queue="q", consumer_tag=tag) for tag in "abc"))
    for number in range(6):
        publisher.publish("q", b"%d" % number)
        channel.read()


@compared
def test_a_returned_message_goes_to_the_other_consumer(session: Session) -> None:
    publisher = session.channel()
    publisher.ask(Q)
    first, second = session.channel(), session.channel()
    first.ask(BasicQos(0, 1), CONSUME)
    second.ask(BasicQos(0, 1), CONSUME)
    publisher.publish("q", b"1")
    first.read()
    first.send(BasicCancel("c", True), BasicReject(1))
    second.read()


@compared
def test_purge_takes_what_is_ready_and_no_more(session: Session) -> None:
    channel = filled(session, 5)
    channel.ask(GET, GET, QueuePurge(queue="q"), QueuePurge(queue="q"))
    channel.send(BasicNack(0, True), QueuePurge(queue="q", no_wait=True))
    channel.settled()
    channel.ask(GET)


@compared
def test_an_exclusive_consumer_is_alone(session: Session) -> None:
    first, second = session.channel(), session.channel()
    alone = BasicConsume(queue="q", consumer_tag="alone", exclusive=True)
    first.ask(Q, alone)
    second.ask(CONSUME, alone)
    first.ask(BasicCancel("alone"))
    second.ask(CONSUME)
    first.ask(alone)


UNKNOWN_TAGS: dict[str, list[Method]] = {
    "ack": [BasicAck(7)],
    "ack of 0": [BasicAck(0)],
    "ack up to": [BasicAck(7, True)],
    "nack": [BasicNack(7)],
    "nack up to": [BasicNack(7, True)],
    "reject": [BasicReject(7)],
    "reject of 0": [BasicReject(0)],
    "the largest": [BasicAck(2**64 - 1)],
    "acked twice": [BasicAck(1), BasicAck(1)],
    "acked, then up to": [BasicAck(1), BasicAck(1, True)],
    "acked and nacked": [BasicAck(2, True), BasicNack(1)],
    "recovered": [BasicRecoverAsync(True), BasicAck(1)],
}


@pytest.mark.parametrize("claim", UNKNOWN_TAGS)
def test_a_tag_that_is_not_out(both: BothBrokers, claim: str) -> None:
    def script(session: Session) -> None:
        channel = filled(session, 3)
        channel.ask(GET, GET)
        channel.send(*UNKNOWN_TAGS[claim])
        channel.read()
        channel.ask(*[GET] * 4)

    both.compare(f"unknown tag: {claim}", script)


@compared
def test_all_up_to_0_never_fails(session: Session) -> None:
    channel = session.channel()
    channel.send(BasicAck(0, True), BasicNack(0, True))
    channel.settled()


@compared
def test_a_tag_is_used_once_in_a_channel(session: Session) -> None:
    connection = session.connect()
    first, second = connection.channel(1), connection.channel(2)
    first.ask(Q, CONSUME)
    second.ask(CONSUME)
    first.ask(CONSUME)
    connection.end()


@compared
def test_limits_in_octets_are_not_to_be_had(session: Session) -> None:
    channel = session.channel()
    channel.ask(BasicQos(0, 65_535), BasicQos(0, 0, True), BasicQos(1, 1))
    channel.connection.end()
