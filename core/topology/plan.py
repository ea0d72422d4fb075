"""A plan: what one command will change, between its checks and its effect (topology.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..definitions import (
    BindingDefinition,
    BindingIdentity,
    Change,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    is_durable,
)
from ..exchanges.table import ExchangeTable


class Plan(NamedTuple):
    """What a command will change, and what its answer is made of.

    changes: all steps, for the table; empty if the command changes nothing
    catalog: those of them that must be committed first
    queue: the queue declared, bound, unbound or deleted; None if a deletion found none
    exchange: the exchange declared or deleted; None if a deletion found none
    version: the table's when the plan was made
    """

    changes: tuple[Change, ...]
    catalog: tuple[Change, ...]
    version: int
    queue: QueueDefinition | None = None
    exchange: ExchangeDefinition | None = None


def make_plan(
    table: ExchangeTable,
    changes: Iterable[Change] = (),
    *,
    queue: QueueDefinition | None = None,
    exchange: ExchangeDefinition | None = None,
) -> Plan:
    """A plan for the table as it is now."""
    changes = tuple(changes)
    catalog = tuple(change for change in changes if is_durable(change))
    return Plan(changes, catalog, table.version, queue, exchange)


def removal_changes(
    table: ExchangeTable,
    bindings: Iterable[BindingDefinition],
    exchanges: Iterable[ExchangeDefinition] = (),
) -> list[Change]:
    """Remove the bindings and the exchanges, and everything that depends on them.

    An exchange takes the bindings from it and to it along. An auto-delete exchange goes when the
    last binding from it does, which may take away another exchange's last binding, and so on.
    """
    # Grows while it is walked through.
    going = list(exchanges)
    removed: dict[BindingIdentity, BindingDefinition] = {}
    left: dict[str, int] = {}

    def remove(some: Iterable[BindingDefinition]) -> None:
        for binding in some:
            if binding.identity in removed:
                continue
            removed[binding.identity] = binding
            source = table.exchange(binding.source)
            left[binding.source] = left.get(binding.source, len(source.bindings)) - 1
            if (
                source.definition.auto_delete
                and not left[binding.source]
                and source.definition not in going
            ):
                going.append(source.definition)

    remove(bindings)
    for exchange in going:
        remove(table.exchange(exchange.name).bindings.values())
        remove(table.bindings_to(exchange))
    changes: list[Change] = [RemoveBinding(binding) for binding in removed.values()]
    changes += [RemoveExchange(exchange) for exchange in going]
    return changes
