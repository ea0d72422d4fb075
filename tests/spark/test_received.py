from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

import pyarrow
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.spark.source.received import (
    Received,
    arrow_file,
    record_batch,
    sliced,
    sliced_file,
    unpacked,
)


def received(body: bytes = b"b", **properties: Any) -> Received:
    headers = properties.pop("headers", None)
    table = None if headers is None else table_of(headers)
    return Received("q", "e", "k", False, Properties(headers=table, **properties), body)


def row(message: Received) -> dict[str, Any]:
    [only] = record_batch(7, [message]).to_pylist()
    return only


def test_a_message_with_everything_is_a_row_with_everything() -> None:
    properties = Properties(
        content_type="text/plain",
        content_encoding="gzip",
        headers=table_of({"a": "b", "n": 5}),
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="u",
        app_id="p",
    )
    assert row(Received("q", "e", "k", True, properties, b"\x00\xff")) == {
        "body": b"\x00\xff",
        "exchange": "e",
        "routing_key": "k",
        "queue": "q",
        "redelivered": True,
        "delivery_count": None,
        "message_id": "m",
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "headers": [("a", "b"), ("n", "5")],
        "header_types": [("n", "signedint")],
        "properties": {
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "correlation_id": "c",
            "reply_to": "r",
            "type": "t",
            "app_id": "p",
            "user_id": "u",
            "expiration": "60000",
            "priority": 3,
            "delivery_mode": 2,
        },
        "_seq": 7,
    }


def test_a_message_with_nothing_is_a_row_of_nulls() -> None:
    bare = row(received())
    assert (bare["headers"], bare["header_types"]) == ([], [])
    assert (bare["message_id"], bare["timestamp"], bare["delivery_count"]) == (None, None, None)
    assert set(bare["properties"].values()) == {None}


def test_the_delivery_count_is_the_header_of_quorum_queues() -> None:
    counted = row(received(headers={"x-delivery-count": 3}))
    assert counted["delivery_count"] == 3
    assert counted["headers"] == [("x-delivery-count", "3")]
    for mistaken in ("no", True, None, Field("timestamp", 1 << 63)):
        headers = {"x-delivery-count": mistaken}
        assert row(received(headers=headers))["delivery_count"] is None


@pytest.mark.parametrize("timestamp", [253_402_300_800, 1_700_000_000_000, (1 << 64) - 1])
def test_a_timestamp_behind_the_year_9999_is_null(timestamp: int) -> None:
    assert row(received(timestamp=timestamp))["timestamp"] is None


def test_text_that_is_not_utf_8_is_readable_all_the_same() -> None:
    message = Received("q", b"\xffe", b"k\xfe", False, Properties(type="\udcff"), b"")  # type: ignore[arg-type]
    found = row(message)
    assert (found["exchange"], found["routing_key"]) == ("\ufffde", "k\ufffd")
    assert found["properties"]["type"] == "\ufffd"


@pytest.mark.parametrize(
    ("messages", "slices_max", "counts"),
    [
        (0, 4, []),
        (1, 4, [1]),
        (999, 4, [999]),
        (1000, 4, [500, 500]),
        (2001, 4, [500, 500, 500, 501]),
        (2001, 1, [2001]),
    ],
)
def test_slices_are_of_one_size_and_not_too_small(
    messages: int, slices_max: int, counts: list[int]
) -> None:
    slices = sliced(100, [received(str(n).encode()) for n in range(messages)], slices_max)
    assert [each.count for each in slices] == counts
    rows = [row for each in slices for batch in unpacked(each) for row in batch.to_pylist()]
    assert [(row["_seq"], row["body"]) for row in rows] == [
        (100 + n, str(n).encode()) for n in range(messages)
    ]


@pytest.mark.parametrize("rows", [1, 999, 1000, 2001, 10_001])
def test_a_file_is_sliced_as_its_messages_are(rows: int) -> None:
    messages = [received(b"%d" % number, headers={"n": number}) for number in range(rows)]
    expected = sliced(100, messages, 4)
    found = sliced_file(bytes(arrow_file(100, messages)), 4)
    assert [each.count for each in found] == [each.count for each in expected]
    for each, other in zip(found, expected, strict=True):
        # No slice carries what the others have.
        assert len(each.rows) <= len(other.rows) + 2000
        tables = [pyarrow.Table.from_batches(unpacked(rows)) for rows in (each, other)]
        assert tables[0].equals(tables[1], check_metadata=True)


def test_a_file_of_before_headers_had_types_is_read() -> None:
    content = bytes(arrow_file(100, [received(b"x", headers={"n": 5})]))
    with pyarrow.ipc.open_file(content) as file:
        old = file.read_all().drop_columns(["header_types"])
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, old.schema) as writer:
        writer.write_table(old)
    [only] = sliced_file(bytes(sink.getvalue()), 4)
    [batch] = unpacked(only)
    [found] = batch.to_pylist()
    assert (found["headers"], found["header_types"]) == ([("n", "5")], None)


def test_a_file_with_other_columns_is_an_error() -> None:
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({"body": [b"x"]})
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ValueError, match="its columns are not those that this Leveret reads"):
        sliced_file(bytes(sink.getvalue()), 4)


def test_a_slice_is_pickled_whole_and_shown_without_its_rows() -> None:
    [only] = sliced(0, [received(b"secret" * 100)], 4)
    again = pickle.loads(pickle.dumps(only))
    assert again.rows == only.rows
    assert repr(again) == f"RowSlice(1 rows, {len(only.rows)} bytes)"
