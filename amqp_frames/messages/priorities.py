"""The priority property of messages, read from their content headers where they lie."""

from __future__ import annotations

from .batch import Batch, Indexes


def read_priorities(batch: Batch, indexes: Indexes, priority_max: int) -> bytes:
    """The priority of each of these messages: an octet each, no higher than `priority_max`.

    A message that does not say has 0. For queues with priorities only. The properties are sound:
    they were when they came (amqp_frames/properties.py draws them).
    """
    wire = batch.wire
    headers = batch.headers
    found = bytearray(len(indexes))
    for place, index in enumerate(indexes):
        position = headers[index] + 19
        flags = wire[position]
        if not flags & 0x08:
            continue
        position += 2
        if flags & 0x80:  # content_type
            position += 1 + wire[position]
        if flags & 0x40:  # content_encoding
            position += 1 + wire[position]
        if flags & 0x20:  # headers
            position += 4 + int.from_bytes(wire[position : position + 4], "big")
        if flags & 0x10:  # delivery_mode
            position += 1
        priority = wire[position]
        found[place] = priority if priority < priority_max else priority_max
    return bytes(found)
