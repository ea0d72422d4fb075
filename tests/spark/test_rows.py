from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install leveret[spark]")

import pyarrow as pa
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.spark.message_ids import Place, message_ids
from leveret.spark.options import write_options
from leveret.spark.rows import CHUNK_ROWS_MAX, RowEncoder
from leveret.spark.window import Publish, PublishError
from pika import spec

PLACE = Place("query", 3, 1)
KEYS = {"exchange": "e", "routingKey": "k"}


def encoder(**options: str) -> RowEncoder:
    read = write_options(options)
    return RowEncoder(read, message_ids(read.dedup, PLACE), PLACE)


def encode(columns: dict[str, Any], **options: str) -> list[Publish]:
    return encoder(**KEYS | options).encode(pa.RecordBatch.from_pydict(columns))


def properties(publish: Publish) -> Properties:
    return decode_properties(publish.properties, 0, len(publish.properties))


def headers(publish: Publish) -> dict[str, object]:
    return {name: field.value for name, field in (properties(publish).headers or {}).items()}


def test_the_method_is_what_pika_reads_as_basic_publish() -> None:
    [publish] = encode({"body": [b"b"]})
    decoded = spec.Basic.Publish().decode(publish.method, 4)
    assert (decoded.exchange, decoded.routing_key) == ("e", "k")
    assert (decoded.mandatory, decoded.immediate) == (True, False)
    [publish] = encode({"body": [b"b"]}, mandatory="false")
    assert not spec.Basic.Publish().decode(publish.method, 4).mandatory


def test_the_properties_are_what_pika_reads() -> None:
    [publish] = encode({"body": ["ä"], "content_type": ["text/plain"], "priority": [3]})
    decoded = spec.BasicProperties().decode(publish.properties)
    assert publish.body == "ä".encode()
    assert (decoded.content_type, decoded.priority, decoded.delivery_mode) == ("text/plain", 3, 2)
    assert decoded.headers == {"x-dedup-producer": "query", "x-dedup-id": decoded.message_id}
    assert publish.message_id == decoded.message_id


def test_options_stand_for_all_rows_and_columns_for_each() -> None:
    columns = {"body": [b"a", b"b"], "exchange": ["x", None], "routing_key": [None, "y"]}
    first, second = encoder().encode(pa.RecordBatch.from_pydict(columns))
    assert [first.exchange, first.routing_key] == ["x", ""]
    assert [second.exchange, second.routing_key] == ["", "y"]
    [first, second] = encode(columns)
    assert {first.exchange, second.exchange, first.routing_key, second.routing_key} == {"e", "k"}


def test_every_column_reaches_its_property() -> None:
    moment = datetime(2020, 1, 1, 0, 0, 1, 900_000, tzinfo=UTC)
    columns = {
        "body": pa.array([b"b"]),
        "headers": pa.array([[("a", "b"), ("n", None)]], pa.map_(pa.string(), pa.string())),
        "correlation_id": ["c"],
        "reply_to": ["r"],
        "type": ["t"],
        "app_id": ["app"],
        "content_encoding": ["gzip"],
        "delivery_mode": [1],
        "expiration_ms": [250],
        "timestamp": pa.array([moment], pa.timestamp("us", "UTC")),
        "mandatory": [False],
    }
    [publish] = encode(columns, dedup="none")
    assert properties(publish) == Properties(
        headers=properties(publish).headers,
        correlation_id="c",
        reply_to="r",
        type="t",
        app_id="app",
        content_encoding="gzip",
        delivery_mode=1,
        expiration="250",
        message_id=publish.message_id,
        timestamp=1577836801,
    )
    assert headers(publish) == {"a": "b", "n": None}
    assert publish.method.endswith(b"\x00")


def test_octets_in_headers_stay_octets() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = pa.array([[{"key": "k", "value": b"\x00\xff"}, None]], kind)
    [publish] = encode({"body": [b""], "headers": given}, dedup="none")
    assert headers(publish) == {"k": b"\x00\xff"}


