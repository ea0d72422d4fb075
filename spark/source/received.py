"""A delivered message, and what becomes of many: rows of the read schema, as Arrow.

What AMQP allows and Spark's columns do not:
- a header that is no text becomes JSON text, with its type beside it (header_values.py);
- text that is not UTF-8 (an exchange, a routing key) has U+FFFD in place of what cannot be read;
- a timestamp that is behind the year 9999, such as one in milliseconds, is null.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from ...amqp_frames.properties import Properties
from ...amqp_frames.values.field_table import FieldValue, Table
from ..header_values import readable, texts, types
from ..options import SHORT_MAX

if TYPE_CHECKING:
    import pyarrow


COUNT_HEADER: Final = "x-delivery-count"
HEADER_TYPES: Final = "header_types"
# A bigint's.
COUNT_MAX: Final = (1 << 63) - 1
# What Python needs for a message besides its body, and for a header besides its text.
MESSAGE_BYTES: Final = 1024
FIELD_BYTES: Final = 256
# The last second of the year 9999, in which Spark's and Python's calendars end.
TIMESTAMP_MAX_S: Final = 253_402_300_799
# Fewer rows than this are not worth a task of their own.
SLICE_ROWS_MIN: Final = 500
ARROW_BATCH_ROWS: Final = 10_000
# One task of a peek gets no more, except a single larger message: Spark sends no task of more than
# spark.rpc.message.maxSize, 128 MiB.
SLICE_BYTES_MAX: Final = 16 * 1024 * 1024


class FetchLimits(NamedTuple):
    """How much a batch read handles at a time."""

    batch_rows: int = ARROW_BATCH_ROWS
    slice_bytes: int = SLICE_BYTES_MAX
    # Of one consumer. AMQP has two octets for it.
    prefetch_max: int = SHORT_MAX


FETCH_LIMITS: Final = FetchLimits()

_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "type",
    "app_id",
    "user_id",
    "expiration",
)


class Received(NamedTuple):
    """One delivery."""

    queue: str
    exchange: str
    routing_key: str
    redelivered: bool
    properties: Properties
    body: bytes

    @property
    def size_bytes(self) -> int:
        """The bytes that count against maxBytesPerTrigger."""
        return len(self.body)

    @property
    def held_bytes(self) -> int:
        """The bytes that count against maxHeldBytes: about its size in memory."""
        headers = self.properties.headers
        return MESSAGE_BYTES + len(self.body) + (_table_bytes(headers) if headers else 0)


def _table_bytes(table: Table) -> int:
    return sum([FIELD_BYTES + _value_bytes(field.value) for field in table.values()])


def _value_bytes(value: FieldValue) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return _table_bytes(value)
    return (
        sum([FIELD_BYTES + _value_bytes(each.value) for each in value])
        if isinstance(value, list)
        else 0
    )


class RowSlice(InputPartition):
    """Rows of one task, on their way to it: an Arrow stream."""

    def __init__(self, rows: bytes, count: int) -> None:
        super().__init__(None)
        self.rows = rows
        self.count = count

    def __repr__(self) -> str:
        return f"RowSlice({self.count} rows, {len(self.rows)} bytes)"


def sliced(first: int, messages: Sequence[Received], slices_max: int) -> list[RowSlice]:
    """Part the messages, numbered from `first`, into slices of about the same size."""
    return [
        RowSlice(_stream(first + low, messages[low:high]), high - low)
        for low, high in _edges(len(messages), slices_max)
    ]


def _edges(rows: int, slices_max: int) -> Iterator[tuple[int, int]]:
    if not rows:
        return iter(())
    count = max(1, min(slices_max, rows // SLICE_ROWS_MIN))
    return itertools.pairwise(rows * place // count for place in range(count + 1))


def unpacked(rows: RowSlice) -> Iterator[pyarrow.RecordBatch]:
    """Give a slice's rows; in a worker."""
    import pyarrow

    with pyarrow.ipc.open_stream(rows.rows) as stream:
        yield from stream


