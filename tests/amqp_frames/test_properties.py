"""Basic properties: any subset round-trips, checking agrees with decoding on every octet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames import properties as module
from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.properties import (
    FLAG_EXPIRATION,
    PERSISTENT,
    TRANSIENT,
    Properties,
    check_properties,
    decode_properties,
    encode_properties,
)
from leveret.amqp_frames.values.field_table import NESTING_DEPTH_MAX, Field, table_of

# A value for each property and its octets, in the order of the flags.
EVERY_PROPERTY: list[tuple[str, Any, str]] = [
    ("content_type", "a/b", "03 612f62"),
    ("content_encoding", "", "00"),
    ("headers", {"k": Field("bool", True)}, "00000004 01 6b 7401"),
    ("delivery_mode", 2, "02"),
    ("priority", 255, "ff"),
    ("correlation_id", "é", "02 c3a9"),
    ("reply_to", "q", "01 71"),
    ("expiration", "60000", "05 3630303030"),
    ("message_id", "m", "01 6d"),
    ("timestamp", 2**64 - 1, "ffffffffffffffff"),
    ("type", "t", "01 74"),
    ("user_id", "guest", "05 6775657374"),
    ("app_id", "a" * 255, "ff" + "61" * 255),
    ("cluster_id", "", "00"),
]


def wire(flags: int, values: str = "") -> bytes:
    return flags.to_bytes(2, "big") + bytes.fromhex(values)


def outcome(function: Callable[[bytes, int, int], Any], data: bytes, end: int) -> Any:
    """The result of decoding or checking data[:end]: its value, or the error's code and ids."""
    try:
        return function(data, 0, end)
    except HardError as error:
        return error.reply_code, error.class_id


def verdict(data: bytes, end: int) -> Properties | None:
    """The properties, or None when both decoding and checking say that they are malformed."""
    decoded = outcome(decode_properties, data, end)
    checked = outcome(check_properties, data, end)
    if isinstance(decoded, Properties):
        assert checked == (decoded.delivery_mode or 0)
        return decoded
    assert decoded == checked
    assert decoded[0] == 502
    return None


# --- What is right.


@pytest.mark.parametrize(("name", "value", "octets"), EVERY_PROPERTY)
def test_every_property_alone_is_its_flag_and_its_value(name: str, value: Any, octets: str) -> None:
    flag = getattr(module, f"FLAG_{name.upper()}")
    data = wire(flag, octets)
    properties = Properties(**{name: value})
    assert encode_properties(properties) == data
    assert verdict(data, len(data)) == properties


def test_all_properties_together_follow_in_the_order_of_their_flags() -> None:
    data = wire(0xFFFC, "".join(octets for _, _, octets in EVERY_PROPERTY))
    properties = Properties(*[value for _, value, _ in EVERY_PROPERTY])
    assert Properties._fields == tuple(name for name, _, _ in EVERY_PROPERTY)
    assert encode_properties(properties) == data
    assert verdict(data, len(data)) == properties


def test_no_properties_are_two_octets() -> None:
    assert encode_properties(Properties()) == b"\x00\x00"
    assert verdict(b"\x00\x00", 2) == Properties()


def test_a_flag_test_tells_whether_a_property_is_there() -> None:
    data = encode_properties(Properties(expiration="5", message_id="m"))
    assert int.from_bytes(data[:2], "big") & FLAG_EXPIRATION
    assert not int.from_bytes(encode_properties(Properties())[:2], "big") & FLAG_EXPIRATION


def test_checking_tells_the_delivery_mode_and_zero_when_there_is_none() -> None:
    for mode in (TRANSIENT, PERSISTENT, 0, 255):
        data = encode_properties(Properties(content_type="x", delivery_mode=mode, type="y"))
        assert check_properties(data, 0, len(data)) == mode
    assert check_properties(wire(0x8000, "01 02"), 0, 4) == 0


def test_properties_are_found_where_they_lie_in_a_longer_buffer() -> None:
    properties = Properties(headers=table_of({"a": 1}), delivery_mode=2, message_id="m")
    data = b"before" + encode_properties(properties) + b"after"
    assert decode_properties(data, 6, len(data) - 5) == properties
    assert check_properties(data, 6, len(data) - 5) == 2


