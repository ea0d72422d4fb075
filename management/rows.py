"""Rows of lists: JSON objects, the choice of columns, and places by their values.

A column may be a path: `message_stats.publish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def chosen(columns: str, row: Row) -> Row:
    """The row with these columns, separated by commas; all of them if it names none."""
    if not columns:
        return row
    found: Row = {}
    for column in columns.split(","):
        _copy(row, column.split("."), found)
    return found


def _copy(row: Row, path: list[str], found: Row) -> None:
    name = path[0]
    if name not in row:
        return
    if len(path) == 1:
        found[name] = row[name]
    elif isinstance(row[name], dict):
        _copy(row[name], path[1:], found.setdefault(name, {}))


def place(columns: Sequence[str], row: Row) -> tuple[Any, ...]:
    """Of a row among others: by the values of these columns, all of which have an order."""
    return tuple(_order(_at(row, column)) for column in columns)


def _at(row: Row, path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _order(value: Any) -> tuple[int, Any]:
    """Numbers are first, then nothing, then texts, then the others."""
    if isinstance(value, (int, float)):
        return 0, value
    if value is None:
        return 1, 0
    return (2, value) if isinstance(value, str) else (3, str(value))
