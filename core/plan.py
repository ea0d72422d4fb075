"""A plan: what one command will change, between its checks and its effect (topology.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from .definitions import (
    BindingDefinition,
    Change,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    is_durable,
)
from .exchange_table import ExchangeTable


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


def unbind_changes(table: ExchangeTable, bindings: Collection[BindingDefinition]) -> list[Change]:
    """Remove the bindings, then the auto-delete exchanges that have none left."""
    changes: list[Change] = [RemoveBinding(binding) for binding in bindings]
    for name, removed in Counter(binding.source for binding in bindings).items():
        exchange = table.exchange(name)
        if exchange.definition.auto_delete and removed == len(exchange.bindings):
            changes.append(RemoveExchange(exchange.definition))
    return changes
