"""Consumers and messages of this priority or that, for the scripts that compare them."""

from __future__ import annotations

from leveret.amqp_frames.methods import BasicConsume, BasicGet, BasicQos, QueueDeclare
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Channel, Session

SINGLE = {"x-single-active-consumer": Field("bool", True)}
Q = QueueDeclare(queue="q")
GET = BasicGet(queue="q", no_ack=True)


def by_priority(maximum: int, kind: str = "signedint") -> QueueDeclare:
    return QueueDeclare(queue="q", arguments={"x-max-priority": Field(kind, maximum)})


def consume(
    tag: str, value: object = None, kind: str = "signedint", *, exclusive: bool = False
) -> BasicConsume:
    arguments = {} if value is None else {"x-priority": Field(kind, value)}  # type: ignore[arg-type]
    return BasicConsume(queue="q", consumer_tag=tag, exclusive=exclusive, arguments=arguments)


def consumer(session: Session, tag: str, priority: int | None = None, prefetch: int = 0) -> Channel:
    channel = session.channel()
    channel.ask(BasicQos(0, prefetch, False), consume(tag, priority))
    return channel


def publisher(session: Session, declare: QueueDeclare = Q) -> Channel:
    channel = session.channel()
    channel.ask(declare)
    channel.confirm_select()
    return channel


def publish(channel: Channel, *priorities: int | None) -> None:
    """One after the other, each confirmed: its body is its place and its priority."""
    for at, priority in enumerate(priorities):
        channel.publish("q", f"{at}:{priority}".encode(), Properties(priority=priority))
        channel.confirms(1)
