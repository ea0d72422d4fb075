"""Tables, properties and the names of bindings, as JSON and paths have them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.management.request import ApiError
from leveret.management.text import encoded
from leveret.management.values import (
    key_from_path,
    plain_properties,
    plain_table,
    properties_from,
    properties_key,
    table_from,
)


def test_a_table_goes_to_json_and_back() -> None:
    given = {"a": 1, "b": "x", "c": True, "d": None, "e": {"f": [1, "y", 1.5]}}
    table = table_from(given)
    assert table["a"] == Field("long", 1)
    assert plain_table(table) == given


@pytest.mark.parametrize("given", [{}, [], None])
def test_no_arguments_have_several_forms(given: object) -> None:
    assert table_from(given) == {}


@pytest.mark.parametrize("given", [[1], "x", 3, {"a": 2**63}])
def test_arguments_that_cannot_be_are_a_bad_request(given: object) -> None:
    with pytest.raises(ApiError) as refused:
        table_from(given)
    assert refused.value.status == 400


def test_properties_go_to_json_and_back() -> None:
    given: dict[str, Any] = {"delivery_mode": 2, "headers": {"a": 1}, "type": "t", "nope": 1}
    properties = properties_from(given)
    assert properties == Properties(delivery_mode=2, headers={"a": Field("long", 1)}, type="t")
    assert plain_properties(properties) == {"delivery_mode": 2, "headers": {"a": 1}, "type": "t"}
    assert plain_properties(Properties()) == []


@pytest.mark.parametrize("name", ["delivery_mode", "priority", "timestamp"])
@pytest.mark.parametrize("value", ["x", True, -1, 2**64])
def test_numbers_are_numbers_in_their_range(name: str, value: object) -> None:
    with pytest.raises(ApiError) as refused:
        properties_from({name: value})
    assert refused.value.reason == ["not_int", name]


@pytest.mark.parametrize(
    ("key", "name"),
    [("a.b", "a.b"), ("", "~"), ("~", "%7E"), ("a/b #", "a%2Fb+%23"), ("a+b", "a%2Bb")],
)
def test_a_binding_is_named_by_its_key(key: str, name: str) -> None:
    assert properties_key(key, {}) == name
    # A client may have quoted it once more, or not.
    assert key_from_path(name) == name


def test_a_plus_in_a_path_is_a_space_as_in_rabbitmq() -> None:
    assert {key_from_path(each) for each in ("a b", "a+b", "a%20b")} == {"a+b"}
    assert key_from_path("a%2Bb") == "a%2Bb"


def test_bindings_that_differ_in_arguments_have_different_names_in_any_order() -> None:
    one = properties_key("k", table_from({"a": 1, "b": 2}))
    same = properties_key("k", table_from({"b": 2, "a": 1}))
    other = properties_key("k", table_from({"a": 1, "b": 3}))
    assert one == same != other
    assert one.startswith("k~")
    assert len(one) == len("k~") + 6


def test_what_json_has_no_word_for_is_null() -> None:
    def refused(word: str) -> None:
        raise AssertionError(word)

    number = float("nan")
    # With a name that is not UTF-8, too: another encoder has those.
    for name in ("a", "\udcff"):
        text = encoded({name: [number, {"b": float("-inf")}, 1.5]})
        found = json.loads(text, parse_constant=refused)
        assert found == {name: [None, {"b": None}, 1.5]}
