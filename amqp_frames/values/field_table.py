"""Short strings, and field tables: the typed lists of arguments, headers and client properties.

A short string is a length octet and up to 255 octets, UTF-8 by the specification. Not every peer
keeps to UTF-8, and RabbitMQ does not look at what basic.publish carries. So octets that are not
UTF-8 become surrogate escapes (U+DC80 to U+DCFF) in the str and the same octets again on the wire:
decoding never fails and encoding gives back the same octets. Methods without content are stricter,
see amqp_frames/methods/wire_types.py.

The layout and the types of field tables are drawn below. Odd cases:
- any non-zero bool is true; NaN and infinities are values (RabbitMQ's channel dies of them);
- a name twice: the first one stands, as in RabbitMQ's look-ups;
- a longstr that is not UTF-8 is bytes, a name that is not UTF-8 has surrogate escapes;
- nesting deeper than NESTING_DEPTH_MAX is a syntax error (RabbitMQ knows no limit), so that no
  peer can exhaust our stack.

A malformed table is HardError 502 SYNTAX_ERROR, the specification's code. RabbitMQ answers 541
on channel 0 and drops the connection without a word elsewhere, because its parser crashes.

Bounds are not checked field by field: positions only grow, so a field that reaches beyond its
table leaves the position past the end, where it stays and is found once per table.

The types of field-table values: their tags, kinds and sizes on the wire.

On the wire, as RabbitMQ reads and writes it (rabbit_binary_parser, rabbit_binary_generator), which
differs from the specification's letters but is what every client of RabbitMQ speaks:

    table = length:32 { name:short-string value }      array = length:32 { value }
    value = tag octet, then
      t bool 8           b byte 8 signed        B unsignedbyte 8     s short 16 signed
      u unsignedshort 16 I signedint 32 signed  i unsignedint 32     l, L long 64 signed
      f float 32         d double 64            D decimal: scale 8, unscaled value 32 unsigned
      T timestamp 64     S longstr length:32    x binary length:32   V void
      F table            A array

Kinds carry RabbitMQ's names because its error texts show them. `L` is decoded and never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception that struct spells small
from typing import Final, NamedTuple, TypeAlias, cast

from ..constants import SHORT_STRING_BYTES_MAX, SYNTAX_ERROR
from ..errors import HardError

# --- Short strings


def decode_text(octets: bytes) -> str:
    """The str for any octets; `encode_text` gives them back."""
    return octets.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """The octets of a str: UTF-8, and surrogate escapes as the octets they stand for."""
    return text.encode("utf-8", "surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether the octets that `decode_text` made this str of were UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode_short_string(text: str) -> bytes:
    """Length octet and octets; ValueError if there are more than a length octet can say."""
    octets = encode_text(text)
    if len(octets) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"a short string of {len(octets)} octets: {text[:40]!r}...")
    return bytes((len(octets),)) + octets


# --- Field tables


class Field(NamedTuple):
    """One value and RabbitMQ's name for its type: "longstr", "signedint", "table" ..."""

    kind: str
    value: FieldValue


Table: TypeAlias = dict[str, Field]
# By kind: longstr str or bytes; decimal (scale, unscaled value); table Table; array list of Field;
# binary bytes; bool bool; void None; float and double float; the others int.
FieldValue: TypeAlias = (
    str | bytes | int | float | bool | tuple[int, int] | dict[str, Field] | list[Field] | None
)
# What `field_of` finds a kind for.
Plain: TypeAlias = (
    "Field | str | bytes | int | float | bool | Mapping[str, Plain] | Sequence[Plain] | None"
)

LENGTH: Final = Struct(">I")
DECIMAL: Final = Struct(">BI")

# Kind, tag and layout of the values that are one number.
NUMBERS: Final = (
    ("bool", b"t", Struct(">?")),
    ("byte", b"b", Struct(">b")),
    ("unsignedbyte", b"B", Struct(">B")),
    ("short", b"s", Struct(">h")),
    ("unsignedshort", b"u", Struct(">H")),
    ("signedint", b"I", Struct(">i")),
    ("unsignedint", b"i", Struct(">I")),
    ("long", b"L", Struct(">q")),
    ("long", b"l", Struct(">q")),
    ("float", b"f", Struct(">f")),
    ("double", b"d", Struct(">d")),
    ("timestamp", b"T", Struct(">Q")),
)
NUMBER_BY_TAG: Final = {tag[0]: (kind, layout) for kind, tag, layout in NUMBERS}
NUMBER_BY_KIND: Final = {kind: (tag, layout) for kind, tag, layout in NUMBERS}
INTEGER_KINDS: Final = frozenset(
    {"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint"}
)

TAG_LONGSTR: Final = ord("S")
TAG_BINARY: Final = ord("x")
TAG_TABLE: Final = ord("F")
TAG_ARRAY: Final = ord("A")
TAG_DECIMAL: Final = ord("D")
TAG_VOID: Final = ord("V")

