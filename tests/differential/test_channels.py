"""Commands that a channel answers by itself: recover, flow, and the queue declared last."""

from __future__ import annotations

from both_brokers import compared
from leveret.amqp_frames.methods import (
    AccessRequest,
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelFlow,
    ChannelOpen,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from scripted_session import Session

Q = QueueDeclare(queue="q")


def recovering(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    for body in (b"one", b"two", b"three"):
        channel.publish("q", body)
    channel.ask(BasicRecover(True), BasicConsume(queue="q", consumer_tag="c"))
    channel.read(3)
    channel.send(BasicAck(2))
    channel.ask(BasicRecover(True))
    channel.read(2)
    channel.send(BasicRecoverAsync(True))
    channel.read(2)
    channel.send(BasicAck(0, True))
    channel.ask(BasicRecover(True))
    channel.settled()


def recovering_what_basic_get_brought(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    channel.publish("q", b"one")
    channel.ask(BasicGet(queue="q"), BasicRecover(True), BasicGet(queue="q"))
    channel.send(BasicRecoverAsync(True))
    channel.ask(BasicGet(queue="q", no_ack=True))


def recovering_without_requeueing(session: Session) -> None:
    session.channel().ask(BasicRecover(False))


def recovering_without_requeueing_or_an_answer(session: Session) -> None:
    session.channel().ask(BasicRecoverAsync(False))


def flow(session: Session) -> None:
    channel = session.channel()
    channel.ask(ChannelFlow(True), ChannelFlow(True), AccessRequest())
    channel.ask(ChannelFlow(False))


def no_local_is_not_heeded(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, BasicConsume(queue="q", consumer_tag="c", no_local=True, no_ack=True))
    channel.publish("q", b"my own")
    channel.read()


def immediate(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    channel.publish("q", immediate=True)
    channel.read()


def immediate_to_nowhere(session: Session) -> None:
    channel = session.channel()
    channel.publish("k", exchange="missing", immediate=True, mandatory=True)
    channel.read()


def the_queue_declared_last(session: Session) -> None:
    channel = session.channel()
    for method in (
        BasicGet(),
        BasicConsume(),
        QueuePurge(),
        QueueDelete(),
        QueueBind(exchange="amq.direct"),
        QueueUnbind(exchange="amq.direct", routing_key="k"),
    ):
        channel.ask(method)
    channel.ask(Q, QueueDeclare(queue="r"), QueueDeclare(queue="q", passive=True))
    channel.publish("q", b"one")
    channel.ask(BasicGet(no_ack=True), QueueBind(exchange="amq.direct"))
    channel.publish("q", b"two", exchange="amq.direct")
    channel.ask(BasicGet(no_ack=True), QueueUnbind(exchange="amq.direct"))
    channel.publish("q", b"three", exchange="amq.direct", mandatory=True)
    channel.read()
    channel.ask(QueueBind(queue="q", exchange="amq.direct"))
    channel.publish("", b"four", exchange="amq.direct")
    channel.ask(BasicGet(no_ack=True), QueuePurge(), QueueDelete(), QueueDelete(), BasicGet())


def a_declare_that_fails_is_not_the_last(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, QueueDeclare())
    channel.ask(BasicConsume(consumer_tag="c"), QueueDeclare(queue="missing", passive=True))
    channel.ask(BasicGet())


def a_tag_used_again_for_a_queue_that_is_not_there(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, BasicConsume(queue="q", consumer_tag="c"))
    channel.ask(BasicConsume(queue="missing", consumer_tag="c"))


def prefetch_by_bytes(session: Session) -> None:
    channel = session.channel()
    channel.ask(BasicQos(0, 1, False), BasicQos(0, 0, True), BasicQos(1, 0, False))


def a_second_open(session: Session) -> None:
    session.channel().ask(ChannelOpen())


def a_publish_without_content(session: Session) -> None:
    channel = session.channel()
    channel.send(BasicPublish(routing_key="q"), ChannelFlow(True))
    channel.read()


test_recovering = compared(recovering)
test_recovering_what_basic_get_brought = compared(recovering_what_basic_get_brought)
test_recovering_without_requeueing = compared(recovering_without_requeueing)
test_recovering_without_an_answer = compared(recovering_without_requeueing_or_an_answer)
test_flow = compared(flow)
test_no_local_is_not_heeded = compared(no_local_is_not_heeded)
test_immediate = compared(immediate)
test_immediate_to_nowhere = compared(immediate_to_nowhere)
test_the_queue_declared_last = compared(the_queue_declared_last)
test_a_declare_that_fails_is_not_the_last = compared(a_declare_that_fails_is_not_the_last)
test_a_tag_used_again = compared(a_tag_used_again_for_a_queue_that_is_not_there)
test_prefetch_by_bytes = compared(prefetch_by_bytes)
test_a_second_open = compared(a_second_open)
test_a_publish_without_content = compared(a_publish_without_content)
