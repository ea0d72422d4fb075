"""Outside witnesses for field types and properties: pamqp and pika, both ways.

Where they differ from RabbitMQ, and so from us, a comment in the table says how.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pamqp.commands
import pamqp.decode
import pamqp.encode
import pamqp.header
import pika.data
import pika.spec
import pytest
from leveret.amqp_frames.properties import Properties, decode_properties, encode_properties
from leveret.amqp_frames.values.field_table import (
    Field,
    FieldValue,
    decode_table,
    encode_table,
    table_of,
)
from plain_values import plain

TABLE = {"text": "né", "number": 100_000, "yes": True, "inner": {"list": [None, 70_000, "x"]}}


# --- Field types: what pamqp and pika make of what we write; RabbitMQ's type is the kind.

SECONDS = 1_700_000_000
MOMENT = datetime.datetime.fromtimestamp(SECONDS, datetime.UTC)

EVERY_TYPE: list[tuple[Field, Any, Any]] = [
    (Field("longstr", "é"), "é", "é"),
    (Field("longstr", b"\xff"), b"\xff", b"\xff"),
    (Field("signedint", -5), -5, -5),
    (Field("decimal", (2, 314)), decimal.Decimal("3.14"), decimal.Decimal("3.14")),
    # RabbitMQ reads the unscaled value as unsigned, both of them as signed.
    (Field("decimal", (0, 2**32 - 1)), decimal.Decimal(-1), decimal.Decimal(-1)),
    (Field("timestamp", SECONDS), MOMENT, MOMENT),
    (Field("table", {"a": Field("void", None)}), {"a": None}, {"a": None}),
    (Field("byte", -5), -5, -5),
    # pika cuts floats to integers.
    (Field("double", 2.5), 2.5, 2),
    (Field("float", 2.5), 2.5, 2),
    (Field("long", -(2**40)), -(2**40), -(2**40)),
    (Field("short", -300), -300, -300),
    (Field("bool", True), True, True),
    (Field("binary", b"\x00\xff"), bytearray(b"\x00\xff"), b"\x00\xff"),
    (Field("void", None), None, None),
    (Field("array", [Field("byte", 1), Field("longstr", "x")]), [1, "x"], [1, "x"]),
    (Field("unsignedbyte", 200), 200, 200),
    (Field("unsignedshort", 60_000), 60_000, 60_000),
    (Field("unsignedint", 2**32 - 1), 2**32 - 1, 2**32 - 1),
]


@pytest.mark.parametrize(("field", "to_pamqp", "to_pika"), EVERY_TYPE)
def test_both_read_every_type_that_we_write(field: Field, to_pamqp: Any, to_pika: Any) -> None:
    data = encode_table({"n": field})
    assert pamqp.decode.field_table(data) == (len(data), {"n": to_pamqp})
    assert pika.data.decode_table(data, 0) == ({"n": to_pika}, len(data))


def pamqp_field(value: Any) -> Field:
    data = pamqp.encode.field_table({"n": value})
    return decode_table(data, 0, len(data))["n"]


def pika_field(value: Any) -> Field:
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, {"n": value})
    data = b"".join(pieces)
    return decode_table(data, 0, len(data))["n"]


@pytest.mark.parametrize(
    ("value", "from_pamqp", "from_pika"),
    [
        ("é", ("longstr", "é"), ("longstr", "é")),
        # pamqp chooses the smallest integer type, pika and RabbitMQ's clients signedint or long.
        (5, ("byte", 5), ("signedint", 5)),
        (-300, ("short", -300), ("signedint", -300)),
        (60_000, ("unsignedshort", 60_000), ("signedint", 60_000)),
        (100_000, ("signedint", 100_000), ("signedint", 100_000)),
        (2**31, ("unsignedint", 2**31), ("long", 2**31)),
        (-(2**40), ("long", -(2**40)), ("long", -(2**40))),
        (True, ("bool", True), ("bool", True)),
        (None, ("void", None), ("void", None)),
        (decimal.Decimal("3.14"), ("decimal", (2, 314)), ("decimal", (2, 314))),
        # Neither can say a negative decimal to RabbitMQ, which reads it as unsigned.
        (decimal.Decimal(-1), ("decimal", (0, 2**32 - 1)), ("decimal", (0, 2**32 - 1))),
        (MOMENT, ("timestamp", SECONDS), ("timestamp", SECONDS)),
        ({"a": None}, ("table", {"a": Field("void", None)}), ("table", {"a": Field("void", None)})),
        (["x"], ("array", [Field("longstr", "x")]), ("array", [Field("longstr", "x")])),
    ],
)
def test_we_read_every_type_that_both_write(
    value: Any, from_pamqp: tuple[str, FieldValue], from_pika: tuple[str, FieldValue]
) -> None:
    assert pamqp_field(value) == from_pamqp
    assert pika_field(value) == from_pika


def test_we_read_the_types_that_only_one_of_them_writes() -> None:
    assert pamqp_field(2.5) == Field("float", 2.5)
    assert pamqp_field(bytearray(b"\xff")) == Field("binary", b"\xff")
    assert pika_field(b"\xff") == Field("binary", b"\xff")


# --- Properties.

STRINGS = {
    name: f"{name} é"
    for name in Properties._fields
    if name not in ("headers", "delivery_mode", "priority", "timestamp")
}
ALL_PROPERTIES: dict[str, Any] = {
    **STRINGS,
    "headers": TABLE,
    "delivery_mode": 2,
    "priority": 9,
    "timestamp": SECONDS,
}
SOME_PROPERTIES: list[dict[str, Any]] = [
    {},
    ALL_PROPERTIES,
    {name: value for name, value in ALL_PROPERTIES.items() if name != "cluster_id"},
    *({name: value} for name, value in ALL_PROPERTIES.items()),
    {"content_type": "text/plain", "delivery_mode": 2, "message_id": "1"},
]


def ours(values: dict[str, Any]) -> Properties:
    headers = {"headers": table_of(values["headers"])} if "headers" in values else {}
    return Properties(**{**values, **headers})


@pytest.mark.parametrize("values", SOME_PROPERTIES, ids=str)
def test_pika_and_we_write_the_same_properties(values: dict[str, Any]) -> None:
    data = encode_properties(ours(values))
    assert b"".join(pika.spec.BasicProperties(**values).encode()) == data
    assert pika.spec.BasicProperties().decode(data) == pika.spec.BasicProperties(**values)
    assert decode_properties(data, 0, len(data)) == ours(values)


@pytest.mark.parametrize(
    "values", [each for each in SOME_PROPERTIES if "cluster_id" not in each], ids=str
)
def test_pamqp_and_we_write_the_same_properties(values: dict[str, Any]) -> None:
    # It has another name for one, a datetime for another, and refuses to write a cluster_id.
    witness = pamqp.commands.Basic.Properties()
    for name, value in values.items():
        attribute = "message_type" if name == "type" else name
        setattr(witness, attribute, MOMENT if name == "timestamp" else value)
    data = encode_properties(ours(values))
    # Its header knows integers that ours does not choose: it must read them, not write the same.
    if "headers" not in values:
        assert witness.marshal() == data
    written = witness.marshal()
    read = decode_properties(written, 0, len(written))
    assert plain(read._asdict()) == plain(ours(values)._asdict())
    header = pamqp.header.ContentHeader()
    header.unmarshal(b"\x00\x3c" + b"\x00" * 10 + data)
    assert header.properties == witness
