"""From exchange to exchange: bindings between them, cycles, and what goes with what."""

from __future__ import annotations

import pytest
from leveret.core.exchanges.table import carry_out

ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def declare_queues(commands, *names: str) -> None:
    for name in names:
        commands.declare_queue(name)


# --- Bindings between exchanges.


def test_a_message_goes_on_as_the_types_of_the_exchanges_say(commands):
    declare_queues(commands, "a", "b", "c")
    commands.declare_exchange("direct", "direct")
    commands.declare_exchange("topic", "topic")
    commands.declare_exchange("fanout", "fanout")
    commands.bind_exchange("topic", "direct", "k.1")
    commands.bind_exchange("fanout", "topic", "k.*")
    commands.bind("a", "direct", "k.1")
    commands.bind("b", "topic", "#")
    commands.bind("c", "fanout", "")
    assert commands.route("direct", "k.1") == ["a", "b", "c"]
    assert commands.route("direct", "k.2") == []
    assert commands.route("topic", "k.2") == ["b", "c"]
    commands.unbind_exchange("topic", "direct", "k.1")
    assert commands.route("direct", "k.1") == ["a"]


def test_a_queue_reached_on_several_ways_gets_the_message_once(commands):
    declare_queues(commands, "q")
    for name in ("x", "left", "right"):
        commands.declare_exchange(name, "fanout")
        commands.bind(exchange=name)
    for name in ("left", "right"):
        commands.bind_exchange(name)
        commands.bind_exchange(name, key="another")
    assert commands.route() == ["q"]


def test_cycles_end(commands):
    declare_queues(commands, "a", "b")
    for name in ("x", "y"):
        commands.declare_exchange(name, "fanout")
    commands.bind_exchange("y", "x")
    commands.bind_exchange("x", "y")
    commands.bind_exchange("x", "x")
    commands.bind("a", "x")
    commands.bind("b", "y")
    assert commands.route("x") == ["a", "b"]
    assert commands.route("y") == ["b", "a"]


def test_an_internal_exchange_takes_what_comes_through_another(commands, refused):
    commands.declare_exchange("x", "fanout")
    commands.declare_exchange("inside", "fanout", internal=True)
    declare_queues(commands, "q")
    commands.bind(exchange="inside")
    commands.bind_exchange("inside")
    assert commands.route() == ["q"]
    with refused(403, "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'"):
        commands.route("inside")
    # That is for publishers: the broker's own messages may go there.
    assert commands.route_message("inside") == ["q"]


def test_a_headers_exchange_looks_at_messages_that_come_through_another(commands):
    commands.declare_exchange("x", "fanout")
    declare_queues(commands, "q")
    assert not commands.table.routes_each_message("x")
    commands.bind_exchange("amq.match")
    assert commands.table.routes_each_message("x")
    commands.bind(exchange="amq.match", a=1)
    assert commands.route_message(a=1) == ["q"]
    assert commands.route_message(a=2) == []
    commands.unbind_exchange("amq.match")
    assert not commands.table.routes_each_message("x")


def test_bindings_between_exchanges_have_an_identity_as_others(commands):
    commands.declare_exchange("x", "direct")
    commands.declare_exchange("y", "fanout")
    commands.declare_exchange("q", "fanout")
    declare_queues(commands, "q")
    commands.bind(exchange="y")
    commands.bind_exchange("y", a=1)
    version = commands.table.version
    commands.bind_exchange("y", a=1)
    assert commands.table.version == version
    commands.bind_exchange("y")
    commands.unbind_exchange("y")
    assert commands.route() == ["q"]
    # A queue and an exchange of one name are two.
    commands.bind_exchange("q")
    commands.unbind_exchange("y", a=1)
    commands.unbind("q")
    assert [each.destination_kind for each in commands.table.exchange("x").bindings.values()] == [
        "exchange"
    ]


def test_a_binding_between_exchanges_is_durable_if_both_ends_are(commands):
    for durable in (False, True):
        commands.declare_exchange(f"x{durable}", durable=durable)
        commands.declare_exchange(f"y{durable}", durable=durable)
    for source, destination in ((0, 0), (0, 1), (1, 0), (1, 1)):
        plan = commands.topology.prepare_bind_exchange(
            f"y{bool(destination)}", f"x{bool(source)}", "k", {}
        )
        assert plan.catalog == (plan.changes if source and destination else ())


