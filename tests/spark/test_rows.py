from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install leveret[spark]")

import pyarrow as pa
from holding import parts
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import Field
from leveret.spark.options import write_options
from leveret.spark.sink.message_ids import Place, message_ids
from leveret.spark.sink.publishes import Publish
from leveret.spark.sink.rows import CHUNK_ROWS_MAX, RowEncoder, Shape
from pika import spec

PLACE = Place("query", 3, 1)
KEYS = {"exchange": "e", "routingKey": "k"}


def encoder(**options: str) -> RowEncoder:
    read = write_options(options)
    return RowEncoder(read, message_ids(read.dedup, PLACE), PLACE)


def encode(columns: dict[str, Any], **options: str) -> list[Publish]:
    publishes, invalid = encoder(**KEYS | options).encode(pa.RecordBatch.from_pydict(columns))
    assert invalid == []
    return publishes


def faults(columns: dict[str, Any], made: RowEncoder | None = None) -> list[tuple[int, str]]:
    made = made or encoder(**KEYS)
    _publishes, invalid = made.encode(pa.RecordBatch.from_pydict(columns))
    return [(each.publish.row, str(each.fault)) for each in invalid]


def pairs(*rows: list[tuple[Any, Any]] | None) -> pa.Array:
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def not_utf8(*octets: bytes) -> pa.Array:
    """A column of strings as Spark gives them, which it does not check."""
    binary = pa.array(octets)
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())


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
    (first, second), _invalid = encoder().encode(pa.RecordBatch.from_pydict(columns))
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
    chunks = [chunk.publishes for chunk in (*made.chunks(small), *made.chunks(large))]
    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS_MAX, 1, 1, 1, 1]
    rows = [publish.row for chunk in chunks for publish in chunk]
    assert rows == list(range(CHUNK_ROWS_MAX + 4))


def test_headers_have_the_types_that_are_said_and_are_texts_otherwise() -> None:
    columns = {
        "body": [b""],
        "headers": pairs([("n", "5"), ("text", "5"), ("CC", '["a"]')]),
        "header_types": pairs([("n", "signedint"), ("gone", "long"), ("CC", '["longstr"]')]),
    }
    [publish] = encode(columns, dedup="none")
    expected = {"n": Field("signedint", 5), "text": Field("longstr", "5")}
    assert properties(publish).headers == expected | {"CC": Field("array", [Field("longstr", "a")])}


LONG = "ä" * 128
KEYED = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("body", pa.array([None], pa.binary()), "body is null"),
        ("expiration_ms", -1, "expiration_ms is less than 0"),
        ("delivery_mode", 3, "delivery_mode is neither 1 nor 2"),
        ("priority", 300, "priority is not from 0 to 255"),
        ("priority", -1, "priority is not from 0 to 255"),
        ("timestamp", datetime(1969, 12, 31, tzinfo=UTC), "timestamp is before 1970"),
        ("message_id", LONG, "message_id has more than 255 octets"),
        ("type", LONG, "type has more than 255 octets"),
        ("exchange", LONG, "exchange has more than 255 octets"),
        ("routing_key", LONG, "routing_key has more than 255 octets"),
        ("routing_key", not_utf8(b"secret\xff"), "routing_key is not UTF-8"),
        ("message_id", not_utf8(b"secret\xff"), "message_id is not UTF-8"),
        ("headers", pa.array([[{"key": None, "value": b"secret"}]], KEYED), "a key that is null"),
        ("headers", pairs([(LONG, "secret")]), "headers has a key that has more than 255 octets"),
        ("headers", pairs([("CC", "secret")]), "headers has a CC that is not a list of texts"),
        ("headers", pairs([("h", "secret" * 30_000)]), "headers need more than 131052 octets"),
    ],
)
def test_a_row_that_cannot_be_published_is_named_by_row_and_column_and_the_others_are_published(
    column: str, value: Any, said: str
) -> None:
    bad = value if isinstance(value, pa.Array) else pa.array([value])
    good = {
        "body": pa.array([b""]),
        "exchange": pa.array(["e"]),
        "routing_key": pa.array(["k"]),
        column: pa.array([b"b"] if column == "body" else [None], bad.type),
    }
    if column == "delivery_mode":
        good[column] = pa.array([1])
    bad_row = pa.RecordBatch.from_pydict(good | {column: bad})
    good_row = pa.RecordBatch.from_pydict(good)
    made = encoder()
    batch = pa.concat_batches([good_row, bad_row, good_row])
    publishes, [(fault, publish)] = made.encode(batch)
    assert ([each.row for each in publishes], publish.row) == ([0, 2], 1)
    assert said in str(fault)
    assert fault.column == column
    assert not any(text in str(fault) for text in ("secret", LONG, "300", "-1"))