# Octets that a value takes with its tag, by tag. Two markers above any of them: the value has a
# length of its own, or is a table or an array. 0: no such tag.
HAS_LENGTH: Final = 254
IS_NESTED: Final = 255
SIZES: Final = bytes(
    HAS_LENGTH
    if tag in (TAG_LONGSTR, TAG_BINARY)
    else IS_NESTED
    if tag in (TAG_TABLE, TAG_ARRAY)
    else 1
    if tag == TAG_VOID
    else 1 + DECIMAL.size
    if tag == TAG_DECIMAL
    else 1 + NUMBER_BY_TAG[tag][1].size
    if tag in NUMBER_BY_TAG
    else 0
    for tag in range(256)
)


__all__ = [
    "NESTING_DEPTH_MAX",
    "Field",
    "FieldValue",
    "Plain",
    "Table",
    "check_table",
    "decode_fields",
    "decode_table",
    "encode_table",
    "field_of",
    "skip_table",
    "table_of",
]

# RabbitMQ's own headers nest four deep (x-death: table, array, table, array). A level costs one
# or two Python frames, of which there are 1,000.
NESTING_DEPTH_MAX: Final = 64

_SIGNED_INT_MIN: Final = -(2**31)
_SIGNED_INT_MAX: Final = 2**31 - 1
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


# --- Decoding.


def decode_table(data: bytes, start: int, end: int) -> Table:
    """The table whose length and fields are exactly data[start:end]."""
    if end - start < 4 or LENGTH.unpack_from(data, start)[0] != end - start - 4:
        raise _malformed("its length is wrong")
    return decode_fields(data, start + 4, end)


def decode_fields(data: bytes, start: int, end: int) -> Table:
    """The fields of a table without its length, which is how an AMQPLAIN response comes."""
    try:
        return _decode_fields(data, start, end, 1)
    except (IndexError, StructError):
        raise _malformed("it ends inside a field") from None


def _decode_fields(data: bytes, position: int, end: int, depth: int) -> Table:
    table: Table = {}
    while position < end:
        value_at = position + 1 + data[position]
        name = decode_text(data[position + 1 : value_at])
        field, position = _decode_field(data, value_at, end, depth)
        table.setdefault(name, field)
    if position != end:
        raise _malformed("it ends inside a field")
    return table


def _decode_array(data: bytes, position: int, end: int, depth: int) -> list[Field]:
    array: list[Field] = []
    while position < end:
        field, position = _decode_field(data, position, end, depth)
        array.append(field)
    if position != end:
        raise _malformed("it ends inside a field")
    return array


def _decode_field(data: bytes, position: int, end: int, depth: int) -> tuple[Field, int]:
    """The field whose tag is at `position`, and the position after it."""
    tag = data[position]
    position += 1
    number = NUMBER_BY_TAG.get(tag)
    if number is not None:
        kind, layout = number
        return Field(kind, layout.unpack_from(data, position)[0]), position + layout.size
    if tag == TAG_VOID:
        return Field("void", None), position
    if tag == TAG_DECIMAL:
        scale, unscaled = DECIMAL.unpack_from(data, position)
        return Field("decimal", (scale, unscaled)), position + DECIMAL.size
    if not SIZES[tag]:
        raise _unknown_tag(tag)
    value_at = position + 4
    value_end: int = value_at + LENGTH.unpack_from(data, position)[0]
    if value_end > end:
        raise _malformed("it ends inside a field")
    if tag == TAG_LONGSTR:
        return Field("longstr", _text_or_bytes(data[value_at:value_end])), value_end
    if tag == TAG_BINARY:
        return Field("binary", data[value_at:value_end]), value_end
    if depth >= NESTING_DEPTH_MAX:
        raise _too_deep()
    if tag == TAG_TABLE:
        return Field("table", _decode_fields(data, value_at, value_end, depth + 1)), value_end
    return Field("array", _decode_array(data, value_at, value_end, depth + 1)), value_end


def _text_or_bytes(octets: bytes) -> str | bytes:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


# --- Checking: the same verdicts as decoding, with no value built.


def check_table(data: bytes, start: int, end: int) -> None:
    """Raise what `decode_table` would raise."""
    if end - start < 4 or LENGTH.unpack_from(data, start)[0] != end - start - 4:
        raise _malformed("its length is wrong")
    try:
        _check_fields(data, start + 4, end, True, 1)
    except IndexError:
        raise _malformed("it ends inside a field") from None


