"""Consistent hash exchanges: shares by weight, values that stay where they are, and refusals."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from batches import batch_of
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.core.exchanges.consistent_hash import CANDIDATES_PER_STEP
from leveret.core.exchanges.table import carry_out
from publishing import indexes_by_queue, publisher_of
from wire import publish

VALUES = [f"customer {number}" for number in range(4_000)]
NAMED = "PRECONDITION_FAILED - "


@pytest.fixture
def declared(commands):
    """Declares an exchange of this type with queues of these weights."""

    def declare(weights: dict[str, str], **arguments: object) -> None:
        commands.declare_exchange("x", "x-consistent-hash", arguments=table_of(arguments))
        for name, weight in weights.items():
            commands.declare_queue(name)
            commands.bind(name, "x", weight)

    return declare


def homes(commands) -> dict[str, str]:
    """The queue of each value; there is just one."""
    found = {value: commands.route("x", value) for value in VALUES}
    assert all(len(queues) == 1 for queues in found.values())
    return {value: queues[0] for value, queues in found.items()}


def test_shares_are_as_the_weights(commands, declared) -> None:
    declared({"a": "1", "b": "1", "c": "2", "d": "4"})
    counts = Counter(homes(commands).values())
    for name, share in {"a": 1 / 8, "b": 1 / 8, "c": 1 / 4, "d": 1 / 2}.items():
        assert counts[name] == pytest.approx(len(VALUES) * share, rel=0.12), counts


def test_weights_of_any_size_cost_the_same(commands, declared) -> None:
    declared({"a": "9" * 255, "b": "+3", "c": "007"})
    assert set(homes(commands).values()) == {"a"}


def test_a_new_binding_draws_only_what_it_gets_itself(commands, declared) -> None:
    declared({"a": "2", "b": "2", "c": "2"})
    before = homes(commands)
    commands.declare_queue("d")
    commands.bind("d", "x", "2")
    after = homes(commands)
    moved = [value for value in VALUES if before[value] != after[value]]
    assert {after[value] for value in moved} == {"d"}
    assert len(moved) == pytest.approx(len(VALUES) / 4, rel=0.12)


def test_a_removed_binding_gives_up_only_what_it_had(commands, declared) -> None:
    declared({"a": "2", "b": "2", "c": "2"})
    before = homes(commands)
    commands.unbind("a", "x", "2")
    after = homes(commands)
    assert all(after[value] == before[value] for value in VALUES if before[value] != "a")
    commands.bind("a", "x", "2")
    assert homes(commands) == before


def test_where_a_value_goes_depends_on_no_order_and_no_process(commands, declared) -> None:
    declared({"c": "1", "a": "3", "b": "2"})
    # Kept as data: a start, and the next version, must find the same.
    expected = "ccabaaccbaaaaacabcaccaaaaaacabcabbbcacab"
    assert "".join(commands.route("x", value)[0] for value in VALUES[:40]) == expected


def test_of_several_bindings_to_one_queue_the_oldest_counts(commands, declared) -> None:
    declared({"a": "1", "b": "1"})
    before = homes(commands)
    commands.bind("a", "x", "50")
    assert homes(commands) == before
    commands.unbind("a", "x", "1")
    heavier = homes(commands)
    assert Counter(heavier.values())["a"] > 0.95 * len(VALUES)
    commands.unbind("a", "x", "50")
    assert set(homes(commands).values()) == {"b"}
    commands.unbind("b", "x", "1")
    assert commands.route("x", "any") == []


def test_a_queue_and_an_exchange_of_one_name_are_two(commands, declared) -> None:
    declared({"a": "1"})
    commands.declare_exchange("a", "fanout")
    commands.declare_queue("behind")
    commands.bind("behind", "a")
    commands.bind_exchange("a", "x", "1")
    assert set(homes(commands).values()) == {"a", "behind"}


def routed_by(commands, *properties: Properties) -> list[str]:
    publisher = publisher_of(commands)
    keys = itertools.count()
    wires = [publish(f"k{next(keys)}", properties=each, exchange="x") for each in properties]
    by_queue = indexes_by_queue(carry_out(publisher.route(batch_of(*wires))))
    queue_of = {index: name for name, indexes in by_queue.items() for index in indexes}
    return [queue_of[index] for index in range(len(properties))]


QUEUES = dict.fromkeys("abcdefgh", "1")


@pytest.mark.parametrize(
    ("arguments", "of_value"),
    [
        (
            {"hash-header": "customer"},
            lambda number: Properties(headers=table_of({"customer": number, "noise": number})),
        ),
        ({"hash-property": "message_id"}, lambda number: Properties(message_id=str(number))),
        (
            {"hash-property": "correlation_id"},
            lambda number: Properties(correlation_id=str(number)),
        ),
        ({"hash-property": "timestamp"}, lambda number: Properties(timestamp=number)),
    ],
)
def test_a_header_or_a_property_decides_and_not_the_key(
    commands, declared, arguments, of_value
) -> None:
    declared(QUEUES, **arguments)
    once = routed_by(commands, *map(of_value, range(200)))
    again = routed_by(commands, Properties(), *map(of_value, range(200)))
    assert once == again[1:]
    assert set(once) == set(QUEUES)
    # Messages without the value are together, wherever that is.
    without = [Properties(), Properties(headers={}), Properties(type="another")]
    assert len(set(routed_by(commands, *without))) == 1


def test_header_values_differ_by_kind_and_are_hashed_whatever_they_are(commands, declared) -> None:
    declared(dict.fromkeys(map(str, range(100)), "1"), **{"hash-header": "v"})
    values = [
        Field("longstr", "1"),
        Field("longstr", b"\xff"),
        Field("signedint", 1),
        Field("bool", True),
        Field("void", None),
        Field("double", 1.5),
        Field("array", [Field("signedint", 1)]),
        Field("table", {"a": Field("longstr", "1")}),
    ]
    properties = [Properties(headers={"v": value}) for value in values]
    found = routed_by(commands, *properties)
    assert found == routed_by(commands, *properties)
    assert len(set(found)) > 5


def test_of_several_keys_the_first_counts(commands, declared) -> None:
    declared(QUEUES)
    publisher = publisher_of(commands)
    copies = Properties(headers={"CC": Field("array", [Field("longstr", "other")])})
    for key in VALUES[:20]:
        routed = carry_out(publisher.route(batch_of(publish(key, properties=copies, exchange="x"))))
        assert list(indexes_by_queue(routed)) == commands.route("x", key)


def test_many_bindings_are_compared_in_steps(commands, declared) -> None:
    count = 3 * CANDIDATES_PER_STEP
    declared({f"q{number}": "1" for number in range(count)})
    steps = commands.table.route("x", "k")
    assert sum(1 for _ in steps) == 3
    commands.delete_queue(commands.route("x", "k")[0])
    assert len(commands.route("x", "k")) == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_a_key_that_is_no_weight_is_refused(commands, declared, refused, key, text) -> None:
    declared({"a": "1"})
    with refused(406, NAMED + text):
        commands.bind("a", "x", key)
    assert len(commands.table.exchange("x").bindings) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 1}, "invalid arg 'hash-header': {unacceptable_type,signedint}"),
        ({"hash-property": True}, "invalid arg 'hash-property': {unacceptable_type,bool}"),
    ],
)
@pytest.mark.parametrize("delayed", [False, True])
def test_arguments_that_make_no_sense_are_refused(
    commands, refused, arguments, text, delayed
) -> None:
    type_name = "x-delayed-message" if delayed else "x-consistent-hash"
    more = {"x-delayed-type": "x-consistent-hash"} if delayed else {}
    with refused(406, NAMED + text):
        commands.declare_exchange("x", type_name, arguments=table_of(arguments | more))
    assert commands.table.find_exchange("x") is None
