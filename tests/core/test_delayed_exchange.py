"""Exchanges of type x-delayed-message: declared, routed by, and what they make of a publish."""

from __future__ import annotations

import itertools

import pytest
from batches import batch_of
from leveret.amqp_frames.errors import AmqpError
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.core.dead_letters.letters import DeadLetters
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Publisher, Routed
from leveret.core.publishing.routes import property_octets
from leveret.core.queue.span import Span
from publishing import indexes_by_queue, methods, publisher_of
from wire import publish

NAMED = "exchange 'd' in vhost '/'"


def declare(commands, name: str = "d", routes_as: str = "direct", **arguments: object) -> None:
    table = table_of({"x-delayed-type": routes_as, **arguments})
    commands.declare_exchange(name, "x-delayed-message", arguments=table)


def delayed(delay: object, exchange: str = "d", key: str = "k", **how: object) -> bytes:
    field = delay if isinstance(delay, Field) else Field("signedint", delay)
    properties = Properties(headers={"x-delay": field, "mine": Field("longstr", "1")})
    return publish(key, b"body", properties, exchange=exchange, **how)


def headers_of(batch: Batch, index: int) -> dict[str, Field]:
    octets = property_octets(batch, index)
    return dict(decode_properties(octets, 0, len(octets)).headers or {})


def delays_of(routed: Routed) -> dict[str, list[int]]:
    return {queue.name: list(delays) for queue, delays in routed.delays.items()}


@pytest.fixture
def publisher(commands) -> Publisher:
    made = publisher_of(commands)
    made.confirm_mode = True
    declare(commands)
    commands.declare_queue()
    commands.bind(exchange="d")
    return made


def route(publisher: Publisher, *published: bytes) -> Routed:
    return carry_out(publisher.route(batch_of(*published)))


# --- Declared


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": 1},
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            {"x-delayed-type": "x-delayed-message"},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ({"x-delayed-type": "foo"}, "unknown exchange type 'foo'"),
    ],
)
def test_an_exchange_that_routes_as_no_type_is_refused(commands, refused, arguments, text) -> None:
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        commands.declare_exchange("d", "x-delayed-message", arguments=table_of(arguments))


def test_a_second_declaration_must_route_as_the_same_type(commands, refused) -> None:
    declare(commands)
    declare(commands)
    text = (
        f"inequivalent arg 'x-delayed-type' for {NAMED}: received 'topic' but current is 'direct'"
    )
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        declare(commands, routes_as="topic")


def test_it_routes_as_the_type_that_it_names(commands) -> None:
    for name in ("a", "b"):
        commands.declare_queue(name)
    for routes_as, key, binding in (
        ("direct", "k", "k"),
        ("topic", "k.l", "k.#"),
        ("fanout", "any", "k"),
    ):
        declare(commands, routes_as, routes_as)
        commands.bind("a", routes_as, binding)
        assert commands.route(routes_as, key) == ["a"]
    declare(commands, "headers", "headers")
    commands.bind("b", "headers", to="b")
    steps = commands.table.route_message(
        "headers", ("k",), Properties(headers=table_of({"to": "b"}))
    )
    assert [queue.name for queue in carry_out(steps)] == ["b"]


def test_an_exchange_that_goes_delays_nothing_any_more(commands) -> None:
    declare(commands)
    commands.declare_exchange("x")
    commands.bind_exchange("d")
    assert commands.table.delays("x")
    commands.topology.apply(commands.topology.prepare_delete_exchange("d"))
    assert (commands.table.delayed_count, commands.table.delays("x")) == (0, False)


def test_a_restored_exchange_must_route_as_a_type_that_there_is(commands) -> None:
    declare(commands)
    [definition] = [
        each.definition for each in commands.table.exchanges() if each.definition.name == "d"
    ]
    definition.arguments = {}
    commands.topology.apply(commands.topology.prepare_delete_exchange("d"))
    with pytest.raises(ValueError, match="of type 'x-delayed-message'"):
        commands.topology.restore([definition], [], [])


# --- Published


def test_a_message_is_deferred_and_its_delay_made_negative(publisher) -> None:
    routed = route(publisher, delayed(500), publish("k", b"body", exchange="d"), delayed(70))
    assert indexes_by_queue(routed) == {"q": [0, 1, 2]}
    assert delays_of(routed) == {"q": [500, 0, 70]}
    assert headers_of(routed.batch, 0) == {
        "x-delay": Field("signedint", -500),
        "mine": Field("longstr", "1"),
    }
    assert headers_of(routed.batch, 1) == {}
    assert headers_of(routed.batch, 2)["x-delay"] == Field("signedint", -70)
    assert routed.batch.wire[-5:-1] == b"body"


