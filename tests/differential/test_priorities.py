"""Messages with priorities: which leaves first, and where one that comes back goes."""

from __future__ import annotations

import client_frames
import pytest
from both_brokers import BothBrokers, compared
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicReject,
    Method,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from ranked import GET, Q, by_priority, consumer, publish, publisher
from scripted_session import Session

# What is asked on one channel, one after the other; the answer to each is compared.
SESSIONS: dict[str, list[Method]] = {
    "a maximum of 0": [by_priority(0)],
    "a maximum of 255": [by_priority(255), by_priority(255, "short")],
    "a maximum of 256": [by_priority(256)],
    "a negative maximum": [by_priority(-1)],
    "a maximum that is text": [
        QueueDeclare(queue="q", arguments={"x-max-priority": Field("longstr", "9")})
    ],
    "a maximum that is a boolean": [
        QueueDeclare(queue="q", arguments={"x-max-priority": Field("bool", True)})
    ],
    "another maximum": [by_priority(9), by_priority(8)],
    "a maximum and none": [by_priority(9), Q],
}


@pytest.mark.parametrize("name", SESSIONS)
def test_one_channel(both: BothBrokers, name: str) -> None:
    def script(session: Session) -> None:
        session.channel().ask(*SESSIONS[name])

    both.compare(name, script)


@compared
def test_messages_leave_by_priority_and_in_order_within_one(session: Session) -> None:
    channel = publisher(session, by_priority(10))
    publish(channel, None, 5, 10, 5, 0, 200, 11)
    channel.ask(*[GET] * 8)


@compared
def test_requeued_messages_are_in_their_old_places_within_their_priority(session: Session) -> None:
    channel = publisher(session, by_priority(9))
    publish(channel, 3, 3, 9, 3, 0)
    for _ in range(4):
        channel.ask(BasicGet(queue="q"))
    channel.send(BasicReject(3, True), BasicNack(2, True, True))
    channel.settled()
    publish(channel, 3)
    for _ in range(5):
        channel.ask(BasicGet(queue="q"))
    channel.ask(QueuePurge(queue="q"), QueueDelete(queue="q"))


@compared
def test_a_consumer_with_room_for_one_gets_the_highest_each_time(session: Session) -> None:
    sending = publisher(session, by_priority(9))
    receiving = consumer(session, "c", prefetch=1)
    publish(sending, 0)
    receiving.read()
    publish(sending, 1, 9, None, 5)
    for tag in range(1, 5):
        receiving.send(BasicAck(tag, False))
        receiving.read()


@compared
def test_priorities_that_come_in_one_read_while_a_consumer_has_room(session: Session) -> None:
    """Leveret sorts what it read in one go, RabbitMQ delivers each message as it comes."""
    sending = publisher(session, by_priority(9))
    receiving = consumer(session, "c")
    low, high = Properties(priority=1), Properties(priority=9)
    sending.send(*(client_frames.publish("q", b"", each) for each in (low, high)))
    sending.confirms(2)
    receiving.read(2)


@compared
def test_a_full_queue_drops_its_head_which_is_of_the_highest_priority(session: Session) -> None:
    limit = {"x-max-priority": Field("byte", 9), "x-max-length": Field("byte", 2)}
    channel = publisher(session, QueueDeclare(queue="q", arguments=limit))
    publish(channel, 1, 1, 9, 5)
    channel.ask(GET, GET, GET)


@compared
def test_a_full_queue_rejects_what_comes_whatever_its_priority(session: Session) -> None:
    limit = {
        "x-max-priority": Field("byte", 9),
        "x-max-length": Field("byte", 2),
        "x-overflow": Field("longstr", "reject-publish"),
    }
    channel = publisher(session, QueueDeclare(queue="q", arguments=limit))
    publish(channel, 1, 1, 9)
    channel.ask(GET)
    publish(channel, 9)
    channel.ask(GET, GET, GET)


@compared
def test_what_is_rejected_out_of_a_queue_with_priorities_is_a_dead_letter(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="dead", arguments={"x-max-priority": Field("byte", 5)}))
    dead = {
        "x-max-priority": Field("byte", 9),
        "x-dead-letter-exchange": Field("longstr", ""),
        "x-dead-letter-routing-key": Field("longstr", "dead"),
    }
    channel.ask(QueueDeclare(queue="q", arguments=dead))
    channel.confirm_select()
    publish(channel, 1, 9, 7)
    for tag in (1, 2, 3):
        channel.ask(BasicGet(queue="q"))
        channel.send(BasicReject(tag, False))
    channel.wait_for_counts("dead", 3)
    # There, 9 and 7 are 5 alike.
    channel.ask(*[BasicGet(queue="dead", no_ack=True)] * 3)


@compared
def test_what_has_expired_waits_behind_a_higher_priority_that_has_not(session: Session) -> None:
    channel = publisher(session, by_priority(9))
    channel.ask(QueueDeclare(queue="clock"))
    channel.publish("q", b"low", Properties(priority=1, expiration="50"))
    channel.publish("q", b"high", Properties(priority=9))
    channel.publish("q", b"low, later", Properties(priority=1, expiration="60000"))
    channel.publish("clock", b"", Properties(expiration="300"))
    channel.confirms(4)
    channel.wait_for_counts("clock", 0)
    channel.wait_for_counts("q", 3)
    channel.ask(GET, GET, GET)


@compared
def test_what_has_expired_goes_in_the_order_of_priorities(session: Session) -> None:
    channel = publisher(session, QueueDeclare(queue="dead"))
    arguments = {
        "x-max-priority": Field("byte", 9),
        "x-message-ttl": Field("signedint", 50),
        "x-dead-letter-exchange": Field("longstr", ""),
        "x-dead-letter-routing-key": Field("longstr", "dead"),
    }
    channel.ask(QueueDeclare(queue="q", arguments=arguments))
    channel.send(
        *(client_frames.publish("q", b"", Properties(priority=each)) for each in (1, 9, 5, 9))
    )
    channel.confirms(4)
    channel.wait_for_counts("dead", 4)
    channel.ask(*[BasicGet(queue="dead", no_ack=True)] * 4)
