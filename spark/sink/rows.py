"""Arrow batches to publishes: each row's method, properties and body, encoded for the wire.

Most rows of a job look alike but for their body and id, so the common part is encoded once (a
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

from ...amqp_frames.constants import CLASS_BASIC, CONTENT_HEADER_BYTES, EMPTY_FRAME_BYTES
from ...amqp_frames.properties import Properties, decode_properties, encode_properties
from ...amqp_frames.values.field_table import Plain, Table, encode_short_string, field_of, table_of
from .columns import Columns
from .message_ids import MessageIds
from .publishes import Publish
from .row_faults import Fault, fault_of, headers_without_faults, without_faults

if TYPE_CHECKING:
    from ..options import WriteOptions
    from .message_ids import Place


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
# So many shapes are remembered, or so many octets of them.
SHAPES_MAX: Final = 4096
SHAPES_BYTES_MAX: Final = 8 << 20
# Before a connection has negotiated the size of frames, the rest of the usual 131,072 octets.
PROPERTIES_BYTES_MAX: Final = 131_072 - EMPTY_FRAME_BYTES - CONTENT_HEADER_BYTES
# A message's id stands in its properties twice.
IDS_BYTES_MAX: Final = 2 * 256

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
_LAST: Final = ("delivery_mode", "expiration_ms", "timestamp", "headers", "header_types")


class Shape(NamedTuple):
    """The properties and route that rows share which differ only in body and id."""

    exchange: str
    routing_key: str
    method: bytes
    # Properties, but for headers and id.
    properties: Properties
    headers: Table
    # The properties encoded, without the id at each seam.
    parts: Sequence[bytes]
    # All of it, for a digest.
    head: bytes
    fault: Fault | None


class InvalidRow(NamedTuple):
    """A row that cannot be published, and what of it can be."""

    fault: Fault
    publish: Publish


class Encoded(NamedTuple):
    """Rows, in their order."""

    publishes: list[Publish]
    invalid: list[InvalidRow]


class RowEncoder:
    """Encodes the rows of one partition, in their order."""

    def __init__(self, options: WriteOptions, ids: MessageIds, place: Place) -> None:
        self._options = options
        self._ids = ids
        self._producer = None if options.dedup == "none" else place.scope
        self._place = place
        self._row = 0
        self._properties_bytes_max = PROPERTIES_BYTES_MAX
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._shapes_bytes = 0
        # Stands where an id belongs: no row has it in it.
        self._seam = uuid.uuid4().hex

    def fit(self, frame_max: int) -> None:
        """Find faulty what does not fit into the content header of a frame of this size."""
        most = frame_max - EMPTY_FRAME_BYTES - CONTENT_HEADER_BYTES
        if most != self._properties_bytes_max:
            self._properties_bytes_max = most
            self._forget_shapes()

    def chunks(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """The rows of a batch, a few at a time."""
        each = batch.nbytes // max(1, batch.num_rows) + 1
        step = max(1, min(CHUNK_ROWS_MAX, CHUNK_BYTES_MAX // each))
        for start in range(0, batch.num_rows, step):
            yield self.encode(batch.slice(start, step))

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """All rows of a batch; those that cannot be published apart from the others."""
        columns = Columns(batch)
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
        rest.append(columns.pairs("headers"))
        rest.append(columns.pairs("header_types"))
        # One tuple for all rows if no row says anything of its own.
        others: Any = [tuple(each[0] for each in rest)] * count
        if columns.names.intersection((*_PLAIN, *_LAST)):
            others = zip(*rest, strict=True)
        publishes, invalid, row = list[Publish](), list[InvalidRow](), self._row
        shapes, new_id = self._shapes, self._ids.next
        for body, exchange, routing_key, mandatory, given_id, other in zip(
            bodies, exchanges, routing_keys, mandatories, given_ids, others, strict=True
        ):
            key = (exchange, routing_key, mandatory, other)
            shape = shapes.get(key)
            if shape is None:
                shape = self._shape(key, exchange, routing_key, mandatory, other)
            fault = shape.fault
            if body is None:
                fault, body = Fault("body", "is null"), b""
            if given_id is not None and (wrong := fault_of("message_id", given_id)) is not None:
                fault, given_id = fault or wrong, None
            if given_id is None:
                message_id = new_id(shape.head, body)
                properties = message_id.encode().join(shape.parts)
            else:
                message_id = given_id
                properties = self._encode_properties(shape, message_id)
            publish = Publish(
                row, message_id, shape.exchange, shape.routing_key, shape.method, properties, body
            )
            if fault is None:
                publishes.append(publish)
            else:
                invalid.append(InvalidRow(fault, publish))
            row += 1
        self._row = row
        return Encoded(publishes, invalid)

    def dead_letter(self, publish: Publish, code: int, text: str) -> Publish:
        """The row for the dead letter exchange, with what happened to it in headers."""
        return self._buried(publish, {"x-return-code": code, "x-return-text": text})

    def invalid_letter(self, invalid: InvalidRow) -> Publish:
        """The part of an invalid row that can be published to the dead letter exchange."""
        column, what = invalid.fault
        return self._buried(invalid.publish, {"x-invalid-column": column, "x-invalid-reason": what})

    def _buried(self, publish: Publish, why: dict[str, Plain]) -> Publish:
        exchange = self._options.dead_letter_exchange
        assert exchange is not None
        routing_key = self._options.dead_letter_routing_key
        if routing_key is None:
            routing_key = publish.routing_key
        said = why | {
            "x-original-exchange": publish.exchange,
            "x-original-routing-key": publish.routing_key,
            "x-spark-query": self._place.scope,
        }
        if self._place.batch is not None:
            said["x-spark-batch"] = self._place.batch
        properties = decode_properties(publish.properties, 0, len(publish.properties))
        story = table_of(said)
        octets = encode_properties(properties._replace(headers=(properties.headers or {}) | story))
        if len(octets) > self._properties_bytes_max:
            octets = encode_properties(properties._replace(headers=story))
        return publish._replace(
            exchange=exchange,
            routing_key=routing_key,
            method=publish_method(exchange, routing_key, True),
            properties=octets,
            is_dead_letter=True,
        )

    def _shape(
        self,
        key: tuple[object, ...],
        exchange: Any,
        routing_key: Any,
        mandatory: bool,
        other: tuple[Any, ...],
    ) -> Shape:
        *plain, delivery_mode, expiration_ms, timestamp, pairs, types = other
        said = dict(zip(_PLAIN, plain, strict=True))
        said |= {"delivery_mode": delivery_mode, "expiration_ms": expiration_ms}
        said |= {"timestamp": timestamp}
        names, fault = without_faults({"exchange": exchange, "routing_key": routing_key})
        said, wrong = without_faults(said)
        # That of a dead letter.
        said["delivery_mode"] = said["delivery_mode"] or self._options.delivery_mode
        headers, unfit = headers_without_faults(pairs, types)
        for name in (PRODUCER_HEADER, ID_HEADER):
            # Those of a message that was read: by them a queue that knows it would drop this one.
            headers.pop(name, None)
        expiration_ms = said.pop("expiration_ms")
        expiration = None if expiration_ms is None else str(expiration_ms)
        shape = Shape(
            names["exchange"] or "",
            names["routing_key"] or "",
            publish_method(names["exchange"] or "", names["routing_key"] or "", mandatory),
            Properties(**said, expiration=expiration),
            headers,
            (),
            b"",
            fault or wrong or unfit,
        )
        octets = self._encode_properties(shape, self._seam)
        if len(octets) + IDS_BYTES_MAX > self._properties_bytes_max:
            large = Fault("headers", f"need more than {self._properties_bytes_max} octets")
            shape = shape._replace(headers={}, fault=shape.fault or large)
            octets = self._encode_properties(shape, self._seam)
        parts = octets.split(self._seam.encode())
        method = shape.method
        head = len(method).to_bytes(4, "big") + method + b"".join(parts)
        shape = shape._replace(parts=parts, head=head)
        self._shapes_bytes += len(head)
        if len(self._shapes) >= SHAPES_MAX or self._shapes_bytes > SHAPES_BYTES_MAX:
            self._forget_shapes()
        self._shapes[key] = shape
        return shape

    def _forget_shapes(self) -> None:
        self._shapes.clear()
        self._shapes_bytes = 0

    def _encode_properties(self, shape: Shape, message_id: str) -> bytes:
        headers = shape.headers
        if self._producer is not None:
            # First, where brokers look.
            headers = {
                PRODUCER_HEADER: field_of(self._producer),
                ID_HEADER: field_of(message_id),
                **headers,
            }
        return encode_properties(
            shape.properties._replace(headers=headers or None, message_id=message_id)
        )


def publish_method(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """basic.publish: a reserved short, exchange, routing key, mandatory and immediate."""
    return b"".join(
        (
            _METHOD.pack(CLASS_BASIC, _PUBLISH, 0),
            encode_short_string(exchange),
            encode_short_string(routing_key),
            _MANDATORY if mandatory else _OPTIONAL,
        )
    )
