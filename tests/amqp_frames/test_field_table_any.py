"""Field tables of any content, and any octets: values or a syntax error, checking agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.values.field_table import (
    Field,
    Table,
    check_table,
    decode_table,
    encode_table,
)


def table_bytes(fields: bytes) -> bytes:
    return len(fields).to_bytes(4, "big") + fields


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = {
    "byte": (-(2**7), 2**7 - 1),
    "unsignedbyte": (0, 2**8 - 1),
    "short": (-(2**15), 2**15 - 1),
    "unsignedshort": (0, 2**16 - 1),
    "signedint": (-(2**31), 2**31 - 1),
    "unsignedint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1),
    "timestamp": (0, 2**64 - 1),
}
SIMPLE = st.one_of(
    st.builds(Field, st.just("longstr"), TEXT),
    st.builds(Field, st.just("binary"), st.binary(max_size=20)),
    st.builds(Field, st.just("bool"), st.booleans()),
    st.builds(Field, st.just("void"), st.none()),
    st.builds(Field, st.just("double"), st.floats(allow_nan=False)),
    st.builds(Field, st.just("float"), st.floats(width=32, allow_nan=False)),
    st.builds(Field, st.just("decimal"), st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1))),
    *(st.builds(Field, st.just(kind), st.integers(*limits)) for kind, limits in NUMBERS.items()),
)
FIELDS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(Field, st.just("array"), st.lists(inner, max_size=4)),
        st.builds(Field, st.just("table"), st.dictionaries(TEXT, inner, max_size=4)),
    ),
    max_leaves=12,
)
TABLES = st.dictionaries(TEXT, FIELDS, max_size=6)
# Octets that are likely to begin a field.
NEARLY_FIELDS = st.lists(
    st.one_of(
        st.sampled_from([bytes((tag,)) for tag in b"tbBsuIilLfdDTSxVFA"]),
        st.sampled_from([b"\x01n", b"\x00", b"\x00\x00\x00\x00", b"\x00\x00\x00\x05"]),
        st.binary(max_size=8),
    ),
    max_size=20,
).map(b"".join)


def outcome(function: Callable[[bytes, int, int], Table | None], data: bytes, end: int) -> Any:
    """The result of decoding or checking data[:end]: its value, or the error's code and text."""
    try:
        return function(data, 0, end)
    except HardError as error:
        return error.reply_code, error.reply_text


def verdict(data: bytes, end: int) -> Table | None:
    """The table, or None when both decoding and checking say that it is a syntax error."""
    decoded = outcome(decode_table, data, end)
    checked = outcome(check_table, data, end)
    if isinstance(decoded, dict):
        assert checked is None
        return decoded
    assert decoded == checked
    assert decoded[0] == 502
    return None


@given(TABLES)
def test_any_table_round_trips(table: Table) -> None:
    data = encode_table(table)
    assert decode_table(data, 0, len(data)) == table
    check_table(data, 0, len(data))


@settings(max_examples=examples(500))
@given(NEARLY_FIELDS, st.binary(max_size=8))
def test_any_octets_are_a_table_or_a_syntax_error(fields: bytes, behind: bytes) -> None:
    data = table_bytes(fields)
    table = verdict(data + behind, len(data))
    if table is not None:
        again = encode_table(table)
        assert encode_table(decode_table(again, 0, len(again))) == again


def check_damaged(data: bytes, draw: st.DataObject) -> None:
    """A changed table is a table or a syntax error, whole or cut short."""
    damaged = bytearray(data[4:])
    for _ in range(draw.draw(st.integers(1, 3))):
        if damaged:
            place = draw.draw(st.integers(0, len(damaged) - 1))
            damaged[place] = draw.draw(st.integers(0, 255))
    cut = damaged[: draw.draw(st.integers(0, len(damaged)))]
    for octets in (bytes(damaged), bytes(cut)):
        whole = table_bytes(octets)
        verdict(whole, len(whole))


@settings(max_examples=examples(150))
@given(TABLES.map(encode_table), st.data())
def test_any_damage_to_a_table_leaves_a_table_or_a_syntax_error(
    data: bytes, draw: st.DataObject
) -> None:
    check_damaged(data, draw)


@pytest.mark.soak
@settings(max_examples=examples(2000))
@given(TABLES.map(encode_table), st.data())
def test_much_more_damage_to_a_table_leaves_a_table_or_a_syntax_error(
    data: bytes, draw: st.DataObject
) -> None:
    check_damaged(data, draw)
