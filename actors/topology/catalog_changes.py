"""Between core's definitions and the catalog's rows: the same things, with arguments encoded."""

from __future__ import annotations

from collections.abc import Iterable

from ...amqp_frames.errors import AmqpError
from ...amqp_frames.values.field_table import Table, decode_table, encode_table
from ...core import definitions
from ...core.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from ...core.topology.vhosts import Vhosts
from ...storage.catalog import catalog
from ...storage.catalog.catalog import BindingRow, CatalogContents, ExchangeRow, QueueRow
from ...storage.catalog.file import CatalogDamagedError


def catalog_changes(changes: Iterable[definitions.Change]) -> list[catalog.Change]:
    """The catalog's changes for the durable part of a plan."""
    return [_change(change) for change in changes]


def _change(change: definitions.Change) -> catalog.Change:
    if isinstance(change, definitions.AddQueue):
        return catalog.AddQueue(_queue_row(change.queue))
    if isinstance(change, definitions.RemoveQueue):
        return catalog.RemoveQueue(change.queue.queue_id)
    if isinstance(change, definitions.AddExchange):
        return catalog.AddExchange(_exchange_row(change.exchange))
    if isinstance(change, definitions.RemoveExchange):
        return catalog.RemoveExchange(change.exchange.vhost, change.exchange.name)
    if isinstance(change, definitions.AddBinding):
        return catalog.AddBinding(_binding_row(change.binding))
    return catalog.RemoveBinding(_binding_row(change.binding))


def _queue_row(queue: QueueDefinition) -> QueueRow:
    return QueueRow(
        queue.queue_id,
        queue.vhost,
        queue.name,
        queue.durable,
        queue.auto_delete,
        encode_table(queue.arguments),
    )


def _exchange_row(exchange: ExchangeDefinition) -> ExchangeRow:
    return ExchangeRow(
        exchange.vhost,
        exchange.name,
        exchange.type_name,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        encode_table(exchange.arguments),
    )


def _binding_row(binding: BindingDefinition) -> BindingRow:
    return BindingRow(
        binding.vhost,
        binding.source,
        binding.destination,
        binding.destination_kind,
        binding.routing_key,
        encode_table(binding.arguments),
    )


def restore(vhosts: Vhosts, contents: CatalogContents) -> None:
    """Put into the vhosts what the catalog holds; CatalogDamagedError if it does not fit."""
    try:
        vhosts.restore(*restored(contents))
    except (ValueError, AmqpError) as fault:
        raise CatalogDamagedError(f"the catalog is damaged: {fault}") from fault


def restored(
    contents: CatalogContents,
) -> tuple[list[ExchangeDefinition], list[QueueDefinition], list[BindingDefinition]]:
    """The catalog's rows, as definitions."""
    exchanges = [
        ExchangeDefinition(
            row.name,
            row.type,
            row.durable,
            row.auto_delete,
            row.internal,
            _table(row.arguments),
            row.vhost,
        )
        for row in contents.exchanges
    ]
    queues = [
        QueueDefinition(
            row.name,
            row.queue_id,
            row.durable,
            auto_delete=row.auto_delete,
            arguments=_table(row.arguments),
            vhost=row.vhost,
        )
        for row in contents.queues
    ]
    bindings = [
        BindingDefinition(
            row.source,
            row.destination,
            row.routing_key,
            True,
            _table(row.arguments),
            row.vhost,
            row.destination_kind,
        )
        for row in contents.bindings
    ]
    return exchanges, queues, bindings


def _table(encoded: bytes) -> Table:
    return decode_table(encoded, 0, len(encoded)) if len(encoded) > 4 else {}
