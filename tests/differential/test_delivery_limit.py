"""Quorum queues' limit and count, and the arguments of these and of dead letters."""

from __future__ import annotations

from both_brokers import compared
from dead_letter_scripts import dead_lettered, get_all, number, quorum, reject, text
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReject,
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


@compared
def test_a_consumer_s_deliveries_are_counted(session: Session) -> None:
    """By nack, several at once; by the end of their channel; and one alone, by reject.

    All come back together: of some, RabbitMQ's quorum queues deliver those first that stayed.
    """
    channel = session.channel()
    channel.ask(
        quorum(
            "q",
            x_delivery_limit=number(3),
            x_dead_letter_exchange=text(""),
            x_dead_letter_routing_key=text("dead"),
        ),
        QueueDeclare(queue="dead"),
    )
    for body in (b"1", b"2"):
        channel.publish("q", body)
    channel.wait_for_counts("q", 2)
    channel.ask(BasicQos(prefetch_count=2))
    channel.ask(BasicConsume(queue="q", consumer_tag="c"))
    channel.read(2)
    channel.send(BasicNack(2, True, True))
    channel.read(2)
    channel.ask(BasicCancel(consumer_tag="c"))
    channel.ask(ChannelClose(200, "", 0, 0), ChannelOpen())
    channel.wait_for_counts("q", 2)
    got = [channel.ask(BasicGet(queue="q")) for _ in range(2)]
    assert all(isinstance(each, BasicGetOk) for each in got)
    channel.send(BasicAck(2, False), BasicReject(1, True))
    channel.wait_for_counts("q", 1)
    # It has come back three times; once more is too often.
    channel.ask(BasicConsume(queue="q", consumer_tag="c"))
    channel.read()
    channel.send(BasicReject(3, True))
    get_all(channel, "dead")


@compared
def test_a_limit_of_none_and_a_limit_without_dead_letters(session: Session) -> None:
    channel = session.channel()
    channel.ask(quorum("zero", x_delivery_limit=number(0)), quorum("free"))
    channel.publish("zero", b"1")
    channel.wait_for_counts("zero", 1)
    got = channel.ask(BasicGet(queue="zero"))
    assert isinstance(got, BasicGetOk)
    channel.send(BasicNack(got.delivery_tag, False, True))
    channel.wait_for_counts("zero", 0)
    channel.publish("free", b"2")
    for _ in range(4):
        channel.wait_for_counts("free", 1)
        got = channel.ask(BasicGet(queue="free"))
        assert isinstance(got, BasicGetOk)
        channel.send(BasicReject(got.delivery_tag, True))
    channel.wait_for_counts("free", 1)
    # What the header counts is the broker's to say: a publisher's is replaced.
    channel.publish("free", b"3", Properties(headers={"x-delivery-count": number(7)}))
    channel.wait_for_counts("free", 2)
    for _ in range(2):
        channel.ask(BasicGet(queue="free"))


@compared
def test_deaths_by_the_limit_and_by_rejection_are_entries_of_their_own(session: Session) -> None:
    """Round and round between two quorum queues; the count begins anew in each."""
    channel = session.channel()
    limit = number(1)
    for queue, target in (("a", "b"), ("b", "a")):
        channel.ask(
            quorum(
                queue,
                x_delivery_limit=limit,
                x_dead_letter_exchange=text(""),
                x_dead_letter_routing_key=text(target),
            )
        )
    channel.publish("a", b"1", Properties(headers={"kept": number(1)}, message_id="m"))
    # Without a rejection the round would end at its second time: a cycle is dropped.
    for _ in range(2):
        for _ in range(2):
            channel.wait_for_counts("a", 1)
            got = channel.ask(BasicGet(queue="a"))
            assert isinstance(got, BasicGetOk)
            channel.send(BasicNack(got.delivery_tag, False, True))
        reject(channel, "b")
    channel.wait_for_counts("a", 1)
    channel.ask(BasicGet(queue="a", no_ack=True))
