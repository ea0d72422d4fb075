"""Quorum queues' limit and count, and the arguments of these and of dead letters."""

from __future__ import annotations

from both_brokers import compared
from dead_letter_scripts import dead_lettered, get_all, number, quorum, text
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelOpen,
    QueueDeclare,
)
from leveret.amqp_frames.properties import Properties
from scripted_session import Session


@compared
def test_delivery_counts_and_the_limit_of_a_quorum_queue(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        quorum(
            "q",
            x_delivery_limit=number(2),
            x_dead_letter_exchange=text(""),
            x_dead_letter_routing_key=text("dead"),
        ),
        QueueDeclare(queue="dead"),
    )
    channel.publish("q", b"1", Properties(headers={"z": number(1), "a": number(2)}))
    for _ in range(3):
        channel.wait_for_counts("q", 1)
        got = channel.ask(BasicGet(queue="q"))
        assert isinstance(got, BasicGetOk)
        channel.send(BasicNack(got.delivery_tag, False, True))
    get_all(channel, "dead")
    channel.publish("q", b"2")
    channel.wait_for_counts("q", 1)
    channel.ask(BasicGet(queue="q"))
    channel.ask(ChannelClose(200, "", 0, 0), ChannelOpen())
    channel.ask(BasicConsume(queue="q", consumer_tag="c"))
    channel.read()


@compared
def test_declarations(session: Session) -> None:
    channel = session.channel()
    wrong = [
        QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": number(1)}),
        QueueDeclare(queue="q", arguments={"x-dead-letter-routing-key": text("k")}),
        dead_lettered("q", x_dead_letter_routing_key=number(1)),
        quorum("q", x_max_priority=number(-1)),
        quorum("q", x_dead_letter_strategy=text("never")),
        quorum("q", x_queue_mode=text("lazy")),
        QueueDeclare(queue="q", arguments={"x-dead-letter-strategy": text("never")}),
        QueueDeclare(queue="q", arguments={"x-max-in-memory-length": number(-1)}),
    ]
    channel.ask(*wrong)
    channel.ask(
        dead_lettered("q", "x", "k"),
        dead_lettered("q", "x", "k"),
        dead_lettered("q", "x", "other"),
        dead_lettered("q", "other", "k"),
        dead_lettered("q", "x"),
        QueueDeclare(queue="q"),
    )
