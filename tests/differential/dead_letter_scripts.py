"""Building blocks of scripts about dead letters and quorum queues."""

from __future__ import annotations

from dashed import dashed
from leveret.amqp_frames.methods import BasicGet, BasicGetOk, BasicNack, BasicReject, QueueDeclare
from leveret.amqp_frames.values.field_table import Field, Table
from scripted_session import Channel


def text(value: str) -> Field:
    return Field("longstr", value)


def texts(*values: str) -> Field:
    return Field("array", [text(value) for value in values])


def number(value: int) -> Field:
    return Field("signedint", value)


def dead_lettered(
    queue: str, exchange: str = "", key: str | None = None, **arguments: Field
) -> QueueDeclare:
    table: Table = {"x-dead-letter-exchange": text(exchange)}
    if key is not None:
        table["x-dead-letter-routing-key"] = text(key)
    table |= dashed(arguments)
    return QueueDeclare(queue=queue, arguments=table)


def quorum(queue: str, **arguments: Field) -> QueueDeclare:
    table = dashed(arguments)
    return QueueDeclare(
        queue=queue, durable=True, arguments={"x-queue-type": text("quorum")} | table
    )


def reject(channel: Channel, queue: str, *, nacks: bool = False) -> None:
    """Take the one message of the queue and reject it; both are written down."""
    channel.wait_for_counts(queue, 1)
    got = channel.ask(BasicGet(queue=queue))
    assert isinstance(got, BasicGetOk), got
    tag = got.delivery_tag
    channel.send(BasicNack(tag, False, False) if nacks else BasicReject(tag, False))


def get_all(channel: Channel, queue: str, count: int = 1) -> None:
    """Write down these messages of the queue, once they are there."""
    channel.wait_for_counts(queue, count)
    for _ in range(count):
        channel.ask(BasicGet(queue=queue, no_ack=True))
