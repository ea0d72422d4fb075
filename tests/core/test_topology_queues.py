"""Declaring and deleting queues: what changes, and the exact words when it is refused."""

from __future__ import annotations

import itertools

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import (
    AddQueue,
    RemoveBinding,
    RemoveQueue,
    ReplaceQueueArguments,
)
from leveret.core.exchanges.table import TopologyLimits, carry_out
from leveret.core.topology.topology import Topology, Vhosts

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)


def kinds(changes) -> list[type]:
    return [type(change) for change in changes]


def test_durable_queue_goes_to_the_catalog(commands):
    plan = commands.topology.prepare_declare_queue("q", commands.us, durable=True, arguments={})
    assert plan.changes == plan.catalog == (AddQueue(plan.queue),)


def test_exclusive_queue_is_never_durable(commands):
    plan = commands.topology.prepare_declare_queue(
        "q", commands.us, durable=True, exclusive=True, arguments={}
    )
    assert plan.catalog == ()
    assert (plan.queue.durable, plan.queue.owner) == (False, commands.us)
    commands.topology.apply(plan)
    # Its owner may declare it again either way.
    assert commands.declare_queue(exclusive=True, durable=True) is plan.queue
    assert commands.declare_queue(exclusive=True, durable=False) is plan.queue


def test_every_queue_is_bound_to_the_default_exchange_by_its_name(commands):
    queue = commands.declare_queue()
    assert carry_out(commands.table.route("", "q")) == (queue,)
    assert carry_out(commands.table.route("", "other")) == ()


def test_declaring_a_queue_again_finds_it(commands):
    queue = commands.declare_queue(durable=True)
    plan = commands.topology.prepare_declare_queue(
        "q",
        commands.them,
        durable=True,
        arguments=table_of({"x-queue-type": "classic", "x-unknown": 1}),
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
def test_queue_declared_otherwise_is_refused(commands, refused, how, words):
    commands.declare_queue(durable=True)
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg {words}"):
        commands.declare_queue(**{"durable": True, **how})


def test_queue_argument_that_is_not_built_is_refused(commands, refused):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q' in vhost '/': "
        "not implemented",
    ):
        commands.declare_queue(arguments=table_of({"x-queue-type": "stream"}))
    assert commands.table.find_queue("q") is None


