"""Methods of the classes exchange and queue, RabbitMQ's extensions among them.

`reserved_1` is the access ticket of AMQP 0-8, which nobody looks at.
"""

from __future__ import annotations

from dataclasses import field

from .wire_types import Bit, FieldTable, Long, Method, Short, ShortString, method


@method(40, 10)
class ExchangeDeclare(Method):
    """Create an exchange, or check that it is as described. Auto-delete and internal: RabbitMQ."""

    reserved_1: Short = 0
    exchange: ShortString = ""
    type: ShortString = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 11)
class ExchangeDeclareOk(Method):
    """The exchange is there."""


@method(40, 20)
class ExchangeDelete(Method):
    """Delete an exchange and its bindings."""

    reserved_1: Short = 0
    exchange: ShortString = ""
    if_unused: Bit = False
    no_wait: Bit = False


@method(40, 21)
class ExchangeDeleteOk(Method):
    """The exchange is gone."""


@method(40, 30)
class ExchangeBind(Method):
    """RabbitMQ's: messages of `source` that match go to the exchange `destination` too."""

    reserved_1: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 31)
class ExchangeBindOk(Method):
    """RabbitMQ's: the binding is there."""


@method(40, 40)
class ExchangeUnbind(Method):
    """RabbitMQ's: remove one binding between exchanges."""

    reserved_1: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 51)
class ExchangeUnbindOk(Method):
    """RabbitMQ's: the binding is gone. (51 is right: it is not the id next to 40.)"""


@method(50, 10)
class QueueDeclare(Method):
    """Create a queue, or check that it is as described. An empty name asks for one."""

    reserved_1: Short = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(50, 11)
class QueueDeclareOk(Method):
    """The queue is there: its name, its ready messages and its consumers."""

    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method(50, 20)
class QueueBind(Method):
    """Messages of the exchange that match go to the queue."""

    reserved_1: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(50, 21)
class QueueBindOk(Method):
    """The binding is there."""


@method(50, 30)
class QueuePurge(Method):
    """Drop the queue's ready messages."""

    reserved_1: Short = 0
    queue: ShortString = ""
    no_wait: Bit = False


@method(50, 31)
class QueuePurgeOk(Method):
    """How many messages went."""

    message_count: Long = 0


@method(50, 40)
class QueueDelete(Method):
    """Delete a queue with its messages and bindings."""

    reserved_1: Short = 0
    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


@method(50, 41)
class QueueDeleteOk(Method):
    """How many messages went with the queue."""

    message_count: Long = 0


@method(50, 50)
class QueueUnbind(Method):
    """Remove one binding; it has no no_wait."""

    reserved_1: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: FieldTable = field(default_factory=dict)


@method(50, 51)
class QueueUnbindOk(Method):
    """The binding is gone."""
