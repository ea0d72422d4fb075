"""When two bindings are the same, and which changes go to the catalog."""

from __future__ import annotations

import math

import pytest
from leveret.amqp_frames.values.field_table import Field, table_of
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
    binding_identity,
)
from leveret.core.topology.topology import is_durable


def identity(arguments: dict[str, object]) -> object:
    return binding_identity("x", "q", "k", table_of(arguments))


def test_the_order_of_arguments_does_not_matter():
    left = {"a": 1, "b": {"c": [1, "d"], "e": None}}
    right = {"b": {"e": None, "c": [1, "d"]}, "a": 1}
    assert identity(left) == identity(right)
    assert hash(identity(left)) == hash(identity(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": Field("long", 1)}),
        ({"a": 1}, {"a": True}),
        ({"a": "1"}, {"a": b"1"}),
        ({"a": [1]}, {"a": [1, 1]}),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
        ({"a": 0.0}, {"a": -0.0}),
    ],
)
def test_types_and_values_of_arguments_matter(left, right):
    assert identity(left) != identity(right)


def test_not_a_number_is_the_same_as_itself():
    assert identity({"a": math.nan}) == identity({"a": math.nan})


@pytest.mark.parametrize("durable", [True, False])
def test_durable_definitions_go_to_the_catalog(durable):
    exchange = ExchangeDefinition("x", "direct", durable)
    queue = QueueDefinition("q", 1, durable)
    binding = BindingDefinition("x", "q", "k", durable)
    for change in (
        AddExchange(exchange),
        RemoveExchange(exchange),
        AddQueue(queue),
        RemoveQueue(queue),
        AddBinding(binding),
        RemoveBinding(binding),
    ):
        assert is_durable(change) is durable


def test_definitions_show_as_in_error_texts():
    assert str(QueueDefinition("q", 1, True, vhost="v")) == "queue 'q' in vhost 'v'"
    assert str(ExchangeDefinition("x", "topic", True)) == "exchange 'x' in vhost '/'"
