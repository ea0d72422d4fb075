"""Headers exchanges: what matches what, against a model that tries every binding."""

from __future__ import annotations

import pytest
from holding import object_count, parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, FieldValue, Table
from leveret.core.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from leveret.core.exchanges.headers import CRITERIA_PER_STEP, HeadersExchange
from leveret.core.exchanges.table import carry_out

INVALID = "PRECONDITION_FAILED - Invalid x-match field"


def match(how: str, **arguments: Field) -> Table:
    return {"x-match": Field("longstr", how), **arguments}


def number(value: int, kind: str = "signedint") -> Field:
    return Field(kind, value)


def text(value: str) -> Field:
    return Field("longstr", value)


def matches(arguments: Table, headers: Table) -> bool:
    exchange = HeadersExchange(ExchangeDefinition("x", "headers", durable=False))
    queue = QueueDefinition("q", 1, durable=False)
    binding = BindingDefinition("x", "q", "", durable=False, arguments=arguments)
    exchange.check_binding("", arguments)
    exchange.bind(binding, queue)
    found = carry_out(exchange.route_message(("any key",), Properties(headers=headers)))
    exchange.unbind(binding, queue)
    assert not carry_out(exchange.route_message(("any key",), Properties(headers=headers)))
    assert found in ((), (queue,))
    return bool(found)


A1, B2 = {"a": number(1)}, {"b": number(2)}
A1_B2 = A1 | B2


@pytest.mark.parametrize(
    ("how", "headers", "expected"),
    [
        ("all", A1_B2, True),
        ("all", A1_B2 | {"c": number(3)}, True),
        ("all", A1, False),
        ("all", A1 | {"b": number(3)}, False),
        ("all", {}, False),
        ("any", A1, True),
        ("any", {"a": number(9)} | B2, True),
        ("any", {"a": number(2), "b": number(1)}, False),
        ("any", {}, False),
    ],
)
def test_all_of_the_arguments_or_any_of_them(how, headers, expected):
    assert matches(match(how, **A1_B2), headers) is expected
    # Without x-match it is all.
    if how == "all":
        assert matches(A1_B2, headers) is expected


@pytest.mark.parametrize(
    ("how", "headers", "expected"),
    [
        ("all", A1, True),
        ("all-with-x", A1, False),
        ("all-with-x", A1 | {"x-b": number(2)}, True),
        ("any", {"x-b": number(2)}, False),
        ("any-with-x", {"x-b": number(2)}, True),
        ("any-with-x", {"x-b": number(3)}, False),
    ],
)
def test_arguments_that_begin_with_x_count_only_if_they_are_asked_to(how, headers, expected):
    assert matches(match(how, **A1, **{"x-b": number(2)}), headers) is expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [("all", True), ("all-with-x", True), ("any", False), ("any-with-x", False)],
)
def test_a_binding_that_asks_for_nothing_takes_everything_or_nothing(how, expected):
    assert matches(match(how), {}) is expected
    assert matches(match(how), {"x-match": text(how), "a": number(1)}) is expected


def test_an_argument_without_a_value_asks_for_the_header_to_be_there():
    void = {"a": Field("void", None)}
    for value in (number(1), text(""), Field("void", None), Field("table", {})):
        assert matches(void, {"a": value})
    assert not matches(void, B2)
    # The other way round it is a value as any other, which is nobody's.
    assert not matches(A1, void)


@pytest.mark.parametrize(
    ("argument", "header", "expected"),
    [
        (number(1), number(1, "long"), True),
        (number(1), Field("timestamp", 1), True),
        (number(1), Field("double", 1.0), True),
        (number(1), Field("bool", True), False),
        (number(1), text("1"), False),
        (Field("float", 0.5), Field("double", 0.5), True),
        (text("é"), Field("binary", "é".encode()), True),
        (Field("longstr", b"\xff"), Field("binary", b"\xff"), True),
        (Field("bool", True), Field("bool", True), True),
        (Field("bool", False), number(0), False),
        (Field("decimal", (1, 10)), Field("decimal", (1, 10)), True),
        (Field("decimal", (1, 10)), Field("decimal", (2, 100)), False),
        (Field("double", float("nan")), Field("double", float("nan")), False),
        (Field("array", [number(1)]), Field("array", [number(1)]), True),
        (Field("array", [number(1)]), Field("array", [number(1, "long")]), False),
        (Field("array", []), Field("table", {}), True),
        (Field("table", A1_B2), Field("table", A1_B2), True),
        (Field("table", A1_B2), Field("table", B2 | A1), False),
        (Field("table", A1), Field("array", [number(1)]), False),
    ],
)
def test_values_are_the_same_whatever_the_types_they_are_sent_as(argument, header, expected):
    assert matches({"a": argument}, {"a": header}) is expected
    assert matches(match("any", a=argument), {"a": header}) is expected


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (text("foo"), 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (text(""), "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (number(5), "type signedint (value 5); expected longstr"),
        (Field("void", None), "type void (value undefined); expected longstr"),
        (Field("binary", b"any"), 'type binary (value <<"any">>); expected longstr'),
    ],
)
def test_an_x_match_that_is_none_of_the_four_is_refused(commands, refused, field, words):
    commands.declare_queue()
    with refused(406, f"{INVALID} {words}"):
        commands.topology.prepare_bind("q", "amq.headers", "", {"x-match": field}, commands.us)
    # To other types it is an argument like any other.
    commands.topology.prepare_bind("q", "amq.topic", "", {"x-match": field}, commands.us)


