"""How deep JSON may be nested."""

from __future__ import annotations

import pytest
from leveret.core.json_depth import JSON_DEPTH_MAX, check_depth


def nested(depth: int, *, in_objects: bool) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": 1, "b": value, "c": []} if in_objects else [1, value, {}]
    return value


@pytest.mark.parametrize("in_objects", [True, False])
def test_values_are_nested_up_to_a_depth(in_objects: bool) -> None:
    check_depth(nested(JSON_DEPTH_MAX, in_objects=in_objects))
    with pytest.raises(ValueError, match="nested deeper than 100 levels"):
        check_depth(nested(JSON_DEPTH_MAX + 1, in_objects=in_objects))


def test_values_without_nesting_pass() -> None:
    for value in (None, 1, "[[[", [], {}, [[], {}] * 1000):
        check_depth(value)
