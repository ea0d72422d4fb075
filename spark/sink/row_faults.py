"""Finds values of rows that AMQP cannot carry, before anything is published.

A fault names the column and the rule, never the value: faults are in exceptions and logs, and
values may be anybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ...amqp_frames.constants import SHORT_STRING_BYTES_MAX
from ...amqp_frames.values.field_table import Field, Table
from ..header_values import field_from
from .columns import NOT_TEXT, Pairs

OCTET_MAX: Final = 255
# Brokers route by these: as anything but a list of texts they are refused.
_KEY_LISTS: Final = ("CC", "BCC")


class Fault(NamedTuple):
    """Why a row cannot be published."""

    column: str
    what: str

    def __str__(self) -> str:
        return f"{self.column} {self.what}"


def _short_string(value: Any) -> str | None:
    if value is NOT_TEXT:
        return "is not UTF-8"
    if value is not None and len(value.encode()) > SHORT_STRING_BYTES_MAX:
        return f"has more than {SHORT_STRING_BYTES_MAX} octets"
    return None


def _octet(value: Any) -> str | None:
    return None if value is None or 0 <= value <= OCTET_MAX else f"is not from 0 to {OCTET_MAX}"


def _delivery_mode(value: Any) -> str | None:
    return None if value in (1, 2) else "is neither 1 nor 2"


def _duration(value: Any) -> str | None:
    return None if value is None or value >= 0 else "is less than 0"


def _time(value: Any) -> str | None:
    return None if value is None or value >= 0 else "is before 1970, where AMQP's time begins"


_RULES: Final[dict[str, Callable[[Any], str | None]]] = {
    "exchange": _short_string,
    "routing_key": _short_string,
    "message_id": _short_string,
    "content_type": _short_string,
    "content_encoding": _short_string,
    "correlation_id": _short_string,
    "reply_to": _short_string,
    "type": _short_string,
    "app_id": _short_string,
    "priority": _octet,
    "delivery_mode": _delivery_mode,
    "expiration_ms": _duration,
    "timestamp": _time,
}


def fault_of(column: str, value: Any) -> Fault | None:
    """The fault of this column's value, or None."""
    what = _RULES[column](value)
    return None if what is None else Fault(column, what)


def without_faults(values: Mapping[str, Any]) -> tuple[dict[str, Any], Fault | None]:
    """The values, those that cannot be as None, and the first fault."""
    clean = dict(values)
    first = None
    for column, value in values.items():
        fault = fault_of(column, value)
        if fault is not None:
            clean[column] = None
            first = first or fault
    return clean, first


def headers_without_faults(pairs: Pairs | None, types: Pairs | None) -> tuple[Table, Fault | None]:
    """The headers of a row, without those that cannot be, and the first fault."""
    table: Table = {}
    first = None
    kinds = dict(types or ())
    if NOT_TEXT in kinds:
        return table, Fault("header_types", "is not UTF-8")
    for name, value in pairs or ():
        what = "has a key that is null" if name is None else _short_string(name)
        if what is not None:
            first = first or Fault("headers", what if name is None else f"has a key that {what}")
            continue
        try:
            field = field_from(value, kinds.get(name))
        except ValueError as error:
            first = first or Fault("headers", f"has a value that {error} in header_types")
            continue
        if name in _KEY_LISTS and not _is_list_of_texts(field):
            first = first or Fault("headers", f"has a {name} that is not a list of texts")
            continue
        table[name] = field
    return table, first


def _is_list_of_texts(field: Field) -> bool:
    kind, value = field
    return kind == "array" and isinstance(value, list) and all(k == "longstr" for k, _ in value)