@pytest.mark.parametrize("name", ["amq.headers", "amq.match"])
def test_both_predeclared_headers_exchanges_are_of_use(commands, name):
    commands.declare_queue()
    commands.bind(exchange=name, a=1)
    assert commands.route_message(name, a=1) == ["q"]
    assert commands.route_message(name, a=2) == []
    assert commands.table.routes_each_message(name)
    commands.unbind(exchange=name, a=1)
    assert commands.route_message(name, a=1) == []


def test_bindings_with_something_in_common_are_told_apart_by_the_rest(commands):
    for n in range(200):
        commands.declare_queue(f"q{n}")
        commands.bind(f"q{n}", "amq.headers", "", kind="invoice", paid=True, number=n)
    assert commands.route_message("amq.headers", kind="invoice", paid=True, number=7) == ["q7"]
    assert commands.route_message("amq.headers", kind="invoice", paid=False, number=7) == []
    # However many they are, a message is compared with few of them.
    exchange = commands.table.exchange("amq.headers")
    # It keeps patterns in dictionaries without values, since these are ordered sets.
    compared = [each for each in parts(exchange, dict) if None in each.values()]
    assert compared
    assert max(map(len, compared)) <= 3


# --- The model.

FIELDS = st.sampled_from(
    [
        number(0),
        number(1),
        number(1, "long"),
        Field("double", 1.0),
        Field("double", -0.0),
        Field("double", float("inf")),
        Field("bool", True),
        Field("bool", False),
        Field("void", None),
        text(""),
        text("1"),
        Field("binary", b"1"),
        Field("longstr", b"\xff"),
        Field("decimal", (0, 1)),
        Field("array", []),
        Field("array", [number(1), text("1")]),
        Field("array", [number(1, "long"), Field("binary", b"1")]),
        Field("table", {}),
        Field("table", {"a": number(1), "b": Field("array", [])}),
        Field("table", {"b": Field("array", []), "a": number(1)}),
    ]
)
NAMES = st.sampled_from(["a", "b", "", "x-", "x-a", "x"])
TABLES = st.dictionaries(NAMES, FIELDS, max_size=4)
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


@st.composite
def arguments(draw: st.DrawFn) -> Table:
    table = draw(TABLES)
    how = draw(MODES)
    return table if how is None else match(how, **table)


def is_equal(one: FieldValue, other: FieldValue) -> bool:
    """Erlang's ==, said without a common form."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, str | bytes) and isinstance(other, str | bytes):
        return octets(one) == octets(other)
    if isinstance(one, list | dict) and isinstance(other, list | dict):
        if not one or not other:
            return not one and not other
        if type(one) is not type(other) or len(one) != len(other):
            return False
        if isinstance(one, dict):
            if list(one) != list(other):
                return False
            one, other = list(one.values()), list(other.values())
        return all(
            a.kind == b.kind and is_equal(a.value, b.value) for a, b in zip(one, other, strict=True)
        )
    return isinstance(one, tuple) and one == other


def octets(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def is_taken(arguments: Table, headers: Table) -> bool:
    how = arguments["x-match"].value if "x-match" in arguments else "all"
    met = [
        name in headers
        and (argument.kind == "void" or is_equal(argument.value, headers[name].value))
        for name, argument in arguments.items()
        if name != "x-match" and (how in ("all-with-x", "any-with-x") or name[:2] != "x-")
    ]
    return any(met) if how in ("any", "any-with-x") else all(met)


@given(
    bindings=st.lists(st.tuples(st.integers(0, 3), arguments()), max_size=12),
    messages=st.lists(TABLES, min_size=1, max_size=5),
    data=st.data(),
)
def test_a_headers_exchange_routes_as_a_model_that_tries_every_binding(bindings, messages, data):
    exchange = HeadersExchange(ExchangeDefinition("x", "headers", durable=False))
    empty = object_count(exchange)
    queues = [QueueDefinition(str(number), number, durable=False) for number in range(4)]
    bound: dict[object, tuple[BindingDefinition, QueueDefinition]] = {}

    def check() -> None:
        for headers in messages:
            found = carry_out(exchange.route_message(("k",), Properties(headers=headers)))
            assert len(found) == len(set(found))
            assert set(found) == {
                queue for each, queue in bound.values() if is_taken(each.arguments, headers)
            }

    for place, table in bindings:
        queue = queues[place]
        binding = BindingDefinition("x", queue.name, "", durable=False, arguments=table)
        if binding.identity not in bound:
            exchange.bind(binding, queue)
            bound[binding.identity] = binding, queue
    check()
    for identity in data.draw(st.permutations(list(bound))):
        exchange.unbind(*bound.pop(identity))
        check()
    assert object_count(exchange) == empty, "nothing is left behind"


def test_a_message_that_meets_arguments_of_many_bindings_is_compared_in_steps() -> None:
    exchange = HeadersExchange(ExchangeDefinition("x", "headers", durable=False))
    headers = {f"h{n}": number(n) for n in range(1_001)}
    bindings, queues = [], []
    for left_out in range(100):
        # Each asks for all of the message's headers but one.
        wanted = {name: each for name, each in headers.items() if name != f"h{left_out}"}
        queues.append(QueueDefinition(f"q{left_out}", left_out + 1, durable=False))
        arguments = match("all", **wanted)
        binding = BindingDefinition("x", f"q{left_out}", "", durable=False, arguments=arguments)
        exchange.bind(binding, queues[-1])
        bindings.append(binding)
    steps = exchange.route_message(("any key",), Properties(headers=headers))
    step_count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        step_count += 1
        if step_count == 5:
            # What changes between two steps changes for the rest.
            exchange.unbind(bindings[7], queues[7])
    compared = len(bindings) * 1_000
    assert step_count >= compared // CRITERIA_PER_STEP
    assert set(found) == set(queues) - {queues[7]}