def _stream(first: int, messages: Sequence[Received]) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, arrow_schema()) as writer:
        _write(writer, first, messages)
    return bytes(sink.getvalue())


def _write(writer: pyarrow.RecordBatchWriter, first: int, messages: Sequence[Received]) -> None:
    for low in range(0, len(messages), ARROW_BATCH_ROWS):
        writer.write_batch(record_batch(first + low, messages[low : low + ARROW_BATCH_ROWS]))


def arrow_file(first: int, messages: Sequence[Received]) -> memoryview:
    """Give the rows of the messages, numbered from `first`, as the content of an Arrow file."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, arrow_schema()) as writer:
        _write(writer, first, messages)
    return memoryview(sink.getvalue())


def sliced_file(content: bytes, slices_max: int) -> list[RowSlice]:
    """Part the rows of an Arrow file as `sliced` parts messages; ValueError: not of our columns."""
    import pyarrow

    with pyarrow.ipc.open_file(pyarrow.BufferReader(content)) as file:
        rows = file.read_all()
    schema = arrow_schema()
    if HEADER_TYPES not in rows.schema.names:
        # A spool of before there was this column; what it holds is acked.
        at = schema.get_field_index(HEADER_TYPES)
        if at <= rows.num_columns:
            field = schema.field(at)
            rows = rows.add_column(at, field, pyarrow.nulls(len(rows), field.type))
    if not rows.schema.equals(schema):
        raise ValueError("its columns are not those that this Leveret reads")
    slices = []
    for low, high in _edges(len(rows), slices_max):
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows.slice(low, high - low), max_chunksize=ARROW_BATCH_ROWS)
        slices.append(RowSlice(bytes(sink.getvalue()), high - low))
    return slices


def arrow_schema() -> pyarrow.Schema:
    """Give the read schema as Spark wants it of a worker."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from ..schema import read_schema

    return to_arrow_schema(read_schema(), timezone="UTC")


def record_batch(first: int, messages: Sequence[Received]) -> pyarrow.RecordBatch:
    """Make rows of the messages; `_seq` counts from `first`."""
    import pyarrow

    schema = arrow_schema()
    properties = [each.properties for each in messages]
    headers = [each.headers or {} for each in properties]
    columns: dict[str, list[Any]] = {
        "body": [each.body for each in messages],
        "exchange": [_text(each.exchange) for each in messages],
        "routing_key": [_text(each.routing_key) for each in messages],
        "queue": [each.queue for each in messages],
        "redelivered": [each.redelivered for each in messages],
        "delivery_count": [_count(each) for each in headers],
        "message_id": [_text(each.message_id) for each in properties],
        "timestamp": [_microseconds(each.timestamp) for each in properties],
        "headers": [texts(each) for each in headers],
        "header_types": [types(each) for each in headers],
        "properties": [_struct(each) for each in properties],
        "_seq": list(range(first, first + len(messages))),
    }
    return pyarrow.record_batch(
        [pyarrow.array(columns[field.name], field.type) for field in schema], schema=schema
    )


def _text(value: Any) -> Any:
    """Text as Arrow takes it; pika gives names that are not UTF-8 as bytes."""
    if isinstance(value, str):
        return readable(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _count(headers: Table) -> int | None:
    field = headers.get(COUNT_HEADER)
    # It may as well be a publisher's own header, with whatever in it.
    value = None if field is None else field.value
    if not isinstance(value, int) or isinstance(value, bool) or value > COUNT_MAX:
        return None
    return value


def _microseconds(timestamp: int | None) -> int | None:
    if timestamp is None or timestamp > TIMESTAMP_MAX_S:
        return None
    return timestamp * 1_000_000


def _struct(properties: Properties) -> dict[str, Any]:
    values = {name: _text(getattr(properties, name)) for name in _TEXTS}
    return values | {
        "priority": properties.priority,
        "delivery_mode": properties.delivery_mode,
    }
