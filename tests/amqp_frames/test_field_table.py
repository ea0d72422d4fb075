"""Field tables: every type both ways, a malformed one is a syntax error, checking agrees.

Arbitrary tables and octets are in test_field_table_any.py.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.values.field_table import (
    NESTING_DEPTH_MAX,
    Field,
    Plain,
    Table,
    check_table,
    decode_fields,
    decode_table,
    encode_table,
    field_of,
    table_of,
)

# What RabbitMQ writes for each of its types, under the name "n".
EVERY_TYPE = [
    ("53 00000003 c3a978", Field("longstr", "éx")),
    ("53 00000002 61ff", Field("longstr", b"a\xff")),
    ("53 00000000", Field("longstr", "")),
    ("49 ffffffff", Field("signedint", -1)),
    ("49 7fffffff", Field("signedint", 2**31 - 1)),
    ("44 02 00000400", Field("decimal", (2, 1024))),
    ("44 ff ffffffff", Field("decimal", (255, 2**32 - 1))),
    ("54 0000000065000000", Field("timestamp", 0x65000000)),
    ("54 ffffffffffffffff", Field("timestamp", 2**64 - 1)),
    ("46 00000004 01 61 62 07", Field("table", {"a": Field("byte", 7)})),
    ("46 00000000", Field("table", {})),
    ("62 80", Field("byte", -128)),
    ("64 3ff8000000000000", Field("double", 1.5)),
    ("64 7ff0000000000000", Field("double", math.inf)),
    ("66 c0200000", Field("float", -2.5)),
    ("6c 8000000000000000", Field("long", -(2**63))),
    ("73 ff7f", Field("short", -129)),
    ("74 00", Field("bool", False)),
    ("74 01", Field("bool", True)),
    ("78 00000002 00ff", Field("binary", b"\x00\xff")),
    ("56", Field("void", None)),
    ("41 00000003 56 7401", Field("array", [Field("void", None), Field("bool", True)])),
    ("41 00000000", Field("array", [])),
    ("42 ff", Field("unsignedbyte", 255)),
    ("75 ffff", Field("unsignedshort", 65535)),
    ("69 ffffffff", Field("unsignedint", 2**32 - 1)),
]
KINDS = {
    *("longstr", "signedint", "decimal", "timestamp", "table", "byte", "double", "float", "long"),
    *("short", "bool", "void", "binary", "array", "unsignedbyte", "unsignedshort", "unsignedint"),
}


def table_bytes(fields: bytes) -> bytes:
    return len(fields).to_bytes(4, "big") + fields


def named(value: str) -> bytes:
    return table_bytes(b"\x01n" + bytes.fromhex(value))


def decode(data: bytes) -> Table:
    return decode_table(data, 0, len(data))


def error_text(data: bytes) -> str:
    """The text of the one error that decoding and checking agree on."""
    texts = []
    for function in (decode_table, check_table):
        with pytest.raises(HardError) as caught:
            function(data, 0, len(data))
        assert caught.value.reply_code == 502
        texts.append(caught.value.reply_text.removeprefix("SYNTAX_ERROR - malformed field table: "))
    assert texts[0] == texts[1]
    return texts[0]


# --- Every type.


@pytest.mark.parametrize(("value", "field"), EVERY_TYPE)
def test_every_type_is_read_and_written_as_rabbitmq_does(value: str, field: Field) -> None:
    data = named(value)
    assert decode(data) == {"n": field}
    assert encode_table({"n": field}) == data
    check_table(data, 0, len(data))


def test_every_kind_that_rabbitmq_knows_is_covered() -> None:
    assert {field.kind for _, field in EVERY_TYPE} == KINDS


@pytest.mark.parametrize(("value", "field"), EVERY_TYPE)
def test_every_type_is_read_inside_an_array_too(value: str, field: Field) -> None:
    item = bytes.fromhex(value)
    data = table_bytes(b"\x01nA" + table_bytes(item + item))
    assert decode(data) == {"n": Field("array", [field, field])}
    check_table(data, 0, len(data))


@pytest.mark.parametrize(("value", "field"), EVERY_TYPE)
def test_a_value_cut_anywhere_or_followed_by_a_stray_octet_is_an_error(
    value: str, field: Field
) -> None:
    whole = named(value)[4:]
    for size in range(1, len(whole)):
        assert error_text(table_bytes(whole[:size])) == "it ends inside a field"
    error_text(table_bytes(whole + b"\x01"))
    # The octets that are missing from the table stand right behind it.
    for size in range(1, len(whole)):
        data = table_bytes(whole[:size])
        for function in (decode_table, check_table):
            with pytest.raises(HardError):
                function(data + whole[size:], 0, len(data))


@pytest.mark.parametrize(("value", "field"), EVERY_TYPE)
def test_a_table_is_found_where_it_lies_in_a_longer_buffer(value: str, field: Field) -> None:
    data = named(value)
    assert decode_table(b"before" + data + b"after", 6, 6 + len(data)) == {"n": field}
    check_table(b"before" + data + b"after", 6, 6 + len(data))


def test_a_capital_l_is_a_signed_long_and_is_written_small() -> None:
    table = decode(named("4c ffffffffffffffff"))
    assert table == {"n": Field("long", -1)}
    assert encode_table(table) == named("6c ffffffffffffffff")


def test_any_octet_but_zero_is_true() -> None:
    assert decode(named("74 ff")) == {"n": Field("bool", True)}


def test_nan_is_a_value() -> None:
    field = decode(named("64 7ff8000000000000"))["n"]
    assert field.kind == "double"
    assert isinstance(field.value, float)
    assert math.isnan(field.value)


def test_a_name_that_comes_twice_has_its_first_value() -> None:
    assert decode(table_bytes(b"\x01nt\x01\x01nt\x00")) == {"n": Field("bool", True)}


def test_a_name_that_is_not_utf_8_is_kept() -> None:
    data = table_bytes(b"\x02a\xffV")
    assert encode_table(decode(data)) == data


def test_the_empty_name_is_a_name() -> None:
    assert decode(table_bytes(b"\x00V")) == {"": Field("void", None)}


def test_fields_without_a_length_are_an_amqplain_response() -> None:
    response = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
    assert decode_fields(response, 0, len(response)) == table_of(
        {"LOGIN": "guest", "PASSWORD": "guest"}
    )


# --- Plain values.


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("text", Field("longstr", "text")),
        (b"octets", Field("binary", b"octets")),
        (True, Field("bool", True)),
        (0, Field("signedint", 0)),
        (2**31 - 1, Field("signedint", 2**31 - 1)),
        (-(2**31), Field("signedint", -(2**31))),
        (2**31, Field("long", 2**31)),
        (-(2**31) - 1, Field("long", -(2**31) - 1)),
        (2**63 - 1, Field("long", 2**63 - 1)),
        (1.5, Field("double", 1.5)),
        (None, Field("void", None)),
        (Field("byte", 1), Field("byte", 1)),
        ({"a": 1}, Field("table", {"a": Field("signedint", 1)})),
        ([1, "x"], Field("array", [Field("signedint", 1), Field("longstr", "x")])),
        ((), Field("array", [])),
    ],
)
def test_a_plain_value_gets_the_type_that_rabbitmqs_clients_give_it(
    value: Plain, field: Field
) -> None:
    assert field_of(value) == field
    assert encode_table({"n": value}) == encode_table({"n": field})


def test_plain_values_may_stand_inside_typed_ones() -> None:
    mixed: Any = Field("table", {"a": [1, {"b": None}]})
    assert decode(encode_table({"n": mixed})) == table_of({"n": {"a": [1, {"b": None}]}})


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        object(),
        {1},
        Field("byte", 128),
        Field("unsignedbyte", -1),
        Field("unsignedshort", 65536),
        Field("signedint", 2**31),
        Field("unsignedint", 2**32),
        Field("long", 2**63),
        Field("timestamp", -1),
        Field("timestamp", "now"),
        Field("decimal", (256, 0)),
        Field("decimal", (0, 2**32)),
        Field("decimal", 5),
        Field("float", 1e300),
        Field("double", "x"),
        Field("longstr", 5),
        Field("binary", "text"),
        Field("table", 5),
        Field("array", 5),
        Field("int", 5),
    ],
)
def test_a_value_that_does_not_fit_is_our_fault(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_table({"n": value})


def test_a_name_longer_than_a_short_string_is_our_fault() -> None:
    assert decode(encode_table({"n" * 255: None})) == {"n" * 255: Field("void", None)}
    with pytest.raises(ValueError):
        encode_table({"n" * 256: None})


# --- Malformed ones.


def test_a_length_that_is_not_that_of_the_octets_given_is_an_error() -> None:
    for data in (b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x00V"):
        assert error_text(data) == "its length is wrong"
    assert error_text(b"\xff\xff\xff\xff") == "its length is wrong"


def test_every_octet_that_is_no_tag_is_an_unknown_type() -> None:
    tags = set(b"tbBsuIilLfdDTSxVFA")
    for tag in set(range(256)) - tags:
        data = table_bytes(b"\x01n" + bytes((tag,)) + b"\x00" * 8)
        assert error_text(data) == f"unknown field type {tag}"


@pytest.mark.parametrize("tag", ["53", "78", "46", "41"])
@pytest.mark.parametrize("length", ["00000001", "00001000", "7fffffff", "ffffffff"])
def test_an_inner_length_that_reaches_beyond_the_table_is_an_error(tag: str, length: str) -> None:
    assert error_text(named(tag + length)) == "it ends inside a field"


def nested(levels: int, tag: bytes) -> bytes:
    """A table with `levels` levels, itself the first."""
    data = b""
    for _ in range(levels - 1):
        data = (b"\x01n" if tag == b"F" else b"") + tag + table_bytes(data)
    return table_bytes(data if tag == b"F" or levels == 1 else b"\x01n" + data)


@pytest.mark.parametrize("tag", [b"F", b"A"])
def test_tables_and_arrays_nest_to_the_limit_and_not_beyond(tag: bytes) -> None:
    deep = nested(NESTING_DEPTH_MAX, tag)
    assert encode_table(decode(deep)) == deep
    check_table(deep, 0, len(deep))
    too_deep = f"nested deeper than {NESTING_DEPTH_MAX} levels"
    assert error_text(nested(NESTING_DEPTH_MAX + 1, tag)) == too_deep
    assert error_text(nested(5_000, tag)) == too_deep


def test_a_table_nested_beyond_the_limit_cannot_be_encoded_either() -> None:
    value: Plain = None
    for _ in range(NESTING_DEPTH_MAX):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper"):
        encode_table({"n": value})
