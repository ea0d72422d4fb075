"""Plans, and what is restored at start."""

from __future__ import annotations

import pytest
from leveret.core.definitions import (
    AddExchange,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveQueue,
)
from leveret.core.exchanges.table import carry_out


def kinds(changes) -> list[type]:
    return [type(change) for change in changes]


def test_nothing_changes_until_the_plan_is_applied(commands, refused):
    version = commands.table.version
    plan = commands.topology.prepare_declare_exchange("x", "topic", durable=True, arguments={})
    assert plan.changes == plan.catalog == (AddExchange(plan.exchange),)
    assert commands.table.version == version
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        carry_out(commands.table.route("x", "k"))
    commands.topology.apply(plan)
    assert commands.table.version > version
    assert carry_out(commands.table.route("x", "k")) == ()


def test_a_plan_is_not_applied_after_another_one(commands):
    first = commands.topology.prepare_declare_exchange("x", "topic", arguments={})
    second = commands.topology.prepare_declare_exchange("x", "topic", arguments={})
    commands.topology.apply(first)
    with pytest.raises(AssertionError):
        commands.topology.apply(second)


def test_restored_topology_routes_as_before(commands):
    queue = QueueDefinition("q", 7, durable=True)
    exchange = ExchangeDefinition("x", "topic", durable=True)
    commands.topology.restore(
        [exchange],
        [queue],
        [
            BindingDefinition("x", "q", "a.#", durable=True),
            BindingDefinition("amq.fanout", "q", "", durable=True),
        ],
    )
    for source, key in (("", "q"), ("x", "a.b"), ("amq.fanout", "any")):
        assert carry_out(commands.table.route(source, key)) == (queue,)
    assert kinds(commands.topology.prepare_delete_queue("q", commands.us).catalog) == [
        RemoveBinding,
        RemoveBinding,
        RemoveQueue,
    ]


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        (("x", "none"), "queue"),
        (("none", "q"), "queue"),
        (("x", "q"), "exchange"),
        (("x", "x"), "queue"),
    ],
)
def test_catalog_with_a_binding_that_hangs_in_the_air_is_refused(commands, ends, kind):
    with pytest.raises(ValueError, match="without its ends"):
        commands.topology.restore(
            [ExchangeDefinition("x", "topic", durable=True)],
            [QueueDefinition("q", 7, durable=True)],
            [BindingDefinition(*ends, "a.#", durable=True, destination_kind=kind)],
        )


def test_catalog_with_an_exchange_type_from_the_future_is_refused(commands):
    with pytest.raises(ValueError, match="of type 'x-new'"):
        commands.topology.restore([ExchangeDefinition("x", "x-new", durable=True)], [], [])
