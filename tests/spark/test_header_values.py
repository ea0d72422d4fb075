"""Headers keep their types on the way through Spark's map of texts: see header_values.py."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames.values.field_table import Field, Table, encode_table
from leveret.spark.header_values import field_from, texts, types


def through_spark(headers: Table) -> Table:
    """Write a row that was read."""
    kinds = dict(types(headers))
    return {name: field_from(text, kinds.get(name)) for name, text in texts(headers)}


@pytest.mark.parametrize(
    ("field", "text", "kind"),
    [
        (Field("longstr", "text"), "text", None),
        (Field("longstr", "5"), "5", None),
        (Field("longstr", b"\xff"), '{"base64": "/w=="}', "longstr/base64"),
        (Field("binary", b"\x00"), '{"base64": "AA=="}', "binary"),
        (Field("byte", -5), "-5", "byte"),
        (Field("unsignedbyte", 255), "255", "unsignedbyte"),
        (Field("short", -5), "-5", "short"),
        (Field("unsignedshort", 5), "5", "unsignedshort"),
        (Field("signedint", 5), "5", "signedint"),
        (Field("unsignedint", 1 << 31), "2147483648", "unsignedint"),
        (Field("long", 5), "5", "long"),
        (Field("float", 2.5), "2.5", "float"),
        (Field("double", 0.1), "0.1", "double"),
        (Field("double", math.inf), "Infinity", "double"),
        (Field("bool", True), "true", "bool"),
        (Field("void", None), "null", "void"),
        (Field("decimal", (2, 150)), '"1.50"', "decimal"),
        (Field("decimal", (0, 0)), '"0"', "decimal"),
        (Field("timestamp", 1_704_153_600), '"2024-01-02T00:00:00+00:00"', "timestamp"),
        (Field("timestamp", 1_700_000_000_000), "1700000000000", "timestamp"),
        (Field("timestamp", (1 << 64) - 1), "18446744073709551615", "timestamp"),
        (
            Field("array", [Field("byte", 1), Field("longstr", "a"), Field("array", [])]),
            '[1, "a", []]',
            '["byte", "longstr", []]',
        ),
        (
            Field("table", {"ä": Field("float", 1.0), "text": Field("longstr", "x")}),
            '{"ä": 1.0, "text": "x"}',
            '{"ä": "float"}',
        ),
    ],
)
def test_a_field_is_a_text_and_a_type_and_the_same_field_again(
    field: Field, text: str, kind: str | None
) -> None:
    headers = {"h": field}
    assert (texts(headers), types(headers)) == ([("h", text)], [("h", kind)] if kind else [])
    assert through_spark(headers) == headers


NUMBERS: list[Any] = [
    st.builds(Field, st.just(kind), st.integers(low, high))
    for kind, low, high in (
        ("byte", -128, 127),
        ("unsignedbyte", 0, 255),
        ("short", -(1 << 15), (1 << 15) - 1),
        ("unsignedshort", 0, (1 << 16) - 1),
        ("signedint", -(1 << 31), (1 << 31) - 1),
        ("unsignedint", 0, (1 << 32) - 1),
        ("long", -(1 << 63), (1 << 63) - 1),
        ("timestamp", 0, (1 << 64) - 1),
    )
]
SCALARS = st.one_of(
    *NUMBERS,
    st.builds(Field, st.just("longstr"), st.text(st.characters(codec="utf-8"))),
    st.builds(Field, st.just("longstr"), st.binary().filter(lambda octets: not is_text(octets))),
    st.builds(Field, st.just("binary"), st.binary()),
    st.builds(Field, st.just("bool"), st.booleans()),
    st.builds(Field, st.just("double"), st.floats(allow_nan=False)),
    st.builds(Field, st.just("float"), st.floats(width=32, allow_nan=False)),
    st.builds(Field, st.just("decimal"), st.tuples(st.integers(0, 255), st.integers(0, 1 << 31))),
    st.just(Field("void", None)),
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
FIELDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(Field, st.just("table"), st.dictionaries(NAMES, inner, max_size=4)),
        st.builds(Field, st.just("array"), st.lists(inner, max_size=4)),
    ),
    max_leaves=10,
)


def is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


# A busy machine may take its time.
@settings(deadline=None)
@given(st.dictionaries(NAMES, FIELDS, max_size=4))
def test_whatever_was_read_is_written_octet_for_octet(headers: Table) -> None:
    again = through_spark(headers)
    assert again == headers
    assert encode_table(again) == encode_table(headers)


@pytest.mark.parametrize(
    ("text", "kind", "field"),
    [
        ("5", None, Field("longstr", "5")),
        (None, "long", Field("void", None)),
        (b"\x00", None, Field("binary", b"\x00")),
        ("5", "longstr", Field("longstr", "5")),
        ("7", "double", Field("double", 7)),
        # What was put into a table, or taken out of an array, since it was read.
        ('{"a": 1, "b": "x"}', '{"a": "byte", "gone": "byte"}', None),
        ("[1]", '["byte", "byte"]', Field("array", [Field("byte", 1)])),
        ("[1, 2]", '["byte"]', Field("array", [Field("byte", 1), Field("signedint", 2)])),
    ],
)
def test_what_a_job_has_changed_is_written_as_it_is_now(
    text: str | bytes | None, kind: str | None, field: Field | None
) -> None:
    expected = field or Field("table", {"a": Field("byte", 1), "b": Field("longstr", "x")})
    assert field_from(text, kind) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("secret", "long"),
        ("300", "unsignedbyte"),
        ("-1", "timestamp"),
        ("1.5", "long"),
        ("true", "long"),
        ("1", "bool"),
        ('"secret"', "timestamp"),
        ('"-1"', "decimal"),
        ('"secret"', "decimal"),
        ('{"base64": "*"}', "binary"),
        ('["secret"]', "binary"),
        ('"secret"', '{"a": "long"}'),
        ('"secret"', '["long"]'),
        ("5", "no such type"),
        ("5", "[not json"),
        ("[" * 100_000, "[]"),
    ],
)
def test_a_text_that_is_not_of_its_type_is_refused_without_being_shown(
    text: str, kind: str
) -> None:
    with pytest.raises(ValueError, match=r"\Ais not of its type\Z"):
        field_from(text, kind)


def test_types_are_json() -> None:
    nested = Field("array", [Field("table", {"count": Field("long", 1)})])
    [(_name, kind)] = types({"x-death": nested})
    assert json.loads(kind) == [{"count": "long"}]