def test_binding_exchanges_that_are_not_there_is_refused(commands, refused):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        commands.bind_exchange("y")
    commands.declare_exchange("x")
    with refused(404, "NOT_FOUND - no exchange 'y' in vhost '/'"):
        commands.bind_exchange("y")
    commands.unbind_exchange("y")
    commands.unbind_exchange("x", "y")
    for ends in (("", "x"), ("x", ""), ("", "")):
        with refused(403, ON_DEFAULT):
            commands.bind_exchange(*ends)
        with refused(403, ON_DEFAULT):
            commands.unbind_exchange(*ends)


# --- What goes with what.


def test_bindings_go_with_the_exchange_at_either_end(commands):
    for name in ("x", "y", "z"):
        commands.declare_exchange(name, "fanout")
    declare_queues(commands, "q")
    commands.bind_exchange("y", "x")
    commands.bind_exchange("z", "y")
    commands.bind_exchange("y", "y")
    commands.bind(exchange="z")
    assert commands.route("x") == ["q"]
    commands.delete_exchange("y")
    commands.declare_exchange("y", "fanout")
    commands.bind(exchange="y")
    assert commands.route("x") == []
    assert commands.table.exchange("x").is_plain


def test_an_exchange_is_in_use_by_its_own_bindings_and_not_by_those_to_others(commands, refused):
    commands.declare_exchange("x", "fanout")
    commands.declare_exchange("y", "fanout")
    commands.bind_exchange("y", "x")
    with refused(406, "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"):
        commands.delete_exchange("x", if_unused=True)
    commands.delete_exchange("y", if_unused=True)
    commands.delete_exchange("x", if_unused=True)
    assert commands.exchange_names() == []


def test_auto_delete_exchanges_go_one_after_the_other(commands):
    for name in ("a", "b", "c"):
        commands.declare_exchange(name, "fanout", auto_delete=True, durable=True)
    commands.declare_exchange("stays", "fanout", durable=True)
    commands.declare_queue(durable=True)
    for destination, source in (("a", "stays"), ("b", "a"), ("c", "b")):
        commands.bind_exchange(destination, source)
    commands.bind(exchange="c")
    plan = commands.topology.prepare_delete_queue("q", commands.us)
    assert plan.catalog == plan.changes
    commands.topology.apply(plan)
    assert commands.exchange_names() == ["stays"]
    assert commands.table.exchange("stays").is_plain


def test_auto_delete_exchanges_in_a_cycle_stay_until_one_of_them_is_deleted(commands):
    for name in ("a", "b"):
        commands.declare_exchange(name, "fanout", auto_delete=True)
    declare_queues(commands, "q")
    commands.bind_exchange("a", "b")
    commands.bind_exchange("b", "a")
    commands.bind(exchange="a")
    commands.unbind(exchange="a")
    assert commands.exchange_names() == ["a", "b"]
    commands.delete_exchange("a")
    assert commands.exchange_names() == []


def test_an_auto_delete_exchange_stays_when_a_binding_to_it_goes(commands):
    commands.declare_exchange("x", "fanout")
    commands.declare_exchange("y", "fanout", auto_delete=True)
    declare_queues(commands, "q")
    commands.bind(exchange="y")
    commands.bind_exchange("y", "x")
    commands.unbind_exchange("y", "x")
    assert commands.exchange_names() == ["x", "y"]
    commands.unbind(exchange="y")
    assert commands.exchange_names() == ["x"]


@pytest.mark.parametrize("type_name", ["direct", "fanout", "topic"])
def test_an_exchange_that_needs_none_of_this_is_plain(commands, type_name):
    commands.declare_exchange("x", type_name)
    declare_queues(commands, "q")
    commands.bind()
    # Its routes are handed out as they are kept, without a walk.
    assert commands.table.exchange("x").is_plain
    assert carry_out(commands.table.route("x", "k")) is commands.table.exchange("x").route("k")
    commands.bind_exchange("amq.fanout", "x")
    assert not commands.table.exchange("x").is_plain
    commands.unbind_exchange("amq.fanout", "x")
    assert commands.table.exchange("x").is_plain


def test_whether_headers_count_is_found_out_once_until_something_changes(commands, monkeypatch):
    commands.declare_exchange("x", "fanout")
    commands.bind_exchange("amq.match")
    asked = []
    monkeypatch.setattr(
        "leveret.core.exchanges.table.within_reach",
        lambda table, exchange: (
            asked.append(exchange.definition.name) or [table.exchange("amq.match")]
        ),
    )
    for _ in range(3):
        assert commands.table.routes_each_message("x")
    assert asked == ["x"]
    commands.declare_queue()
    assert commands.table.routes_each_message("x")
    assert asked == ["x", "x"]
