"""A channel's publishing side where headers decide: each message has a route of its own."""

from __future__ import annotations

import itertools

import pytest
from batches import batch_of
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Publisher
from leveret.core.publishing.routes import RouteMemory
from publishing import confirm_all, indexes_by_queue, methods, publisher_of
from wire import PERSISTENT, publish


@pytest.fixture
def publisher(commands) -> Publisher:
    made = publisher_of(commands)
    made.confirm_mode = True
    for name in ("a", "b"):
        commands.declare_queue(name, durable=True)
        commands.bind(name, "amq.headers", to=name)
    return made


def to(name: str | None, exchange: str = "amq.headers", **how) -> bytes:
    headers = None if name is None else table_of({"to": name})
    return publish("k", properties=Properties(headers=headers), exchange=exchange, **how)


def test_messages_of_one_key_part_by_their_headers(commands, publisher) -> None:
    batch = batch_of(to("a"), to("b"), to("a"), to(None), to("c"), to("b"))
    routed = carry_out(publisher.route(batch))
    assert indexes_by_queue(routed) == {"a": [0, 2], "b": [1, 5]}
    assert routed.frames == b""
    confirm_all(publisher, batch, routed)
    assert methods(publisher.answers()) == [BasicAck(6, True)]


def test_other_keys_in_the_batch_keep_their_ways(commands, publisher) -> None:
    batch = batch_of(publish("b"), to("b"), publish("a"), publish("none"), to("a"), publish("b"))
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {"b": [0, 1, 5], "a": [2, 4]}
    # And the batch after that, without such messages, the way it always took.
    assert indexes_by_queue(carry_out(publisher.route(batch_of(publish("a"), publish("a"))))) == {
        "a": [0, 1]
    }


def test_a_message_that_no_headers_match_is_returned_before_its_ack(commands, publisher) -> None:
    batch = batch_of(to("a", mandatory=True), to("c", mandatory=True), to(None, mandatory=True))
    routed = carry_out(publisher.route(batch))
    assert indexes_by_queue(routed) == {"a": [0]}
    assert methods(routed.frames) == [
        BasicReturn(312, "NO_ROUTE", "amq.headers", "k"),
        BasicAck(2),
        BasicReturn(312, "NO_ROUTE", "amq.headers", "k"),
        BasicAck(3),
    ]


def test_an_error_ends_the_batch_before_its_headers_are_looked_at(commands, publisher) -> None:
    routed = carry_out(publisher.route(batch_of(to("a"), to("a", exchange="missing"), to("b"))))
    assert indexes_by_queue(routed) == {"a": [0]}
    assert routed.error is not None


def test_headers_count_behind_a_binding_between_exchanges_and_as_an_alternate(
    commands, publisher
) -> None:
    commands.declare_exchange("x", "direct")
    commands.bind_exchange("amq.headers", "x")
    alternate = table_of({"alternate-exchange": "amq.headers"})
    commands.declare_exchange("y", "direct", arguments=alternate)
    batch = batch_of(to("a", exchange="x"), to("b", exchange="y"), to("c", exchange="y"))
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {"a": [0], "b": [1]}


def test_routes_by_headers_change_with_the_table(commands, publisher) -> None:
    assert indexes_by_queue(carry_out(publisher.route(batch_of(to("a"))))) == {"a": [0]}
    commands.unbind("a", "amq.headers", to="a")
    assert indexes_by_queue(carry_out(publisher.route(batch_of(to("a"))))) == {}
    commands.bind("b", "amq.headers", to="a")
    assert indexes_by_queue(carry_out(publisher.route(batch_of(to("a"))))) == {"b": [0]}


@pytest.mark.parametrize("step", range(8))
def test_headers_count_though_the_topology_changes_in_mid_routing(
    commands, publisher, step
) -> None:
    others = [publish(f"k{number}", exchange="amq.topic") for number in range(3)]
    steps = publisher.route(batch_of(to("a"), *others))
    routed = None
    for number in itertools.count():
        if number == step:
            commands.declare_queue("another")
        try:
            next(steps)
        except StopIteration as end:
            routed = end.value
            break
    assert routed is not None
    assert indexes_by_queue(routed) == {"a": [0]}