@pytest.mark.parametrize("dedup", ["content", "none"])
def test_the_identity_of_a_message_that_was_read_is_not_taken_over(dedup: str) -> None:
    old = pa.array(
        [[("x-dedup-producer", "old"), ("x-dedup-id", "old"), ("a", "b")]],
        pa.map_(pa.string(), pa.string()),
    )
    [publish] = encode({"body": [b"b"], "headers": old}, dedup=dedup)
    own = {"x-dedup-producer": "query", "x-dedup-id": publish.message_id}
    assert headers(publish) == {"a": "b"} | (own if dedup == "content" else {})


def test_a_header_without_a_key_is_named() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = pa.array([[{"key": None, "value": b"v"}]], kind)
    with pytest.raises(PublishError, match="row 0 of partition 1: a header has no key"):
        encode({"body": [b""], "headers": given})


def test_a_message_id_of_a_column_is_the_identity_too_and_null_is_made() -> None:
    first, second = encode({"body": [b"b", b"b"], "message_id": ["mine", None]})
    assert (properties(first).message_id, headers(first)["x-dedup-id"]) == ("mine", "mine")
    assert properties(second).message_id == headers(second)["x-dedup-id"] == second.message_id
    assert len(second.message_id) == 32


def test_ids_are_the_same_when_a_task_is_tried_again_and_differ_by_all_that_is_published() -> None:
    columns = {"body": [b"b", b"b", b"c"], "type": ["t", "u", "t"]}
    ids = [publish.message_id for publish in encode(columns)]
    assert ids == [publish.message_id for publish in encode(columns)]
    assert len({*ids, *[publish.message_id for publish in encode(columns, routingKey="l")]}) == 6


def test_chunks_are_small_where_bodies_are_large_and_rows_count_through() -> None:
    made = encoder(**KEYS)
    small = pa.RecordBatch.from_pydict({"body": [b"x"] * (CHUNK_ROWS_MAX + 1)})
    large = pa.RecordBatch.from_pydict({"body": [bytes(600_000)] * 3})
    chunks = [*made.chunks(small), *made.chunks(large)]
    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS_MAX, 1, 1, 1, 1]
    rows = [publish.row for chunk in chunks for publish in chunk]
    assert rows == list(range(CHUNK_ROWS_MAX + 4))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": [None]}, "row 0 of partition 1: body is null"),
        ({"body": [b""], "expiration_ms": [-1]}, "row 0 of partition 1: expiration_ms is -1"),
        ({"body": [b""], "delivery_mode": [3]}, "delivery_mode is 3, neither 1 nor 2"),
        ({"body": [b""], "priority": [256]}, "row 0 of partition 1: ubyte format requires"),
        ({"body": [b""], "message_id": ["x" * 256]}, "a short string of 256 octets"),
        ({"body": [b""], "type": ["ä" * 128]}, "a short string of 256 octets"),
    ],
)
def test_a_row_that_cannot_be_published_is_named(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(PublishError) as caught:
        encode(columns)
    assert said in str(caught.value)


def test_a_routing_key_that_is_too_long_is_named() -> None:
    batch = pa.RecordBatch.from_pydict({"body": [b""], "routing_key": ["x" * 256]})
    with pytest.raises(PublishError, match="routing_key has more than 255 octets"):
        encoder(exchange="").encode(batch)


def test_a_dead_letter_says_where_its_row_was_going_and_what_happened() -> None:
    made = encoder(**KEYS, onReturned="deadletter", deadLetterExchange="dead")
    [row] = made.encode(pa.RecordBatch.from_pydict({"body": [b"b"], "type": ["t"]}))
    letter = made.dead_letter(row, 312, "NO_ROUTE")
    assert (letter.exchange, letter.routing_key, letter.body) == ("dead", "k", b"b")
    assert (letter.message_id, letter.is_dead_letter) == (row.message_id, True)
    assert properties(letter).type == "t"
    assert headers(letter) == headers(row) | {
        "x-return-code": 312,
        "x-return-text": "NO_ROUTE",
        "x-original-exchange": "e",
        "x-original-routing-key": "k",
        "x-spark-query": "query",
        "x-spark-batch": 3,
    }
    assert spec.Basic.Publish().decode(letter.method, 4).mandatory