def test_missing_queue_is_not_found(commands, refused):
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        commands.topology.queue("q", commands.us)
    with refused(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        commands.declare_queue(passive=True)


def test_reserved_queue_name_is_refused_even_if_the_queue_exists(commands, refused):
    name = commands.declare_queue("").name
    for each in (name, "amq.q"):
        with refused(403, f"ACCESS_REFUSED - queue name '{each}' contains reserved prefix 'amq.*'"):
            commands.declare_queue(each)
    assert commands.declare_queue(name, passive=True).name == name


def test_server_named_queues_have_names_like_rabbitmqs(commands):
    # 16 random octets in base64 for URLs, without padding.
    assert commands.declare_queue("").name == "amq.gen-__v_-__7__v_-__7__v_-w"


def test_a_generated_name_that_is_taken_is_not_given_again():
    octets = iter([bytes(16), bytes(16), bytes([255] * 16)])
    topology = Topology(itertools.count(1).__next__, lambda count: next(octets))
    names = []
    for name in ("", "\n"):
        plan = topology.prepare_declare_queue(name, "owner", arguments={})
        topology.apply(plan)
        names.append(plan.queue.name)
    assert names == ["amq.gen-" + "A" * 22, "amq.gen-" + "_" * 21 + "w"]


def test_another_connections_exclusive_queue_is_locked_for_everything(commands, refused):
    commands.declare_exchange()
    commands.declare_queue(exclusive=True)
    commands.bind()
    for command in (
        lambda: commands.topology.queue("q", commands.them),
        lambda: commands.topology.find_queue("q", commands.them),
        lambda: commands.declare_queue(owner=commands.them),
        lambda: commands.declare_queue(owner=commands.them, exclusive=True),
        lambda: commands.declare_queue(owner=commands.them, passive=True),
        lambda: commands.bind(owner=commands.them),
        lambda: commands.unbind(owner=commands.them),
        lambda: commands.topology.prepare_delete_queue("q", commands.them),
    ):
        with refused(405, LOCKED):
            command()
    assert commands.topology.queue("q", commands.us).owner is commands.us


def test_exclusive_must_be_declared_as_it_was(commands, refused):
    commands.declare_queue(exclusive=True)
    with refused(405, LOCKED):
        commands.declare_queue(exclusive=False)
    commands.declare_queue("other")
    with refused(405, LOCKED.replace("'q'", "'other'")):
        commands.declare_queue("other", exclusive=True)


def test_queues_of_a_connection_are_its_exclusive_ones(commands):
    first = commands.declare_queue("a", exclusive=True)
    second = commands.declare_queue("b", exclusive=True)
    commands.declare_queue("c")
    assert commands.topology.queues_of(commands.us) == (first, second)
    assert commands.topology.queues_of(commands.them) == ()
    commands.topology.apply(
        commands.topology.prepare_remove_queues(commands.topology.queues_of(commands.us))
    )
    assert commands.topology.queues_of(commands.us) == ()
    assert [queue.name for queue in commands.table.queues()] == ["c"]


def test_deleting_a_missing_queue_is_no_error(commands):
    plan = commands.topology.prepare_delete_queue("q", commands.us, if_unused=True, if_empty=True)
    assert (plan.queue, plan.changes) == (None, ())


def test_queue_in_use_or_not_empty_is_not_deleted_if_so_asked(commands, refused):
    queue = commands.declare_queue()
    counts = {"message_count": 1, "consumer_count": 1}
    with refused(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"):
        commands.topology.prepare_delete_queue("q", commands.us, if_unused=True, **counts)
    with refused(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"):
        commands.topology.prepare_delete_queue(
            "q", commands.us, if_empty=True, if_unused=True, **counts
        )
    plan = commands.topology.prepare_delete_queue("q", commands.us, **counts)
    assert plan.changes == (RemoveQueue(queue),)
    plan = commands.topology.prepare_delete_queue("q", commands.us, if_unused=True, if_empty=True)
    assert plan.changes == (RemoveQueue(queue),)


def test_deleting_a_queue_deletes_its_bindings_first(commands):
    commands.declare_exchange(durable=True)
    commands.declare_exchange("transient")
    commands.declare_queue(durable=True)
    commands.bind()
    commands.bind(exchange="transient")
    plan = commands.topology.prepare_delete_queue("q", commands.us)
    assert kinds(plan.changes) == [RemoveBinding, RemoveBinding, RemoveQueue]
    assert kinds(plan.catalog) == [RemoveBinding, RemoveQueue]
    commands.topology.apply(plan)
    assert (
        carry_out(commands.table.route("x", "k")) == carry_out(commands.table.route("", "q")) == ()
    )


def test_a_name_declared_again_is_a_new_queue(commands):
    first = commands.declare_queue()
    commands.topology.apply(commands.topology.prepare_delete_queue("q", commands.us))
    second = commands.declare_queue()
    assert first.queue_id != second.queue_id
    # Too late: the queue that was to be removed is gone, its namesake is not.
    assert commands.topology.prepare_remove_queues([first]).changes == ()


def test_the_windows_of_all_queues_remember_so_much_together_and_no_more(commands_within, refused):
    commands = commands_within(dedup_identities_max=10)
    seven, four = table_of({"x-dedup-window": 7}), table_of({"x-dedup-window": 4})
    queue = commands.declare_queue("a", arguments=seven)
    text = (
        "PRECONDITION_FAILED - cannot declare queue 'b' in vhost '/' with an x-dedup-window of 4: "
        "all windows together would have more than 10 identities"
    )
    with refused(406, text):
        commands.declare_queue("b", arguments=four)
    assert commands.declare_queue("a", arguments=seven) is queue, "it is there already"
    commands.table.apply((ReplaceQueueArguments(queue, table_of({"x-dedup-window": 6})),))
    commands.declare_queue("b", arguments=four)
    commands.delete_queue("a")
    commands.declare_queue("c", arguments=table_of({"x-dedup-window": 6}))
    with refused(406, text.replace("'b'", "'d'").replace("of 4", "of 1")):
        commands.declare_queue("d", arguments=table_of({"x-dedup-window": 1}))


def test_the_windows_of_all_vhosts_count_together() -> None:
    limits = TopologyLimits(dedup_identities_max=10)
    vhosts = Vhosts(["a", "b"], itertools.count(1).__next__, bytes, limits)

    def declare(vhost: str, window: int) -> None:
        topology = vhosts[vhost]
        arguments = table_of({"x-dedup-window": window})
        topology.apply(topology.prepare_declare_queue("q", "us", arguments=arguments))

    declare("a", 7)
    with pytest.raises(SoftError, match="more than 10 identities"):
        declare("b", 4)
    declare("b", 3)