def test_the_two_low_flags_mean_nothing() -> None:
    for low in (1, 2, 3):
        assert verdict(wire(0x1000 | low, "02"), 3) == Properties(delivery_mode=2)


def test_a_string_that_is_not_utf_8_passes_unchanged() -> None:
    data = wire(0x8000, "02 61ff")
    properties = verdict(data, len(data))
    assert properties == Properties(content_type="a\udcff")
    assert encode_properties(properties) == data


# --- What is wrong.


def test_properties_cut_anywhere_are_a_syntax_error() -> None:
    data = wire(0xFFFC, "".join(octets for _, _, octets in EVERY_PROPERTY))
    for size in range(len(data)):
        assert verdict(data[:size], size) is None
        # The missing octets stand right behind the end.
        assert verdict(data, size) is None


def test_a_stray_octet_after_the_last_value_is_a_syntax_error() -> None:
    assert verdict(b"\x00\x00\x00", 3) is None
    assert verdict(wire(0x1000, "02 00"), 4) is None


def test_the_error_names_the_publish() -> None:
    with pytest.raises(HardError) as caught:
        check_properties(b"\x80", 0, 1)
    error = caught.value
    assert error.reply_text == "SYNTAX_ERROR - malformed basic properties"
    assert (error.reply_code, error.class_id, error.method_id) == (502, 60, 40)


@pytest.mark.parametrize(
    "headers",
    [
        "00000005 01 6b 7401",
        "ffffffff 01 6b 7401",
        "00000003 01 6b 7401",
        "00000004 01 6b 7a01",
        "00000004 02 6b 7401",
    ],
)
def test_malformed_headers_are_a_syntax_error(headers: str) -> None:
    data = wire(0x2000, headers)
    assert verdict(data, len(data)) is None
    assert verdict(data + b"\x00" * 300, len(data)) is None


def test_headers_nested_beyond_the_limit_are_a_syntax_error() -> None:
    table = b""
    for _ in range(NESTING_DEPTH_MAX + 1):
        table = b"A" + len(table).to_bytes(4, "big") + table
    headers = b"\x01n" + table
    data = wire(0x2000) + len(headers).to_bytes(4, "big") + headers
    assert verdict(data, len(data)) is None


@pytest.mark.parametrize(
    "properties",
    [
        Properties(content_type="x" * 256),
        Properties(delivery_mode=256),
        Properties(priority=-1),
        Properties(timestamp=2**64),
        Properties(headers={"n": Field("signedint", 2**31)}),
    ],
)
def test_what_does_not_fit_is_our_fault(properties: Properties) -> None:
    with pytest.raises(ValueError):
        encode_properties(properties)


# --- Any properties, any octets.

TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=60)
OCTET = st.none() | st.integers(0, 255)
HEADERS = st.none() | st.dictionaries(
    st.text(max_size=5, alphabet="abcé"),
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.text("xyzß"), st.none()),
    max_size=4,
).map(table_of)
PROPERTIES = st.builds(
    Properties,
    headers=HEADERS,
    delivery_mode=OCTET,
    priority=OCTET,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    **{
        name: TEXT
        for name in Properties._fields
        if name not in ("headers", "delivery_mode", "priority", "timestamp")
    },
)


@given(PROPERTIES)
def test_any_properties_round_trip(properties: Properties) -> None:
    data = encode_properties(properties)
    assert verdict(data, len(data)) == properties


@settings(max_examples=examples(500))
@given(st.integers(0, 0xFFFF), st.binary(max_size=60), st.integers(0, 8))
def test_any_octets_are_properties_or_a_syntax_error(
    flags: int, values: bytes, behind: int
) -> None:
    data = flags.to_bytes(2, "big") + values
    verdict(data, max(len(data) - behind, 0))


@settings(max_examples=examples(500))
@given(PROPERTIES.map(encode_properties), st.data())
def test_any_damage_leaves_properties_or_a_syntax_error(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.integers(0, len(data)))
    for octets, last in ((bytes(damaged), len(data)), (bytes(damaged), end), (data[:end], end)):
        properties = verdict(octets, last)
        if properties is not None:
            again = encode_properties(properties)
            assert encode_properties(decode_properties(again, 0, len(again))) == again
