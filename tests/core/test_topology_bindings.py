"""Binding and unbinding, and the auto-delete exchanges that go with their last binding."""

from __future__ import annotations

import itertools

from leveret.core.definitions import AddBinding, RemoveBinding, RemoveExchange

ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def kinds(changes) -> list[type]:
    return [type(change) for change in changes]


def test_binding_is_durable_if_both_ends_are(commands):
    for durable_exchange, durable_queue in itertools.product((False, True), repeat=2):
        exchange = f"x{durable_exchange}"
        queue = f"q{durable_queue}"
        commands.declare_exchange(exchange, durable=durable_exchange)
        commands.declare_queue(queue, durable=durable_queue)
        plan = commands.topology.prepare_bind(queue, exchange, "k", {}, commands.us)
        both = durable_exchange and durable_queue
        assert kinds(plan.changes) == [AddBinding]
        assert plan.catalog == (plan.changes if both else ())


def test_binding_twice_is_binding_once(commands):
    commands.declare_exchange()
    queue = commands.declare_queue()
    commands.bind(a=1, b=2)
    version = commands.table.version
    commands.bind(b=2, a=1)
    assert commands.table.version == version
    assert commands.table.route("x", "k") == (queue,)


def test_bindings_with_other_arguments_are_other_bindings(commands):
    commands.declare_exchange()
    queue = commands.declare_queue()
    commands.bind(a=1)
    commands.bind(a="1")
    commands.bind()
    assert commands.table.route("x", "k") == (queue,)
    commands.unbind()
    commands.unbind(a=1)
    assert commands.table.route("x", "k") == (queue,)
    commands.unbind(a="1")
    assert commands.table.route("x", "k") == ()


def test_binding_without_its_ends_is_refused(commands, refused):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        commands.bind()
    commands.declare_exchange()
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        commands.bind()


def test_nothing_is_bound_to_or_unbound_from_the_default_exchange(commands, refused):
    commands.declare_queue()
    with refused(403, ON_DEFAULT):
        commands.bind(exchange="")
    with refused(403, ON_DEFAULT):
        commands.unbind(exchange="")


def test_unbinding_what_is_not_bound_is_no_error(commands):
    commands.unbind()
    commands.declare_exchange()
    commands.unbind()
    # Of a locked queue too: there is nothing to be locked.
    commands.declare_queue(exclusive=True)
    commands.unbind(owner=commands.them)
    assert commands.topology.prepare_unbind("q", "x", "k", {}, commands.us).changes == ()


# --- Auto-delete exchanges.


def test_auto_delete_exchange_goes_with_its_last_binding(commands):
    commands.declare_exchange(durable=True, auto_delete=True)
    commands.declare_queue(durable=True)
    commands.bind(key="a")
    commands.bind(key="b")
    commands.unbind(key="a")
    plan = commands.topology.prepare_unbind("q", "x", "b", {}, commands.us)
    assert kinds(plan.changes) == kinds(plan.catalog) == [RemoveBinding, RemoveExchange]
    commands.topology.apply(plan)
    assert commands.table.find_exchange("x") is None


def test_auto_delete_exchange_stays_while_nothing_was_ever_bound(commands):
    commands.declare_exchange(auto_delete=True)
    commands.declare_queue()
    commands.unbind()
    assert commands.table.find_exchange("x") is not None


def test_auto_delete_exchange_goes_with_the_last_queues_it_was_bound_to(commands):
    commands.declare_exchange(auto_delete=True)
    for name in "abc":
        commands.declare_queue(name, exclusive=True)
        commands.bind(queue=name)
        commands.bind(queue=name, exchange="amq.direct")
    commands.topology.apply(commands.topology.prepare_delete_queue("a", commands.us))
    assert commands.table.find_exchange("x") is not None
    commands.topology.apply(
        commands.topology.prepare_remove_queues(commands.topology.queues_of(commands.us))
    )
    assert commands.table.find_exchange("x") is None
    assert commands.table.find_exchange("amq.direct") is not None