def test_headers_count_though_kept_routes_are_dropped_in_the_batch(commands, publisher) -> None:
    # There is room for three or so.
    publisher = publisher_of(commands, memory=RouteMemory(1500))
    others = [publish(f"nowhere {number}") for number in range(20)]
    assert indexes_by_queue(carry_out(publisher.route(batch_of(to("a"), *others, to("b"))))) == {
        "a": [0],
        "b": [21],
    }


def test_only_the_persistent_messages_that_reach_a_durable_queue_are_durable(
    commands, publisher
) -> None:
    headers = table_of({"to": "a"})
    persistent = PERSISTENT._replace(headers=headers)
    batch = batch_of(
        publish("k", properties=persistent, exchange="amq.headers"),
        publish("k", properties=PERSISTENT, exchange="amq.headers"),
        to("a"),
    )
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {"a": [0, 2]}
    assert list(batch.durable or ()) == [0]


def test_further_keys_and_headers_each_have_their_say(commands, publisher) -> None:
    """A direct exchange looks at all keys of a message, a headers exchange behind it at headers."""
    commands.declare_exchange("x", "direct")
    commands.declare_queue("c")
    commands.bind("c", "x", "further")
    commands.bind_exchange("amq.headers", "x")
    copied = Properties(headers=table_of({"to": "a", "CC": ["further"]}))
    hidden = Properties(headers=table_of({"to": "b", "BCC": ["further"]}))
    batch = batch_of(
        publish("k", properties=copied, exchange="x"),
        publish("other", properties=copied, exchange="x"),
        publish("k", properties=hidden, exchange="x"),
    )
    routed = carry_out(publisher.route(batch))
    assert indexes_by_queue(routed) == {"a": [0], "b": [2], "c": [0, 1, 2]}
    assert b"BCC" not in routed.batch.wire


def test_an_alternate_exchange_gets_messages_of_which_no_key_has_a_queue(
    commands, publisher
) -> None:
    alternate = table_of({"alternate-exchange": "spare"})
    commands.declare_exchange("x", "direct", arguments=alternate)
    commands.declare_exchange("spare", "fanout")
    commands.bind("a", "x", "right")
    commands.bind("b", "spare")
    batch = batch_of(
        *(
            publish("k", properties=Properties(headers=table_of({"CC": [key]})), exchange="x")
            for key in ("right", "wrong")
        )
    )
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {"a": [0], "b": [1]}


def test_a_transaction_is_routed_by_headers_when_it_is_committed(commands, publisher) -> None:
    publisher.confirm_mode, publisher.transactional = False, True
    held = publisher.hold(batch_of(to("a"), to("b"), publish("b"), to("c", mandatory=True)))
    commands.unbind("b", "amq.headers", to="b")
    routed = carry_out(publisher.route_held(held))
    assert indexes_by_queue(routed) == {"a": [0], "b": [2]}
    assert methods(routed.frames) == [BasicReturn(312, "NO_ROUTE", "amq.headers", "k")]


def test_only_messages_that_need_it_pay_for_it(commands, publisher, monkeypatch) -> None:
    """Neither headers nor a walk for plain exchanges, though the channel uses others, too."""
    carry_out(publisher.route(batch_of(to("a"))))
    for kind in ("direct", "fanout", "topic"):
        commands.bind("a", f"amq.{kind}", "k")
    carry_out(publisher.route(batch_of(to("a"))))

    def fail(*_arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr("leveret.core.publishing.routes.decode_properties", fail)
    monkeypatch.setattr("leveret.core.exchanges.table.walk", fail)
    monkeypatch.setattr(type(commands.table), "route_message", fail)
    batch = batch_of(*(to("a", f"amq.{kind}") for kind in ("direct", "fanout", "topic")))
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {"a": [0, 1, 2]}