@pytest.mark.parametrize(
    ("delay", "delay_ms", "passed"),
    [
        (Field("long", 2**32 - 1), 2**32 - 1, Field("long", -(2**32) + 1)),
        (Field("byte", 7), 7, Field("signedint", -7)),
        (Field("longstr", "250"), 250, Field("signedint", -250)),
        (Field("double", 99.9), 99, Field("signedint", -99)),
    ],
)
def test_delays_of_all_types_are_understood_as_the_plugin_does(
    publisher, delay, delay_ms, passed
) -> None:
    routed = route(publisher, delayed(delay))
    assert delays_of(routed) == {"q": [delay_ms]}
    assert headers_of(routed.batch, 0)["x-delay"] == passed


def test_without_a_delay_or_with_one_of_0_the_bytes_pass_through(publisher) -> None:
    batch = batch_of(publish("k", exchange="d"), delayed(0))
    routed = carry_out(publisher.route(batch))
    assert routed.batch is batch
    assert routed.delays == {}


@pytest.mark.parametrize(
    ("delay", "fault"),
    [
        (Field("signedint", -1), "{value_negative,-1}"),
        (Field("long", 2**32), "{value_too_large,4294967296}"),
        (Field("longstr", "soon"), "no_integer"),
        (Field("longstr", "9" * 5000), "no_integer"),
        (Field("double", float("nan")), "{no_number,nan}"),
        (Field("bool", True), "{unacceptable_type,bool}"),
        (Field("table", {}), "{unacceptable_type,table}"),
    ],
)
def test_what_is_no_delay_is_refused_and_so_is_everything_behind_it(
    publisher, delay, fault
) -> None:
    routed = route(publisher, publish("q"), delayed(1), delayed(delay), delayed(1))
    assert isinstance(routed.error, AmqpError)
    error = routed.error
    assert (error.reply_code, error.class_id, error.method_id) == (406, 60, 40)
    assert error.reply_text == f"PRECONDITION_FAILED - invalid header 'x-delay': {fault}"
    assert indexes_by_queue(routed) == {"q": [0, 1]}


def test_other_exchanges_do_not_look_at_the_header(publisher) -> None:
    batch = batch_of(delayed(Field("longstr", "soon"), "", "q"), delayed(-5, "amq.direct"))
    routed = carry_out(publisher.route(batch))
    assert (routed.error, routed.batch, routed.delays) == (None, batch, {})


def test_unroutable_messages_come_back_at_once_and_as_they_were(publisher) -> None:
    routed = route(publisher, delayed(500), delayed(70, key="nowhere", mandatory=True))
    assert methods(routed.frames) == [BasicReturn(312, "NO_ROUTE", "d", "nowhere"), BasicAck(2)]
    assert headers_of(routed.batch, 1)["x-delay"] == Field("signedint", 70)
    assert b"x-delayI\0\0\0F" in routed.frames


def test_expirations_stay_with_delayed_messages(publisher) -> None:
    properties = Properties(headers=table_of({"x-delay": 500}), expiration="40")
    routed = route(publisher, publish("k", b"", properties, exchange="d"))
    assert list(routed.batch.ttls_ms or ()) == [40]


def test_the_window_gets_back_as_many_bytes_as_it_was_told_of(publisher) -> None:
    batch = batch_of(delayed(2**31 - 1), delayed(Field("longstr", "123456")))
    routed = carry_out(publisher.route(batch))
    [(queue, indexes)] = routed.by_queue.items()
    publisher.unconfirmed.confirm(queue, routed.batch, indexes)
    assert routed.batch.wire_bytes != batch.wire_bytes
    assert publisher.unconfirmed.released_bytes == batch.wire_bytes


# --- Ways


def test_behind_other_exchanges_only_the_way_through_it_delays(commands, publisher) -> None:
    commands.declare_exchange("x", "fanout")
    commands.declare_queue("direct")
    commands.declare_queue("both")
    for queue in ("direct", "both"):
        commands.bind(queue, "x")
    commands.bind("both", "d")
    commands.bind_exchange("d", "x")
    routed = route(publisher, delayed(500, "x"), delayed(500))
    assert indexes_by_queue(routed) == {"direct": [0], "both": [0, 1], "q": [0, 1]}
    assert delays_of(routed) == {"q": [500, 500], "both": [0, 500]}


