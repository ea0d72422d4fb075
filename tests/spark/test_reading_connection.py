"""Messages that pika cannot decode are read all the same: see reading_connection.py."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.amqp_frames.errors import HardError
from leveret.amqp_frames.field_types import Field, Table
from leveret.amqp_frames.properties import Properties, encode_properties
from leveret.amqp_frames.short_strings import decode_text
from leveret.spark.broker_errors import SourceError
from leveret.spark.confirm_channel import ConfirmChannel
from leveret.spark.options import write_options
from leveret.spark.reading_connection import ReadingConnection, _Connection
from leveret.spark.received import header_texts
from leveret.spark.rows import _method
from leveret.spark.window import Publish
from pika import BasicProperties, frame
from source_queue import SourceQueue
from stream_reading import FIRST, ReaderOf, next_batch

MILLISECONDS = 1_700_000_000_000
LATE = Field("timestamp", MILLISECONDS)


def connection_with(properties: bytes, rest: bytes = b"") -> _Connection:
    """One that has this content header in its buffer."""
    payload = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + properties
    head = b"\x02\x00\x03" + len(payload).to_bytes(4, "big")
    made = _Connection.__new__(_Connection)
    made._frame_buffer = head + payload + b"\xce" + rest
    return made


def read(properties: Properties) -> BasicProperties:
    connection = connection_with(encode_properties(properties), b"rest")
    consumed, found = connection._read_frame()
    assert connection._frame_buffer[consumed:] == b"rest"
    assert isinstance(found, frame.Header)
    assert (found.channel_number, found.body_size) == (3, 5)
    assert isinstance(found.properties, BasicProperties)
    return found.properties


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Field("double", math.inf), "Infinity"),
        (Field("float", math.nan), "NaN"),
        (LATE, "1700000000000"),
        (Field("timestamp", (1 << 64) - 1), "18446744073709551615"),
    ],
)
def test_a_value_that_pika_cannot_have_does_not_lose_the_connection(
    field: Field, text: str
) -> None:
    found = read(Properties(headers={"odd": field, "even": Field("bool", True)}, message_id="m"))
    assert found.message_id == "m"
    assert header_texts(found.headers) == [("odd", text), ("even", "true")]


def test_the_other_values_are_those_that_pika_gives() -> None:
    headers: Table = {
        "text": Field("longstr", "ä"),
        "octets": Field("longstr", b"\xff"),
        "binary": Field("binary", b"\x00"),
        "decimal": Field("decimal", (2, 150)),
        "at": Field("timestamp", 1_700_000_000),
        "table": Field("table", {"in": Field("array", [Field("void", None), Field("bool", True)])}),
        decode_text(b"\xfe"): Field("long", -1),
    }
    texts: dict[str, Any] = {"type": decode_text(b"\xff"), "user_id": "u", "expiration": "5"}
    properties = Properties(headers=headers, timestamp=7, delivery_mode=2, priority=3, **texts)
    by_pika = BasicProperties()
    by_pika.decode(encode_properties(properties))
    by_us = read(properties._replace(headers=headers | {"late": LATE}))
    assert by_us.headers.pop("late") == MILLISECONDS
    assert vars(by_us) == vars(by_pika)
    assert by_us.headers["decimal"] == Decimal("1.5")
    assert by_us.headers["at"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_message_that_nobody_can_read_is_told() -> None:
    octets = b"V"
    for _ in range(2000):
        octets = b"A" + len(octets).to_bytes(4, "big") + octets
    table = b"\x01h" + octets
    connection = connection_with(b"\x20\x00" + len(table).to_bytes(4, "big") + table)
    with pytest.raises(HardError):
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
    method = _method("", source.name, True)
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
