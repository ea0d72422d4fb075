"""Methods on the wire: what is right round-trips, what is wrong is RabbitMQ's error.

The witnesses (pamqp, pika) are in test_witnesses.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames import methods
from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    TxSelectOk,
    decode_method,
    encode_method,
)
from leveret.amqp_frames.methods.wire_types import METHODS
from leveret.amqp_frames.values.field_table import Field, table_of

ALL_METHODS = sorted(METHODS.values(), key=lambda made: made.prefix)

SHORT_STRINGS = st.text(st.characters(codec="utf-8"), max_size=63)
FIELDS = st.one_of(
    st.builds(Field, st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Field, st.just("longstr"), st.text(st.characters(codec="utf-8"))),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "bit": st.booleans(),
    "shortstr": SHORT_STRINGS,
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(SHORT_STRINGS, FIELDS, max_size=3),
}


def any_of(made: type[Method]) -> st.SearchStrategy[Method]:
    hints = get_type_hints(made, include_extras=True)
    names = [each.name for each in dataclasses.fields(made)]  # type: ignore[arg-type]
    return st.builds(made, **{name: VALUES[get_args(hints[name])[1]] for name in names})


any_method = st.sampled_from(ALL_METHODS).flatmap(any_of)


def payload(method: Method) -> bytes:
    return encode_method(1, method)[7:-1]


def decode(data: bytes) -> Method:
    return decode_method(data, 0, len(data))


def error_of(data: bytes) -> HardError:
    with pytest.raises(HardError) as caught:
        decode(data)
    return caught.value


# --- What is right.


def test_every_method_is_there_under_the_name_of_the_specification() -> None:
    assert len(ALL_METHODS) == 66
    names = {made.name for made in ALL_METHODS}
    assert {"connection.update-secret-ok", "basic.get-empty", "queue.declare"} <= names
    for made in ALL_METHODS:
        assert getattr(methods, made.__name__) is made
        assert made.__name__ in methods.__all__
        assert made.prefix == made.class_id.to_bytes(2, "big") + made.method_id.to_bytes(2, "big")
        assert made.name == made().name


def test_only_the_four_methods_with_content_say_so() -> None:
    assert [made.name for made in ALL_METHODS if made.has_content] == [
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
    ]


def test_a_frame_is_type_channel_size_payload_and_end() -> None:
    frame = encode_method(0x0102, BasicAck(delivery_tag=5, multiple=True))
    assert frame == bytes.fromhex("01 0102 0000000d 003c 0050 0000000000000005 01 ce")


def test_bits_share_octets_and_the_lowest_comes_first() -> None:
    declare = QueueDeclare(queue="q", durable=True, no_wait=True)
    assert payload(declare) == bytes.fromhex("0032 000a 0000 01 71 12 00000000")
    assert payload(BasicNack(delivery_tag=1, requeue=True))[-1] == 0b10


@pytest.mark.parametrize("made", ALL_METHODS, ids=lambda made: made.name)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_every_method_round_trips(made: type[Method], data: st.DataObject) -> None:
    method = data.draw(any_of(made))
    assert decode(payload(method)) == method


@given(any_method, st.binary(max_size=20), st.binary(max_size=20))
def test_a_method_is_found_where_it_lies_in_a_longer_buffer(
    method: Method, before: bytes, after: bytes
) -> None:
    body = payload(method)
    data = before + body + after
    assert decode_method(data, len(before), len(before) + len(body)) == method


def test_methods_are_values_that_differ_by_class_and_cannot_be_changed() -> None:
    assert ConfirmSelectOk() == ConfirmSelectOk()
    assert ConfirmSelectOk() != TxSelectOk()
    with pytest.raises(dataclasses.FrozenInstanceError):
        QueueDeclare().queue = "q"  # type: ignore[misc]


def test_default_arguments_are_not_shared_between_methods() -> None:
    assert QueueDeclare().arguments is not QueueDeclare().arguments


def test_a_close_names_the_method_that_failed_apart_from_its_own_ids() -> None:
    close = ChannelClose(404, "NOT_FOUND - no queue", 50, 10)
    assert (close.class_id, close.method_id) == (20, 40)
    assert (close.failing_class_id, close.failing_method_id) == (50, 10)
    assert payload(close)[-4:] == bytes.fromhex("0032 000a")


def test_bits_that_nobody_has_named_are_ignored() -> None:
    assert decode(bytes.fromhex("0055 000a ff")) == ConfirmSelect(no_wait=True)
    assert decode(bytes.fromhex("0055 000a fe")) == ConfirmSelect(no_wait=False)


def test_long_strings_are_octets() -> None:
    method = ConnectionStartOk(response=b"\x00guest\x00\xff")
    assert decode(payload(method)) == method


# --- What is wrong.


@settings(max_examples=examples(1000))
@given(st.sampled_from(ALL_METHODS), st.binary(max_size=40), st.integers(0, 8))
def test_any_arguments_are_a_method_or_an_error_of_the_protocol(
    made: type[Method], arguments: bytes, behind: int
) -> None:
    data = made.prefix + arguments
    assert_method_or_error(data, max(len(data) - behind, 0))


@settings(max_examples=examples(500))
@given(any_method, st.data())
def test_any_damage_to_a_method_leaves_a_method_or_an_error_of_the_protocol(
    method: Method, draw: st.DataObject
) -> None:
    damaged = bytearray(payload(method))
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    assert_method_or_error(bytes(damaged), draw.draw(st.integers(0, len(damaged))))
    assert_method_or_error(bytes(damaged), len(damaged))


@given(st.binary(max_size=12))
def test_any_payload_is_a_method_or_an_error_of_the_protocol(data: bytes) -> None:
    assert_method_or_error(data, len(data))


def assert_method_or_error(data: bytes, end: int) -> None:
    try:
        method = decode_method(data, 0, end)
    except HardError as error:
        verdict = error.reply_code
    else:
        verdict = 0
        again = payload(method)
        assert payload(decode(again)) == again
    assert verdict in (0, 501, 502, 540)


@pytest.mark.parametrize("made", ALL_METHODS, ids=lambda made: made.name)
def test_arguments_that_end_early_or_late_cannot_be_decoded(made: type[Method]) -> None:
    body = payload(made())
    wrong = [body[:size] for size in range(4, len(body))] + [body + b"\x00", body + b"\x00" * 9]
    for data in wrong:
        error = error_of(data)
        assert error.reply_code == 501
        octets = ",".join(map(str, data[4:]))
        assert error.reply_text == f"FRAME_ERROR - cannot decode <<{octets}>>"
        assert (error.class_id, error.method_id) == (made.class_id, made.method_id)


@given(any_method, st.data())
def test_bytes_behind_the_payload_never_complete_a_method(
    method: Method, data: st.DataObject
) -> None:
    body = payload(method)
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(HardError) as caught:
        decode_method(body + b"\x00" * 8, 0, end)
    assert caught.value.reply_code == 501


def test_the_text_of_a_long_undecodable_payload_is_cut() -> None:
    error = error_of(bytes.fromhex("0055 000a") + b"\xff" * 4000)
    assert error.reply_text.startswith("FRAME_ERROR - cannot decode <<255,255,255,")
    assert error.reply_text.endswith("...")
    assert len(error.reply_text) == 255


@pytest.mark.parametrize(
    ("class_id", "method_id"), [(50, 12), (61, 10), (0, 0), (10, 42), (60, 200), (65535, 65535)]
)
def test_an_unknown_method_is_not_implemented(class_id: int, method_id: int) -> None:
    error = error_of(class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big") + b"anything")
    assert error.reply_code == 540
    assert error.reply_text == f"NOT_IMPLEMENTED - unknown method {class_id}, {method_id}"
    assert (error.class_id, error.method_id) == (class_id, method_id)


def test_a_payload_without_room_for_ids_is_an_unknown_frame() -> None:
    error = error_of(b"\x00\x32\x00")
    assert error.reply_text == "FRAME_ERROR - type 1, all octets = <<0,50,0>>: unknown_frame"
    assert (error.class_id, error.method_id) == (0, 0)


def test_ids_that_only_begin_inside_the_payload_are_not_a_method() -> None:
    with pytest.raises(HardError) as caught:
        decode_method(bytes.fromhex("0055 000b"), 0, 3)
    assert caught.value.reply_code == 501


def test_a_malformed_table_in_a_method_is_a_syntax_error() -> None:
    data = bytes.fromhex("0032 000a 0000 01 71 00 00000003 01 61 7a")
    error = error_of(data)
    assert error.reply_code == 502
    assert error.reply_text == "SYNTAX_ERROR - malformed field table: unknown field type 122"
    assert (error.class_id, error.method_id) == (50, 10)


def test_a_short_string_that_is_not_utf_8_is_a_frame_error_without_content() -> None:
    error = error_of(bytes.fromhex("003c 001e 02 61ff 00"))
    assert error.reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"
    assert (error.class_id, error.method_id) == (0, 0)


def test_the_short_strings_of_a_method_are_looked_at_before_its_table() -> None:
    error = error_of(bytes.fromhex("0032 000a 0000 01 ff 00 00000003 01 61 7a"))
    assert error.reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"


def test_a_short_string_that_is_not_utf_8_passes_a_method_with_content_unchanged() -> None:
    data = bytes.fromhex("003c 0028 0000 02 61ff 01 80 01")
    method = decode(data)
    assert isinstance(method, BasicPublish)
    assert method.exchange == "a\udcff"
    assert payload(method) == data


@pytest.mark.parametrize(
    "method",
    [
        BasicCancel(consumer_tag="x" * 256),
        BasicCancel(consumer_tag="é" * 128),
        ConnectionTuneOk(channel_max=65536),
        ConnectionTuneOk(channel_max=-1),
        BasicAck(delivery_tag=2**64),
        QueueDeclareOk(message_count=2**32),
        QueueDeclare(arguments={"x": Field("signedint", 2**31)}),
        QueueDeclare(arguments={"x": Field("nonsense", 0)}),
    ],
)
def test_what_does_not_fit_the_wire_is_our_fault(method: Method) -> None:
    with pytest.raises(ValueError):
        encode_method(1, method)


def test_plain_values_get_a_type_in_arguments() -> None:
    arguments = table_of({"x-max-length": 10, "x-queue-type": "classic"})
    method = decode(payload(QueueDeclare(arguments=arguments)))
    assert isinstance(method, QueueDeclare)
    assert method.arguments["x-max-length"] == Field("signedint", 10)
    assert method.arguments["x-queue-type"] == Field("longstr", "classic")