def skip_table(data: bytes, position: int, end: int) -> int:
    """Check the table that begins at `position` and return where it ends.

    An IndexError means that `data` ends early, here and in `_check_fields`. Both are on the path of
    every publish with headers: bytes and ints only, so that they can be compiled.
    """
    fields_at = position + 4
    fields_end = fields_at + (
        (data[position] << 24)
        | (data[position + 1] << 16)
        | (data[position + 2] << 8)
        | data[position + 3]
    )
    if fields_end > end:
        raise _malformed("it ends inside a field")
    _check_fields(data, fields_at, fields_end, True, 1)
    return fields_end


def _check_fields(data: bytes, position: int, end: int, named: bool, depth: int) -> None:
    """Walk a table's fields, or an array's values, which have no names."""
    while position < end:
        if named:
            position += 1 + data[position]
        size = SIZES[data[position]]
        if size < HAS_LENGTH:
            if size == 0:
                raise _unknown_tag(data[position])
            position += size
            continue
        value_at = position + 5
        position = value_at + (
            (data[position + 1] << 24)
            | (data[position + 2] << 16)
            | (data[position + 3] << 8)
            | data[position + 4]
        )
        if size == IS_NESTED:
            if position > end:
                break
            if depth >= NESTING_DEPTH_MAX:
                raise _too_deep()
            _check_fields(data, value_at, position, data[value_at - 5] == TAG_TABLE, depth + 1)
    if position != end:
        raise _malformed("it ends inside a field")


def _malformed(explanation: str) -> HardError:
    return HardError(SYNTAX_ERROR, f"malformed field table: {explanation}")


def _unknown_tag(tag: int) -> HardError:
    return _malformed(f"unknown field type {tag}")


def _too_deep() -> HardError:
    return _malformed(f"nested deeper than {NESTING_DEPTH_MAX} levels")


# --- Encoding. What does not fit is our own fault: ValueError.


def encode_table(table: Mapping[str, Plain]) -> bytes:
    """Length and fields; values may be Fields or plain ones, which `field_of` gives a kind."""
    return _encode_fields(table, 1)


def text_of(field: Field | None) -> str | None:
    """The text of a longstr, any octets in a str as `decode_text` has them; else None."""
    if field is None or field.kind != "longstr":
        return None
    value = field.value
    return decode_text(value) if isinstance(value, bytes) else str(value)


def table_of(values: Mapping[str, Plain]) -> Table:
    """A table of plain values, each with the kind that RabbitMQ's clients would choose."""
    return {name: field_of(value) for name, value in values.items()}


def field_of(value: Plain) -> Field:
    """The field for a plain value: an int is a signedint if it fits, else a long; bytes binary."""
    if isinstance(value, Field):
        return value
    if isinstance(value, bool):
        return Field("bool", value)
    if isinstance(value, str):
        return Field("longstr", value)
    if isinstance(value, int):
        if _SIGNED_INT_MIN <= value <= _SIGNED_INT_MAX:
            return Field("signedint", value)
        if _LONG_MIN <= value <= _LONG_MAX:
            return Field("long", value)
        raise ValueError(f"{value} does not fit 64 bits")
    if isinstance(value, float):
        return Field("double", value)
    if isinstance(value, bytes):
        return Field("binary", value)
    if value is None:
        return Field("void", None)
    if isinstance(value, Mapping):
        return Field("table", table_of(value))
    if isinstance(value, Sequence):
        return Field("array", [field_of(item) for item in value])
    raise ValueError(f"no field type for {value!r}")


def _encode_fields(table: Mapping[str, Plain], depth: int) -> bytes:
    pieces: list[bytes] = []
    for name, value in table.items():
        pieces.append(encode_short_string(name))
        pieces.append(_encode_field(field_of(value), depth))
    return _with_length(b"".join(pieces))


def _encode_field(field: Field, depth: int) -> bytes:
    kind, value = field
    try:
        if kind in NUMBER_BY_KIND:
            tag, layout = NUMBER_BY_KIND[kind]
            return tag + layout.pack(value)
        if kind == "longstr":
            text = value if isinstance(value, bytes) else encode_text(cast(str, value))
            return b"S" + _with_length(text)
        if kind == "binary":
            return b"x" + _with_length(cast(bytes, value))
        if kind == "void":
            return b"V"
        if kind == "decimal":
            scale, unscaled = cast("tuple[int, int]", value)
            return b"D" + DECIMAL.pack(scale, unscaled)
        if depth >= NESTING_DEPTH_MAX:
            raise ValueError(f"a table nested deeper than {NESTING_DEPTH_MAX} levels")
        if kind == "table":
            return b"F" + _encode_fields(cast(Table, value), depth + 1)
        if kind == "array":
            items = [_encode_field(field_of(item), depth + 1) for item in cast(list[Field], value)]
            return b"A" + _with_length(b"".join(items))
    except (StructError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a {kind}: {value!r}") from error
    raise ValueError(f"no field type {kind!r}")


def _with_length(octets: bytes) -> bytes:
    return LENGTH.pack(len(octets)) + octets
