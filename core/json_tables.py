"""Field tables as JSON has them, as RabbitMQ's API and its definitions files write and read them.

JSON has fewer types than AMQP, so that a table comes back with others: every whole number is a
long, every text a longstr, and a timestamp is the number of its seconds.
"""

from __future__ import annotations

from typing import Any, Final

from ..amqp_frames.values.field_table import NESTING_DEPTH_MAX, Field, Table

_LONG_MAX: Final = 2**63


def plain_table(table: Table) -> dict[str, Any]:
    """The table as a JSON object."""
    return {name: _plain(field.value) for name, field in table.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain_table(value)
    if isinstance(value, list):
        return [_plain(each.value) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def table_of_json(given: object) -> Table:
    """The field table for a JSON object; ValueError if it is none, or no table can have that."""
    return _table(given, 1)


def _table(given: object, depth: int) -> Table:
    if given == [] or given is None:
        # PHP's empty object.
        return {}
    if not isinstance(given, dict):
        raise ValueError("arguments must be an object")
    return {name: _field(value, depth) for name, value in given.items()}


def _field(value: object, depth: int) -> Field:
    if isinstance(value, bool):
        return Field("bool", value)
    if isinstance(value, str):
        return Field("longstr", value)
    if isinstance(value, int):
        if not -_LONG_MAX <= value < _LONG_MAX:
            raise ValueError(f"{value} does not fit 64 bits")
        return Field("long", value)
    if isinstance(value, float):
        return Field("double", value)
    if value is None:
        return Field("void", None)
    if depth >= NESTING_DEPTH_MAX:
        raise ValueError(f"arguments are nested deeper than {NESTING_DEPTH_MAX} levels")
    if isinstance(value, dict):
        return Field("table", _table(value, depth + 1))
    assert isinstance(value, list), value
    return Field("array", [_field(each, depth + 1) for each in value])
