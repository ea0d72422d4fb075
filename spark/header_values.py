"""Headers as Spark has them, and as AMQP does: texts and their types, and typed fields.

    text    of a longstr, the text; of all else JSON: `5`, `true`, `null`, lists and tables.
            Bytes (a binary, or a longstr that is not UTF-8) are {"base64": "..."}, timestamps their
            ISO form (behind the year 9999 a number of seconds), decimals their digits
    type    RabbitMQ's name for the kind of the field (amqp_frames/values/field_table.py), such as
            `signedint`; of a table the JSON object of its fields' types, of an array the list of
            its values' types. A longstr that is UTF-8 has none; `longstr/base64` is a long string
            that is not

With both, a field is made again as it was: `field_from(*text_and_type)`. A text whose type is not
known is a longstr, and what stands in a table or an array of unknown type is inferred from JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from struct import error as StructError  # noqa: N812 - an exception that struct spells small
from typing import Any, Final

from ..amqp_frames.values.field_table import (
    NUMBER_BY_KIND,
    Field,
    Table,
    encode_text,
    field_of,
    is_utf8,
)

_LONGSTR_OF_OCTETS: Final = "longstr/base64"
_OCTETS: Final = "base64"
_UNSCALED_MAX: Final = (1 << 32) - 1
_SCALE_MAX: Final = 255


def texts(headers: Table) -> list[tuple[str, str]]:
    """Give every header as text."""
    return [
        (
            readable(name),
            field.value
            if field.kind == "longstr" and isinstance(field.value, str)
            else json.dumps(_plain(field), ensure_ascii=False),
        )
        for name, field in headers.items()
    ]


def types(headers: Table) -> list[tuple[str, str]]:
    """Give the types of those headers that are no texts."""
    return [
        (readable(name), kind if isinstance(kind, str) else json.dumps(kind, ensure_ascii=False))
        for name, kind in _types(headers)
    ]


def readable(text: str) -> str:
    """Text as it is, or with U+FFFD for octets that are not UTF-8."""
    return text if is_utf8(text) else encode_text(text).decode("utf-8", "replace")


def _plain(field: Field) -> Any:
    """A value of JSON."""
    kind, value = field
    if kind == "table":
        assert isinstance(value, dict)
        return {readable(name): _plain(each) for name, each in value.items()}
    if kind == "array":
        assert isinstance(value, list)
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {_OCTETS: base64.b64encode(value).decode()}
    if kind == "decimal":
        assert isinstance(value, tuple)
        scale, unscaled = value
        return str(Decimal(unscaled).scaleb(-scale))
    if kind == "timestamp":
        assert isinstance(value, int)
        try:
            return datetime.fromtimestamp(value, UTC).isoformat()
        # OSError and OverflowError: by platform and size.
        except (ValueError, OverflowError, OSError):
            return value
    return value


def _types(table: Table) -> Iterator[tuple[str, Any]]:
    for name, field in table.items():
        kind = _type(field)
        if kind is not None:
            yield name, kind


def _type(field: Field) -> Any:
    """The type as JSON has it; None: a text."""
    kind, value = field
    if kind == "longstr":
        return _LONGSTR_OF_OCTETS if isinstance(value, bytes) else None
    if kind == "table":
        assert isinstance(value, dict)
        return {readable(name): each for name, each in _types(value)}
    if kind == "array":
        assert isinstance(value, list)
        return ["longstr" if (kind := _type(each)) is None else kind for each in value]
    return kind


def field_from(text: str | bytes | None, kind: str | None) -> Field:
    """Make the field of a text and its type; ValueError, without the text, if they do not fit."""
    if text is None or kind is None or isinstance(text, bytes):
        return field_of(text)
    if kind == "longstr":
        return Field("longstr", text)
    try:
        spec = json.loads(kind) if kind[:1] in ("{", "[") else kind
        return _field(json.loads(text), spec)
    except (
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        OverflowError,
        RecursionError,
        InvalidOperation,
        StructError,
        binascii.Error,
    ):
        raise ValueError("is not of its type") from None


def _field(value: Any, spec: Any) -> Field:
    if isinstance(spec, dict) or (spec is None and isinstance(value, dict)):
        known = spec or {}
        return Field("table", {name: _field(each, known.get(name)) for name, each in value.items()})
    if isinstance(spec, list) or (spec is None and isinstance(value, list)):
        kinds = [*(spec or ()), *[None] * len(value)]
        return Field(
            "array", [_field(each, kind) for each, kind in zip(value, kinds, strict=False)]
        )
    if spec is None:
        return field_of(value)
    if spec in (_LONGSTR_OF_OCTETS, "binary"):
        octets = base64.b64decode(value[_OCTETS], validate=True)
        return Field("binary" if spec == "binary" else "longstr", octets)
    if spec == "longstr" and isinstance(value, str):
        return Field(spec, value)
    if spec == "void":
        return Field(spec, None)
    if spec == "decimal":
        return Field(spec, _decimal(value))
    if spec == "timestamp" and isinstance(value, str):
        value = round(datetime.fromisoformat(value).timestamp())
    if (spec == "bool") != isinstance(value, bool):
        raise ValueError
    # Whatever else does not fit, packing finds.
    NUMBER_BY_KIND[spec][1].pack(value)
    return Field(spec, value)


def _decimal(text: Any) -> tuple[int, int]:
    """Scale and unscaled value."""
    sign, digits, exponent = Decimal(text).as_tuple()
    unscaled = int("".join(map(str, digits)))
    if sign or not isinstance(exponent, int):
        raise ValueError
    if exponent > 0:
        unscaled, exponent = unscaled * 10**exponent, 0
    if unscaled > _UNSCALED_MAX or -exponent > _SCALE_MAX:
        raise ValueError
    return -exponent, unscaled