def test_exchanges_behind_it_delay_once(commands, publisher) -> None:
    declare(commands, "e", "fanout")
    commands.declare_queue("far")
    commands.bind("far", "e")
    commands.bind_exchange("e", "d")
    assert delays_of(route(publisher, delayed(500))) == {"q": [500], "far": [500]}


def test_its_alternate_and_it_as_an_alternate_delay(commands, publisher) -> None:
    commands.declare_exchange("other", "fanout")
    commands.declare_queue("a")
    commands.bind("a", "other")
    declare(commands, "with", **{"alternate-exchange": "other"})
    to_d = table_of({"alternate-exchange": "d"})
    commands.declare_exchange("to", arguments=to_d)
    routed = route(publisher, delayed(500, "with"), delayed(70, "to"))
    assert delays_of(routed) == {"a": [500, 70], "q": [500, 70]}
    assert indexes_by_queue(routed) == {"a": [0], "q": [1]}


def test_further_keys_are_delayed_too(commands, publisher) -> None:
    commands.declare_queue("copy")
    commands.bind("copy", "d", "further")
    headers = table_of({"x-delay": 500, "CC": ["further"]})
    routed = route(publisher, publish("k", b"", Properties(headers=headers), exchange="d"))
    assert delays_of(routed) == {"q": [500], "copy": [500]}


def test_headers_decide_and_delay(commands, publisher) -> None:
    declare(commands, "h", "headers")
    commands.declare_queue("a")
    commands.bind("a", "h", to="a")
    headers = table_of({"x-delay": 500, "to": "a"})
    other = table_of({"x-delay": 500, "to": "b"})
    routed = route(
        publisher,
        publish("", b"", Properties(headers=headers), exchange="h"),
        publish("", b"", Properties(headers=other), exchange="h"),
    )
    assert indexes_by_queue(routed) == {"a": [0]}
    assert delays_of(routed) == {"a": [500, 500]}


@pytest.mark.parametrize("step", range(8))
def test_a_change_of_the_topology_in_mid_routing_hurries_no_message(
    commands, publisher, step
) -> None:
    batch = batch_of(delayed(500), *(publish(f"k{n}", exchange="amq.topic") for n in range(3)))
    steps = publisher.route(batch)
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
    assert delays_of(routed) == {"q": [500, 0, 0, 0]}


def test_in_a_transaction_the_delay_is_checked_at_once_and_counts_from_the_commit(
    publisher,
) -> None:
    publisher.confirm_mode = False
    publisher.transactional = True
    with pytest.raises(AmqpError, match="invalid header 'x-delay'"):
        publisher.hold(batch_of(delayed(-1)))
    held = publisher.hold(batch_of(delayed(500)))
    assert delays_of(carry_out(publisher.route_held(held))) == {"q": [500]}


# --- Dead letters


@pytest.mark.parametrize(
    ("delay", "delay_ms", "passed"),
    [
        (Field("signedint", 500), 500, Field("signedint", -500)),
        # It was delayed before, or nobody is there to be told of a mistake.
        (Field("signedint", -500), 0, Field("signedint", -500)),
        (Field("longstr", "soon"), 0, Field("longstr", "soon")),
        (Field("long", 2**32), 0, Field("long", 2**32)),
    ],
)
def test_a_dead_letter_is_delayed_on_its_way_through_it_and_never_lost(
    commands, publisher, delay, delay_ms, passed
) -> None:
    letters = DeadLetters({"/": commands.table}.get, itertools.count(7).__next__)
    arguments = table_of({"x-dead-letter-exchange": "d"})
    source = commands.declare_queue("source", durable=True, arguments=arguments)
    batch = batch_of(publish("nowhere"), delayed(delay, ""))
    dead = [(Span(batch, range(2), 1, 1, True), "rejected")]
    made = carry_out(letters.publish(source, dead, 5))
    assert made is not None
    [(queue, indexes)] = made.by_queue.items()
    assert (queue.name, list(indexes)) == ("q", [0])
    assert [list(delays) for delays in made.delays.values()] == ([[delay_ms]] if delay_ms else [])
    assert headers_of(made.batch, 0)["x-delay"] == passed
