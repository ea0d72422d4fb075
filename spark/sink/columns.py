"""Arrow columns of a batch of rows, as Python's values: one list for each column."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa


class _NotText:
    """Stands for a value of Spark's with text whose octets are not UTF-8."""

    def __repr__(self) -> str:
        return "NOT_TEXT"


NOT_TEXT: Final = _NotText()

Pairs = tuple[tuple[Any, Any], ...]


class Columns:
    """The columns of a batch by name; an absent column has its default in each row."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.names = set(batch.schema.names)

    def values(self, name: str, default: Any) -> list[Any]:
        """The column's values, with `default` for null and for a column that is not there."""
        if name not in self.names:
            return [default] * int(self._batch.num_rows)
        values = _pylist(self._batch.column(name))
        if default is None:
            return values
        return [default if value is None else value for value in values]

    def texts(self, name: str, option: str | None) -> list[Any]:
        """An option stands for all rows; null is the empty name."""
        if option is not None:
            return [option] * int(self._batch.num_rows)
        return self.values(name, "")

    def octets(self, name: str) -> list[bytes | None]:
        """Text as its octets, whether it is UTF-8 or not."""
        column = self._batch.column(name)
        if pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        elif pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        octets: list[bytes | None] = column.to_pylist()
        return octets

    def seconds(self, name: str) -> list[int | None]:
        """A timestamp in whole seconds since the epoch, as AMQP has it."""
        if name not in self.names:
            return [None] * int(self._batch.num_rows)
        column = self._batch.column(name)
        seconds = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        values: list[int | None] = seconds.cast(pa.int64()).to_pylist()
        return values

    def pairs(self, name: str) -> list[Pairs | None]:
        """Keys and values, whether they come as a map or as an array of structs."""
        if name not in self.names:
            return [None] * int(self._batch.num_rows)
        return [_pairs(each) for each in _pylist(self._batch.column(name))]


def _pylist(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(each) for each in column]
    return values


def _value(scalar: pa.Scalar) -> Any:
    """The value, or NOT_TEXT."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return NOT_TEXT


def _pairs(value: Any) -> Pairs | None:
    if value is None:
        return None
    if value is NOT_TEXT:
        return ((NOT_TEXT, None),)
    return tuple(
        (each["key"], each["value"]) if isinstance(each, dict) else tuple(each)
        for each in value
        if each is not None
    )
