"""Methods of the classes basic, confirm and tx, RabbitMQ's extensions among them.

`reserved_1` in front is the access ticket of AMQP 0-8, which nobody looks at. Publishes and
deliveries in numbers do not pass through here: see amqp_frames/decoder.py and deliveries.py.
"""

from __future__ import annotations

from dataclasses import field

from .wire_types import Bit, FieldTable, Long, LongLong, Method, Short, ShortString, method


@method(60, 10)
class BasicQos(Method):
    """How much may be unacked: per consumer, or with `global_` for the channel (RabbitMQ)."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@method(60, 11)
class BasicQosOk(Method):
    """The limits stand."""


@method(60, 20)
class BasicConsume(Method):
    """Start a consumer. An empty tag asks for one."""

    reserved_1: Short = 0
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(60, 21)
class BasicConsumeOk(Method):
    """The consumer runs."""

    consumer_tag: ShortString = ""


@method(60, 30)
class BasicCancel(Method):
    """End a consumer; from the server (RabbitMQ): it has ended because its queue has gone."""

    consumer_tag: ShortString = ""
    no_wait: Bit = False


@method(60, 31)
class BasicCancelOk(Method):
    """The consumer has ended; nothing more comes for its tag."""

    consumer_tag: ShortString = ""


@method(60, 40, has_content=True)
class BasicPublish(Method):
    """A message for an exchange. Its strings may hold any octets, as surrogate escapes."""

    reserved_1: Short = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


@method(60, 50, has_content=True)
class BasicReturn(Method):
    """A mandatory message that matched no queue comes back."""

    reply_code: Short = 200
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 60, has_content=True)
class BasicDeliver(Method):
    """A message for a consumer."""

    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 70)
class BasicGet(Method):
    """Ask for one message."""

    reserved_1: Short = 0
    queue: ShortString = ""
    no_ack: Bit = False


@method(60, 71, has_content=True)
class BasicGetOk(Method):
    """The one message, and how many are left."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


@method(60, 72)
class BasicGetEmpty(Method):
    """There is none."""

    reserved_1: ShortString = ""


@method(60, 80)
class BasicAck(Method):
    """Consumer's ack, or (RabbitMQ) the broker's confirm."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@method(60, 90)
class BasicReject(Method):
    """Consumer refuses one message."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@method(60, 100)
class BasicRecoverAsync(Method):
    """Deprecated form of basic.recover, without an answer."""

    requeue: Bit = False


@method(60, 110)
class BasicRecover(Method):
    """Deliver the channel's unacked messages again."""

    requeue: Bit = False


@method(60, 111)
class BasicRecoverOk(Method):
    """The unacked messages are on their way again."""


@method(60, 120)
class BasicNack(Method):
    """RabbitMQ's: consumer refuses messages, or the broker a publish."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


@method(85, 10)
class ConfirmSelect(Method):
    """RabbitMQ's: from here on every publish of the channel is answered."""

    no_wait: Bit = False


@method(85, 11)
class ConfirmSelectOk(Method):
    """RabbitMQ's: the channel is in confirm mode."""


@method(90, 10)
class TxSelect(Method):
    """From here on publishes and acks wait for tx.commit."""


@method(90, 11)
class TxSelectOk(Method):
    """The channel is transactional."""


@method(90, 20)
class TxCommit(Method):
    """Carry out the waiting publishes and acks."""


@method(90, 21)
class TxCommitOk(Method):
    """It has happened."""


@method(90, 30)
class TxRollback(Method):
    """Discard the waiting publishes and acks."""


@method(90, 31)
class TxRollbackOk(Method):
    """It is forgotten."""
