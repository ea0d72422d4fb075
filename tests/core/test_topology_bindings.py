"""Binding and unbinding, and the auto-delete exchanges that go with their last binding."""

from __future__ import annotations

import itertools

from leveret.core.definitions import AddBinding, RemoveBinding, RemoveExchange
from leveret.core.exchanges.table import carry_out

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
    assert carry_out(commands.table.route("x", "k")) == (queue,)


def test_bindings_with_other_arguments_are_other_bindings(commands):
    commands.declare_exchange()
    queue = commands.declare_queue()
    commands.bind(a=1)
    commands.bind(a="1")
    commands.bind()
    assert carry_out(commands.table.route("x", "k")) == (queue,)
    commands.unbind()
    commands.unbind(a=1)
    assert carry_out(commands.table.route("x", "k")) == (queue,)
    commands.unbind(a="1")
    assert carry_out(commands.table.route("x", "k")) == ()


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


def costly(number: int, *, words: int = 20) -> str:
    """A pattern of so many words that counts as costly."""
    return ".".join(["#", "a"] * (words // 2 - 1) + ["#", str(number)])


def test_topic_patterns_with_many_wildcards_are_bounded(commands_within, refused):
    commands = commands_within(topic_costly_words_max=1000)
    commands.declare_queue()
    commands.declare_queue("other")
    for number in range(50):
        commands.bind(exchange="amq.topic", key=costly(number))
    text = (
        "PRECONDITION_FAILED - cannot bind to exchange 'amq.topic' in vhost '/': "
        "its patterns with more than 8 wildcards would have more than 1000 words"
    )
    with refused(406, text):
        commands.bind(exchange="amq.topic", key=costly(50))
    # Those that are there may be bound again, and others as ever.
    commands.bind(exchange="amq.topic", key=costly(0))
    commands.bind("other", exchange="amq.topic", key=costly(0))
    commands.bind(exchange="amq.topic", key="#.#.#.#.#.#.#.#.#.a")
    commands.bind(exchange="amq.topic", key="a.*.*.*.*.*.*.*.*.b")
    commands.unbind(exchange="amq.topic", key=costly(1))
    commands.bind(exchange="amq.topic", key=costly(50))
    commands.unbind(exchange="amq.topic", key=costly(0))
    with refused(406, text):
        commands.bind(exchange="amq.topic", key=costly(51))
    # Another exchange has its own.
    commands.declare_exchange("x", "topic")
    commands.bind(key=costly(51))


def test_bindings_that_the_catalog_holds_are_restored_whatever_the_limit_is(commands_within):
    commands = commands_within()
    commands.declare_queue(durable=True)
    for number in range(60):
        commands.bind(exchange="amq.topic", key=costly(number))
    table = commands.table
    restarted = commands_within(topic_costly_words_max=1000)
    restarted.topology.restore((), table.queues(), table.exchange("amq.topic").bindings.values())
    assert restarted.route("amq.topic", ".".join(["a"] * 9 + ["59"])) == ["q"]
