"""Which access each method needs, as RabbitMQ's channels ask for it.

    exchange.declare, delete      configure the exchange; not if passive
    queue.declare, delete         configure the queue; not if passive
    exchange.bind, unbind         write the destination, read the source
    queue.bind, unbind            write the queue, read the exchange
    queue.purge, basic.get, basic.consume    read the queue (channel_commands.py)
    basic.publish                 write the exchange (routes.py)

A new exchange with an alternate needs to read it and write the alternate; a new queue with a
dead-letter exchange, to read the queue and write that exchange. What is wrong with a method by
itself is said first where RabbitMQ says it first: such methods are left to Topology to refuse.
"""

from __future__ import annotations

from ..amqp_frames.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from .access import CONFIGURE, READ, WRITE, Access
from .death_headers import name_of
from .declaration_checks import RESERVED_PREFIX, stripped
from .exchange_table import BUILT_TYPES
from .plan import Plan

_ALTERNATE = "alternate-exchange"
_DEAD_LETTER = "x-dead-letter-exchange"


def check_permitted(access: Access, method: Method) -> None:
    """403 if the method needs access that the user has not; names of queues are filled in."""
    match method:
        case QueueDeclare():
            name = stripped(method.queue)
            # A name that the broker gives is looked at when it is given.
            if not method.passive and name and not name.startswith(RESERVED_PREFIX):
                access.check(CONFIGURE, "queue", name)
        case QueueDelete():
            access.check(CONFIGURE, "queue", stripped(method.queue))
        case ExchangeDeclare():
            name = stripped(method.exchange)
            if not method.passive and name and method.type in BUILT_TYPES:
                access.check(CONFIGURE, "exchange", name)
        case ExchangeDelete():
            name = stripped(method.exchange)
            if name and not name.startswith(RESERVED_PREFIX):
                access.check(CONFIGURE, "exchange", name)
        case QueueBind() | QueueUnbind():
            _check_binding(access, "queue", stripped(method.queue), stripped(method.exchange))
        case ExchangeBind() | ExchangeUnbind():
            destination, source = stripped(method.destination), stripped(method.source)
            _check_binding(access, "exchange", destination, source)


def _check_binding(access: Access, kind: str, destination: str, source: str) -> None:
    access.check(WRITE, kind, destination)
    if source and destination:
        access.check(READ, "exchange", source)


def check_planned(access: Access, method: Method, plan: Plan) -> None:
    """403 for what a declaration would make and the user may not; nothing has changed yet."""
    match method:
        case QueueDeclare() if plan.queue is not None:
            name = plan.queue.name
            if not stripped(method.queue) and not method.passive:
                access.check(CONFIGURE, "queue", name)
            dead_letter = name_of(method.arguments.get(_DEAD_LETTER))
            if plan.changes and dead_letter is not None:
                access.check(READ, "queue", name)
                access.check(WRITE, "exchange", dead_letter)
        case ExchangeDeclare() if plan.changes:
            alternate = name_of(method.arguments.get(_ALTERNATE))
            if alternate is not None:
                access.check(READ, "exchange", stripped(method.exchange))
                access.check(WRITE, "exchange", alternate)
