"""Outside witnesses: what pamqp and pika write we read, what we write they read.

pamqp 4 and pika know every method that we know, except that pamqp has no class access. Field
types and properties are in test_witnesses_values.py.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

import pamqp.commands
import pamqp.frame
import pamqp.header
import pamqp.heartbeat
import pika.frame
import pika.spec
import pytest
from leveret.amqp_frames.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    BasicAck,
    ChannelClose,
    ConnectionUpdateSecret,
    Method,
    decode_method,
    encode_method,
)
from leveret.amqp_frames.methods.wire_types import METHODS
from leveret.amqp_frames.values.field_table import table_of
from plain_values import plain

pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated")

ALL_METHODS = sorted(METHODS.values(), key=lambda made: made.prefix)
CHANNEL = 258

TABLE = {"text": "né", "number": 100_000, "yes": True, "inner": {"list": [None, 70_000, "x"]}}
# Two values for each wire type: the smallest, and one that uses the whole width. pamqp takes a
# longlong as signed.
SAMPLES: dict[str, tuple[Any, Any]] = {
    "octet": (0, 255),
    "short": (0, 65535),
    "long": (0, 2**32 - 1),
    "longlong": (0, 2**63 - 1),
    "bit": (False, True),
    "shortstr": ("", "clé " + "x" * 200),
    "longstr": (b"", "lång".encode() + b"x" * 2000),
    "table": ({}, TABLE),
}


def fields_of(made: type[Method]) -> list[tuple[str, str]]:
    """Names and wire types of a method's fields."""
    hints = get_type_hints(made, include_extras=True)
    return [
        (each.name, get_args(hints[each.name])[1])
        for each in dataclasses.fields(made)  # type: ignore[arg-type]
    ]


def sample(made: type[Method], number: int) -> Method:
    """A method with the first or second sample everywhere, or (2, 3) with alternating ones."""
    values: dict[str, Any] = {}
    for place, (name, wire) in enumerate(fields_of(made)):
        if name.startswith("reserved"):
            continue
        value = SAMPLES[wire][(place + number) % 2 if number > 1 else number]
        if name in ("queue", "exchange", "destination", "source", "virtual_host") and value:
            value = "a-name.of_it"
        values[name] = table_of(value) if wire == "table" else value
    return made(**values)


def values_of(method: Method) -> list[Any]:
    return [plain(getattr(method, name)) for name, _ in fields_of(type(method))]


def payload_decoded(frame: bytes) -> Method:
    return decode_method(frame, 7, len(frame) - 1)


def pamqp_class(made: type[Method]) -> Any:
    return pamqp.commands.INDEX_MAPPING.get(int.from_bytes(made.prefix, "big"))


each_method = pytest.mark.parametrize("made", ALL_METHODS, ids=lambda made: made.name)
each_method_of_pamqp = pytest.mark.parametrize(
    "made",
    [made for made in ALL_METHODS if pamqp_class(made) is not None],
    ids=lambda made: made.name,
)
each_sample = pytest.mark.parametrize("number", range(4))


# --- pamqp.


def test_pamqp_knows_the_same_methods_but_for_class_access() -> None:
    unknown = [made.name for made in ALL_METHODS if pamqp_class(made) is None]
    assert unknown == ["access.request", "access.request-ok"]
    assert len(pamqp.commands.INDEX_MAPPING) == len(ALL_METHODS) - 2


@each_method_of_pamqp
@each_sample
def test_pamqp_reads_what_we_write(made: type[Method], number: int) -> None:
    method = sample(made, number)
    frame = encode_method(CHANNEL, method)
    size, channel, read = pamqp.frame.unmarshal(frame)
    assert (size, channel) == (len(frame), CHANNEL)
    assert type(read) is pamqp_class(made)
    assert [value for _, value in read] == values_of(method)


@each_method_of_pamqp
@each_sample
def test_we_read_what_pamqp_writes(made: type[Method], number: int) -> None:
    witness = pamqp_class(made)()
    method = sample(made, number)
    for attribute, (name, _) in zip(witness.attributes(), fields_of(made), strict=True):
        if not name.startswith("reserved"):
            setattr(witness, attribute, plain(getattr(method, name)))
    frame = pamqp.frame.marshal(witness, CHANNEL)
    read = payload_decoded(frame)
    assert type(read) is made
    assert values_of(read) == [value for _, value in witness]


def test_pamqp_writes_the_same_heartbeat_and_protocol_header() -> None:
    assert pamqp.heartbeat.Heartbeat().marshal() == HEARTBEAT_FRAME
    assert pamqp.header.ProtocolHeader().marshal() == PROTOCOL_HEADER


# --- pika.


def pika_class(made: type[Method]) -> Any:
    return pika.spec.methods[int.from_bytes(made.prefix, "big")]


def pika_names(made: type[Method]) -> list[str]:
    return list(inspect.signature(pika_class(made).__init__).parameters)[1:]


def test_pika_knows_the_same_methods() -> None:
    assert set(pika.spec.methods) == {int.from_bytes(prefix, "big") for prefix in METHODS}
    for made in ALL_METHODS:
        assert made.has_content == pika.spec.has_content(int.from_bytes(made.prefix, "big"))


# A client never receives update-secret, and pika cannot read it.
@pytest.mark.parametrize(
    "made",
    [made for made in ALL_METHODS if made is not ConnectionUpdateSecret],
    ids=lambda made: made.name,
)
@each_sample
def test_pika_reads_what_we_write(made: type[Method], number: int) -> None:
    method = sample(made, number)
    frame = encode_method(CHANNEL, method)
    size, read = pika.frame.decode_frame(frame)
    assert (size, read.channel_number) == (len(frame), CHANNEL)
    assert type(read.method) is pika_class(made)
    assert [plain(getattr(read.method, name)) for name in pika_names(made)] == values_of(method)


@each_method
@each_sample
def test_we_write_and_read_what_pika_writes(made: type[Method], number: int) -> None:
    method = sample(made, number)
    witness = pika_class(made)(*values_of(method))
    frame = pika.frame.Method(CHANNEL, witness).marshal()
    assert payload_decoded(frame) == method
    assert encode_method(CHANNEL, method) == frame


def test_pika_writes_the_same_heartbeat_and_protocol_header() -> None:
    assert pika.frame.Heartbeat().marshal() == HEARTBEAT_FRAME
    assert pika.frame.ProtocolHeader(0, 9, 1).marshal() == PROTOCOL_HEADER


def test_a_reply_text_of_255_octets_reaches_both() -> None:
    frame = encode_method(1, ChannelClose(404, "é" * 127 + "x", 50, 10))
    _, _, read = pamqp.frame.unmarshal(frame)
    assert read.reply_text == "é" * 127 + "x"
    assert pika.frame.decode_frame(frame)[1].method.reply_text == "é" * 127 + "x"


def test_a_delivery_tag_beyond_63_bits_is_negative_to_pamqp_only() -> None:
    frame = encode_method(1, BasicAck(2**64 - 1))
    assert payload_decoded(frame) == BasicAck(2**64 - 1)
    assert pika.frame.decode_frame(frame)[1].method.delivery_tag == 2**64 - 1
    assert pamqp.frame.unmarshal(frame)[2].delivery_tag == -1
