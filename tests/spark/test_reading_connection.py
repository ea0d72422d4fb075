"""Messages that pika cannot decode are read all the same; see reading_connection.py."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.properties import Properties, encode_properties
from leveret.amqp_frames.values.field_table import Field
from leveret.spark.errors import SourceError
from leveret.spark.options import write_options
from leveret.spark.sink.confirm_channel import ConfirmChannel
from leveret.spark.sink.publishes import Publish
from leveret.spark.sink.rows import publish_method
from leveret.spark.source.reading_connection import (
    ReadingConnection,
    TypedConnection,
    decode_header_frame,
)
from pika import frame
from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, next_batch

MILLISECONDS = 1_700_000_000_000
LATE = Field("timestamp", MILLISECONDS)


def header_frame(properties: bytes) -> bytes:
    payload = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + properties
    return b"\x02\x00\x03" + len(payload).to_bytes(4, "big") + payload + b"\xce"


def connection_with(properties: bytes) -> TypedConnection:
    """One that has this content header in its buffer, which is pika's."""
    made = TypedConnection.__new__(TypedConnection)
    made._frame_buffer = header_frame(properties)
    return made


def read(properties: Properties) -> Properties:
    data = header_frame(encode_properties(properties)) + b"rest"
    consumed, found = decode_header_frame(data)
    assert data[consumed:] == b"rest"
    assert isinstance(found, frame.Header)
    assert (found.channel_number, found.body_size) == (3, 5)
    assert isinstance(found.properties, Properties)
    return found.properties


@pytest.mark.parametrize(
    "field",
    [
        Field("double", math.inf),
        Field("double", 2.5),
        LATE,
        Field("timestamp", (1 << 64) - 1),
        Field("byte", -1),
        Field("unsignedint", 1),
    ],
)
def test_a_header_that_pika_cannot_decode_or_changes_is_read_as_it_is(field: Field) -> None:
    properties = Properties(headers={"odd": field, "even": Field("bool", True)}, message_id="m")
    assert read(properties) == properties


def test_a_header_frame_that_has_not_come_whole_is_waited_for() -> None:
    properties = encode_properties(Properties(message_id="m"))
    whole = header_frame(properties)
    connection = connection_with(properties)
    for size in range(len(whole)):
        connection._frame_buffer = whole[:size]
        # private: pika's name for the hook that the connection's reading goes through.
        assert connection._read_frame() == (0, None)
    assert decode_header_frame(whole)[0] == len(whole)


def test_a_message_that_nobody_can_read_is_told() -> None:
    octets = b"V"
    for _ in range(2000):
        octets = b"A" + len(octets).to_bytes(4, "big") + octets
    table = b"\x01h" + octets
    connection = connection_with(b"\x20\x00" + len(table).to_bytes(4, "big") + table)
    with pytest.raises(HardError):
        # private: pika's name, as above.
        connection._read_frame()
    reading = ReadingConnection.__new__(ReadingConnection)
    reading._impl = connection
    with pytest.raises(SourceError, match=r"cannot be read: .*nested deeper than 64"):
        reading.check()
    reading._impl = connection_with(encode_properties(Properties()))
    reading.check()


def test_a_stream_goes_on_behind_a_message_that_pika_cannot_decode(
    source: SourceQueue, reader: ReaderOf
) -> None:
    options = write_options({"uri": source.options["uri"]})
    channel = ConfirmChannel(options, options.brokers.addresses[0], "test")
    properties = encode_properties(Properties(headers={"late": LATE}))
    method = publish_method("", source.name, True)
    channel.send([Publish(0, "", "", source.name, method, properties, b"0")])
    while not channel.events(1.0):
        pass
    channel.close()
    source.publish([1])
    _, found = next_batch(reader(source), FIRST, messages=2)
    assert [(row["body"], row["headers"], row["redelivered"]) for row in found] == [
        (b"0", [("late", "1700000000000")], False),
        (b"1", [], False),
    ]
