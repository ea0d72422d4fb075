"""Messages that are known by the number in their body, wherever they have come to."""

from __future__ import annotations

from leveret.amqp_frames.messages.batch import Batch


def number_of(batch: Batch, index: int) -> int:
    """The number of a message, read from its bytes."""
    wire = batch.wire
    header = batch.headers[index]
    body = header + 8 + int.from_bytes(wire[header + 3 : header + 7], "big")
    size = int.from_bytes(wire[body + 3 : body + 7], "big")
    return int(bytes(wire[body + 7 : body + 7 + size]))
