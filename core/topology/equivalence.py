"""Declaring what exists: everything that counts must be the same, or it is refused with 406.

The words are those of RabbitMQ's rabbit_misc:assert_args_equivalence and
assert_field_equivalence: a property or an argument that both declarations have is shown by its
value alone, an argument that only one of them has also by its type.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.values.field_table import Field, FieldValue, Table
from ..erlang_terms import erlang_plain

_CLASSES = dict.fromkeys(
    (
        "byte",
        "short",
        "signedint",
        "long",
        "decimal",
        "unsignedbyte",
        "unsignedshort",
        "unsignedint",
    ),
    "int",
) | {"float": "float", "double": "float"}


def check_property(named: str, name: str, current: str | bool, received: str | bool) -> None:
    """`named` is the exchange or queue as texts speak of it; `name` the property."""
    if current != received:
        raise _inequivalent(named, name, _value(current), _value(received))


def check_arguments(named: str, current: Table, received: Table, names: Iterable[str]) -> None:
    """Compare the arguments with these names, in this order; all others may differ."""
    for name in names:
        if name in current or name in received:
            _check_argument(named, name, current.get(name), received.get(name))


def _check_argument(named: str, name: str, current: Field | None, received: Field | None) -> None:
    if current is not None and received is not None:
        if not _is_same(current, received):
            raise _inequivalent(named, name, _value(current.value), _value(received.value))
        return
    # No type means classic, so the two are the same.
    if name == "x-queue-type" and (current or received) == Field("longstr", "classic"):
        return
    raise _inequivalent(named, name, _typed_value(current), _typed_value(received))


def _is_same(current: Field, received: Field) -> bool:
    """Types may differ within integers and within floats; equal values of one nature are equal."""
    if current.value != received.value:
        return False
    is_one_class = _class(current) == _class(received)
    # Python holds 1, 1.0 and True for equal, Erlang does not.
    return is_one_class or type(current.value) is type(received.value)


def _class(argument: Field) -> str:
    return _CLASSES.get(argument.kind, argument.kind)


def _value(value: FieldValue) -> str:
    return f"'{erlang_plain(value)}'"


def _typed_value(argument: Field | None) -> str:
    if argument is None:
        return "none"
    return f"the value {_value(argument.value)} of type '{argument.kind}'"


def _inequivalent(named: str, name: str, current: str, received: str) -> SoftError:
    return SoftError(
        PRECONDITION_FAILED,
        f"inequivalent arg '{name}' for {named}: received {received} but current is {current}",
    )
