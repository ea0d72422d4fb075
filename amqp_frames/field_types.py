"""The types of field-table values: their tags, kinds and sizes on the wire.

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
from typing import Final, NamedTuple, TypeAlias


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
