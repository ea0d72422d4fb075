"""x-delivery-count goes into deliveries and not into what is stored."""

from __future__ import annotations

from batches import batch_of
from leveret.amqp_frames.messages.contents import encode_contents
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.channel.delivery_counts import counted
from leveret.core.queue.span import Span
from wire import PERSISTENT, publish


def test_the_count_is_among_the_headers_of_the_copy_and_nothing_else_changes() -> None:
    headers = table_of({"z": 1, "x-delivery-count": "a client's"})
    batch = batch_of(
        publish("k", b"not this one"),
        publish("k", b"1", PERSISTENT, channel=7),
        publish("l", bytes(10_000), Properties(headers=headers, message_id="m"), channel=9),
    )
    wire = batch.wire
    span = Span(batch, range(1, 3), 11, 4, True)
    copy = counted(span)
    assert (copy.first_entry_id, copy.attempts, copy.stored, len(copy)) == (11, 4, True, 2)
    assert batch.wire is wire
    properties = []
    for index in copy.indexes:
        header = copy.batch.headers[index]
        size = int.from_bytes(copy.batch.wire[header + 3 : header + 7], "big")
        properties.append(decode_properties(copy.batch.wire, header + 19, header + 7 + size))
    assert properties == [
        PERSISTENT._replace(headers={"x-delivery-count": ("long", 4)}),
        Properties(headers={"x-delivery-count": ("long", 4), "z": headers["z"]}, message_id="m"),
    ]
    keys = [copy.batch.distinct[key] for key in copy.batch.keys]
    assert keys == [b"\0\1k\0", b"\0\1l\0"]
    # A body of three frames of up to 4,096 octets again, 8 of them around each.
    _, content = encode_contents(copy.batch, copy.indexes, 3, 4096)
    header_bytes = 8 + int.from_bytes(content[3:7], "big")
    assert len(content) == header_bytes + 10_000 + 3 * 8
