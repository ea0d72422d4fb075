"""What binding and unbinding come to: queue.bind, exchange.bind and their opposites.

A binding leads from an exchange, its source, to a queue or to an exchange. Source, destination,
routing key and arguments make it what it is: with other arguments it is another one.
"""

from __future__ import annotations

from ..amqp_frames.field_table import Table
from .declaration_checks import check_access, check_not_default, stripped
from .definitions import (
    TO_EXCHANGE,
    AddBinding,
    BindingDefinition,
    Destination,
    QueueDefinition,
    binding_identity,
)
from .exchange_table import ExchangeTable
from .plan import Plan, make_plan, removal_changes


def plan_bind(
    table: ExchangeTable,
    kind: str,
    destination_name: str,
    source_name: str,
    routing_key: str,
    arguments: Table,
    owner: object,
) -> Plan:
    """Bind; a binding that is there already is no error. `kind` is the destination's."""
    destination_name, source_name = _checked_names(kind, destination_name, source_name)
    # Of both missing, the source is told.
    source = table.exchange(source_name)
    destination = _find_destination(table, kind, destination_name)
    if destination is None:
        raise table.not_found(kind, destination_name)
    source.check_binding(arguments)
    queue = _accessible_queue(destination, owner)
    durable = source.definition.durable and destination.durable
    binding = BindingDefinition(
        source_name, destination_name, routing_key, durable, arguments, table.vhost, kind
    )
    if binding.identity in source.bindings:
        return make_plan(table, queue=queue)
    return make_plan(table, (AddBinding(binding),), queue=queue)


def plan_unbind(
    table: ExchangeTable,
    kind: str,
    destination_name: str,
    source_name: str,
    routing_key: str,
    arguments: Table,
    owner: object,
) -> Plan:
    """Unbind; if the binding or one of its ends is not there, that is no error."""
    destination_name, source_name = _checked_names(kind, destination_name, source_name)
    source = table.find_exchange(source_name)
    destination = _find_destination(table, kind, destination_name)
    found = destination if isinstance(destination, QueueDefinition) else None
    if source is None or destination is None:
        return make_plan(table, queue=found)
    identity = binding_identity(source_name, destination_name, routing_key, arguments, kind)
    binding = source.bindings.get(identity)
    if binding is None:
        return make_plan(table, queue=found)
    queue = _accessible_queue(destination, owner)
    return make_plan(table, removal_changes(table, [binding]), queue=queue)


def _checked_names(kind: str, destination_name: str, source_name: str) -> tuple[str, str]:
    destination_name, source_name = stripped(destination_name), stripped(source_name)
    if kind == TO_EXCHANGE:
        check_not_default(destination_name)
    check_not_default(source_name)
    return destination_name, source_name


def _find_destination(table: ExchangeTable, kind: str, name: str) -> Destination | None:
    if kind == TO_EXCHANGE:
        exchange = table.find_exchange(name)
        return None if exchange is None else exchange.definition
    return table.find_queue(name)


def _accessible_queue(destination: Destination, owner: object) -> QueueDefinition | None:
    """The queue at this end, if it is one; 405 if it is another connection's."""
    if not isinstance(destination, QueueDefinition):
        return None
    check_access(destination, owner)
    return destination
