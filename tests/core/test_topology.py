"""Topology's commands: what they change, and the exact words when they are refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.field_table import table_of
from leveret.core.definitions import (
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
)
from leveret.core.topology import Topology

US = object()
THEM = object()
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)
ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


@pytest.fixture
def topology() -> Topology:
    return Topology(itertools.count(1).__next__, lambda count: bytes(range(240, 240 + count)))


@contextmanager
def refused(code: int, text: str) -> Iterator[None]:
    with pytest.raises(SoftError) as caught:
        yield
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)


def declare_queue(topology, name="q", owner=US, **how) -> QueueDefinition:
    plan = topology.prepare_declare_queue(name, owner, **{"arguments": {}, **how})
    topology.apply(plan)
    return plan.queue


def declare_exchange(
    topology: Topology, name: str = "x", type_name: str = "direct", **how
) -> ExchangeDefinition:
    plan = topology.prepare_declare_exchange(name, type_name, **{"arguments": {}, **how})
    topology.apply(plan)
    return plan.exchange


def bind(topology: Topology, queue="q", exchange="x", key="k", owner=US, **arguments) -> None:
    topology.apply(topology.prepare_bind(queue, exchange, key, table_of(arguments), owner))


def unbind(topology: Topology, queue="q", exchange="x", key="k", owner=US, **arguments) -> None:
    topology.apply(topology.prepare_unbind(queue, exchange, key, table_of(arguments), owner))


def kinds(changes) -> list[type]:
    return [type(change) for change in changes]


# --- Exchanges.


def test_nothing_changes_until_the_plan_is_applied(topology):
    version = topology.table.version
    plan = topology.prepare_declare_exchange("x", "topic", durable=True, arguments={})
    assert plan.changes == plan.catalog == (AddExchange(plan.exchange),)
    assert topology.table.version == version
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        topology.table.route("x", "k")
    topology.apply(plan)
    assert topology.table.version > version
    assert topology.table.route("x", "k") == ()


def test_a_plan_is_not_applied_after_another_one(topology):
    first = topology.prepare_declare_exchange("x", "topic", arguments={})
    second = topology.prepare_declare_exchange("x", "topic", arguments={})
    topology.apply(first)
    with pytest.raises(AssertionError):
        topology.apply(second)


def test_transient_exchange_stays_out_of_the_catalog(topology):
    assert topology.prepare_declare_exchange("x", "fanout", arguments={}).catalog == ()


def test_declaring_an_exchange_again_changes_nothing(topology):
    how = {"durable": True, "auto_delete": True, "internal": True}
    exchange = declare_exchange(topology, **how)
    version = topology.table.version
    plan = topology.prepare_declare_exchange("x", "direct", **how, arguments=table_of({"x-a": 1}))
    topology.apply(plan)
    assert (plan.exchange, plan.changes, topology.table.version) == (exchange, (), version)


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
def test_exchange_declared_otherwise_is_refused(topology, how, words):
    declare_exchange(topology, durable=True)
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg {words}"):
        declare_exchange(topology, **{"durable": True, **how})


def test_passive_declare_finds_an_exchange_whatever_its_properties(topology):
    exchange = declare_exchange(topology, durable=True)
    assert declare_exchange(topology, type_name="no such type", passive=True) is exchange


def test_passive_declare_of_a_missing_exchange_is_refused(topology):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        declare_exchange(topology, passive=True)


@pytest.mark.parametrize("type_name", ["foo", "", "x-consistent-hash", "x-delayed-message"])
def test_unknown_exchange_type_is_refused(topology, type_name):
    with refused(406, f"PRECONDITION_FAILED - unknown exchange type '{type_name}'"):
        declare_exchange(topology, type_name=type_name)


@pytest.mark.parametrize("type_name", ["headers", "x-local-random", "x-modulus-hash"])
def test_exchange_type_that_is_not_built_is_refused(topology, type_name):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid arg 'type' for exchange 'x' in vhost '/': not implemented",
    ):
        declare_exchange(topology, type_name=type_name)


def test_alternate_exchange_is_refused_until_it_is_built(topology):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid arg 'alternate-exchange' for exchange 'x' in vhost '/': "
        "not implemented",
    ):
        declare_exchange(topology, arguments=table_of({"alternate-exchange": "ae"}))


def test_reserved_exchange_name_is_refused_on_creation_only(topology):
    with refused(
        403,
        "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
    ):
        declare_exchange(topology, "amq.x")
    declare_exchange(topology, "amq.topic", "topic", durable=True)
    with refused(404, "NOT_FOUND - no exchange 'amq.x' in vhost '/'"):
        declare_exchange(topology, "amq.x", passive=True)


@pytest.mark.parametrize("passive", [False, True])
def test_default_exchange_cannot_be_declared(topology, passive):
    with refused(403, ON_DEFAULT):
        declare_exchange(topology, "", passive=passive)


def test_default_exchange_cannot_be_deleted(topology):
    with refused(403, ON_DEFAULT):
        topology.prepare_delete_exchange("")


@pytest.mark.parametrize("name", ["amq.direct", "amq.headers", "amq.none"])
def test_predeclared_exchanges_cannot_be_deleted(topology, name):
    with refused(
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed",
    ):
        topology.prepare_delete_exchange(name)


def test_deleting_a_missing_exchange_is_no_error(topology):
    assert topology.prepare_delete_exchange("x", if_unused=True).changes == ()


def test_exchange_with_bindings_is_not_deleted_if_unused(topology):
    declare_exchange(topology)
    declare_queue(topology)
    bind(topology)
    with refused(406, "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"):
        topology.prepare_delete_exchange("x", if_unused=True)
    unbind(topology)
    topology.apply(topology.prepare_delete_exchange("x", if_unused=True))
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        topology.table.route("x", "k")


def test_deleting_an_exchange_deletes_its_bindings_first(topology):
    declare_exchange(topology, durable=True)
    queue = declare_queue(topology, durable=True)
    declare_queue(topology, "transient")
    bind(topology)
    bind(topology, queue="transient")
    plan = topology.prepare_delete_exchange("x")
    assert kinds(plan.changes) == [RemoveBinding, RemoveBinding, RemoveExchange]
    assert kinds(plan.catalog) == [RemoveBinding, RemoveExchange]
    topology.apply(plan)
    assert list(topology.table.bindings_to(queue)) == []


@pytest.mark.parametrize("name", ["x\n", "\r\nx", "\rx"])
def test_line_breaks_are_dropped_from_names(topology, name):
    declare_exchange(topology, name)
    declare_queue(topology, name.replace("x", "q"))
    bind(topology, queue="\rq\n", exchange="x\n")
    assert [queue.name for queue in topology.table.route("x", "k")] == ["q"]
    unbind(topology, queue="q\r", exchange="\nx")
    assert topology.table.route("x", "k") == ()


# --- Queues.


def test_durable_queue_goes_to_the_catalog(topology):
    plan = topology.prepare_declare_queue("q", US, durable=True, arguments={})
    assert plan.changes == plan.catalog == (AddQueue(plan.queue),)


def test_exclusive_queue_is_never_durable(topology):
    plan = topology.prepare_declare_queue("q", US, durable=True, exclusive=True, arguments={})
    assert plan.catalog == ()
    assert (plan.queue.durable, plan.queue.owner) == (False, US)
    topology.apply(plan)
    # Its owner may declare it again either way.
    assert declare_queue(topology, exclusive=True, durable=True) is plan.queue
    assert declare_queue(topology, exclusive=True, durable=False) is plan.queue


def test_every_queue_is_bound_to_the_default_exchange_by_its_name(topology):
    queue = declare_queue(topology)
    assert topology.table.route("", "q") == (queue,)
    assert topology.table.route("", "other") == ()


def test_declaring_a_queue_again_finds_it(topology):
    queue = declare_queue(topology, durable=True)
    plan = topology.prepare_declare_queue(
        "q", THEM, durable=True, arguments=table_of({"x-queue-type": "classic", "x-unknown": 1})
    )
    assert (plan.queue, plan.changes) == (queue, ())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"durable": False}, "'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"),  # noqa: E501
        ({"auto_delete": True}, "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"),  # noqa: E501
        ({"arguments": table_of({"x-max-length": 10})}, "'x-max-length' for queue 'q' in vhost '/': received the value '10' of type 'signedint' but current is none"),  # noqa: E501
    ],
)  # fmt: skip
def test_queue_declared_otherwise_is_refused(topology, how, words):
    declare_queue(topology, durable=True)
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg {words}"):
        declare_queue(topology, **{"durable": True, **how})


def test_queue_argument_that_is_not_built_is_refused(topology):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '/': "
        "not implemented",
    ):
        declare_queue(topology, arguments=table_of({"x-message-ttl": 1000}))
    assert topology.table.find_queue("q") is None


def test_missing_queue_is_not_found(topology):
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        topology.queue("q", US)
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        declare_queue(topology, passive=True)


def test_reserved_queue_name_is_refused_even_if_the_queue_exists(topology):
    name = declare_queue(topology, "").name
    for each in (name, "amq.q"):
        with refused(403, f"ACCESS_REFUSED - queue name '{each}' contains reserved prefix 'amq.*'"):
            declare_queue(topology, each)
    assert declare_queue(topology, name, passive=True).name == name


def test_server_named_queues_have_names_like_rabbitmqs(topology):
    topology = Topology(itertools.count(1).__next__, lambda count: b"\xff\xfb" * (count // 2))
    assert declare_queue(topology, "").name == "amq.gen-" + "__v_-__7__v_-__7__v_-w"


def test_a_generated_name_that_is_taken_is_not_given_again():
    octets = iter([bytes(16), bytes(16), bytes([255] * 16)])
    topology = Topology(itertools.count(1).__next__, lambda count: next(octets))
    first, second = declare_queue(topology, ""), declare_queue(topology, "\n")
    assert (first.name, second.name) == ("amq.gen-" + "A" * 22, "amq.gen-" + "_" * 21 + "w")


def test_another_connections_exclusive_queue_is_locked_for_everything(topology):
    declare_exchange(topology)
    declare_queue(topology, exclusive=True)
    bind(topology)
    for command in (
        lambda: topology.queue("q", THEM),
        lambda: topology.find_queue("q", THEM),
        lambda: declare_queue(topology, owner=THEM),
        lambda: declare_queue(topology, owner=THEM, exclusive=True),
        lambda: declare_queue(topology, owner=THEM, passive=True),
        lambda: bind(topology, owner=THEM),
        lambda: unbind(topology, owner=THEM),
        lambda: topology.prepare_delete_queue("q", THEM),
    ):
        with refused(405, LOCKED):
            command()
    assert topology.queue("q", US).owner is US


def test_exclusive_must_be_declared_as_it_was(topology):
    declare_queue(topology, exclusive=True)
    with refused(405, LOCKED):
        declare_queue(topology, exclusive=False)
    declare_queue(topology, "other")
    with refused(405, LOCKED.replace("'q'", "'other'")):
        declare_queue(topology, "other", exclusive=True)


def test_queues_of_a_connection_are_its_exclusive_ones(topology):
    first = declare_queue(topology, "a", exclusive=True)
    second = declare_queue(topology, "b", exclusive=True)
    declare_queue(topology, "c")
    assert topology.queues_of(US) == (first, second)
    assert topology.queues_of(THEM) == ()
    topology.apply(topology.prepare_remove_queues(topology.queues_of(US)))
    assert topology.queues_of(US) == ()
    assert [queue.name for queue in topology.table.queues()] == ["c"]


def test_deleting_a_missing_queue_is_no_error(topology):
    plan = topology.prepare_delete_queue("q", US, if_unused=True, if_empty=True)
    assert (plan.queue, plan.changes) == (None, ())


def test_queue_in_use_or_not_empty_is_not_deleted_if_so_asked(topology):
    queue = declare_queue(topology)
    counts = {"message_count": 1, "consumer_count": 1}
    with refused(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"):
        topology.prepare_delete_queue("q", US, if_unused=True, **counts)
    with refused(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"):
        topology.prepare_delete_queue("q", US, if_empty=True, if_unused=True, **counts)
    plan = topology.prepare_delete_queue("q", US, **counts)
    assert plan.changes == (RemoveQueue(queue),)
    plan = topology.prepare_delete_queue("q", US, if_unused=True, if_empty=True)
    assert plan.changes == (RemoveQueue(queue),)


def test_deleting_a_queue_deletes_its_bindings_first(topology):
    declare_exchange(topology, durable=True)
    declare_exchange(topology, "transient")
    declare_queue(topology, durable=True)
    bind(topology)
    bind(topology, exchange="transient")
    plan = topology.prepare_delete_queue("q", US)
    assert kinds(plan.changes) == [RemoveBinding, RemoveBinding, RemoveQueue]
    assert kinds(plan.catalog) == [RemoveBinding, RemoveQueue]
    topology.apply(plan)
    assert topology.table.route("x", "k") == topology.table.route("", "q") == ()


def test_a_name_declared_again_is_a_new_queue(topology):
    first = declare_queue(topology)
    topology.apply(topology.prepare_delete_queue("q", US))
    second = declare_queue(topology)
    assert first.queue_id != second.queue_id
    # Too late: the queue that was to be removed is gone, its namesake is not.
    assert topology.prepare_remove_queues([first]).changes == ()


# --- Bindings.


def test_binding_is_durable_if_both_ends_are(topology):
    for durable_exchange, durable_queue in itertools.product((False, True), repeat=2):
        exchange = f"x{durable_exchange}"
        queue = f"q{durable_queue}"
        declare_exchange(topology, exchange, durable=durable_exchange)
        declare_queue(topology, queue, durable=durable_queue)
        plan = topology.prepare_bind(queue, exchange, "k", {}, US)
        both = durable_exchange and durable_queue
        assert kinds(plan.changes) == [AddBinding]
        assert plan.catalog == (plan.changes if both else ())


def test_binding_twice_is_binding_once(topology):
    declare_exchange(topology)
    queue = declare_queue(topology)
    bind(topology, a=1, b=2)
    version = topology.table.version
    bind(topology, b=2, a=1)
    assert topology.table.version == version
    assert topology.table.route("x", "k") == (queue,)


def test_bindings_with_other_arguments_are_other_bindings(topology):
    declare_exchange(topology)
    queue = declare_queue(topology)
    bind(topology, a=1)
    bind(topology, a="1")
    bind(topology)
    assert topology.table.route("x", "k") == (queue,)
    unbind(topology)
    unbind(topology, a=1)
    assert topology.table.route("x", "k") == (queue,)
    unbind(topology, a="1")
    assert topology.table.route("x", "k") == ()


def test_binding_without_its_ends_is_refused(topology):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        bind(topology)
    declare_exchange(topology)
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        bind(topology)


def test_nothing_is_bound_to_or_unbound_from_the_default_exchange(topology):
    declare_queue(topology)
    with refused(403, ON_DEFAULT):
        bind(topology, exchange="")
    with refused(403, ON_DEFAULT):
        unbind(topology, exchange="")


def test_unbinding_what_is_not_bound_is_no_error(topology):
    unbind(topology)
    declare_exchange(topology)
    unbind(topology)
    # Of a locked queue too: there is nothing to be locked.
    declare_queue(topology, exclusive=True)
    unbind(topology, owner=THEM)
    assert topology.prepare_unbind("q", "x", "k", {}, US).changes == ()


@pytest.mark.parametrize("name", ["amq.headers", "amq.match"])
def test_headers_exchanges_are_there_but_of_no_use(topology, name):
    refusal = f"invalid arg 'type' for exchange '{name}' in vhost '/': not implemented"
    declare_queue(topology)
    assert declare_exchange(topology, name, passive=True).type_name == "headers"
    declare_exchange(topology, name, "headers", durable=True)
    with refused(406, f"PRECONDITION_FAILED - {refusal}"):
        bind(topology, exchange=name)
    with refused(406, f"PRECONDITION_FAILED - {refusal}"):
        topology.table.route(name, "")
    unbind(topology, exchange=name)


# --- Auto-delete exchanges.


def test_auto_delete_exchange_goes_with_its_last_binding(topology):
    declare_exchange(topology, durable=True, auto_delete=True)
    declare_queue(topology, durable=True)
    bind(topology, key="a")
    bind(topology, key="b")
    unbind(topology, key="a")
    plan = topology.prepare_unbind("q", "x", "b", {}, US)
    assert kinds(plan.changes) == kinds(plan.catalog) == [RemoveBinding, RemoveExchange]
    topology.apply(plan)
    assert topology.table.find_exchange("x") is None


def test_auto_delete_exchange_stays_while_nothing_was_ever_bound(topology):
    declare_exchange(topology, auto_delete=True)
    declare_queue(topology)
    unbind(topology)
    assert topology.table.find_exchange("x") is not None


def test_auto_delete_exchange_goes_with_the_last_queues_it_was_bound_to(topology):
    declare_exchange(topology, auto_delete=True)
    for name in "abc":
        declare_queue(topology, name, exclusive=True)
        bind(topology, queue=name)
        bind(topology, queue=name, exchange="amq.direct")
    topology.apply(topology.prepare_delete_queue("a", US))
    assert topology.table.find_exchange("x") is not None
    topology.apply(topology.prepare_remove_queues(topology.queues_of(US)))
    assert topology.table.find_exchange("x") is None
    assert topology.table.find_exchange("amq.direct") is not None


# --- Starting again.


def test_restored_topology_routes_as_before(topology):
    queue = QueueDefinition("q", 7, durable=True)
    exchange = ExchangeDefinition("x", "topic", durable=True)
    topology.restore(
        [exchange],
        [queue],
        [
            BindingDefinition("x", "q", "a.#", durable=True),
            BindingDefinition("amq.fanout", "q", "", durable=True),
        ],
    )
    for source, key in (("", "q"), ("x", "a.b"), ("amq.fanout", "any")):
        assert topology.table.route(source, key) == (queue,)
    assert kinds(topology.prepare_delete_queue("q", US).catalog) == [
        RemoveBinding,
        RemoveBinding,
        RemoveQueue,
    ]


@pytest.mark.parametrize("ends", [("x", "none"), ("none", "q")])
def test_catalog_with_a_binding_that_hangs_in_the_air_is_refused(topology, ends):
    with pytest.raises(ValueError, match="without its ends"):
        topology.restore(
            [ExchangeDefinition("x", "topic", durable=True)],
            [QueueDefinition("q", 7, durable=True)],
            [BindingDefinition(*ends, "a.#", durable=True)],
        )


def test_catalog_with_an_exchange_type_from_the_future_is_refused(topology):
    with pytest.raises(ValueError, match="of type 'headers'"):
        topology.restore([ExchangeDefinition("x", "headers", durable=True)], [], [])
