"""Declaring and deleting exchanges: what changes, and the exact words when it is refused."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import RemoveBinding, RemoveExchange
from leveret.core.exchanges.table import carry_out

ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def kinds(changes) -> list[type]:
    return [type(change) for change in changes]


def test_transient_exchange_stays_out_of_the_catalog(commands):
    assert commands.topology.prepare_declare_exchange("x", "fanout", arguments={}).catalog == ()


def test_declaring_an_exchange_again_changes_nothing(commands):
    how = {"durable": True, "auto_delete": True, "internal": True}
    exchange = commands.declare_exchange(**how)
    version = commands.table.version
    plan = commands.topology.prepare_declare_exchange(
        "x", "direct", **how, arguments=table_of({"x-a": 1})
    )
    commands.topology.apply(plan)
    assert (plan.exchange, plan.changes, commands.table.version) == (exchange, (), version)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"type_name": "topic"}, "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"),  # noqa: E501
        ({"durable": False}, "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'"),  # noqa: E501
        ({"auto_delete": True}, "'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),  # noqa: E501
        ({"internal": True}, "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),  # noqa: E501
        ({"arguments": table_of({"alternate-exchange": "ae"})}, "'alternate-exchange' for exchange 'x' in vhost '/': received the value 'ae' of type 'longstr' but current is none"),  # noqa: E501
    ],
)  # fmt: skip
def test_exchange_declared_otherwise_is_refused(commands, refused, how, words):
    commands.declare_exchange(durable=True)
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg {words}"):
        commands.declare_exchange(**{"durable": True, **how})


def test_passive_declare_finds_an_exchange_whatever_its_properties(commands):
    exchange = commands.declare_exchange(durable=True)
    assert commands.declare_exchange(type_name="no such type", passive=True) is exchange


def test_passive_declare_of_a_missing_exchange_is_refused(commands, refused):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        commands.declare_exchange(passive=True)


@pytest.mark.parametrize("type_name", ["foo", "", "x-jms-topic"])
def test_unknown_exchange_type_is_refused(commands, refused, type_name):
    with refused(406, f"PRECONDITION_FAILED - unknown exchange type '{type_name}'"):
        commands.declare_exchange(type_name=type_name)


@pytest.mark.parametrize("type_name", ["x-local-random", "x-modulus-hash"])
def test_exchange_type_that_is_not_built_is_refused(commands, refused, type_name):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid arg 'type' for exchange 'x' in vhost '/': not implemented",
    ):
        commands.declare_exchange(type_name=type_name)


def test_reserved_exchange_name_is_refused_on_creation_only(commands, refused):
    with refused(
        403,
        "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
    ):
        commands.declare_exchange("amq.x")
    commands.declare_exchange("amq.topic", "topic", durable=True)
    with refused(404, "NOT_FOUND - no exchange 'amq.x' in vhost '/'"):
        commands.declare_exchange("amq.x", passive=True)


@pytest.mark.parametrize("passive", [False, True])
def test_default_exchange_cannot_be_declared(commands, refused, passive):
    with refused(403, ON_DEFAULT):
        commands.declare_exchange("", passive=passive)


def test_default_exchange_cannot_be_deleted(commands, refused):
    with refused(403, ON_DEFAULT):
        commands.topology.prepare_delete_exchange("")


@pytest.mark.parametrize("name", ["amq.direct", "amq.headers", "amq.none"])
def test_predeclared_exchanges_cannot_be_deleted(commands, refused, name):
    with refused(
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed",
    ):
        commands.topology.prepare_delete_exchange(name)


def test_deleting_a_missing_exchange_is_no_error(commands):
    assert commands.topology.prepare_delete_exchange("x", if_unused=True).changes == ()


def test_exchange_with_bindings_is_not_deleted_if_unused(commands, refused):
    commands.declare_exchange()
    commands.declare_queue()
    commands.bind()
    with refused(406, "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"):
        commands.topology.prepare_delete_exchange("x", if_unused=True)
    commands.unbind()
    commands.topology.apply(commands.topology.prepare_delete_exchange("x", if_unused=True))
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        carry_out(commands.table.route("x", "k"))


def test_deleting_an_exchange_deletes_its_bindings_first(commands):
    commands.declare_exchange(durable=True)
    queue = commands.declare_queue(durable=True)
    commands.declare_queue("transient")
    commands.bind()
    commands.bind(queue="transient")
    plan = commands.topology.prepare_delete_exchange("x")
    assert kinds(plan.changes) == [RemoveBinding, RemoveBinding, RemoveExchange]
    assert kinds(plan.catalog) == [RemoveBinding, RemoveExchange]
    commands.topology.apply(plan)
    assert list(commands.table.bindings_to(queue)) == []


@pytest.mark.parametrize("name", ["x\n", "\r\nx", "\rx"])
def test_line_breaks_are_dropped_from_names(commands, name):
    commands.declare_exchange(name)
    commands.declare_queue(name.replace("x", "q"))
    commands.bind(queue="\rq\n", exchange="x\n")
    assert [queue.name for queue in carry_out(commands.table.route("x", "k"))] == ["q"]
    commands.unbind(queue="q\r", exchange="\nx")
    assert carry_out(commands.table.route("x", "k")) == ()
