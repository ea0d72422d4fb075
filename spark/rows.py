"""Arrow batches to publishes: each row's method, properties and body, encoded for the wire.

Most rows of a job look alike but for their body and id, so what is the same is encoded once (a
*shape*) and cut where the id belongs; a row then costs a look into a dictionary, a digest and a
join. The frames themselves are made when they are sent, for the frame_max of the connection of
then.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ..amqp_frames.constants import CLASS_BASIC, SHORT_STRING_BYTES_MAX
from ..amqp_frames.field_table import field_of
from ..amqp_frames.field_types import Plain, Table
from ..amqp_frames.properties import Properties, decode_properties, encode_properties
from ..amqp_frames.short_strings import encode_short_string
from .message_ids import MessageIds
from .window import Publish, PublishError

if TYPE_CHECKING:
    from .message_ids import Place
    from .options import WriteOptions

PRODUCER_HEADER: Final = "x-dedup-producer"
ID_HEADER: Final = "x-dedup-id"

_METHOD: Final = Struct(">HHH")
_PUBLISH: Final = 40
_MANDATORY: Final = b"\x01"
_OPTIONAL: Final = b"\x00"

# As many rows are encoded at a time, or as make so many octets: the broker works on the last ones
# meanwhile.
CHUNK_ROWS_MAX: Final = 500
CHUNK_BYTES_MAX: Final = 1 << 20
SHAPES_MAX: Final = 4096

# The columns of properties that go as they are.
_PLAIN: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "type",
    "app_id",
    "priority",
)
_LAST: Final = ("delivery_mode", "expiration_ms", "timestamp", "headers")


class Shape(NamedTuple):
    """What rows that differ in body and id only have in common."""

    method: bytes
    # Properties, without the id at each seam.
    parts: Sequence[bytes]
    # All of it, for a digest.
    head: bytes


class RowEncoder:
    """Encodes the rows of one partition, in their order."""

    def __init__(self, options: WriteOptions, ids: MessageIds, place: Place) -> None:
        self._options = options
        self._ids = ids
        self._producer = None if options.dedup == "none" else place.scope
        self._place = place
        self._row = 0
        self._shapes: dict[tuple[object, ...], Shape] = {}
        # Stands where an id belongs: no row has it in it.
        self._seam = uuid.uuid4().hex

    def chunks(self, batch: pa.RecordBatch) -> Iterator[list[Publish]]:
        """The rows of a batch, a few at a time."""
        each = batch.nbytes // max(1, batch.num_rows) + 1
        step = max(1, min(CHUNK_ROWS_MAX, CHUNK_BYTES_MAX // each))
        for start in range(0, batch.num_rows, step):
            yield self.encode(batch.slice(start, step))

    def encode(self, batch: pa.RecordBatch) -> list[Publish]:
        """All rows of a batch; PublishError names the row and column that cannot be."""
        columns = _Columns(batch)
        options = self._options
        count = batch.num_rows
        bodies = columns.octets("body")
        exchanges = columns.texts("exchange", options.exchange)
        routing_keys = columns.texts("routing_key", options.routing_key)
        mandatories = columns.values("mandatory", options.mandatory)
        given_ids = columns.values("message_id", None)
        rest = [columns.values(name, None) for name in _PLAIN]
        rest.append(columns.values("delivery_mode", options.delivery_mode))
        rest.append(columns.values("expiration_ms", None))
        rest.append(columns.seconds("timestamp"))
        rest.append(columns.headers())
        # One tuple for all rows if no row says anything of its own.
        others: Any = [tuple(each[0] for each in rest)] * count
        if columns.names.intersection((*_PLAIN, *_LAST)):
            others = zip(*rest, strict=True)
        publishes: list[Publish] = []
        row = self._row
        shapes, new_id = self._shapes, self._ids.next
        for body, exchange, routing_key, mandatory, given_id, other in zip(
            bodies, exchanges, routing_keys, mandatories, given_ids, others, strict=True
        ):
            if body is None:
                raise PublishError(f"row {row} of partition {self._place.partition}: body is null")
            key = (exchange, routing_key, mandatory, other)
            shape = shapes.get(key)
            if shape is None:
                shape = self._shape(row, key, exchange, routing_key, mandatory, other)
            if given_id is None:
                message_id = new_id(shape.head, body)
                properties = message_id.encode().join(shape.parts)
            else:
                message_id = given_id
                properties = self._properties(row, message_id, other)
            publishes.append(
                Publish(row, message_id, exchange, routing_key, shape.method, properties, body)
            )
            row += 1
        self._row = row
        return publishes

    def dead_letter(self, publish: Publish, code: int, text: str) -> Publish:
        """The row for the dead letter exchange, with what happened to it in headers."""
        exchange = self._options.dead_letter_exchange
        assert exchange is not None
        routing_key = self._options.dead_letter_routing_key
        if routing_key is None:
            routing_key = publish.routing_key
        said: dict[str, Plain] = {
            "x-return-code": code,
            "x-return-text": text,
            "x-original-exchange": publish.exchange,
            "x-original-routing-key": publish.routing_key,
            "x-spark-query": self._place.scope,
        }
        if self._place.batch is not None:
            said["x-spark-batch"] = self._place.batch
        properties = decode_properties(publish.properties, 0, len(publish.properties))
        headers = (properties.headers or {}) | {name: field_of(each) for name, each in said.items()}
        return publish._replace(
            exchange=exchange,
            routing_key=routing_key,
            method=_method(exchange, routing_key, True),
            properties=encode_properties(properties._replace(headers=headers)),
            is_dead_letter=True,
        )

    def _shape(
        self,
        row: int,
        key: tuple[object, ...],
        exchange: str,
        routing_key: str,
        mandatory: bool,
        other: tuple[Any, ...],
    ) -> Shape:
        for column, text in (("exchange", exchange), ("routing_key", routing_key)):
            if len(text.encode()) > SHORT_STRING_BYTES_MAX:
                raise self._bad(row, f"{column} has more than {SHORT_STRING_BYTES_MAX} octets")
        method = _method(exchange, routing_key, mandatory)
        parts = self._properties(row, self._seam, other).split(self._seam.encode())
        shape = Shape(method, parts, len(method).to_bytes(4, "big") + method + b"".join(parts))
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[key] = shape
        return shape

    def _properties(self, row: int, message_id: str, other: tuple[Any, ...]) -> bytes:
        *plain, delivery_mode, expiration_ms, timestamp, given = other
        # Without those of a message that was read: by them a queue that knows it would drop this.
        headers: Table = {}
        if self._producer is not None:
            # First, where brokers look.
            headers[PRODUCER_HEADER] = field_of(self._producer)
            headers[ID_HEADER] = field_of(message_id)
        for name, value in given or ():
            if name is None:
                raise self._bad(row, "a header has no key")
            if name not in (PRODUCER_HEADER, ID_HEADER):
                headers[name] = field_of(value)
        if expiration_ms is not None and expiration_ms < 0:
            raise self._bad(row, f"expiration_ms is {expiration_ms}, less than 0")
        if delivery_mode not in (1, 2):
            raise self._bad(row, f"delivery_mode is {delivery_mode}, neither 1 nor 2")
        values = dict(zip(_PLAIN, plain, strict=True))
        try:
            return encode_properties(
                Properties(
                    **values,
                    headers=headers or None,
                    delivery_mode=delivery_mode,
                    expiration=None if expiration_ms is None else str(expiration_ms),
                    message_id=message_id,
                    timestamp=timestamp,
                )
            )
        except ValueError as error:
            raise self._bad(row, str(error)) from None

    def _bad(self, row: int, what: str) -> PublishError:
        return PublishError(f"row {row} of partition {self._place.partition}: {what}")


class _Columns:
    """The columns of a batch by name, as Python's values."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.names = set(batch.schema.names)

    def values(self, name: str, default: Any) -> list[Any]:
        """The column's values, with `default` for null and for a column that is not there."""
        if name not in self.names:
            return [default] * int(self._batch.num_rows)
        values: list[Any] = self._batch.column(name).to_pylist()
        if default is None:
            return values
        return [default if value is None else value for value in values]

    def texts(self, name: str, option: str | None) -> list[str]:
        """An option stands for all rows; null is the empty name."""
        if option is not None:
            return [option] * int(self._batch.num_rows)
        return self.values(name, "")

    def octets(self, name: str) -> list[bytes | None]:
        column = self._batch.column(name)
        if pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        elif pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        octets: list[bytes | None] = column.to_pylist()
        return octets

    def seconds(self, name: str) -> list[int | None]:
        """A timestamp in whole seconds since the epoch, as AMQP has it."""
        if name not in self.names:
            return [None] * int(self._batch.num_rows)
        column = self._batch.column(name)
        seconds = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        values: list[int | None] = seconds.cast(pa.int64()).to_pylist()
        return values

    def headers(self) -> list[tuple[tuple[str, str | bytes | None], ...] | None]:
        """Pairs, whether they come as a map or as an array of structs."""
        if "headers" not in self.names:
            return [None] * int(self._batch.num_rows)
        return [_pairs(each) for each in self._batch.column("headers").to_pylist()]


def _pairs(value: list[Any] | None) -> tuple[tuple[str, str | bytes | None], ...] | None:
    if value is None:
        return None
    return tuple(
        (each["key"], each["value"]) if isinstance(each, dict) else tuple(each)
        for each in value
        if each is not None
    )


def _method(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """basic.publish: a reserved short, exchange, routing key, mandatory and immediate."""
    return b"".join(
        (
            _METHOD.pack(CLASS_BASIC, _PUBLISH, 0),
            encode_short_string(exchange),
            encode_short_string(routing_key),
            _MANDATORY if mandatory else _OPTIONAL,
        )
    )