def test_a_text_that_is_not_of_its_headers_type_is_a_fault() -> None:
    columns = {
        "body": [b""] * 2,
        "headers": pairs([("n", "secret")], []),
        "header_types": pairs([("n", "long")], []),
    }
    said = "headers has a value that is not of its type in header_types"
    assert faults(columns) == [(0, said)]


def test_headers_that_are_not_utf_8_are_a_fault() -> None:
    keys, values = not_utf8(b"a", b"\xff"), not_utf8(b"b", b"c")
    headers = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), keys, values)
    expected = [(1, "headers has a key that is not UTF-8")]
    assert faults({"body": [b"", b""], "headers": headers}) == expected


def test_what_fits_into_a_frame_is_for_the_connection_to_say() -> None:
    made = encoder(**KEYS)
    columns = {"body": [b""], "headers": pairs([("h", "x" * 5000)])}
    assert faults(columns, made) == []
    made.fit(4096)
    assert faults(columns, made) == [(1, "headers need more than 4076 octets")]
    # What is left of it goes to the dead letter exchange.
    _publishes, [invalid] = made.encode(pa.RecordBatch.from_pydict(columns))
    assert len(invalid.publish.properties) < 4076


def test_shapes_are_remembered_up_to_a_number_of_octets() -> None:
    made = encoder(**KEYS)
    for number in range(100):
        header = [("h", f"{number}" + "x" * 100_000)]
        made.encode(pa.RecordBatch.from_pydict({"body": [b""], "headers": pairs(header)}))
        assert sum(len(shape.head) for shape in parts(made, Shape)) <= 9 << 20
    assert len(parts(made, Shape)) > 10


def test_what_of_an_invalid_row_can_be_published_is_its_dead_letter() -> None:
    made = encoder(exchange="", onInvalid="deadletter", deadLetterExchange="dead")
    columns = {
        "body": [None, b"b"],
        "priority": [300, 3],
        "routing_key": ["k", LONG],
        "delivery_mode": [3, 1],
        "type": ["t", "t"],
        "headers": pairs([("a", "b"), (LONG, "c")], [("a", "b")]),
    }
    _publishes, invalid = made.encode(pa.RecordBatch.from_pydict(columns))
    first, second = [made.invalid_letter(each) for each in invalid]
    assert (first.exchange, first.routing_key, first.body) == ("dead", "k", b"")
    assert (second.exchange, second.routing_key, second.body) == ("dead", "", b"b")
    assert all(letter.is_dead_letter for letter in (first, second))
    assert (properties(first).priority, properties(first).delivery_mode) == (None, 2)
    assert (properties(second).priority, properties(second).delivery_mode) == (3, 1)
    assert headers(first) == headers(invalid[0].publish) | {
        "a": "b",
        "x-invalid-column": "body",
        "x-invalid-reason": "is null",
        "x-original-exchange": "",
        "x-original-routing-key": "k",
        "x-spark-query": "query",
        "x-spark-batch": 3,
    }
    assert headers(second)["x-invalid-column"] == "routing_key"
    assert properties(first).type == "t"


def test_a_dead_letter_says_where_its_row_was_going_and_what_happened() -> None:
    made = encoder(**KEYS, onReturned="deadletter", deadLetterExchange="dead")
    [row] = made.encode(pa.RecordBatch.from_pydict({"body": [b"b"], "type": ["t"]})).publishes
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
