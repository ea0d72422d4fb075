"""`x-delivery-count`: what deliveries of a quorum queue say of how often a message came back."""

from __future__ import annotations

from typing import Final

from ...amqp_frames.constants import FRAME_METHOD
from ...amqp_frames.messages.contents import reframe_content
from ...amqp_frames.messages.publishes import decode_publishes
from ...amqp_frames.properties import decode_properties, encode_properties
from ...amqp_frames.values.field_table import Field
from ..queue.span import Span

COUNT_HEADER: Final = "x-delivery-count"


def counted(span: Span) -> Span:
    """The same messages with the span's attempts in their headers, for deliveries only.

    RabbitMQ adds the header to every basic.get-ok, and to a basic.deliver if it is not the first.
    """
    batch = span.batch
    wire = batch.wire
    channel_number = max(batch.channel_number, 1)
    begin = bytes((FRAME_METHOD,)) + channel_number.to_bytes(2, "big")
    known: dict[bytes, bytes] = {}
    pieces: list[bytes] = []
    for index in span.indexes:
        header = batch.headers[index]
        size = int.from_bytes(wire[header + 3 : header + 7], "big")
        octets = wire[header + 19 : header + 7 + size]
        properties = known.get(octets)
        if properties is None:
            properties = known[octets] = _with_count(octets, span.attempts)
        pieces += (
            begin,
            wire[batch.starts[index] + 3 : header],
            reframe_content(wire, header, batch.ends[index], channel_number, 0, properties),
        )
    made = decode_publishes(b"".join(pieces))
    return Span(made, range(len(made)), span.first_entry_id, span.attempts, span.stored)


def _with_count(octets: bytes, count: int) -> bytes:
    properties = decode_properties(octets, 0, len(octets))
    headers = dict(properties.headers or {})
    headers[COUNT_HEADER] = Field("long", count)
    return encode_properties(properties._replace(headers=dict(sorted(headers.items()))))
