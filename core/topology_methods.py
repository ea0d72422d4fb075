"""From a client's methods to plans: exchanges and bindings. Queues need their counts besides."""

from __future__ import annotations

from ..amqp_frames.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueUnbind,
    QueueUnbindOk,
)
from .plan import Plan
from .topology import Topology


def plan_method(topology: Topology, method: Method, connection: object) -> tuple[Plan, Method]:
    """What to change, and what to answer when that is done; AmqpError if it cannot be."""
    match method:
        case QueueBind():
            plan = topology.prepare_bind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            return plan, QueueBindOk()
        case QueueUnbind():
            plan = topology.prepare_unbind(
                method.queue, method.exchange, method.routing_key, method.arguments, connection
            )
            return plan, QueueUnbindOk()
        case ExchangeBind():
            plan = topology.prepare_bind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            return plan, ExchangeBindOk()
        case ExchangeUnbind():
            plan = topology.prepare_unbind_exchange(
                method.destination, method.source, method.routing_key, method.arguments
            )
            return plan, ExchangeUnbindOk()
        case ExchangeDeclare():
            plan = topology.prepare_declare_exchange(
                method.exchange,
                method.type,
                passive=method.passive,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
            return plan, ExchangeDeclareOk()
    assert isinstance(method, ExchangeDelete), method
    plan = topology.prepare_delete_exchange(method.exchange, if_unused=method.if_unused)
    return plan, ExchangeDeleteOk()
